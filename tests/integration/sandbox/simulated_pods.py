"""Pods for the sandbox's own tests, and what is read of them."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass

from gpustack_deploy.sandbox import ApiError, Sandbox, SandboxApi
from gpustack_deploy.sandbox.api import Json
from gpustack_deploy.sandbox.waiting import wait_for, wait_until

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"


def pod(
    name: str,
    *,
    group: str = "",
    total: int = 1,
    gpus: int = 1,
    grace: int = 30,
    node: str = "",
    **annotations: str,
) -> Json:
    """A Pod; keyword annotations are the sandbox's own, with underscores for dashes."""
    marks = {
        f"sandbox.gpustack.ai/{key.replace('_', '-')}": value for key, value in annotations.items()
    }
    labels = {}
    if group:
        labels["kueue.x-k8s.io/queue-name"] = "h200"
        labels["kueue.x-k8s.io/pod-group-name"] = group
        marks["kueue.x-k8s.io/pod-group-total-count"] = str(total)
        marks["kueue.x-k8s.io/pod-group-serving"] = "true"
        marks["kueue.x-k8s.io/role-hash"] = "server"
    amounts = {"cpu": "1", "nvidia.com/gpu": str(gpus)}
    spec: Json = {
        "terminationGracePeriodSeconds": grace,
        "containers": [
            {
                "name": "main",
                "image": "example.org/image",
                "resources": {"requests": amounts, "limits": amounts},
            }
        ],
    }
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    metadata = {"name": name, "labels": labels, "annotations": marks}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@dataclass(frozen=True)
class Namespace:
    """One test's namespace on the sandbox."""

    sandbox: Sandbox
    name: str

    @property
    def api(self) -> SandboxApi:
        return self.sandbox.api

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.name}/pods"

    @property
    def workloads(self) -> str:
        return f"{KUEUE}/namespaces/{self.name}/workloads"

    def create(self, body: Json) -> Json:
        return self.api.create(self.pods, body)

    def find(self, name: str) -> Json | None:
        return self.api.find(f"{self.pods}/{name}")

    def delete(self, name: str) -> None:
        self.api.delete(f"{self.pods}/{name}")

    def wait_for_phase(self, name: str, phase: str) -> Json:
        def found() -> Json | None:
            seen = self.find(name)
            return seen if seen is not None and seen["status"].get("phase") == phase else None

        return wait_for(found, what=f"{name} to be {phase}")

    def wait_for_ready(self, name: str) -> Json:
        def found() -> Json | None:
            seen = self.find(name)
            return seen if seen is not None and is_ready(seen) else None

        return wait_for(found, what=f"{name} to be Ready")

    def wait_for_absence(self, name: str) -> None:
        wait_until(lambda: self.find(name) is None, what=f"{name} to be gone")

    def gpus_in_use(self, queue: str = "h200") -> int:
        usage = self.api.get(f"{KUEUE}/clusterqueues/{queue}")["status"]["flavorsUsage"]
        totals = {entry["name"]: entry["total"] for entry in usage[0]["resources"]}
        return int(totals["nvidia.com/gpu"])

    def clear(self) -> None:
        """Removes every Workload and Pod, whatever state they are in, then the namespace."""
        for workload in self.api.list(self.workloads):
            self.api.delete(f"{self.workloads}/{workload['metadata']['name']}")
        for entry in self.api.list(self.pods):
            # Its Workload's deletion may have taken it along already.
            with contextlib.suppress(ApiError):
                self.api.delete(f"{self.pods}/{entry['metadata']['name']}", grace_seconds=0)
        wait_until(lambda: not self.api.list(self.pods), what="the test's Pods to be gone")
        self.api.delete(f"/api/v1/namespaces/{self.name}")


def is_ready(seen: Json) -> bool:
    return conditions(seen).get("Ready") == "True"


def conditions(seen: Json) -> Mapping[str, str]:
    found = seen.get("status", {}).get("conditions") or []
    return {entry["type"]: entry["status"] for entry in found}
