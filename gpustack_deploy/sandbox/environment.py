"""The environment that programs run in against a sandbox: its cluster, its Pulumi, no login."""

import os
import shlex
import sys
from pathlib import Path

from gpustack_deploy.sandbox.layout import Layout

# Another cluster or another backend must never be reached by what runs against the sandbox.
_DROPPED = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "GPUSTACK_CLUSTER")
_DROPPED_PREFIX = "PULUMI_"


def exports(layout: Layout) -> dict[str, str]:
    """The variables that lead to the sandbox, and PATH with its programs in front."""
    pulumi = layout.folder / "pulumi"
    state, home = pulumi / "state", pulumi / "home"
    for folder in (state, home):
        folder.mkdir(parents=True, exist_ok=True)
    inherited = os.environ.get("PATH", os.defpath).split(os.pathsep)
    # The language host takes the first Python on PATH.
    front = [str(Path(sys.executable).parent), str(layout.programs)]
    path = [*front, *(entry for entry in inherited if entry not in front)]
    return {
        "KUBECONFIG": str(layout.kubeconfig),
        "PATH": os.pathsep.join(path),
        "PULUMI_BACKEND_URL": state.as_uri(),
        "PULUMI_CONFIG_PASSPHRASE": "sandbox",
        "PULUMI_HOME": str(home),
        "PULUMI_PYTHON_CMD": sys.executable,
        "PULUMI_SKIP_UPDATE_CHECK": "1",
    }


def environment(layout: Layout) -> dict[str, str]:
    """A whole environment for a child process: this one's, less every login, plus the exports."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in _DROPPED and not name.startswith(_DROPPED_PREFIX)
    }
    return kept | exports(layout)


def shell_lines(layout: Layout) -> list[str]:
    """The lines that a shell evaluates to get the same."""
    wanted = exports(layout)
    dropped = sorted(
        name
        for name in os.environ
        if name in _DROPPED or (name.startswith(_DROPPED_PREFIX) and name not in wanted)
    )
    dropped = sorted({*dropped, "PULUMI_ACCESS_TOKEN"})
    return [
        *(f"unset {name}" for name in dropped),
        *(f"export {name}={shlex.quote(value)}" for name, value in wanted.items()),
    ]
