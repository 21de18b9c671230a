"""How captured objects leave: whose Workload may be deleted, in what order, and what blocks."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from gpustack_deploy.model.desired import LostNode
from gpustack_deploy.model.observed import ObservedMember, ObservedNode, ObservedWorkload
from gpustack_deploy.model.record import Departure
from gpustack_deploy.plan.checks import WaitCode
from gpustack_deploy.plan.departure import advance_departures, is_ours
from gpustack_deploy.plan.services import wanted_services
from gpustack_deploy.plan.slot import Transition
from gpustack_deploy.plan.snapshot import RoleView
from gpustack_deploy.plan.step import (
    Await,
    Inspect,
    ObjectRef,
    Remove,
    RemoveWorkload,
    Step,
    Withdraw,
    WriteRecord,
)
from tests.builders import (
    WorkloadBuilder,
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

PAIR = make_desired().replicas(2).size(2).obj()
LEADER, FOLLOWER = (each.obj() for each in make_replica(PAIR, 1))
OLD = make_workload().of(LEADER, FOLLOWER).uid("old").admitted()
SEEN = make_departure(LEADER, FOLLOWER, workload_uid="old")
UNSEEN = make_departure(LEADER, FOLLOWER)


def leaving(ends_at: float = 30.0) -> list[ObservedMember]:
    return [each.terminating(ends_at).obj() for each in make_replica(PAIR, 1)]


def view(
    departure: Departure,
    members: Sequence[ObservedMember],
    *,
    workloads: Sequence[ObservedWorkload] = (),
    absent: Sequence[str] = (),
    now: float = 0.0,
) -> RoleView:
    record = make_record().cleaning(1, departure).obj()
    return observe(PAIR, record, *members, workloads=workloads, absent=absent, now=now)


def advance(
    departure: Departure,
    members: Sequence[ObservedMember],
    *,
    workloads: Sequence[ObservedWorkload] = (),
    absent: Sequence[str] = (),
    now: float = 0.0,
    nodes: Mapping[str, ObservedNode | None] | None = None,
) -> Step | None:
    seen = view(departure, members, workloads=workloads, absent=absent, now=now)
    known = nodes or {"node-1": None}
    seen = replace(seen, snapshot=replace(seen.snapshot, nodes=known))
    return advance_departures(seen, (departure,))


def awaited(step: Step | None) -> tuple[WaitCode, float | None]:
    assert isinstance(step, Await), step
    return step.check.code, step.wake_at


# --- whose Workload it is ---


@pytest.mark.parametrize(
    ("departure", "workload", "want"),
    [
        pytest.param(SEEN, OLD, True, id="the captured UID"),
        pytest.param(SEEN, OLD.owned_by(), True, id="the captured UID, its owners gone"),
        pytest.param(SEEN, OLD.owned_by("x"), True, id="the captured UID, owned anew"),
        pytest.param(
            SEEN, OLD.uid("new"), True, id="a remnant recomposed of captured members alone"
        ),
        pytest.param(
            SEEN, OLD.uid("new").owned_by(LEADER.uid), True, id="a remnant of one captured member"
        ),
        pytest.param(
            SEEN,
            OLD.uid("new").owned_by(LEADER.uid, "x"),
            False,
            id="too wide: another's Workload that took a captured member in",
        ),
        pytest.param(
            SEEN, OLD.uid("new").owned_by(), False, id="too wide: ownerless, only the name matches"
        ),
        pytest.param(
            SEEN, OLD.uid("new").owned_by("x"), False, id="too wide: foreign, only the name matches"
        ),
        pytest.param(
            UNSEEN, OLD, True, id="too narrow otherwise: none captured, it names captured members"
        ),
        pytest.param(
            UNSEEN,
            OLD.owned_by(FOLLOWER.uid, "x"),
            True,
            id="too narrow otherwise: none captured, it names one captured member",
        ),
        pytest.param(
            UNSEEN, OLD.owned_by(), False, id="too wide: none captured and an ownerless one"
        ),
        pytest.param(
            UNSEEN, OLD.owned_by("x"), False, id="too wide: none captured and a foreign one"
        ),
    ],
)
def test_which_workload_a_departure_may_delete(
    departure: Departure, workload: WorkloadBuilder, want: bool
) -> None:
    assert want is is_ours(departure, workload.obj())


@pytest.mark.parametrize("owners", [(), ("x",)], ids=["ownerless", "foreign"])
@pytest.mark.parametrize("departure", [SEEN, UNSEEN], ids=["captured", "none captured"])
def test_a_workload_that_is_not_ours_is_passed_by(
    departure: Departure, owners: tuple[str, ...]
) -> None:
    stranger = OLD.uid("stranger").owned_by(*owners).obj()
    assert advance(departure, [], workloads=[stranger]) is None


# --- members first ---


def test_members_are_deleted_by_the_captured_uid() -> None:
    refs = (ObjectRef(LEADER.name, LEADER.uid), ObjectRef(FOLLOWER.name, FOLLOWER.uid))
    assert Remove(1, refs) == advance(SEEN, [LEADER, FOLLOWER])


def test_a_stranger_on_a_captured_name_stays() -> None:
    stranger = make_member().of(PAIR, 1, 1).uid("another").obj()
    refs = (ObjectRef(LEADER.name, LEADER.uid),)
    assert Remove(1, refs) == advance(SEEN, [LEADER, stranger])


def test_a_member_that_is_leaving_already_is_not_deleted_again() -> None:
    refs = (ObjectRef(LEADER.name, LEADER.uid),)
    assert Remove(1, refs) == advance(SEEN, [LEADER, leaving()[1]])


def test_an_ended_member_is_deleted_as_well() -> None:
    ended = make_member().of(PAIR, 1).ended().obj()
    assert isinstance(advance(SEEN, [ended]), Remove)


def test_the_label_is_withdrawn_first_where_a_service_selects_on_it() -> None:
    routed = make_service(
        wanted_services(observe(make_desired().external_dp().obj(), make_record().obj()))[0]
    )
    seen = observe(PAIR, make_record().obj(), LEADER, FOLLOWER, services=[routed])
    leader = (ObjectRef(LEADER.name, LEADER.uid),)
    assert Withdraw(leader) == advance_departures(seen, (SEEN,))


def test_all_members_of_all_departures_go_before_anything_is_awaited() -> None:
    upper = [each.obj() for each in make_replica(PAIR, 2)]
    lower = [each.obj() for each in make_replica(PAIR, 1)]
    both = (make_departure(*lower), make_departure(*upper))
    record = make_record().departing(*both).obj()
    seen = observe(PAIR, record, *lower, *upper)
    step = advance_departures(seen, both)
    assert isinstance(step, Remove)
    assert 2 == step.ordinal
    gone = [each.terminating().obj() for each in make_replica(PAIR, 2)]
    step = advance_departures(observe(PAIR, record, *lower, *gone), both)
    assert isinstance(step, Remove)
    assert 1 == step.ordinal


# --- the Workload next ---


def test_a_workload_nobody_read_is_read_before_anything_is_concluded() -> None:
    assert Inspect(("g1",)) == advance(SEEN, leaving())
    assert Inspect(("g1",)) == advance(SEEN, [])


def test_a_running_member_keeps_its_workload_until_its_grace_is_over() -> None:
    step = advance(SEEN, leaving(30.0), workloads=[OLD.obj()], now=10.0)
    assert (WaitCode.MEMBER_LEAVING, 30.0) == awaited(step)


def test_the_earliest_end_counts() -> None:
    members = [leaving(50.0)[0], leaving(40.0)[1]]
    step = advance(SEEN, members, workloads=[OLD.obj()], now=10.0)
    assert (WaitCode.MEMBER_LEAVING, 40.0) == awaited(step)


@pytest.mark.parametrize(
    "members",
    [
        pytest.param([], id="gone"),
        pytest.param(
            [each.terminating().ended().obj() for each in make_replica(PAIR, 1)], id="ended"
        ),
        pytest.param(
            [each.terminating().gated().obj() for each in make_replica(PAIR, 1)], id="never bound"
        ),
    ],
)
def test_the_workload_goes_as_soon_as_nothing_runs(members: list[ObservedMember]) -> None:
    step = advance(SEEN, members, workloads=[OLD.obj()], now=1.0)
    assert RemoveWorkload(1, ObjectRef("g1", "old")) == step


def test_the_workload_goes_once_the_grace_is_over_even_if_a_member_still_runs() -> None:
    step = advance(SEEN, leaving(30.0), workloads=[OLD.obj()], now=30.0)
    assert RemoveWorkload(1, ObjectRef("g1", "old")) == step


def test_a_workload_that_nobody_captured_is_recorded_before_it_is_deleted() -> None:
    step = advance(UNSEEN, leaving(), workloads=[OLD.obj()], now=30.0)
    assert isinstance(step, WriteRecord)
    assert Transition.CAPTURE_WORKLOAD is step.transition
    assert step.record.slot is not None
    assert SEEN == step.record.slot.departures[0]


def test_a_deleted_workload_is_awaited() -> None:
    step = advance(SEEN, leaving(), workloads=[OLD.terminating().obj()], now=31.0)
    assert (WaitCode.WORKLOAD_TERMINATING, None) == awaited(step)


# --- vacancy ---


def test_vacant_means_no_member_and_no_workload_of_ours() -> None:
    assert advance(SEEN, [], absent=["g1"]) is None


def test_members_within_their_grace_are_awaited_without_a_workload_too() -> None:
    step = advance(SEEN, leaving(30.0), absent=["g1"], now=5.0)
    assert (WaitCode.MEMBER_LEAVING, 30.0) == awaited(step)


def test_an_ended_member_that_the_server_still_lists_holds_the_ordinal() -> None:
    ended = [each.terminating().ended().obj() for each in make_replica(PAIR, 1)]
    step = advance(SEEN, ended, absent=["g1"], now=99.0)
    assert (WaitCode.ORDINAL_HELD, None) == awaited(step)
    assert isinstance(step, Await)
    assert "the server still lists chat-decode-r1-m0" == step.check.reason


# --- lost nodes ---


@pytest.mark.parametrize(
    "workloads",
    [
        pytest.param([], id="its Workload is gone"),
        pytest.param([OLD.uid("remnant").obj()], id="Kueue recomposed it"),
    ],
)
def test_a_member_that_outlives_its_grace_is_named_with_its_remedies(
    workloads: list[ObservedWorkload],
) -> None:
    absent = [] if workloads else ["g1"]
    step = advance(SEEN, leaving(30.0), workloads=workloads, absent=absent, now=31.0)
    assert (WaitCode.MEMBER_ON_LOST_NODE, None) == awaited(step)
    assert isinstance(step, Await)
    for part in ("chat-decode-r1-m0", "node-1", "bring the node back", "out-of-service"):
        assert part in step.check.reason


def test_a_remnant_is_not_deleted_in_a_loop_while_its_member_runs() -> None:
    remnant = OLD.uid("remnant").obj()
    assert (WaitCode.MEMBER_LEAVING, 30.0) == awaited(
        advance(SEEN, leaving(30.0), workloads=[remnant], now=1.0)
    )
    ended = [each.terminating().ended().obj() for each in make_replica(PAIR, 1)]
    step = advance(SEEN, ended, workloads=[remnant], now=31.0)
    assert RemoveWorkload(1, ObjectRef("g1", "remnant")) == step


LOST = ObservedNode("node-1", is_ready=False, since=100.0)


@pytest.mark.parametrize(
    ("node", "words"),
    [
        pytest.param(None, "gone or cannot be read", id="no Node"),
        pytest.param(LOST, "NotReady since 1970-01-01 00:01:40 UTC", id="lost"),
        pytest.param(replace(LOST, is_ready=True), "which is Ready", id="its runtime hangs"),
        pytest.param(replace(LOST, since=float("inf")), "(NotReady)", id="an unreadable moment"),
    ],
)
def test_the_wait_says_what_is_known_of_the_node(node: ObservedNode | None, words: str) -> None:
    step = advance(SEEN, leaving(30.0), absent=["g1"], now=31.0, nodes={"node-1": node})
    assert isinstance(step, Await)
    assert words in step.check.reason


def test_the_node_is_read_before_anything_is_said_of_it() -> None:
    step = advance(SEEN, leaving(30.0), absent=["g1"], now=31.0, nodes={"other": None})
    assert Inspect(nodes=("node-1",)) == step


def forced(*, now: float, node: ObservedNode | None = LOST) -> Step | None:
    seen = view(SEEN, leaving(30.0), absent=["g1"], now=now)
    desired = replace(seen.desired, lost_node=LostNode.FORCE)
    known = replace(seen.snapshot, nodes={"node-1": node})
    return advance_departures(replace(seen, desired=desired, snapshot=known), (SEEN,))


def test_a_member_is_forced_out_only_after_five_minutes_not_ready() -> None:
    assert (WaitCode.MEMBER_ON_LOST_NODE, 400.0) == awaited(forced(now=399.0))
    step = forced(now=400.0)
    assert Remove(1, (ObjectRef(LEADER.name, LEADER.uid),), grace_period_seconds=0) == step
    for node in (None, replace(LOST, is_ready=True), replace(LOST, is_ready=None)):
        assert (WaitCode.MEMBER_ON_LOST_NODE, None) == awaited(forced(now=9999.0, node=node))


def test_a_member_that_was_let_go_counts_as_ended() -> None:
    remnant = OLD.uid("remnant").obj()
    let_go = [replace(each, is_let_go=True) for each in leaving(30.0)]
    step = advance(SEEN, let_go, workloads=[remnant], now=31.0)
    assert RemoveWorkload(1, ObjectRef("g1", "remnant")) == step


# --- several departures at once ---


def two_leaving(upper_ends: float, lower_ends: float, *, now: float) -> Step | None:
    upper = [each.terminating(upper_ends).obj() for each in make_replica(PAIR, 2)]
    lower = [each.terminating(lower_ends).obj() for each in make_replica(PAIR, 1)]
    both = (make_departure(*lower), make_departure(*upper))
    record = make_record().departing(*both).obj()
    seen = observe(PAIR, record, *lower, *upper, absent=["g1", "g2"], now=now)
    known = replace(seen.snapshot, nodes={"node-1": None})
    return advance_departures(replace(seen, snapshot=known), both)


def test_the_loop_is_woken_when_the_first_of_several_ends() -> None:
    assert (WaitCode.MEMBER_LEAVING, 20.0) == awaited(two_leaving(50.0, 20.0, now=1.0))


def test_a_lost_node_is_told_only_when_nothing_else_is_awaited() -> None:
    """A teardown gives up on lost nodes, and must not give up on what still leaves in time."""
    assert (WaitCode.MEMBER_LEAVING, 60.0) == awaited(two_leaving(10.0, 60.0, now=20.0))
    assert WaitCode.MEMBER_ON_LOST_NODE is awaited(two_leaving(10.0, 12.0, now=20.0))[0]
