"""Which replica goes next: broken, never admitted, healthy; the highest ordinal of each first."""

from collections.abc import Callable
from typing import Any

import pytest

from gpustack_deploy.model import identity
from gpustack_deploy.model.desired import Desired
from gpustack_deploy.model.observed import ObservedMember, ObservedWorkload
from gpustack_deploy.model.record import Batch
from gpustack_deploy.plan.checks import WaitCode
from gpustack_deploy.plan.order import open_replacement
from gpustack_deploy.plan.slot import Transition
from gpustack_deploy.plan.snapshot import RoleView
from gpustack_deploy.plan.step import Await, Inspect, Step, WriteRecord
from tests.builders import (
    MemberBuilder,
    RecordBuilder,
    make_desired,
    make_member,
    make_record,
    make_replica,
    make_workload,
    observe,
)

pytestmark = pytest.mark.check

OLD = make_desired().replicas(3).obj()
NEW = make_desired().replicas(3).fingerprint("v2").obj()

BATCHED = identity.batch_group_name("chat", "decode", "b", 0)

Change = Callable[[MemberBuilder], MemberBuilder]


def a_role(
    *members: MemberBuilder,
    desired: Desired = NEW,
    record: RecordBuilder | None = None,
    is_read: bool = True,
) -> RoleView:
    """The members, each with a Workload of its own that was read; three replicas achieved."""
    seen = [each.obj() for each in members]
    workloads = [_workload_of(each) for each in seen] if is_read else []
    return observe(desired, (record or make_record().achieved(3)).obj(), *seen, workloads=workloads)


def _workload_of(member: ObservedMember) -> ObservedWorkload:
    workload = make_workload().of(member)
    return (workload if member.is_gated else workload.admitted()).obj()


def standing(ordinal: int, desired: Desired = OLD) -> MemberBuilder:
    return make_member().of(desired, ordinal)


def opened(step: Step | None) -> tuple[int | None, str]:
    assert isinstance(step, WriteRecord), step
    assert Transition.OPEN is step.transition
    assert step.record.slot is not None
    assert step.ordinal == step.record.slot.ordinal
    return step.ordinal, step.cause


def awaited(step: Step | None) -> tuple[WaitCode, int | None]:
    assert isinstance(step, Await), step
    return step.check.code, step.check.ordinal


def test_nothing_is_replaced_when_everything_is_current() -> None:
    role = a_role(*(standing(ordinal, NEW) for ordinal in range(3)))
    assert open_replacement(role) is None


def test_the_highest_of_healthy_outdated_replicas_goes_first() -> None:
    role = a_role(*(standing(ordinal) for ordinal in range(3)))
    assert (2, "built from an earlier declaration") == opened(open_replacement(role))


def test_one_that_is_not_ready_goes_before_ready_ones() -> None:
    role = a_role(standing(0), standing(1).unready(), standing(2))
    assert (1, "built from an earlier declaration") == opened(open_replacement(role))


def test_a_broken_one_goes_before_everything_and_says_how_short_it_is() -> None:
    role = a_role(standing(0).ended(), standing(1).gated(), standing(2))
    assert (0, "short of its members (0 of 1)") == opened(open_replacement(role))


def test_the_highest_of_broken_ones_goes_first() -> None:
    role = a_role(standing(0).ended(), standing(1).terminating(), standing(2))
    assert 1 == opened(open_replacement(role))[0]


def test_a_broken_one_of_the_current_declaration_is_rebuilt_as_well() -> None:
    role = a_role(standing(0, NEW), standing(1, NEW).terminating(), standing(2, NEW))
    assert (1, "short of its members (0 of 1)") == opened(open_replacement(role))


def test_a_replica_of_a_lost_record_says_so() -> None:
    record = make_record().achieved(3).having(former_uid="lost")
    role = a_role(standing(0, NEW), standing(1, NEW).owned_by("lost"), record=record)
    assert (1, "belongs to a record that is gone") == opened(open_replacement(role))


def test_a_replica_of_two_groups_says_so() -> None:
    pair = make_desired().size(2).obj()
    leader, follower = make_replica(pair)
    role = a_role(leader, follower.in_group("late"), desired=pair)
    assert (0, "its members are of 2 groups") == opened(open_replacement(role))


def test_one_that_was_never_admitted_goes_before_healthy_ones() -> None:
    role = a_role(standing(0).gated(), standing(1), standing(2))
    assert (0, "built from an earlier declaration, never admitted") == opened(
        open_replacement(role)
    )


def test_the_highest_of_those_never_admitted_goes_first() -> None:
    role = a_role(standing(0).gated(), standing(1).gated(), standing(2))
    assert 1 == opened(open_replacement(role))[0]


def test_a_queued_one_without_a_workload_was_never_admitted() -> None:
    seen = [standing(0).gated().obj(), standing(1).obj(), standing(2).obj()]
    role = observe(NEW, make_record().achieved(3).obj(), *seen, absent=["g0"])
    assert 0 == opened(open_replacement(role))[0]


def test_a_surplus_replica_is_no_candidate() -> None:
    fewer = make_desired().replicas(1).fingerprint("v2").obj()
    role = a_role(standing(0, fewer), standing(1), standing(2).ended(), desired=fewer)
    assert open_replacement(role) is None


# --- what was captured ---


def test_members_and_the_workload_they_own_are_captured() -> None:
    role = a_role(standing(0, NEW), standing(1, NEW), standing(2))
    step = open_replacement(role)
    assert isinstance(step, WriteRecord)
    assert step.record.slot is not None
    (departure,) = step.record.slot.departures
    assert {"uid-chat-decode-r2-m0": "chat-decode-r2-m0"} == departure.members
    assert ("g2", "workload-g2") == (departure.group_name, departure.workload_uid)


def test_nothing_is_opened_before_the_workload_was_read() -> None:
    assert Inspect(("g2",)) == open_replacement(
        a_role(*(standing(ordinal) for ordinal in range(3)), is_read=False)
    )


def test_a_broken_ones_workload_is_read_first_too() -> None:
    role = a_role(standing(0), standing(1).ended(), standing(2), is_read=False)
    assert Inspect(("g1",)) == open_replacement(role)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda each: each.having(node_name="n"), id="a node"),
        pytest.param(lambda each: each.having(has_container_status=True), id="a container status"),
    ],
)
def test_what_is_known_already_spares_the_read_of_a_queued_ones_workload(change: Change) -> None:
    role = a_role(change(standing(0).gated()), standing(1), standing(2), is_read=False)
    assert Inspect(("g0",)) != open_replacement(role)


def test_all_queued_ones_are_read_at_once() -> None:
    role = a_role(standing(0).gated(), standing(1), standing(2).gated(), is_read=False)
    assert Inspect(("g2", "g0")) == open_replacement(role)


# --- what a healthy one waits for ---


def test_a_healthy_one_waits_for_an_established_one_without_capacity() -> None:
    role = a_role(standing(0), standing(1, NEW).gated(), standing(2))
    assert (WaitCode.WAITING_FOR_CAPACITY, 1) == awaited(open_replacement(role))


def test_one_that_ran_and_is_queued_again_waits_for_its_readmission() -> None:
    queued = standing(1).gated()
    history = make_workload().of(queued.obj()).having(has_admission_history=True).obj()
    members = [standing(0).obj(), queued.obj(), standing(2).obj()]
    role = observe(NEW, make_record().achieved(3).obj(), *members, workloads=[history])
    assert (WaitCode.WAITING_FOR_READMISSION, 1) == awaited(open_replacement(role))


def test_a_missing_established_one_is_created_before_a_healthy_one_goes() -> None:
    assert open_replacement(a_role(standing(0), standing(2))) is None


@pytest.mark.parametrize("owed", [{"batch": Batch("b", (0,))}, {"parked": (0,)}])
def test_a_healthy_one_waits_until_one_made_outside_a_slot_is_ready(owed: dict[str, Any]) -> None:
    """Else an edit to an image that never gets Ready would take the last Ready replica down."""
    record = make_record().achieved(3).having(**owed)
    unready = standing(0, NEW).having(is_ready=False)
    waits = a_role(unready, standing(1), standing(2), record=record)
    assert (WaitCode.NOT_READY, 0) == awaited(open_replacement(waits))
    ready = a_role(standing(0, NEW), standing(1), standing(2), record=record)
    assert 2 == opened(open_replacement(ready))[0]


def test_new_ordinals_are_not_waited_for() -> None:
    record = make_record().achieved(2)
    role = a_role(standing(0), standing(1), standing(2, NEW).gated(), record=record)
    assert 1 == opened(open_replacement(role))[0]


def test_a_broken_one_waits_for_nobody() -> None:
    role = a_role(standing(0).gated(), standing(2).ended())
    assert 2 == opened(open_replacement(role))[0]


# --- a partial group of the batch ---


def test_a_partial_group_that_may_be_filled_is_not_rebuilt() -> None:
    pair = make_desired().size(2).obj()
    record = make_record().batch("b", 0)
    leader = make_member().of(pair).gated().in_group(BATCHED).obj()
    role = observe(pair, record.obj(), leader, absent=[leader.group_name])
    assert open_replacement(role) is None


def test_a_partial_group_that_kueue_composed_is_rebuilt() -> None:
    pair = make_desired().size(2).obj()
    record = make_record().batch("b", 0)
    leader = make_member().of(pair).gated().in_group(BATCHED).obj()
    role = observe(pair, record.obj(), leader, workloads=[make_workload().of(leader).obj()])
    assert (0, "short of its members (1 of 2)") == opened(open_replacement(role))
