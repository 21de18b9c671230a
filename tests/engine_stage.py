"""One role on a cluster in memory, in virtual time: the engine's calls, and what they left there.

What stands is read off the cluster's own objects, without the engine's eyes.
"""

import copy
import itertools
import json
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from gpustack_deploy.engine.cluster import CONFIG_MAP, POD, SERVICE, WORKLOAD, Cluster, Kind
from gpustack_deploy.engine.replacement import RoleReading, create_role, read_role, update_role
from gpustack_deploy.engine.run import RunContext
from gpustack_deploy.engine.teardown import delete_role
from gpustack_deploy.model.errors import ReplacementHeld
from gpustack_deploy.model.record import Writer
from gpustack_deploy.model.role import RoleDeclaration
from gpustack_deploy.model.state import RoleState
from tests.fakes import FakeClock, MemoryCluster, run_virtual
from tests.fakes.faults import FaultyCluster, Killed
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
E = TypeVar("E", bound=BaseException)

GPU = "nvidia.com/gpu"
_PLENTY = {"cpu": "10000", "memory": "100000Gi", "ephemeral-storage": "100000Gi"}
# Calls that change something; a dry run changes nothing and is counted by the fault layer.
_WRITES = ("create", "replace", "patch", "delete")


class Stage:
    """The cluster, its clock, and runs of the engine on it."""

    def __init__(
        self, *, gpus: int = 16, other_queues: tuple[str, ...] = (), **settings: Any
    ) -> None:
        self._settings = {"gpus": gpus, "other_queues": other_queues, **settings}
        self.clock = FakeClock()
        self.cluster = MemoryCluster(self.clock, is_auto=True, **settings)
        for queue in ("h200", *other_queues):
            if self.cluster.kueue.is_installed:
                self.cluster.add_queue(queue, {GPU: gpus, **_PLENTY})
        self.lines: list[str] = []
        self.drawn: Iterator[int] = itertools.count(1)
        self.counted: Counter[str] = Counter()

    # --- the engine's calls ---

    def run(self, **changes: Any) -> RunContext:
        """What a run is given; each line of its progress is kept."""
        context = RunContext(
            writer=Writer("acme", "serving", "prod", "urn:1"),
            progress=self.lines.append,
            clock=self.clock,
            draw=lambda: f"{next(self.drawn):020x}",
        )
        return replace(context, **changes)

    def play(self, scenario: Coroutine[Any, Any, T]) -> T:
        return run_virtual(scenario, self.clock)

    def create(
        self, declaration: RoleDeclaration, *, adopt: bool = False, **changes: Any
    ) -> RoleState:
        run = self.run(**changes)
        return self.play(create_role(self.cluster, declaration, run, adopt=adopt))

    def update(
        self,
        declaration: RoleDeclaration,
        previous: RoleState,
        *,
        through: Cluster | None = None,
        **changes: Any,
    ) -> RoleState:
        """Update the role, through another adapter if given; `counted` then holds its writes."""
        before = self._writes()
        cluster = through or self.cluster
        try:
            return self.play(update_role(cluster, declaration, previous, self.run(**changes)))
        finally:
            self.counted = self._writes() - before

    def read(self, declaration: RoleDeclaration, previous: RoleState) -> RoleReading:
        return self.play(read_role(self.cluster, declaration, previous, self.run()))

    def delete(
        self, declaration: RoleDeclaration, previous: RoleState, **changes: Any
    ) -> tuple[str, ...]:
        return self.play(
            delete_role(
                self.cluster,
                deployment=declaration.deployment,
                role=declaration.role,
                namespace=declaration.namespace,
                previous=previous,
                run=self.run(),
                **changes,
            )
        )

    def held(self, call: Callable[[], object]) -> ReplacementHeld:
        """Return the error of a call that must end with an unmet check and keep what stands."""
        error = raised(ReplacementHeld, call)
        assert error.state is not None
        assert not error.state.is_finished
        return error

    def settle(self) -> None:
        """Let everything happen that happens by itself."""
        self.play(self.cluster.settle())

    def twin(self) -> "Stage":
        """Return a stage on which the same objects stand; each goes its own way from here."""
        self.settle()
        twin = Stage(**self._settings)
        twin.clock.seconds = self.clock.seconds
        twin.drawn = itertools.count(next(self.drawn))
        known, store = self.cluster.store, twin.cluster.store
        store.objects = copy.deepcopy(known.objects)
        store.version = known.version
        store._serial = itertools.count(next(known._serial))
        store.compact()
        return twin

    # --- a process that is killed ---

    def killed(
        self,
        call: Callable[[Cluster, RunContext], Coroutine[Any, Any, object]],
        arrange: Callable[[FaultyCluster], None],
        *,
        through: FaultyCluster | None = None,
    ) -> bool:
        """Run the call on a cluster that was arranged to stop it; return whether it was stopped."""
        faulty = through or FaultyCluster(self.cluster)
        arrange(faulty)

        async def doomed() -> None:
            await call(faulty, self.run())

        try:
            self.play(doomed())
        except Killed:
            return True
        except BaseExceptionGroup as group:
            if group.subgroup(Killed) is None:
                raise
            return True
        return False

    # --- what stands ---

    def members(self, declaration: RoleDeclaration) -> list[Object]:
        return self._of_role(POD, declaration)

    def uids(self, kind: Kind) -> dict[str, str]:
        """The UID of each object of the kind, by name."""
        return {name_of(obj): uid_of(obj) for obj in self.cluster.objects(kind)}

    def record(self, declaration: RoleDeclaration) -> dict[str, Any]:
        """The stored record."""
        found = self.cluster.peek(CONFIG_MAP, f"{declaration.deployment}-{declaration.role}")
        assert found is not None
        stored: dict[str, Any] = json.loads(found["data"]["record"])
        return stored

    def stands(self, declaration: RoleDeclaration) -> None:
        """Assert that the role stands exactly as declared and that nothing leaked."""
        deployment, role = declaration.deployment, declaration.role
        replicas, size = declaration.replicas, declaration.size
        pods = {name_of(pod): pod for pod in self.members(declaration)}
        seats = [(ordinal, seat) for ordinal in range(replicas) for seat in range(size)]
        assert {f"{deployment}-{role}-r{o}-m{s}" for o, s in seats} == pods.keys()
        assert [] == [name for name, pod in pods.items() if is_terminating(pod)]
        assert {"True"} == {condition_status(pod, "Ready") for pod in pods.values()}
        want = {
            uid_of(pods[f"{deployment}-{role}-r{ordinal}-m{seat}"]): ordinal
            for ordinal, seat in seats
        }
        owned = [
            workload
            for workload in self.cluster.objects(WORKLOAD)
            if {each["uid"] for each in meta(workload)["ownerReferences"]} & want.keys()
        ]
        assert len(owned) == replicas == len(self._workloads_of(declaration))
        for workload in owned:
            owners = {each["uid"] for each in meta(workload)["ownerReferences"]}
            assert size == len(owners)
            assert 1 == len({want[uid] for uid in owners})
            assert "True" == condition_status(workload, "Admitted")
            assert [(role, size)] == [
                (each["name"], each["count"]) for each in workload["spec"]["podSets"]
            ]
            queue = declaration.instance_type.local_queue
            assert queue == workload["spec"]["queueName"]
        self._services_stand(declaration)
        self._record_rests(declaration)

    def uses_what_stands(self) -> None:
        """Assert that the queues hold exactly the quota of the Pods that stand."""
        used = Counter[str]()
        for queue in self.cluster.objects(self._queues, ""):
            used.update(self.cluster.usage(name_of(queue)))
        asked = Counter[str]()
        for pod in self.cluster.objects(POD):
            asked.update({key: int(value) for key, value in pod_requests(pod["spec"]).items()})
        assert asked[GPU] == used[GPU]

    def is_empty(self) -> None:
        """Assert that nothing is left in the namespace."""
        left = {
            kind.name: self.cluster.names(kind) for kind in (POD, WORKLOAD, SERVICE, CONFIG_MAP)
        }
        assert {"Pod": [], "Workload": [], "Service": [], "ConfigMap": []} == left
        self.uses_what_stands()

    # --- inside ---

    @property
    def _queues(self) -> Kind:
        return next(kind for kind in self.cluster.store.objects if kind.name == "ClusterQueue")

    def _of_role(self, kind: Kind, declaration: RoleDeclaration) -> list[Object]:
        want = {
            "app.kubernetes.io/instance": declaration.deployment,
            "app.kubernetes.io/component": declaration.role,
        }
        return [obj for obj in self.cluster.objects(kind) if want.items() <= labels_of(obj).items()]

    def _workloads_of(self, declaration: RoleDeclaration) -> list[str]:
        prefix = f"{declaration.deployment}-{declaration.role}-"
        return [name for name in self.cluster.names(WORKLOAD) if name.startswith(prefix)]

    def _services_stand(self, declaration: RoleDeclaration) -> None:
        deployment, role = declaration.deployment, declaration.role
        want = {f"{deployment}-{role}"}
        if declaration.front_role == role:
            want.add(deployment)
        if declaration.size > 1:
            want |= {f"{deployment}-{role}-r{ordinal}" for ordinal in range(declaration.replicas)}
        assert want == {name_of(each) for each in self._of_role(SERVICE, declaration)}

    def _record_rests(self, declaration: RoleDeclaration) -> None:
        record = self.record(declaration)
        assert (None, [], None) == (record["slot"], record["departures"], record["batch"])
        assert declaration.replicas == record["achieved"]
        assert "" == record["lock"]["holder"]

    def _writes(self) -> Counter[str]:
        return Counter(
            {
                f"{verb} {plural}": count
                for (verb, plural), count in self.cluster.requests.items()
                if verb in _WRITES
            }
        )


def tokens(pods: list[Object]) -> set[str]:
    """The attempt tokens of these members."""
    return {annotations_of(pod)["modeldeployment.gpustack.ai/attempt-token"] for pod in pods}


def raised(error: type[E], call: Callable[[], object]) -> E:
    """Return the error that the call must end with."""
    with pytest.raises(error) as found:
        call()
    return found.value
