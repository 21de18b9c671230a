"""A Pulumi project of one test, driven through the real CLI against the sandbox."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpustack_deploy.sandbox import Sandbox

ROOT = Path(__file__).parents[2]
ROLE_TYPE = "pulumi-python:dynamic/gpustack:ModelDeploymentRole"

Properties = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    """How a command ended and what it said."""

    code: int
    text: str


class Stack:
    """The project's stack: commands, its state, and what stands in its namespace."""

    def __init__(self, sandbox: Sandbox, folder: Path, namespace: str) -> None:
        self._sandbox = sandbox
        self.namespace = namespace
        self.folder = folder
        self.env = sandbox.env() | {
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "providers")]),
            "PULUMI_BACKEND_URL": (folder / "state").as_uri(),
        }
        (folder / "state").mkdir()
        (folder / "Pulumi.yaml").write_text(f"name: {namespace}\nruntime: python\n")
        shutil.copy(Path(__file__).with_name("rehearsal.py"), folder / "__main__.py")
        self.declare([])
        self.run("stack", "init", "dev")

    def declare(self, roles: list[Properties], **more: Any) -> None:
        """Write what the program declares from now on."""
        declared = {"namespace": self.namespace, "roles": roles, **more}
        (self.folder / "declared.json").write_text(json.dumps(declared))

    def run(self, *arguments: str, **env: str) -> Result:
        """Run the command to its end; standard error stands after standard output."""
        done = subprocess.run(
            ["pulumi", *arguments, "--non-interactive"],
            cwd=self.folder,
            env=self.env | env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return Result(done.returncode, done.stdout + done.stderr)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start the command in a process group of its own."""
        return subprocess.Popen(
            ["pulumi", *arguments, "--non-interactive"],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def up(self, roles: list[Properties], *flags: str, **more: Any) -> Result:
        """Declare and update without a preview."""
        self.declare(roles, **more)
        return self.run("up", "--yes", "--skip-preview", *flags)

    def preview(self, roles: list[Properties], **more: Any) -> dict[str, Properties]:
        """Declare and preview; return the step of each role's resource by its logical name."""
        self.declare(roles, **more)
        done = self.run("preview", "--json")
        assert done.code == 0, done.text
        shown = json.JSONDecoder().raw_decode(done.text[done.text.index("{") :])[0]
        return {
            step["urn"].rpartition("::")[2]: step
            for step in shown["steps"]
            if ROLE_TYPE in step["urn"]
        }

    def is_unchanged(self) -> bool:
        """Whether a preview finds nothing to do."""
        return self.run("preview", "--expect-no-changes").code == 0

    def resources(self) -> dict[str, Properties]:
        """Return each role's resource in state by its logical name."""
        exported = json.loads(self.run("stack", "export").text)
        return {
            resource["urn"].rpartition("::")[2]: resource
            for resource in exported["deployment"].get("resources", [])
            if resource["type"] == ROLE_TYPE
        }

    def outputs(self) -> dict[str, Properties]:
        """Return each role's outputs in state by its resource's logical name."""
        return {name: resource["outputs"] for name, resource in self.resources().items()}

    def urn(self, name: str) -> str:
        """Return the URN of a role's resource."""
        return str(self.resources()[name]["urn"])

    def uids(self, plural: str = "pods") -> dict[str, str]:
        """Return the UIDs of the namespace's objects by name."""
        group = "/apis/kueue.x-k8s.io/v1beta2" if plural == "workloads" else "/api/v1"
        found = self._sandbox.api.list(f"{group}/namespaces/{self.namespace}/{plural}")
        return {
            item["metadata"]["name"]: item["metadata"]["uid"]
            for item in found
            if item["metadata"]["name"] != "kube-root-ca.crt"
        }

    def destroy(self) -> Result:
        """Destroy everything."""
        return self.run("destroy", "--yes", "--skip-preview")
