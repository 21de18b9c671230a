"""The project's own program: each of its stacks runs on the sandbox."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gpustack_deploy.sandbox import Sandbox
from tests.house.tree import ROOT
from tests.integration.place import Place

pytestmark = [pytest.mark.core, pytest.mark.timeout(300)]


@pytest.mark.parametrize("stack", ["whole-gpu"])
def test_a_stack_serves_and_leaves_nothing(sandbox: Sandbox, tmp_path: Path, stack: str) -> None:
    shutil.copy(ROOT / "Pulumi.yaml", tmp_path)
    shutil.copytree(ROOT / "stacks", tmp_path / "stacks")
    place = Place(sandbox, "default")
    env = sandbox.env() | {
        "PULUMI_BACKEND_URL": tmp_path.as_uri(),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "providers")]),
    }

    def pulumi(*arguments: str) -> str:
        done = subprocess.run(
            ["pulumi", "--non-interactive", *arguments],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert 0 == done.returncode, done.stdout + done.stderr
        return done.stdout

    pulumi("stack", "init", stack)
    try:
        pulumi("up", "--yes", "--skip-preview")
        services = {
            service
            for deployment in json.loads(pulumi("stack", "output", "--json")).values()
            for service in deployment["services"].values()
        }
        assert services <= set(place.services())
        assert {"chat-server", "embed-server", "wide-server"} == services
        replicas = [
            replica
            for deployment in ("chat", "embed", "wide")
            for replica in place.replicas(deployment=deployment).values()
        ]
        assert [1, 1, 1, 1, 2] == sorted(len(replica.members) for replica in replicas)
        assert all(replica.is_served for replica in replicas)
    finally:
        pulumi("destroy", "--yes", "--skip-preview")
    assert [] == place.pods()
    assert {} == place.workloads()
