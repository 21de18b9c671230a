"""One test's namespace on the sandbox: the engine runs roles there, plain requests look at them."""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gpustack_deploy.engine.cluster import Cluster
from gpustack_deploy.engine.connection import Connection
from gpustack_deploy.engine.kube import open_cluster
from gpustack_deploy.engine.replacement import create_role, read_role, update_role
from gpustack_deploy.engine.run import RunContext
from gpustack_deploy.engine.teardown import delete_role
from gpustack_deploy.model.record import Writer
from gpustack_deploy.model.role import RoleDeclaration
from gpustack_deploy.model.spec import parse_role
from gpustack_deploy.model.state import RoleState
from gpustack_deploy.sandbox import ApiError, Sandbox, SandboxApi
from gpustack_deploy.sandbox.api import Json
from gpustack_deploy.sandbox.waiting import wait_for, wait_until

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
GPU = "nvidia.com/gpu"
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})

T = TypeVar("T")


@dataclass(frozen=True)
class Member:
    """One Pod as the API server has it."""

    name: str
    uid: str
    ordinal: int
    group: str
    queue: str
    is_ready: bool
    gpus: str


@dataclass(frozen=True)
class Replica:
    """The members of one ordinal, and the Workload that carries their group's name."""

    members: tuple[Member, ...]
    workload: Json | None

    @property
    def uids(self) -> tuple[str, ...]:
        return tuple(member.uid for member in self.members)

    @property
    def workload_uid(self) -> str:
        return str(self.workload["metadata"]["uid"]) if self.workload else ""

    @property
    def identity(self) -> tuple[str, ...]:
        return (*self.uids, self.workload_uid)

    @property
    def is_served(self) -> bool:
        """Ready members under one admission that describes exactly them."""
        if self.workload is None or not all(member.is_ready for member in self.members):
            return False
        owners = {owner["uid"] for owner in self.workload["metadata"]["ownerReferences"]}
        return owners == set(self.uids) and is_true(self.workload, "Admitted")


@dataclass(frozen=True)
class Place:
    """One test's namespace."""

    sandbox: Sandbox
    namespace: str
    writer: Writer = field(default_factory=lambda: Writer("", "tests", "integration"))

    @property
    def api(self) -> SandboxApi:
        return self.sandbox.api

    @property
    def core(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}"

    @property
    def workloads_path(self) -> str:
        return f"{KUEUE}/namespaces/{self.namespace}/workloads"

    # --- running roles ----------------------------------------------------------------------

    def declared(self, role: str = "server", **changes: Any) -> RoleDeclaration:
        """A small role of this namespace; keyword arguments are camelCase fields."""
        raw: Json = {
            "deployment": "chat",
            "namespace": self.namespace,
            "role": role,
            "roleKinds": {"server": "Server"},
            "frontRole": "server",
            "model": "openai/gpt-oss-20b",
            "engine": {"name": "vLLM", "version": "0.19.1"},
            "image": "vllm/vllm-openai:v0.19.1",
            "instanceType": instance_type("h200"),
            "resources": {"count": 1},
            **changes,
        }
        return parse_role(raw)

    def pair(self, role: str, **changes: Any) -> RoleDeclaration:
        """A half of a prefill/decode pair."""
        both = {"prefill": "Prefill", "decode": "Decode"}
        return self.declared(
            role,
            **{"kind": both[role], "roleKinds": both, "frontRole": "prefill", **changes},
        )

    def run(
        self, work: Callable[[Cluster], Awaitable[T]], *, connection: Connection | None = None
    ) -> T:
        """What the work returns, with a connection of its own."""
        where = connection or Connection(str(self.sandbox.kubeconfig))

        async def connected() -> T:
            cluster = await open_cluster(where)
            try:
                return await work(cluster)
            finally:
                await cluster.close()

        return asyncio.run(connected())

    def context(self, **changes: Any) -> RunContext:
        return RunContext(writer=self.writer, **changes)

    def create(self, declaration: RoleDeclaration, **changes: Any) -> RoleState:
        return self.run(lambda it: create_role(it, declaration, self.context(**changes)))

    def update(self, declaration: RoleDeclaration, state: RoleState, **changes: Any) -> RoleState:
        return self.run(lambda it: update_role(it, declaration, state, self.context(**changes)))

    def is_converged(self, declaration: RoleDeclaration, state: RoleState) -> bool:
        """Whether a read-only look finds nothing to do."""
        reading = self.run(lambda it: read_role(it, declaration, state, self.context()))
        return reading.is_converged and not reading.is_gone

    def destroy(self, declaration: RoleDeclaration, state: RoleState) -> tuple[str, ...]:
        return self.run(
            lambda it: delete_role(
                it,
                deployment=declaration.deployment,
                role=declaration.role,
                namespace=self.namespace,
                previous=state,
                run=self.context(),
            )
        )

    # --- looking ----------------------------------------------------------------------------

    def pods(self) -> list[Json]:
        return self.api.list(f"{self.core}/pods")

    def workloads(self) -> dict[str, Json]:
        return {each["metadata"]["name"]: each for each in self.api.list(self.workloads_path)}

    def services(self) -> dict[str, Json]:
        return {each["metadata"]["name"]: each for each in self.api.list(f"{self.core}/services")}

    def service_uids(self) -> dict[str, str]:
        return {name: each["metadata"]["uid"] for name, each in self.services().items()}

    def record(self, role: str = "server") -> Json:
        found: Json = json.loads(
            self.api.get(f"{self.core}/configmaps/chat-{role}")["data"]["record"]
        )
        return found

    def replicas(self, role: str = "server", *, deployment: str = "chat") -> dict[int, Replica]:
        workloads = self.workloads()
        grouped: dict[int, list[Member]] = {}
        for pod in sorted(self.pods(), key=lambda each: str(each["metadata"]["name"])):
            labels = pod["metadata"]["labels"]
            owner = (labels["app.kubernetes.io/instance"], labels["app.kubernetes.io/component"])
            if owner == (deployment, role):
                member = _member(pod)
                grouped.setdefault(member.ordinal, []).append(member)
        return {
            ordinal: Replica(tuple(members), workloads.get(members[0].group))
            for ordinal, members in grouped.items()
        }

    def identities(self, role: str = "server") -> dict[int, tuple[str, ...]]:
        return {ordinal: each.identity for ordinal, each in self.replicas(role).items()}

    def gpus_in_use(self, queue: str) -> int:
        flavors = self.api.get(f"{KUEUE}/clusterqueues/{queue}")["status"]["flavorsUsage"]
        totals = {entry["name"]: entry["total"] for entry in flavors[0]["resources"]}
        return int(totals[GPU])

    def await_gpus_in_use(self, queue: str, gpus: int) -> None:
        """Kueue writes its status a little after it has decided."""
        wait_until(lambda: self.gpus_in_use(queue) == gpus, what=f"{queue} to count {gpus} GPUs")

    def requests(self, *, since: int = 0) -> list[Json]:
        """What the engine asked of the API server, without what lies before that position."""
        events = self.sandbox.audit_events()[since:]
        return [each for each in events if str(each.get("userAgent")).startswith(_OURS)]

    def mark(self) -> int:
        """The position in the log of requests now."""
        return len(self.sandbox.audit_events())

    @contextmanager
    def looking(self, look: Callable[[], T]) -> Iterator[list[T]]:
        """Every look taken while the block runs, twenty a second."""
        looks: list[T] = []
        failures: list[Exception] = []
        stopped = threading.Event()

        def watch() -> None:
            try:
                while not stopped.is_set():
                    looks.append(look())
                    stopped.wait(0.05)
            except Exception as failure:  # noqa: BLE001 - raised where the block ends
                failures.append(failure)

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield looks
        finally:
            stopped.set()
            thread.join()
        assert [] == failures

    # --- a queue of its own -----------------------------------------------------------------

    def add_queue(self, gpus: int, *, name: str = "own") -> Json:
        """A queue of this namespace with its own small quota; returns its instance type."""
        cluster_queue = f"{name}-{self.namespace}"
        quotas = {GPU: str(gpus), "cpu": "1000", "memory": "10Ti", "ephemeral-storage": "10Ti"}
        flavor = {
            "name": "h200",
            "resources": [{"name": key, "nominalQuota": each} for key, each in quotas.items()],
        }
        self.api.create(
            f"{KUEUE}/clusterqueues",
            {
                "apiVersion": "kueue.x-k8s.io/v1beta2",
                "kind": "ClusterQueue",
                "metadata": {"name": cluster_queue},
                "spec": {
                    "namespaceSelector": {},
                    "resourceGroups": [{"coveredResources": list(quotas), "flavors": [flavor]}],
                },
            },
        )
        self.api.create(
            f"{KUEUE}/namespaces/{self.namespace}/localqueues",
            {
                "apiVersion": "kueue.x-k8s.io/v1beta2",
                "kind": "LocalQueue",
                "metadata": {"name": name},
                "spec": {"clusterQueue": cluster_queue},
            },
        )
        path = f"{KUEUE}/clusterqueues/{cluster_queue}"
        wait_until(lambda: is_true(self.api.get(path), "Active"), what=f"{cluster_queue}")
        return instance_type(name)

    def clear(self) -> None:
        """Remove what the test left, whatever state it is in."""
        for name in self.workloads():
            self._remove(f"{self.workloads_path}/{name}")
        for pod in self.pods():
            self._remove(f"{self.core}/pods/{pod['metadata']['name']}?gracePeriodSeconds=0")
        wait_until(lambda: not self.pods(), what="the test's Pods to be gone")
        self._remove(f"/api/v1/namespaces/{self.namespace}")
        for queue in self.api.list(f"{KUEUE}/clusterqueues"):
            if queue["metadata"]["name"].endswith(f"-{self.namespace}"):
                self._remove(f"{KUEUE}/clusterqueues/{queue['metadata']['name']}")

    def _remove(self, path: str) -> None:
        with suppress(ApiError):
            self.api.request("DELETE", path)


_OURS = "gpustack-deploy/"


def instance_type(queue: str, **changes: Any) -> Json:
    """An instance type behind that LocalQueue."""
    return {
        "name": queue,
        "localQueue": queue,
        "acceleratorGroup": "nvidia-h200",
        "unitCpu": 4,
        "unitMemory": "32Gi",
        **changes,
    }


def is_true(obj: Mapping[str, Any], condition: str) -> bool:
    conditions = obj.get("status", {}).get("conditions") or ()
    return any(each["type"] == condition and each["status"] == "True" for each in conditions)


def writes(requests: Sequence[Json]) -> list[str]:
    """The requests that would change something, dry runs apart."""
    return [
        f"{each['verb']} {each['requestURI']}"
        for each in requests
        if each["verb"] in WRITES and "dryRun" not in each["requestURI"]
    ]


def wait_for_one(look: Callable[[], T | None], what: str) -> T:
    return wait_for(look, what=what)


def _member(pod: Json) -> Member:
    metadata = pod["metadata"]
    labels = metadata["labels"]
    requests = pod["spec"]["containers"][0]["resources"]["requests"]
    return Member(
        name=metadata["name"],
        uid=metadata["uid"],
        ordinal=int(labels["modeldeployment.gpustack.ai/pod-ordinal"]),
        group=labels["kueue.x-k8s.io/pod-group-name"],
        queue=labels["kueue.x-k8s.io/queue-name"],
        is_ready=is_true(pod, "Ready") and "deletionTimestamp" not in metadata,
        gpus=requests.get(GPU, "0"),
    )
