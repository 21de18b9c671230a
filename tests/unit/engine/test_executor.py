"""One step's calls: each sent once, repeatable, nothing concluded from a missing answer."""

import pytest

from gpustack_deploy.engine.cluster import CONFIG_MAP, POD, SERVICE, WORKLOAD, Kind
from gpustack_deploy.engine.executor import Executor
from gpustack_deploy.engine.record_store import RecordStore
from gpustack_deploy.engine.run import RunContext
from gpustack_deploy.model.errors import (
    AdmissionRefused,
    ForeignObject,
    GpustackDeployError,
    InvalidSpec,
    KueueNotManaging,
    Throttled,
    Unreachable,
)
from gpustack_deploy.model.raw import Json
from gpustack_deploy.model.record import RoleRecord
from gpustack_deploy.model.role import RoleDeclaration
from gpustack_deploy.plan.desired_role import desired_of
from gpustack_deploy.plan.services import wanted_services
from gpustack_deploy.plan.snapshot import RoleView, Snapshot
from gpustack_deploy.plan.step import (
    Compose,
    ObjectRef,
    PruneServices,
    Remove,
    RemoveWorkload,
    Seat,
    SyncServices,
    Withdraw,
)
from tests.declarations import role
from tests.engine.guarded_cluster import GPU, ROOM
from tests.fakes import FakeClock, MemoryCluster, run_virtual
from tests.fakes.faults import Call, FaultyCluster
from tests.fakes.objects import Object, labels_of, name_of, uid_of
from tests.fakes.pods import pod, service

pytestmark = pytest.mark.check

PAIR = role(size=2)
SEATS = Compose(tuple(Seat(0, seat, "g", "t") for seat in range(2)))

ClusterStep = Withdraw | Remove | RemoveWorkload | Compose | SyncServices | PruneServices


class Hands:
    """An executor over a role whose record stands, on a cluster where nothing happens by itself."""

    def __init__(self, declaration: RoleDeclaration | None = PAIR) -> None:
        self.clock = FakeClock()
        self.cluster = MemoryCluster(self.clock)
        self.cluster.add_queue("h200", {**ROOM, GPU: 16})
        self.faulty = FaultyCluster(self.cluster)
        self.declaration = declaration

    def perform(self, *steps: ClusterStep) -> None:
        run_virtual(self._perform(*steps), self.clock)

    async def _perform(self, *steps: ClusterStep) -> None:
        store = RecordStore(
            self.faulty,
            namespace="ml",
            deployment="chat",
            role="server",
            run=RunContext(clock=self.clock),
        )
        if await store.read() is None:
            await store.create(RoleRecord("chat", "server", {"server": "Server"}, "server"))
        else:
            await store.acquire()
        self.faulty.calls.clear()
        executor = Executor(self.faulty, store, self.declaration, "ml")
        for step in steps:
            await executor.perform(step, Snapshot())

    def names(self, kind: Kind = POD) -> list[str]:
        return self.cluster.names(kind)

    def refused(self, error: type[GpustackDeployError], step: ClusterStep) -> str:
        with pytest.raises(error) as found:
            self.perform(step)
        return str(found.value)

    def holds(self, kind: Kind, body: Json) -> str:
        """Store an object as somebody else; return its UID."""
        return uid_of(self.cluster.store.create(kind, "ml", body))


M0, M1 = "chat-server-r0-m0", "chat-server-r0-m1"


# --- members ---


def test_every_seat_of_a_group_is_created_with_its_owner_and_token() -> None:
    hands = Hands()
    hands.perform(SEATS)
    assert [M0, M1] == hands.names()
    (record,) = hands.cluster.objects(CONFIG_MAP)
    for member in hands.cluster.objects(POD):
        assert [uid_of(record)] == [each["uid"] for each in member["metadata"]["ownerReferences"]]
        assert "t" == member["metadata"]["annotations"]["modeldeployment.gpustack.ai/attempt-token"]


def test_a_member_that_stands_already_is_left_to_the_next_look() -> None:
    hands = Hands()
    hands.perform(SEATS, SEATS)
    assert [M0, M1] == hands.names()


def test_a_name_that_somebody_else_holds_is_told_and_the_other_seat_still_filled() -> None:
    hands = Hands()
    uid = hands.holds(POD, pod(M0))
    said = hands.refused(ForeignObject, SEATS)
    assert f"Pod {M0} (uid {uid})" in said
    assert [M0, M1] == hands.names()
    assert uid == hands.cluster.uid(POD, "ml", M0)


def test_a_name_that_was_taken_and_is_free_again_is_left_to_the_next_look() -> None:
    hands = Hands()
    hands.holds(POD, pod(M0))
    original = hands.cluster.get

    async def gone(kind: Kind, namespace: str, name: str) -> Json:
        if kind == POD:
            del hands.cluster.store.objects[POD]["ml", M0]
        return await original(kind, namespace, name)

    hands.cluster.get = gone  # type: ignore[method-assign]
    hands.perform(SEATS)
    assert [M1] == hands.names()


@pytest.mark.parametrize(
    ("message", "want"),
    [
        pytest.param("violates PodSecurity", AdmissionRefused, id="a policy"),
        pytest.param(
            "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2",
            Throttled,
            id="a ResourceQuota frees later",
        ),
    ],
)
def test_a_create_that_is_refused(message: str, want: type[GpustackDeployError]) -> None:
    hands = Hands()
    hands.cluster.refuse_pods(message)
    assert message in hands.refused(want, SEATS)


def test_a_member_that_would_bypass_quota_is_removed_at_once() -> None:
    hands = Hands()
    hands.cluster.kueue.unmanaged.add("ml")
    hands.refused(KueueNotManaging, SEATS)
    assert [] == hands.names()


def test_one_failing_call_does_not_stop_the_others_and_is_raised() -> None:
    hands = Hands()
    hands.faulty.fail(lambda call: call.name == M0)
    hands.refused(Unreachable, SEATS)
    assert [M1] == hands.names()


# --- leaving ---


def test_members_leave_by_uid_and_their_absence_is_success() -> None:
    hands = Hands()
    hands.perform(SEATS)
    uids = {name: hands.cluster.uid(POD, "ml", name) for name in (M0, M1)}
    gone, reborn = ObjectRef("gone", "x"), ObjectRef(M1, "of an earlier one")
    hands.perform(Remove(0, (ObjectRef(M0, uids[M0]), gone, reborn)))
    leaving = [
        name_of(each)
        for each in hands.cluster.objects(POD)
        if each["metadata"].get("deletionTimestamp")
    ]
    assert [M0] == leaving


def test_a_forced_delete_says_so() -> None:
    hands = Hands()
    hands.perform(Remove(0, (ObjectRef(M0, "x"),), grace_period_seconds=0))
    assert [Call("delete", "Pod", M0)] == hands.faulty.calls


def test_a_workload_of_another_uid_stays() -> None:
    hands = Hands()
    hands.perform(SEATS)
    hands.cluster.world.settle()
    hands.perform(RemoveWorkload(0, ObjectRef("g", "of an earlier one")))
    assert hands.cluster.peek(WORKLOAD, "g") is not None


def test_the_routing_label_goes_and_a_member_that_is_gone_needs_none_withdrawn() -> None:
    hands = Hands()
    hands.perform(SEATS)
    uid = hands.cluster.uid(POD, "ml", M0)
    hands.perform(
        Withdraw((ObjectRef(M0, uid), ObjectRef(M1, "of an earlier one"), ObjectRef("gone", "x")))
    )
    assert "modeldeployment.gpustack.ai/api-answering" not in labels_of(_pod(hands, M0))


def _pod(hands: Hands, name: str) -> Object:
    found = hands.cluster.peek(POD, name)
    assert found is not None
    return found


# --- Services ---


def sync(declaration: RoleDeclaration = PAIR) -> SyncServices:
    record = RoleRecord("chat", "server", {"server": "Server"}, "server", uid="r")
    view = RoleView(desired_of(declaration), Snapshot(), record)
    return SyncServices(create=wanted_services(view), align=())


def test_services_are_made_with_their_owner_and_peers_without_an_address() -> None:
    hands = Hands()
    hands.perform(sync())
    made = {name_of(each): each for each in hands.cluster.objects(SERVICE)}
    assert {"chat", "chat-server", "chat-server-r0"} == made.keys()
    assert "None" == made["chat-server-r0"]["spec"]["clusterIP"]
    assert made["chat-server-r0"]["spec"]["publishNotReadyAddresses"]
    assert "None" != made["chat"]["spec"]["clusterIP"]


def test_services_that_stand_already_are_left_to_the_next_look() -> None:
    hands = Hands()
    hands.perform(sync(), sync())
    assert 3 == len(hands.names(SERVICE))


def test_a_service_name_that_somebody_else_holds_is_found_before_anything_is_written() -> None:
    hands = Hands()
    hands.holds(SERVICE, service("chat-server-r0"))
    said = hands.refused(ForeignObject, sync())
    assert "Service chat-server-r0" in said
    assert [] == hands.faulty.writes
    assert ["chat-server-r0"] == hands.names(SERVICE)


def test_a_service_that_the_cluster_refuses_is_named() -> None:
    hands = Hands()
    hands.cluster.refuse("s", lambda kind, body: "too many" if kind == SERVICE else "")
    assert "Service chat" in hands.refused(InvalidSpec, sync())


def test_pruned_services_go_by_uid_and_their_absence_is_success() -> None:
    hands = Hands()
    hands.perform(sync())
    uid = hands.cluster.uid(SERVICE, "ml", "chat-server-r0")
    stays, goes = ObjectRef("chat", "of an earlier one"), ObjectRef("chat-server-r0", uid)
    hands.perform(PruneServices((goes, stays, ObjectRef("gone", "x"))))
    assert ["chat", "chat-server"] == hands.names(SERVICE)


# --- a teardown ---


def test_a_teardown_composes_nothing() -> None:
    with pytest.raises(RuntimeError, match="a teardown composes nothing"):
        Hands(None).perform(SEATS)
