"""Drives the engine on the in-memory cluster in virtual time, and looks at what stands on its own.

A `Stage` is one cluster and the runs over it. What it asserts is read off the raw objects, never
through the engine.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gpustack_deploy.engine.cluster import (
    CONFIG_MAP,
    LOCAL_QUEUE,
    POD,
    SERVICE,
    WORKLOAD,
    Cluster,
    Kind,
)
from gpustack_deploy.engine.replacement import RoleReading, create_role, read_role, update_role
from gpustack_deploy.engine.run import RunContext
from gpustack_deploy.engine.teardown import delete_role
from gpustack_deploy.model import identity
from gpustack_deploy.model.desired import Desired
from gpustack_deploy.model.record import RoleRecord, Writer
from gpustack_deploy.model.role import RoleDeclaration
from gpustack_deploy.model.state import RoleState
from gpustack_deploy.plan.desired_role import desired_of
from tests.declarations import raw_role, role
from tests.engine.guarded_cluster import GPU, ROOM, GuardedCluster
from tests.fakes import FakeClock, Timing
from tests.fakes.clock import VirtualLoop
from tests.fakes.objects import (
    Object,
    annotations_of,
    condition_status,
    is_terminating,
    labels_of,
    meta,
    name_of,
    pod_requests,
    uid_of,
)

T = TypeVar("T")

OURS = Writer("acme", "serving", "prod", "urn:pulumi:prod::serving::role::chat-server")
OTHERS = Writer("acme", "serving", "staging", "urn:pulumi:staging::serving::role::chat-server")


@dataclass
class Stage:
    """One cluster with a queue `h200`, and runs over the role `server` of the deployment `chat`."""

    gpus: int = 16
    cluster: GuardedCluster = field(default_factory=lambda: GuardedCluster(FakeClock()))
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if "h200" not in self.cluster.names(LOCAL_QUEUE):
            self.cluster.add_queue("h200", {**ROOM, GPU: self.gpus})
            self.cluster.world.kubelet.timing = Timing(ready_seconds=30, stop_seconds=5)

    @property
    def clock(self) -> FakeClock:
        return self.cluster.clock

    def fork(self) -> "Stage":
        """Return the same cluster at this moment, to be led elsewhere."""
        return Stage(self.gpus, self.cluster.fork())

    # --- runs ---

    def context(self, **fields: Any) -> RunContext:
        known: dict[str, Any] = {
            "writer": OURS,
            "progress": self.lines.append,
            "clock": self.clock,
        }
        return RunContext(**{**known, **fields})

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run to its end; whatever became of it, the guard must have nothing to say."""
        try:
            # Without the loop's debug mode, which doubles the time.
            with asyncio.Runner(
                debug=False, loop_factory=lambda: VirtualLoop(self.clock)
            ) as runner:
                return runner.run(main)
        finally:
            assert [] == self.cluster.violations

    def create(
        self,
        declared: RoleDeclaration,
        *,
        through: Cluster | None = None,
        adopt: bool = False,
        **fields: Any,
    ) -> RoleState:
        cluster = through or self.cluster
        return self.run(create_role(cluster, declared, self.context(**fields), adopt=adopt))

    def update(
        self,
        declared: RoleDeclaration,
        state: RoleState,
        *,
        through: Cluster | None = None,
        **fields: Any,
    ) -> RoleState:
        cluster = through or self.cluster
        return self.run(update_role(cluster, declared, state, self.context(**fields)))

    def read(
        self, declared: RoleDeclaration, state: RoleState, *, through: Cluster | None = None
    ) -> RoleReading:
        cluster = through or self.cluster
        return self.run(read_role(cluster, declared, state, self.context()))

    def destroy(
        self,
        state: RoleState,
        *,
        through: Cluster | None = None,
        name: str = "server",
        force_cluster: bool = False,
        **fields: Any,
    ) -> tuple[str, ...]:
        return self.run(
            delete_role(
                through or self.cluster,
                deployment="chat",
                role=name,
                namespace="ml",
                previous=state,
                run=self.context(**fields),
                force_cluster=force_cluster,
            )
        )

    def settle(self) -> None:
        """Let everything happen that still happens by itself."""
        self.run(self.cluster.settle())

    # --- what stands ---

    def record(self, name: str = "server") -> RoleRecord:
        found = self.cluster.record("chat", name)
        assert found is not None
        return found

    def pods(self, name: str = "server") -> list[Object]:
        return [
            pod
            for pod in self.cluster.objects(POD)
            if labels_of(pod).get(identity.LABEL_ROLE) == name
        ]

    def uids(self, kind: Kind = POD) -> dict[str, str]:
        """The UID of each object of the kind, by name."""
        return {name_of(each): uid_of(each) for each in self.cluster.objects(kind)}

    def everything(self) -> dict[tuple[str, str], str]:
        """The version of each object in the namespace: equal twice, nothing was written."""
        return {
            (kind.name, name_of(each)): meta(each)["resourceVersion"]
            for kind in (POD, WORKLOAD, SERVICE, CONFIG_MAP)
            for each in self.cluster.objects(kind)
        }

    @contextmanager
    def nothing_written(self) -> Iterator[None]:
        """What is done inside changes nothing and asks for no change."""
        before, asked = self.everything(), len(self.cluster.writes)
        try:
            yield
        finally:
            assert [] == self.cluster.writes[asked:]
            assert before == self.everything()

    def assert_stands(self, declared: RoleDeclaration) -> None:
        """The role is exactly what is declared: nothing is short, left over or still under way."""
        desired = desired_of(declared)
        self.settle()
        record = self.record(desired.role)
        assert record.slot is None
        assert record.batch is None
        assert () == record.departures
        assert "" == record.lock.holder
        assert desired.replicas == record.achieved
        pods = {name_of(pod): pod for pod in self.pods(desired.role)}
        assert sorted(pods) == sorted(
            identity.member_name(desired.deployment, desired.role, ordinal, seat)
            for ordinal in range(desired.replicas)
            for seat in range(desired.size)
        )
        for ordinal in range(desired.replicas):
            self._assert_replica(desired, ordinal, pods, record)
        self._assert_services(desired)
        self._assert_nothing_leaked()

    def assert_gone(self) -> None:
        """Nothing of any role is left, and no quota is used."""
        self.settle()
        for kind in (POD, WORKLOAD, SERVICE, CONFIG_MAP):
            assert [] == self.cluster.names(kind)
        assert {} == self.cluster.usage("h200")

    def _assert_replica(
        self, desired: Desired, ordinal: int, pods: Mapping[str, Object], record: RoleRecord
    ) -> None:
        members = [
            pods[identity.member_name(desired.deployment, desired.role, ordinal, seat)]
            for seat in range(desired.size)
        ]
        (group,) = {labels_of(pod)[identity.KUEUE_GROUP_NAME] for pod in members}
        found = self.cluster.peek(WORKLOAD, group)
        assert found is not None
        assert {uid_of(pod) for pod in members} == {
            owner["uid"] for owner in meta(found)["ownerReferences"]
        }
        assert "True" == condition_status(found, "Admitted")
        assert desired.local_queue == found["spec"]["queueName"]
        assert [desired.size] == [each["count"] for each in found["spec"]["podSets"]]
        carried = [annotations_of(pod)[identity.ANNOTATION_FINGERPRINT] for pod in members]
        assert list(desired.member_fingerprints(ordinal)) == carried
        for pod in members:
            assert not is_terminating(pod)
            assert "True" == condition_status(pod, "Ready")
            assert [record.uid] == [owner["uid"] for owner in meta(pod)["ownerReferences"]]

    def _assert_services(self, desired: Desired) -> None:
        wanted = {identity.role_service_name(desired.deployment, desired.role)}
        if desired.front_role == desired.role:
            wanted.add(identity.front_service_name(desired.deployment))
        if desired.size > 1:
            wanted |= {
                identity.peer_service_name(desired.deployment, desired.role, ordinal)
                for ordinal in range(desired.replicas)
            }
        assert wanted == {
            name_of(each)
            for each in self.cluster.objects(SERVICE)
            if labels_of(each).get(identity.LABEL_ROLE) == desired.role
        }

    def _assert_nothing_leaked(self) -> None:
        """Each Workload has its members, and what is used is what they ask for."""
        groups = {
            labels_of(pod).get(identity.KUEUE_GROUP_NAME) for pod in self.cluster.objects(POD)
        }
        assert groups - {None} == set(self.cluster.names(WORKLOAD))
        for queue in self.cluster.names(LOCAL_QUEUE):
            asked = sum(
                int(pod_requests(pod["spec"]).get(GPU, 0))
                for pod in self.cluster.objects(POD)
                if labels_of(pod).get(identity.KUEUE_QUEUE_NAME) == queue
            )
            assert asked == self.cluster.usage(queue).get(GPU, 0)


def standing(declared: RoleDeclaration, *, gpus: int = 16) -> tuple[Stage, RoleState]:
    """Return a stage on which that role stands, its calls forgotten, and its state."""
    stage = Stage(gpus)
    state = stage.create(declared)
    stage.assert_stands(declared)
    stage.cluster.forget_calls()
    stage.lines.clear()
    return stage, state


def sibling(**fields: Any) -> RoleDeclaration:
    """Return the prefill role of the same deployment; `decode` is the one that tests edit."""
    return role(**{**_PAIR, "role": "prefill", "kind": "Prefill", **fields})


def decode(**fields: Any) -> RoleDeclaration:
    """Return the decode role of a pair."""
    return role(**{**_PAIR, "role": "decode", "kind": "Decode", **fields})


def on_queue(name: str, **fields: Any) -> RoleDeclaration:
    """Return the role on an instance type of another queue."""
    kind = {**raw_role()["instanceType"], "name": name, "localQueue": name}
    return role(instanceType=kind, **fields)


def kill_points(stage: Stage, main: Callable[[Stage], object]) -> list[Stage]:
    """Return what a process that ends before or after any call of the run leaves behind.

    The run goes through; at each call, as it arrives and as it was served, the cluster is copied
    unless it is still what it was at the last copy.
    """
    points: list[Stage] = []
    seen: set[int] = set()
    cluster = stage.cluster

    def note() -> None:
        if cluster.store.version not in seen:
            seen.add(cluster.store.version)
            points.append(stage.fork())

    cluster.on_call = note
    main(stage)
    cluster.on_call = lambda: None
    return points


_PAIR: Mapping[str, Any] = {
    "roleKinds": {"prefill": "Prefill", "decode": "Decode"},
    "frontRole": "prefill",
    "kvTransfer": {"protocol": "TCP"},
}
