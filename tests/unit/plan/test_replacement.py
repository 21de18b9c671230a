"""How an open slot advances: cleanup, fresh members, a fresh admission, and back when it must."""

from collections.abc import Callable, Sequence

import pytest

from gpustack_deploy.model import identity
from gpustack_deploy.model.desired import Desired
from gpustack_deploy.model.observed import ObservedMember, ObservedWorkload
from gpustack_deploy.model.record import Departure, Slot, SlotPhase
from gpustack_deploy.plan.checks import WaitCode
from gpustack_deploy.plan.replacement import advance_slot
from gpustack_deploy.plan.slot import Transition
from gpustack_deploy.plan.step import (
    Await,
    Compose,
    Hold,
    Inspect,
    Remove,
    RemoveWorkload,
    Seat,
    Step,
    WriteRecord,
)
from tests.builders import (
    MemberBuilder,
    WorkloadBuilder,
    make_departure,
    make_desired,
    make_member,
    make_record,
    make_replica,
    make_workload,
    observe,
)

pytestmark = pytest.mark.check

PAIR = make_desired().replicas(2).size(2).obj()
GROUP = identity.group_name("chat", "decode", "t1")
OLD = [each.obj() for each in make_replica(make_desired().size(2).fingerprint("v0").obj(), 1)]

Change = Callable[[MemberBuilder], MemberBuilder]


def fresh(
    change: Change = lambda each: each, *, desired: Desired = PAIR
) -> tuple[ObservedMember, ObservedMember]:
    """The replacement's members, the follower changed."""
    leader, follower = (
        each.in_group(GROUP, "t1").uid(f"new-{seat}")
        for seat, each in enumerate(make_replica(desired, 1))
    )
    return leader.obj(), change(follower).obj()


FRESH = fresh()
QUEUED = tuple(MemberBuilder(each).gated().obj() for each in FRESH)
ADMITTED = make_workload().of(*FRESH).uid("w-new").admitted()


def slot_of(step: Step | None, transition: Transition) -> Slot:
    assert isinstance(step, WriteRecord), step
    assert transition is step.transition
    assert 1 == step.ordinal
    assert step.record.slot is not None
    return step.record.slot


def awaited(step: Step | None) -> WaitCode:
    assert isinstance(step, Await), step
    assert 1 == step.check.ordinal
    return step.check.code


def cleaning(
    *departures: Departure,
    members: Sequence[ObservedMember] = (),
    workloads: Sequence[ObservedWorkload] = (),
    absent: Sequence[str] = (),
    replicas: int = 2,
    now: float = 0.0,
) -> Step | None:
    desired = make_desired().replicas(replicas).size(2).obj()
    record = make_record().cleaning(1, *departures).obj()
    return advance_slot(
        observe(desired, record, *members, workloads=workloads, absent=absent, now=now)
    )


def awaiting(
    *members: ObservedMember,
    workload: WorkloadBuilder | None = None,
    is_absent: bool = False,
    known: Sequence[ObservedMember] = FRESH,
    workload_uid: str = "",
    desired: Desired = PAIR,
    wanted: Desired = PAIR,
) -> Step | None:
    """A slot for the replacement that `wanted` renders, seen under `desired`."""
    record = make_record().awaiting(wanted, 1, members=known, workload_uid=workload_uid).obj()
    return advance_slot(
        observe(
            desired,
            record,
            *members,
            workloads=[workload.obj()] if workload else [],
            absent=[GROUP] if is_absent else [],
        )
    )


def test_without_a_slot_there_is_nothing_to_advance() -> None:
    assert advance_slot(observe(PAIR, make_record().obj())) is None


# --- cleanup ---


def test_captured_members_are_removed() -> None:
    step = cleaning(make_departure(*OLD), members=OLD)
    assert isinstance(step, Remove)
    assert [each.uid for each in OLD] == [each.uid for each in step.members]


def test_a_slot_whose_members_are_gone_still_removes_their_workload() -> None:
    old = make_workload().of(*OLD).uid("w-old").obj()
    step = cleaning(make_departure(*OLD, workload_uid="w-old"), workloads=[old])
    assert isinstance(step, RemoveWorkload)
    assert "w-old" == step.workload.uid


def test_a_late_member_is_captured_with_its_workload_before_it_goes() -> None:
    late = make_member().of(PAIR, 1).in_group("late").uid("late").obj()
    departed = make_departure(*OLD)
    assert Inspect(("late",)) == cleaning(departed, members=[late])
    workload = make_workload().of(late).uid("w-late").obj()
    step = cleaning(departed, members=[late], workloads=[workload])
    slot = slot_of(step, Transition.RECAPTURE)
    assert (departed, Departure(1, "late", {"late": late.name}, "w-late")) == slot.departures
    assert isinstance(step, WriteRecord)
    assert "chat-decode-r1-m0 was created late by an earlier run" == step.cause


def test_a_stranger_on_the_freed_name_is_not_captured() -> None:
    stranger = make_member().of(PAIR, 1).owned_by("somebody").obj()
    step = cleaning(make_departure(*OLD), members=[stranger], absent=["g1"])
    slot_of(step, Transition.BEGIN)


def test_a_member_of_another_ordinal_is_not_captured() -> None:
    sibling = make_member().of(PAIR, 0).obj()
    slot_of(cleaning(make_departure(*OLD), members=[sibling], absent=["g1"]), Transition.BEGIN)


def test_a_vacant_ordinal_begins_with_a_fresh_token_and_the_newest_fingerprints() -> None:
    slot = slot_of(cleaning(make_departure(*OLD), absent=["g1"]), Transition.BEGIN)
    assert SlotPhase.WAITING_FOR_ADMISSION is slot.phase
    assert ("fresh", PAIR.member_fingerprints(1)) == (slot.token, slot.fingerprints)


def test_a_slot_that_captured_nothing_begins_at_once() -> None:
    slot_of(cleaning(), Transition.BEGIN)


def test_nothing_begins_while_the_ordinal_is_held() -> None:
    ended = [MemberBuilder(each).terminating().ended().obj() for each in OLD]
    step = cleaning(make_departure(*OLD), members=ended, absent=["g1"])
    assert WaitCode.ORDINAL_HELD is awaited(step)


def test_nothing_begins_while_the_old_workload_leaves() -> None:
    old = make_workload().of(*OLD).uid("w-old").terminating().obj()
    step = cleaning(make_departure(*OLD, workload_uid="w-old"), workloads=[old])
    assert WaitCode.WORKLOAD_TERMINATING is awaited(step)


def test_a_vacant_ordinal_that_is_no_longer_declared_closes_the_slot() -> None:
    step = cleaning(make_departure(*OLD), absent=["g1"], replicas=1)
    assert isinstance(step, WriteRecord)
    assert Transition.DROP is step.transition
    assert step.record.slot is None


def test_captured_members_leave_even_when_the_ordinal_is_no_longer_declared() -> None:
    assert isinstance(cleaning(make_departure(*OLD), members=OLD, replicas=1), Remove)


# --- composing ---


def test_the_groups_name_is_read_before_the_first_create() -> None:
    assert Inspect((GROUP,)) == awaiting(known=())


def test_every_seat_is_composed_under_the_slots_token() -> None:
    step = awaiting(known=(), is_absent=True)
    assert Compose((Seat(1, 0, GROUP, "t1"), Seat(1, 1, GROUP, "t1"))) == step


def test_a_create_whose_answer_was_lost_is_found_and_the_other_seat_filled() -> None:
    step = awaiting(QUEUED[1], known=(), is_absent=True)
    assert Compose((Seat(1, 0, GROUP, "t1"),)) == step


def test_a_foreign_workload_on_the_fresh_name_holds_and_is_named() -> None:
    stranger = make_workload(GROUP).uid("stranger").owned_by("x")
    step = awaiting(known=(), workload=stranger)
    assert isinstance(step, Hold)
    assert WaitCode.WORKLOAD_OCCUPIES is step.check.code
    assert f"Workload {GROUP} (uid stranger) is not of this replica" == step.check.reason


def test_members_that_stand_are_named_in_the_record() -> None:
    slot = slot_of(awaiting(*QUEUED, known=()), Transition.ADOPT)
    assert {each.name: each.uid for each in FRESH} == slot.current_member_uids
    assert "" == slot.current_workload_uid


def test_a_workload_that_was_seen_is_named_as_well() -> None:
    composed = make_workload().of(*QUEUED).uid("w-new")
    slot = slot_of(awaiting(*QUEUED, known=(), workload=composed), Transition.ADOPT)
    assert "w-new" == slot.current_workload_uid


# --- judging ---


def test_gated_members_are_awaited_without_reading_their_workload() -> None:
    assert WaitCode.NOT_ADMITTED is awaited(awaiting(*QUEUED))


def test_released_members_are_confirmed_by_their_workload() -> None:
    assert Inspect((GROUP,)) == awaiting(*FRESH)


@pytest.mark.parametrize(
    ("workload", "code"),
    [
        pytest.param(None, WaitCode.NO_WORKLOAD, id="none stands"),
        pytest.param(ADMITTED.owned_by("new-0"), WaitCode.NOT_OWNER, id="owned by one"),
        pytest.param(ADMITTED.having(local_queue="a100"), WaitCode.QUEUE_DIFFERS, id="queue"),
        pytest.param(
            make_workload().of(*FRESH).uid("w-new").reserved(), WaitCode.NOT_ADMITTED, id="reserved"
        ),
        pytest.param(ADMITTED.terminating(), WaitCode.WORKLOAD_TERMINATING, id="terminating"),
    ],
)
def test_the_slot_stays_open_until_the_admission_is_fresh(
    workload: WorkloadBuilder | None, code: WaitCode
) -> None:
    step = awaiting(*FRESH, workload=workload, is_absent=workload is None)
    assert code is awaited(step)


def test_the_slot_stays_open_until_the_gate_is_passed() -> None:
    unready = fresh(lambda each: each.unready())
    assert WaitCode.NOT_READY is awaited(awaiting(*unready, workload=ADMITTED))


def test_a_fresh_admission_and_the_gate_close_the_slot() -> None:
    step = awaiting(*FRESH, workload=ADMITTED)
    assert isinstance(step, WriteRecord)
    assert Transition.CLOSE is step.transition
    assert step.record.slot is None


# --- back to cleanup ---


@pytest.mark.parametrize(
    ("members", "cause"),
    [
        pytest.param([FRESH[0]], "a member of the replacement is gone", id="one is gone"),
        pytest.param([], "a member of the replacement is gone", id="both are gone"),
        pytest.param(
            fresh(lambda each: each.terminating()), "chat-decode-r1-m1 is leaving", id="leaving"
        ),
        pytest.param(
            fresh(lambda each: each.ended("Failed")),
            "chat-decode-r1-m1 ended as Failed",
            id="failed",
        ),
        pytest.param(
            fresh(lambda each: each.ended("Succeeded")),
            "chat-decode-r1-m1 ended as Succeeded",
            id="succeeded",
        ),
        pytest.param(
            fresh(lambda each: each.having(token="t0")),
            "chat-decode-r1-m1 was created late by an earlier run",
            id="a late create of an earlier run",
        ),
    ],
)
def test_a_broken_replacement_is_rebuilt_in_the_same_slot(
    members: Sequence[ObservedMember], cause: str
) -> None:
    step = awaiting(*members, is_absent=True)
    slot = slot_of(step, Transition.REBUILD)
    assert SlotPhase.CLEANUP is slot.phase
    assert isinstance(step, WriteRecord)
    assert cause == step.cause
    (departure,) = slot.departures
    assert {each.uid: each.name for each in FRESH} == departure.members


@pytest.mark.parametrize(
    ("workload", "cause"),
    [
        pytest.param(
            ADMITTED.condition("Evicted", reason="Preempted"),
            "its Workload was evicted (Preempted)",
            id="evicted",
        ),
        pytest.param(
            ADMITTED.condition("Finished"), "its Workload was evicted (Finished)", id="finished"
        ),
    ],
)
def test_a_replacement_that_kueue_gave_up_is_rebuilt(workload: WorkloadBuilder, cause: str) -> None:
    step = awaiting(*FRESH, workload=workload)
    slot = slot_of(step, Transition.REBUILD)
    assert isinstance(step, WriteRecord)
    assert cause == step.cause
    assert "w-new" == slot.departures[0].workload_uid


def test_an_eviction_that_is_over_is_none() -> None:
    step = awaiting(*FRESH, workload=ADMITTED.condition("Evicted", "False"))
    assert isinstance(step, WriteRecord)
    assert Transition.CLOSE is step.transition


def test_a_group_that_was_composed_short_is_rebuilt_not_topped_up() -> None:
    short = make_workload().of(QUEUED[0]).uid("w-short")
    step = awaiting(QUEUED[0], known=(), workload=short)
    slot = slot_of(step, Transition.REBUILD)
    assert isinstance(step, WriteRecord)
    assert "its Workload stands on 1 of 2" == step.cause
    assert "w-short" == slot.departures[0].workload_uid


def test_a_newer_declaration_takes_the_same_slot() -> None:
    newer = make_desired().replicas(2).size(2).fingerprint("v2").obj()
    step = awaiting(*QUEUED, workload=make_workload().of(*QUEUED).uid("w-new"), desired=newer)
    slot = slot_of(step, Transition.SUPERSEDE)
    (departure,) = slot.departures
    assert (GROUP, "w-new") == (departure.group_name, departure.workload_uid)
    assert {each.uid: each.name for each in FRESH} == departure.members


def test_another_size_is_a_newer_declaration() -> None:
    smaller = make_desired().replicas(2).size(1).obj()
    slot_of(awaiting(*QUEUED, is_absent=True, desired=smaller), Transition.SUPERSEDE)


def test_more_replicas_rebuild_nothing() -> None:
    more = make_desired().replicas(5).size(2).obj()
    assert WaitCode.NOT_ADMITTED is awaited(awaiting(*QUEUED, desired=more))


def test_fewer_replicas_cancel_the_replacement() -> None:
    fewer = make_desired().replicas(1).size(2).obj()
    step = awaiting(*QUEUED, is_absent=True, desired=fewer)
    slot = slot_of(step, Transition.CANCEL)
    assert isinstance(step, WriteRecord)
    assert "declared replicas are 1" == step.cause
    assert {each.uid: each.name for each in FRESH} == slot.departures[0].members


def test_nothing_goes_back_before_the_groups_workload_was_read() -> None:
    newer = make_desired().replicas(2).size(2).fingerprint("v2").obj()
    assert Inspect((GROUP,)) == awaiting(*QUEUED, desired=newer)


def test_the_workload_recorded_earlier_is_owed_even_when_it_is_not_seen() -> None:
    slot = slot_of(awaiting(FRESH[0], is_absent=True, workload_uid="w-seen"), Transition.REBUILD)
    assert "w-seen" == slot.departures[0].workload_uid


def test_a_strangers_workload_on_the_name_is_not_owed() -> None:
    stranger = make_workload(GROUP).uid("stranger").owned_by("x")
    slot = slot_of(awaiting(FRESH[0], workload=stranger), Transition.REBUILD)
    assert "" == slot.departures[0].workload_uid


def test_a_late_member_of_another_group_is_owed_as_its_own_departure() -> None:
    late = MemberBuilder(FRESH[1]).in_group("late", "t0").uid("late").obj()
    step = awaiting(FRESH[0], late, known=(), is_absent=True)
    slot = slot_of(step, Transition.REBUILD)
    assert {GROUP: {"new-0"}, "late": {"late"}} == {
        each.group_name: set(each.members) for each in slot.departures
    }


def test_an_attempt_of_which_nothing_stands_owes_nothing() -> None:
    newer = make_desired().replicas(2).size(2).fingerprint("v2").obj()
    slot = slot_of(awaiting(known=(), is_absent=True, desired=newer), Transition.SUPERSEDE)
    assert () == slot.departures


# --- an administrator's hold ---

HELD = ADMITTED.having(is_active=False)


def test_a_workload_that_somebody_switched_off_is_reported_not_answered() -> None:
    step = awaiting(*FRESH, workload=HELD.condition("Evicted", reason="Deactivated"))
    assert WaitCode.ADMINISTRATORS_HOLD is awaited(step)
    assert isinstance(step, Await)
    assert "set its spec.active to true again" in step.check.reason


def test_an_edit_does_not_get_round_the_hold() -> None:
    newer = make_desired().replicas(2).size(2).fingerprint("v2").obj()
    held = HELD.condition("Evicted", reason="Deactivated")
    assert WaitCode.ADMINISTRATORS_HOLD is awaited(awaiting(*FRESH, workload=held, desired=newer))


def test_what_is_no_longer_declared_leaves_all_the_same() -> None:
    fewer = make_desired().replicas(1).size(2).obj()
    held = HELD.condition("Evicted", reason="Deactivated")
    slot_of(awaiting(*FRESH, workload=held, desired=fewer), Transition.CANCEL)


def test_a_stopped_queue_is_a_hold_as_well() -> None:
    held = ADMITTED.condition("Evicted", reason="ClusterQueueStopped")
    step = awaiting(*FRESH, workload=held)
    assert WaitCode.ADMINISTRATORS_HOLD is awaited(step)
    assert isinstance(step, Await)
    assert "is stopped; resume it" in step.check.reason


def test_one_that_kueue_switched_off_after_too_many_requeues_is_rebuilt() -> None:
    reason = "DeactivatedDueToRequeuingLimitExceeded"
    step = awaiting(*FRESH, workload=HELD.condition("Evicted", reason=reason))
    slot_of(step, Transition.REBUILD)
