"""The Pulumi of a sandbox: a real engine and language host, no account, no network."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gpustack_deploy.sandbox import Sandbox

pytestmark = pytest.mark.core

PROGRAM = """
import pulumi
from pulumi.dynamic import CreateResult, Resource, ResourceProvider


class Provider(ResourceProvider):
    def create(self, props):
        return CreateResult("id", {"value": props["value"]})


class Thing(Resource):
    value: pulumi.Output[int]

    def __init__(self, name, value):
        super().__init__(Provider(), name, {"value": value})


import sys
pulumi.export("value", Thing("thing", 3).value)
pulumi.export("python", sys.executable)
"""


@pytest.mark.timeout(180)
def test_a_python_program_with_a_dynamic_resource_goes_up_and_down(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: toolchain\nruntime: python\n")
    (tmp_path / "__main__.py").write_text(PROGRAM)

    def pulumi(*arguments: str) -> str:
        done = subprocess.run(
            ["pulumi", "--non-interactive", *arguments],
            cwd=tmp_path,
            env=sandbox.env(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    pulumi("stack", "init", "dev")
    pulumi("up", "--yes", "--skip-preview")
    want = {"value": 3, "python": sys.executable}
    assert want == json.loads(pulumi("stack", "output", "--json"))
    pulumi("destroy", "--yes", "--skip-preview")
    pulumi("stack", "rm", "--yes", "dev")
