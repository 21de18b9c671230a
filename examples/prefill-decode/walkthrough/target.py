"""Where the walk-through runs: a sandbox on loopback, or the cluster that was named explicitly."""

import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpustack_deploy.sandbox import Sandbox
from gpustack_deploy.sandbox.build import build
from gpustack_deploy.sandbox.environment import environment
from gpustack_deploy.sandbox.files import link_programs
from gpustack_deploy.sandbox.layout import Layout
from walkthrough.facts import Json, Reader
from walkthrough.pulumi_cli import STACK

CLUSTER_VARIABLE = "GPUSTACK_CLUSTER"
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})

Say = Callable[[str], None]


@dataclass(frozen=True)
class Target:
    """A cluster, how programs reach it, and how its writes are counted."""

    api: Reader
    env: Mapping[str, str]
    folder: Path
    context: str = ""
    writes: Callable[[str], int] | None = None

    @property
    def is_simulated(self) -> bool:
        return not self.context


@contextmanager
def sandbox_target(name: str, namespace: str, *, keep: bool, say: Say) -> Iterator[Target]:
    """A sandbox of that name; one that runs already is used and left running."""
    runs_already = Sandbox.find(name) is not None
    sandbox = Sandbox.up(name, audit_log=True, owned=not keep, say=say)
    try:
        sandbox.add_namespace(namespace)
        counts = sandbox.state.audit_log

        def writes(namespace: str) -> int:
            return sum(_is_write(event, namespace) for event in sandbox.audit_events())

        yield Target(
            api=sandbox.api,
            env=sandbox.env(),
            folder=sandbox.folder / "walkthrough",
            writes=writes if counts else None,
        )
    finally:
        if runs_already or keep:
            say(f"Sandbox '{name}' goes on running: gpustack-deploy sandbox down --name {name}")
        else:
            sandbox.down()
            say(f"Sandbox '{name}' is gone.")


@contextmanager
def cluster_target(context: str, *, keep: bool, say: Say) -> Iterator[Target]:
    """The cluster of a kubeconfig's context; Pulumi's state is kept while something may stand."""
    build(say=say)
    folder = Path(tempfile.mkdtemp(prefix="walkthrough-"))
    layout = Layout(folder, {})
    layout.programs.mkdir()
    link_programs(layout.programs)
    env = environment(layout)
    del env["KUBECONFIG"]
    if "KUBECONFIG" in os.environ:
        env["KUBECONFIG"] = os.environ["KUBECONFIG"]
    program = folder / "program"
    is_over = False
    try:
        yield Target(Kubectl(context, env), env, program, context)
        is_over = not keep
    finally:
        if is_over:
            shutil.rmtree(folder)
        else:
            needed = ("PATH", "PULUMI_BACKEND_URL", "PULUMI_CONFIG_PASSPHRASE", "PULUMI_PYTHON_CMD")
            exports = " ".join(f"{name}={shlex.quote(env[name])}" for name in needed)
            say(f"To destroy it: cd {program} && env {exports} pulumi destroy --stack {STACK}")


@dataclass(frozen=True)
class Kubectl:
    """Reads through kubectl, which knows every way to log in."""

    context: str
    env: Mapping[str, str]

    def get(self, path: str) -> Json:
        done = subprocess.run(
            ["kubectl", "--context", self.context, "get", "--raw", path],
            env=dict(self.env),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"kubectl get --raw {path}: {done.stderr.strip()}")
        answer: Json = json.loads(done.stdout)
        return answer

    def list(self, path: str) -> list[Json]:
        items: list[Json] = self.get(path).get("items") or []
        return items


def _is_write(event: Json, namespace: str) -> bool:
    """Whether the event is a write in the namespace that is no component's."""
    return (
        event.get("verb") in WRITES
        and (event.get("objectRef") or {}).get("namespace") == namespace
        and event["user"]["username"] == "admin"
    )
