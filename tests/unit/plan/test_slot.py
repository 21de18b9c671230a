"""The slot's table: each edge does what it names, and no other edge is taken."""

from collections.abc import Callable

import pytest

from gpustack_deploy.model.record import Batch, Departure, RoleRecord, SlotPhase
from gpustack_deploy.plan import slot as slots
from gpustack_deploy.plan.slot import EDGES, SlotState, Transition
from tests.builders import make_departure, make_desired, make_member, make_record, make_workload

pytestmark = pytest.mark.check

DESIRED = make_desired().replicas(3).size(2).obj()
OLD = make_member().of(DESIRED, 1).obj()
OTHER = make_member().of(DESIRED, 1, 1).in_group("g-late").obj()
GONE = make_departure(OLD, workload_uid="w-old")

RECORDS = {
    SlotState.CLOSED: make_record().obj(),
    SlotState.CLEANUP: make_record().cleaning(1, GONE).obj(),
    SlotState.WAITING_FOR_ADMISSION: make_record().awaiting(DESIRED, 1, token="t1").obj(),
}

TAKE: dict[Transition, Callable[[RoleRecord], RoleRecord]] = {
    Transition.OPEN: lambda record: slots.open_slot(record, 1, (GONE,)),
    Transition.RECAPTURE: lambda record: slots.recapture(record, (make_departure(OTHER),)),
    Transition.BEGIN: lambda record: slots.begin(record, "t2", ("f0", "f1")),
    Transition.ADOPT: lambda record: slots.adopt(record, {"m0": "u0"}, "w-new"),
    Transition.SUPERSEDE: lambda record: slots.reopen_slot(record, Transition.SUPERSEDE, (GONE,)),
    Transition.REBUILD: lambda record: slots.reopen_slot(record, Transition.REBUILD, (GONE,)),
    Transition.CANCEL: lambda record: slots.reopen_slot(record, Transition.CANCEL, (GONE,)),
    Transition.DROP: lambda record: slots.close_slot(record, Transition.DROP),
    Transition.PARK: slots.park_slot,
    Transition.CLOSE: slots.close_slot,
}


@pytest.mark.parametrize("transition", TAKE)
def test_each_edge_leads_where_the_table_says(transition: Transition) -> None:
    edge = EDGES[transition]
    after = TAKE[transition](RECORDS[edge.source])
    assert edge.target is slots.slot_state(after)


@pytest.mark.parametrize(
    ("transition", "state"),
    [
        pytest.param(transition, state, id=f"{transition} from {state}")
        for transition in TAKE
        for state in SlotState
        if EDGES[transition].source is not state
    ],
)
def test_no_other_edge_is_taken(transition: Transition, state: SlotState) -> None:
    with pytest.raises(ValueError, match=f"needs a slot in {EDGES[transition].source}, found"):
        TAKE[transition](RECORDS[state])


def test_the_table_holds_every_transition_that_changes_a_slot() -> None:
    beside_the_slot = {
        Transition.OPEN_BATCH,
        Transition.CLOSE_BATCH,
        Transition.CAPTURE_SURPLUS,
        Transition.FORGET_SURPLUS,
    }
    assert set(Transition) - beside_the_slot == EDGES.keys()
    assert EDGES.keys() - {Transition.CAPTURE_WORKLOAD} == TAKE.keys()


def test_each_edge_names_its_own_observation() -> None:
    observations = [edge.observation for edge in EDGES.values()]
    assert len(observations) == len(set(observations))


# --- what each edge keeps and drops ---


def test_an_opened_slot_may_delete_exactly_what_was_captured() -> None:
    slot = slots.open_slot(RECORDS[SlotState.CLOSED], 1, (GONE,)).slot
    assert slot is not None
    assert (1, SlotPhase.CLEANUP, (GONE,)) == (slot.ordinal, slot.phase, slot.departures)


def test_an_opened_slot_takes_its_ordinal_out_of_the_batch() -> None:
    record = make_record().batch("b", 0, 1, 2).obj()
    assert Batch("b", (0, 2)) == slots.open_slot(record, 1, (GONE,)).batch


def test_a_batch_of_the_slots_ordinal_alone_ends() -> None:
    record = make_record().batch("b", 1).obj()
    assert slots.open_slot(record, 1, (GONE,)).batch is None


def test_a_late_member_of_another_group_is_owed_beside_what_was() -> None:
    late = make_departure(OTHER)
    slot = slots.recapture(RECORDS[SlotState.CLEANUP], (late,)).slot
    assert slot is not None
    assert (GONE, late) == slot.departures


def test_a_late_member_of_the_same_group_joins_it_and_its_workload_stays_owed() -> None:
    late = make_departure(OTHER, workload_uid="w-other")
    again = Departure(1, GONE.group_name, dict(late.members), "w-other")
    slot = slots.recapture(RECORDS[SlotState.CLEANUP], (again,)).slot
    assert slot is not None
    (merged,) = slot.departures
    assert {OLD.uid: OLD.name, OTHER.uid: OTHER.name} == merged.members
    assert "w-old" == merged.workload_uid


def test_beginning_forgets_what_left_and_records_token_and_fingerprints() -> None:
    slot = slots.begin(RECORDS[SlotState.CLEANUP], "t2", ("f0", "f1")).slot
    assert slot is not None
    assert (1, "t2", ("f0", "f1")) == (slot.ordinal, slot.token, slot.fingerprints)
    assert () == slot.departures
    assert {} == slot.current_member_uids


def test_adopting_keeps_the_workload_that_was_seen_before() -> None:
    record = make_record().awaiting(DESIRED, 1, workload_uid="w-seen").obj()
    slot = slots.adopt(record, {"m0": "u0"}, "").slot
    assert slot is not None
    assert ({"m0": "u0"}, "w-seen") == (slot.current_member_uids, slot.current_workload_uid)


@pytest.mark.parametrize("why", [Transition.SUPERSEDE, Transition.REBUILD, Transition.CANCEL])
def test_going_back_to_cleanup_stays_on_the_ordinal_and_drops_the_attempt(why: Transition) -> None:
    slot = slots.reopen_slot(RECORDS[SlotState.WAITING_FOR_ADMISSION], why, (GONE,)).slot
    assert slot is not None
    assert (1, (GONE,), "", ()) == (slot.ordinal, slot.departures, slot.token, slot.fingerprints)


# --- what is captured ---


def test_one_departure_a_group_with_the_workload_that_a_member_owns() -> None:
    workload = make_workload().of(OLD).uid("w-old").obj()
    captured = slots.capture(1, [OLD, OTHER], {OLD.group_name: workload})
    assert (
        Departure(1, "g-late", {OTHER.uid: OTHER.name}),
        Departure(1, "g1", {OLD.uid: OLD.name}, "w-old"),
    ) == captured


@pytest.mark.parametrize("owners", [(), ("somebody",)], ids=["ownerless", "foreign"])
def test_a_workload_that_only_has_the_groups_name_is_not_captured(owners: tuple[str, ...]) -> None:
    workload = make_workload("g1").owned_by(*owners).obj()
    (departure,) = slots.capture(1, [OLD], {"g1": workload})
    assert "" == departure.workload_uid


@pytest.mark.parametrize("workloads", [{}, {"g1": None}], ids=["not read", "absent"])
def test_a_workload_that_was_not_seen_is_not_captured(workloads: dict[str, None]) -> None:
    (departure,) = slots.capture(1, [OLD], workloads)
    assert "" == departure.workload_uid


def test_a_workload_that_appears_later_is_owed_by_its_own_group_only() -> None:
    unseen, other = make_departure(OLD), make_departure(OTHER)
    record = make_record().cleaning(1, unseen, other).departing(unseen).obj()
    after = slots.with_workload_captured(record, "g1", "w-late")
    assert after.slot is not None
    assert ["w-late", ""] == [each.workload_uid for each in after.slot.departures]
    assert ["w-late"] == [each.workload_uid for each in after.departures]


def test_a_workload_that_appears_later_is_owed_without_a_slot_as_well() -> None:
    record = make_record().departing(make_departure(OLD)).obj()
    after = slots.with_workload_captured(record, "g1", "w-late")
    assert after.slot is None
    assert "w-late" == after.departures[0].workload_uid


# --- beside the slot ---


def test_surplus_is_owed_beside_earlier_surplus() -> None:
    record = make_record().departing(GONE).obj()
    late = make_departure(OTHER)
    assert (GONE, late) == slots.capture_surplus(record, (late,)).departures


@pytest.mark.parametrize(("achieved", "want"), [(3, 1), (1, 1), (0, 0)])
def test_after_a_shrink_no_more_is_achieved_than_is_declared(achieved: int, want: int) -> None:
    record = make_record().achieved(achieved).departing(GONE).obj()
    after = slots.forget_surplus(record, 1)
    assert (want, ()) == (after.achieved, after.departures)


def test_an_ordinal_that_left_draws_a_fresh_group_when_it_returns() -> None:
    record = make_record().batch("b", 0, 1).departing(GONE).obj()
    assert Batch("b", (0,)) == slots.forget_surplus(record, 1).batch


def test_a_batch_covers_what_it_was_opened_for_until_it_is_closed() -> None:
    opened = slots.open_batch(make_record().obj(), "b", (0, 2))
    assert Batch("b", (0, 2)) == opened.batch
    closed = slots.close_batch(opened, 3)
    assert (None, 3) == (closed.batch, closed.achieved)
