"""The one decision: which rule speaks first, and what holds when something cannot be read."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack_deploy.model.desired import Desired
from gpustack_deploy.model.observed import ObservedMember, ObservedService
from gpustack_deploy.model.record import RoleRecord
from gpustack_deploy.plan.checks import WaitCode
from gpustack_deploy.plan.planner import next_step, will_create
from gpustack_deploy.plan.services import wanted_services
from gpustack_deploy.plan.slot import Transition
from gpustack_deploy.plan.snapshot import RoleView, Snapshot
from gpustack_deploy.plan.step import (
    Await,
    Compose,
    CreateRecord,
    Done,
    Hold,
    Inspect,
    ObjectRef,
    PruneServices,
    Remove,
    Step,
    SyncServices,
    WriteRecord,
)
from tests.builders import (
    MemberBuilder,
    RecordBuilder,
    make_departure,
    make_desired,
    make_member,
    make_record,
    make_replica,
    make_service,
    make_workload,
    observe,
)

pytestmark = pytest.mark.check

DESIRED = make_desired().replicas(2).obj()
PAIRS = make_desired().replicas(2).size(2).obj()
SETTLED = make_record().achieved(2)

Change = Callable[[MemberBuilder], MemberBuilder]


def decide(role: RoleView) -> Step:
    return next_step(role.desired, role.snapshot, role.record)


def a_role(
    *members: ObservedMember,
    record: RecordBuilder = SETTLED,
    desired: Desired = DESIRED,
    services: Sequence[ObservedService] | None = None,
) -> RoleView:
    """The role with every Service as it is wanted, unless others are given."""
    seen = observe(desired, record.obj(), *members)
    if services is None:
        services = [make_service(each) for each in wanted_services(seen)]
    return observe(desired, record.obj(), *members, services=services)


def both(change: Change = lambda each: each) -> list[ObservedMember]:
    """Both replicas of the declaration, the upper one changed."""
    return [make_member().of(DESIRED, 0).obj(), change(make_member().of(DESIRED, 1)).obj()]


def held(step: Step) -> tuple[WaitCode, int | None, str]:
    assert isinstance(step, Hold), step
    return step.check.code, step.check.ordinal, step.check.reason


def written(step: Step) -> tuple[Transition, int | None]:
    assert isinstance(step, WriteRecord), step
    return step.transition, step.ordinal


def test_the_record_comes_first() -> None:
    assert CreateRecord() == next_step(DESIRED, Snapshot(), None)


def test_a_role_that_stands_as_declared_is_done() -> None:
    assert Done() == decide(a_role(*both()))


# --- names that others hold ---


def test_a_foreign_service_on_a_needed_name_holds_and_is_left_alone() -> None:
    own = wanted_services(a_role())[0]
    foreign = make_service(own, owner_uid="somebody")
    assert (WaitCode.FOREIGN_OBJECT, None, "Service chat-decode (uid uid-chat-decode)") == held(
        decide(a_role(*both(), services=[foreign]))
    )


def test_a_foreign_service_on_another_name_is_no_business_of_ours() -> None:
    own = wanted_services(a_role())[0]
    foreign = replace(make_service(own, owner_uid="somebody"), name="theirs")
    assert Done() == decide(a_role(*both(), services=[make_service(own), foreign]))


@pytest.mark.parametrize("owner", ["somebody", ""], ids=["somebody's", "nobody's"])
def test_a_foreign_pod_on_a_needed_name_holds_and_is_left_alone(owner: str) -> None:
    role = a_role(*both(lambda each: each.owned_by(owner)))
    assert (
        WaitCode.FOREIGN_OBJECT,
        1,
        "Pod chat-decode-r1-m0 (uid uid-chat-decode-r1-m0)",
    ) == held(decide(role))


def test_a_foreign_pod_on_another_name_is_no_business_of_ours() -> None:
    stranger = make_member().of(DESIRED, 1).owned_by("somebody").having(name="theirs").obj()
    assert Done() == decide(a_role(*both(), stranger))


def test_a_foreign_pod_beyond_the_declaration_is_no_business_of_ours() -> None:
    stranger = make_member().of(DESIRED, 2).owned_by("somebody").obj()
    assert Done() == decide(a_role(*both(), stranger))


# --- what cannot be read ---


def test_a_member_of_ours_without_an_ordinal_holds() -> None:
    lost = make_member().of(DESIRED, 0).uid("lost").having(ordinal=None, name="odd").obj()
    code, ordinal, reason = held(decide(a_role(*both(), lost)))
    assert (WaitCode.UNREADABLE, None) == (code, ordinal)
    assert "odd carries no readable modeldeployment.gpustack.ai/pod-ordinal label" == reason


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda each: each.total(3), id="totals that disagree"),
        pytest.param(lambda each: each.total(None), id="no total"),
        pytest.param(lambda each: each.seat(0), id="a seat twice"),
        pytest.param(lambda each: each.seat(None), id="no seat"),
        pytest.param(lambda each: each.seat(7), id="a seat beyond the total"),
    ],
)
@pytest.mark.parametrize("fingerprint", ["v1", "v2"], ids=["at rest", "in an edit"])
def test_a_replica_that_cannot_be_read_holds_and_is_never_deleted(
    change: Change, fingerprint: str
) -> None:
    desired = make_desired().replicas(2).size(2).fingerprint(fingerprint).obj()
    leader, follower = make_replica(PAIRS, 1)
    members = [each.obj() for each in [*make_replica(PAIRS, 0), leader, change(follower)]]
    code, ordinal, reason = held(decide(a_role(*members, desired=desired)))
    assert (WaitCode.UNREADABLE, 1) == (code, ordinal)
    assert "the members chat-decode-r1-m0, chat-decode-r1-m1 disagree" in reason.replace(
        "chat-decode-r1-m1, chat-decode-r1-m0", "chat-decode-r1-m0, chat-decode-r1-m1"
    )


def test_what_was_captured_leaves_though_it_cannot_be_read() -> None:
    odd = make_member().of(DESIRED, 1).total(None).obj()
    record = SETTLED.cleaning(1, make_departure(odd))
    step = decide(a_role(both()[0], odd, record=record))
    assert Remove(1, (ObjectRef(odd.name, odd.uid),)) == step


def test_surplus_that_was_captured_leaves_though_it_cannot_be_read() -> None:
    odd = make_member().of(DESIRED, 3).total(None).obj()
    record = SETTLED.departing(make_departure(odd))
    assert isinstance(decide(a_role(*both(), odd, record=record)), Remove)


# --- Services before members ---


def test_services_are_made_before_any_member() -> None:
    step = decide(a_role(record=make_record(), desired=PAIRS, services=()))
    assert isinstance(step, SyncServices)
    assert ["chat-decode", "chat-decode-r0", "chat-decode-r1"] == [
        each.name for each in step.create
    ]
    assert () == step.align


def test_a_service_that_differs_is_aligned_in_place() -> None:
    own = make_service(wanted_services(a_role())[0])
    step = decide(a_role(*both(), services=[replace(own, selector={"app": "x"})]))
    assert isinstance(step, SyncServices)
    assert () == step.create
    assert ["chat-decode"] == [each.name for each in step.align]


def test_a_peer_service_outlives_the_last_member_of_its_ordinal() -> None:
    pair = [each.terminating().obj() for each in make_replica(PAIRS, 1)]
    single = make_member().of(DESIRED, 0).obj()
    record = SETTLED.cleaning(1, make_departure(*pair))
    step = decide(a_role(single, *pair, record=record))
    assert not isinstance(step, PruneServices)
    peer = next(each for each in a_role(single, *pair).snapshot.services if each.name[-2:] == "r1")
    role = a_role(single, record=record)
    services = [*role.snapshot.services, peer]
    assert PruneServices((ObjectRef(peer.name, peer.uid),)) == decide(
        a_role(single, record=record, services=services)
    )


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"is_terminating": True}, id="leaving"),
        pytest.param({"owner_uid": "lost"}, id="of a lost record"),
    ],
)
def test_a_service_that_leaves_is_awaited_before_its_name_is_used(
    change: dict[str, object],
) -> None:
    own = make_service(wanted_services(a_role())[0])
    leaving = replace(own, **change)  # type: ignore[arg-type]
    record = SETTLED.having(former_uid="lost")
    step = decide(a_role(*both(), record=record, services=[leaving]))
    assert isinstance(step, Await)
    assert WaitCode.SERVICE_LEAVING is step.check.code


# --- surplus before anything that needs quota ---


def fewer(*members: ObservedMember, record: RecordBuilder = SETTLED, is_read: bool = True) -> Step:
    """One replica is declared."""
    desired = make_desired().obj()
    seen = a_role(*members, record=record, desired=desired)
    groups = {each.group_name for each in members if is_read}
    workloads = [
        make_workload().of(*(each for each in members if each.group_name == group)).admitted().obj()
        for group in groups
    ]
    return decide(
        observe(
            desired, record.obj(), *members, services=seen.snapshot.services, workloads=workloads
        )
    )


def three() -> list[ObservedMember]:
    return [make_member().of(DESIRED, ordinal).obj() for ordinal in range(3)]


def test_surplus_is_captured_before_it_is_deleted() -> None:
    step = fewer(*three())
    assert (Transition.CAPTURE_SURPLUS, 2) == written(step)
    assert isinstance(step, WriteRecord)
    assert {1: "workload-g1", 2: "workload-g2"} == {
        each.ordinal: each.workload_uid for each in step.record.departures
    }


def test_the_workloads_of_surplus_are_read_before_it_is_captured() -> None:
    assert Inspect(("g1", "g2")) == fewer(*three(), is_read=False)


def test_captured_surplus_leaves_highest_first() -> None:
    _, low, high = three()
    record = SETTLED.departing(make_departure(low), make_departure(high))
    step = fewer(*three(), record=record)
    assert isinstance(step, Remove)
    assert 2 == step.ordinal


def test_surplus_that_left_is_forgotten() -> None:
    _, low, _ = three()
    record = make_record().achieved(3).departing(make_departure(low))
    desired = make_desired().obj()
    seen = a_role(three()[0], record=record, desired=desired)
    role = observe(
        desired,
        record.obj(),
        three()[0],
        services=seen.snapshot.services,
        absent=["g1"],
    )
    step = decide(role)
    assert (Transition.FORGET_SURPLUS, None) == written(step)
    assert isinstance(step, WriteRecord)
    assert (1, ()) == (step.record.achieved, step.record.departures)


def test_more_was_achieved_than_is_declared_and_nothing_of_it_stands() -> None:
    assert (Transition.FORGET_SURPLUS, None) == written(
        fewer(three()[0], record=make_record().achieved(3))
    )


def test_surplus_leaves_before_a_broken_replica_is_rebuilt() -> None:
    broken = make_member().of(DESIRED, 0).ended().obj()
    assert (Transition.CAPTURE_SURPLUS, 2) == written(fewer(broken, *three()[1:]))


def test_the_slots_own_ordinal_is_cancelled_not_captured_as_surplus() -> None:
    low, high, _ = three()
    record = make_record().achieved(1).cleaning(1, make_departure(high))
    assert isinstance(fewer(low, high, record=record), Remove)


def test_what_an_orphaned_run_created_late_leaves_without_its_neighbour() -> None:
    late = make_member().of(PAIRS, 1, 1).gated().in_group("late").uid("late").obj()
    role = a_role(*both(), late)
    assert Inspect(("late",)) == decide(role)
    absent = observe(
        DESIRED, SETTLED.obj(), *both(), late, services=role.snapshot.services, absent=["late"]
    )
    step = decide(absent)
    assert (Transition.CAPTURE_SURPLUS, 1) == written(step)
    assert isinstance(step, WriteRecord)
    assert "chat-decode-r1-m1 was created late by an earlier run" == step.cause
    assert [make_departure(late)] == list(step.record.departures)


# --- the rest of the order ---


def test_an_open_slot_goes_before_another_broken_replica() -> None:
    lower = make_member().of(DESIRED, 0).ended().obj()
    upper = make_member().of(DESIRED, 1).obj()
    record = SETTLED.cleaning(1, make_departure(upper))
    step = decide(a_role(lower, upper, record=record))
    assert isinstance(step, Remove)
    assert 1 == step.ordinal


def test_a_broken_replica_is_rebuilt_before_new_ordinals_are_created() -> None:
    desired = make_desired().replicas(3).obj()
    lower = make_member().of(DESIRED, 0).ended()
    step = decide(a_role(lower.obj(), both()[1], desired=desired))
    assert Inspect(("g0",)) == step


def test_missing_ordinals_are_created_last() -> None:
    desired = make_desired().replicas(3).obj()
    step = decide(a_role(*both(), desired=desired))
    assert (Transition.OPEN_BATCH, None) == written(step)


def test_a_batch_that_is_recorded_is_composed() -> None:
    desired = make_desired().replicas(3).obj()
    step = decide(a_role(*both(), desired=desired, record=SETTLED.batch("b", 2)))
    assert isinstance(step, Inspect)
    services = a_role(*both(), desired=desired).snapshot.services
    role = observe(
        desired,
        SETTLED.batch("b", 2).obj(),
        *both(),
        services=services,
        absent=step.workloads,
    )
    assert isinstance(decide(role), Compose)


# --- whether a run from here creates anything ---


@pytest.mark.parametrize(
    ("role", "want"),
    [
        pytest.param(a_role(*both()), False, id="as declared"),
        pytest.param(a_role(both()[0]), True, id="one is missing"),
        pytest.param(a_role(*both(lambda each: each.ended())), True, id="one is broken"),
        pytest.param(
            a_role(*both(lambda each: each.having(fingerprint="v0"))), True, id="one is outdated"
        ),
        pytest.param(
            a_role(*both(), make_member().of(DESIRED, 2).ended().obj()), False, id="only surplus"
        ),
    ],
)
def test_a_member_is_judged_only_when_one_will_be_created(role: RoleView, want: bool) -> None:
    assert want is will_create(role.desired, role.snapshot, role.record)


# --- total ---


@st.composite
def observed_members(draw: st.DrawFn) -> ObservedMember:
    desired = make_desired().size(draw(st.integers(1, 3))).obj()
    seat = draw(st.integers(0, desired.size - 1))
    builder = make_member().of(desired, draw(st.integers(0, 3)), seat)
    changes: dict[str, st.SearchStrategy[object]] = {
        "uid": st.sampled_from(["a", "b", "c", "d", "e"]),
        "owner_uid": st.sampled_from(["record-uid", "former", "", "x"]),
        "ordinal": st.none() | st.integers(0, 4),
        "member_index": st.none() | st.integers(0, 3),
        "group_name": st.sampled_from(["", "g0", "g1", "chat-decode-t1"]),
        "group_total": st.none() | st.integers(1, 3),
        "token": st.sampled_from(["t0", "t1"]),
        "phase": st.sampled_from(["", "Pending", "Running", "Failed", "Succeeded"]),
        "node_name": st.sampled_from(["", "n"]),
        "is_gated": st.booleans(),
        "is_managed": st.booleans(),
        "answers_api": st.booleans(),
        "is_ready": st.booleans(),
        "deletion_time": st.none() | st.sampled_from([0.0, 60.0]),
        "workload_name": st.sampled_from(["", "g0"]),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(changes)), max_size=6, unique=True))
    return builder.having(**{key: draw(changes[key]) for key in chosen}).obj()


@st.composite
def records(draw: st.DrawFn) -> RoleRecord:
    desired = make_desired().replicas(3).size(2).obj()
    builder = make_record().achieved(draw(st.integers(0, 4)))
    departure = make_departure(
        make_member().of(desired, draw(st.integers(0, 4))).uid("a").obj(),
        workload_uid=draw(st.sampled_from(["", "w"])),
    )
    if draw(st.booleans()):
        builder = builder.batch("b", *draw(st.sets(st.integers(0, 3), min_size=1)))
    if draw(st.booleans()):
        builder = builder.departing(departure)
    if draw(st.booleans()):
        builder = builder.having(former_uid="former")
    match draw(st.sampled_from(["closed", "cleaning", "awaiting"])):
        case "cleaning":
            builder = builder.cleaning(draw(st.integers(0, 4)), departure)
        case "awaiting":
            members = draw(st.lists(observed_members(), max_size=2))
            builder = builder.awaiting(desired, draw(st.integers(0, 4)), members=members)
        case _:
            pass
    return builder.obj()


@given(
    members=st.lists(observed_members(), max_size=6),
    record=st.none() | records(),
    size=st.integers(1, 3),
    replicas=st.integers(1, 4),
    fingerprint=st.sampled_from(["v1", "v2"]),
    names=st.sets(st.sampled_from(["", "g0", "g1", "chat-decode-t1"])),
    has_services=st.booleans(),
    data=st.data(),
)
def test_any_snapshot_gives_a_step(
    members: list[ObservedMember],
    record: RoleRecord | None,
    size: int,
    replicas: int,
    fingerprint: str,
    names: set[str],
    has_services: bool,
    data: st.DataObject,
) -> None:
    desired = make_desired().replicas(replicas).size(size).fingerprint(fingerprint).obj()
    workloads = {
        name: data.draw(
            st.sampled_from(
                [
                    None,
                    make_workload(name).obj(),
                    make_workload(name).owned_by("a").uid("w").obj(),
                    make_workload(name).owned_by("a", "b").admitted().obj(),
                    make_workload(name).owned_by("x").terminating().obj(),
                    make_workload(name).owned_by("a").condition("Evicted").obj(),
                ]
            )
        )
        for name in sorted(names)
    }
    snapshot = Snapshot(members=tuple(members), workloads=workloads, now=30.0, token="fresh")
    if record is not None and has_services:
        view = RoleView(desired, snapshot, record)
        snapshot = replace(
            snapshot, services=tuple(make_service(each) for each in wanted_services(view))
        )
    first = next_step(desired, snapshot, record)
    assert first == next_step(desired, snapshot, record)
    if isinstance(first, Inspect):
        assert not set(first.workloads) & snapshot.workloads.keys()
        assert first.workloads
