"""The world as values: what a preview shows, and that the cluster's side of it is as unkind."""

from dataclasses import replace

import pytest

from gpustack_deploy.model.desired import Desired
from gpustack_deploy.model.record import SlotPhase
from gpustack_deploy.plan import simulate as simulation
from gpustack_deploy.plan.checks import WaitCode
from gpustack_deploy.plan.simulate import World, act, settle, simulate, used
from gpustack_deploy.plan.slot import Transition
from gpustack_deploy.plan.step import (
    Await,
    Compose,
    CreateRecord,
    Done,
    Hold,
    ObjectRef,
    PruneServices,
    Remove,
    RemoveWorkload,
    Seat,
    Step,
    SyncServices,
    Withdraw,
    WriteRecord,
)
from tests.builders import DesiredBuilder, make_desired

pytestmark = pytest.mark.check

TWO = make_desired().replicas(2)


def standing(desired: Desired, world: World | None = None) -> World:
    """The world after that declaration was rolled out."""
    steps, after = simulate(desired, world or World())
    assert Done() == steps[-1], steps[-1]
    return replace(after, read=frozenset())


def told(steps: tuple[Step, ...]) -> list[str]:
    """What a reader of a preview follows: the record's transitions with their ordinals."""
    return [
        f"{step.transition} {'' if step.ordinal is None else step.ordinal}".strip()
        for step in steps
        if isinstance(step, WriteRecord)
    ]


def kinds(steps: tuple[Step, ...]) -> list[type]:
    return [type(step) for step in steps]


# --- the plans a preview shows ---


def test_a_create_writes_the_record_then_services_then_the_batch_then_members() -> None:
    steps, world = simulate(TWO.obj(), World())
    known = {CreateRecord, SyncServices, WriteRecord, Compose, Done}
    assert [CreateRecord, SyncServices, WriteRecord, Compose, WriteRecord, Done] == [
        each for each in kinds(steps) if each in known
    ]
    assert ["open-batch", "close-batch"] == told(steps)
    assert ["chat-decode-r0-m0", "chat-decode-r1-m0"] == sorted(each.name for each in world.members)


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(TWO.size(2), id="size up"),
        pytest.param(TWO.fingerprint("v2"), id="a rendered field"),
        pytest.param(TWO.queue("a100").fingerprint("v2"), id="another queue"),
        pytest.param(TWO.take_over().fingerprint("v2"), id="a command of its own"),
    ],
)
def test_an_edit_replaces_one_replica_after_the_other_highest_first(
    edit: DesiredBuilder,
) -> None:
    before = standing(TWO.obj())
    steps, after = simulate(edit.obj(), before)
    assert [
        f"{edge} {ordinal}" for ordinal in (1, 0) for edge in ("open", "begin", "adopt", "close")
    ] == told(steps)
    assert Done() == steps[-1]
    old = {each.uid for each in before.members}
    assert old.isdisjoint(each.uid for each in after.members)
    assert {each.uid for each in before.workloads.values()}.isdisjoint(
        each.uid for each in after.workloads.values()
    )
    assert 2 == len(after.workloads)


def test_an_edit_keeps_record_services_and_addresses() -> None:
    before = standing(TWO.size(2).obj())
    after = standing(TWO.size(3).obj(), before)
    assert before.record is not None
    assert after.record is not None
    assert before.record.uid == after.record.uid
    assert {(each.uid, each.cluster_ip) for each in before.services} == {
        (each.uid, each.cluster_ip) for each in after.services
    }


def test_more_replicas_restart_nobody() -> None:
    before = standing(TWO.obj())
    steps, after = simulate(TWO.replicas(4).obj(), before)
    assert ["open-batch", "close-batch"] == told(steps)
    assert {each.uid for each in before.members} <= {each.uid for each in after.members}


def test_fewer_replicas_leave_highest_first_and_restart_nobody() -> None:
    before = standing(TWO.replicas(4).obj())
    steps, after = simulate(TWO.obj(), before)
    assert ["capture-surplus 3", "forget-surplus"] == told(steps)
    assert [3, 2] == [step.ordinal for step in steps if isinstance(step, Remove)]
    assert {each.uid for each in after.members} < {each.uid for each in before.members}


def test_the_same_declaration_again_takes_no_step() -> None:
    assert (Done(),) == simulate(TWO.obj(), standing(TWO.obj()))[0]


def test_a_plan_without_enough_quota_ends_with_what_is_awaited() -> None:
    steps, world = simulate(TWO.obj(), World(capacity=1))
    assert isinstance(steps[-1], Await)
    assert WaitCode.NOT_ADMITTED is steps[-1].check.code
    assert 1 == used(world)


def test_shrinking_frees_what_an_edit_needs() -> None:
    full = standing(TWO.replicas(4).obj(), World(capacity=4))
    steps, after = simulate(TWO.size(2).obj(), full)
    assert Done() == steps[-1]
    assert 4 == used(after)


def test_a_foreign_service_ends_the_plan_with_a_hold() -> None:
    before = standing(TWO.obj())
    foreign = replace(before.services[0], owner_uid="somebody")
    steps, _ = simulate(TWO.obj(), replace(before, services=(foreign,)))
    assert isinstance(steps[-1], Hold)


def test_an_edit_while_the_first_is_queued_takes_the_same_slot() -> None:
    full = standing(make_desired().obj(), World(capacity=1))
    queued = simulate(make_desired().size(2).obj(), full)[1]
    assert queued.record is not None
    assert queued.record.slot is not None
    assert SlotPhase.WAITING_FOR_ADMISSION is queued.record.slot.phase
    steps, after = simulate(make_desired().fingerprint("v2").obj(), queued)
    assert ["supersede 0", "begin 0", "adopt 0", "close 0"] == told(steps)
    assert Done() == steps[-1]
    assert 1 == len(after.workloads)


def test_a_shrink_past_the_queued_replacement_cancels_it() -> None:
    full = standing(TWO.obj(), World(capacity=2))
    queued = simulate(TWO.size(2).obj(), full)[1]
    steps, after = simulate(make_desired().obj(), queued)
    assert "cancel 1" in told(steps)
    assert "drop 1" in told(steps)
    assert ["chat-decode-r0-m0"] == [each.name for each in after.members]


def test_a_plan_that_goes_round_in_circles_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    circle = PruneServices(())
    monkeypatch.setattr(simulation, "next_step", lambda *_: circle)
    with pytest.raises(RuntimeError, match="no end after"):
        simulate(make_desired().obj(), World())


# --- what time alone does ---


def test_time_passes_until_a_members_grace_is_over() -> None:
    world = standing(make_desired().obj())
    stuck = replace(world, members=tuple(replace(each, phase="Running") for each in world.members))
    steps, after = simulate(make_desired().fingerprint("v2").obj(), stuck)
    assert Done() == steps[-1]
    assert stuck.now <= after.now


# --- the cluster's side ---


def created(desired: Desired) -> World:
    """Every member is created and nothing else happened."""
    world = act(desired, World(), CreateRecord())
    seats = tuple(
        Seat(ordinal, seat, f"g{ordinal}", "t")
        for ordinal in range(desired.replicas)
        for seat in range(desired.size)
    )
    return act(desired, world, Compose(seats))


def test_a_group_is_composed_only_when_it_is_whole() -> None:
    pair = make_desired().size(2).obj()
    world = act(pair, World(), CreateRecord())
    half = act(pair, world, Compose((Seat(0, 0, "g0", "t"),)))
    assert {} == simulation.compose(half, "g0").workloads
    whole = act(pair, half, Compose((Seat(0, 1, "g0", "t"),)))
    assert {"g0"} == simulation.compose(whole, "g0").workloads.keys()


def test_a_member_that_stands_is_not_created_twice() -> None:
    world = created(make_desired().obj())
    again = act(make_desired().obj(), world, Compose((Seat(0, 0, "other", "t2"),)))
    assert world.members == again.members


def test_nobody_is_created_without_a_record() -> None:
    assert () == act(make_desired().obj(), World(), Compose((Seat(0, 0, "g", "t"),))).members


def test_members_deleted_alone_stay_and_hold_their_quota() -> None:
    desired = make_desired().obj()
    world = settle(created(desired))
    refs = tuple(ObjectRef(each.name, each.uid) for each in world.members)
    after = settle(act(desired, world, Remove(0, refs)))
    assert [True] == [each.is_terminating for each in after.members]
    assert 1 == used(after)


def test_deleting_the_workload_removes_its_members_and_frees_their_quota() -> None:
    desired = make_desired().obj()
    world = settle(created(desired))
    step = RemoveWorkload(0, ObjectRef("g0", world.workloads["g0"].uid))
    after = settle(act(desired, world, step))
    assert ((), {}, 0) == (after.members, after.workloads, used(after))


def test_a_workload_of_another_uid_is_not_deleted() -> None:
    desired = make_desired().obj()
    world = settle(created(desired))
    assert world == act(desired, world, RemoveWorkload(0, ObjectRef("g0", "another")))


def test_a_dying_member_may_be_composed_again() -> None:
    desired = make_desired().obj()
    world = settle(created(desired))
    (member,) = world.members
    world = act(desired, world, Remove(0, (ObjectRef(member.name, member.uid),)))
    world = replace(world, workloads={})
    assert {"g0"} == simulation.compose(world, "g0").workloads.keys()


def test_nothing_ends_that_is_not_leaving_and_nothing_starts_that_is_gated() -> None:
    world = created(make_desired().obj())
    (member,) = world.members
    assert world == simulation.end(world, member.uid)
    assert world == simulation.start(world, member.uid)
    assert world == simulation.start(world, "nobody")


def test_admission_waits_for_capacity() -> None:
    world = simulation.compose(replace(created(make_desired().obj()), capacity=0), "g0")
    refused = simulation.admit(world, "g0")
    assert not refused.workloads["g0"].is_admitted
    assert "Pending" == refused.workloads["g0"].condition("QuotaReserved").reason
    assert refused == simulation.admit(refused, "g0")
    assert world == simulation.admit(world, "nothing")


def test_a_withdrawn_member_answers_no_more() -> None:
    world = created(make_desired().obj())
    (member,) = world.members
    step = Withdraw((ObjectRef(member.name, member.uid),))
    assert [False] == [each.answers_api for each in act(make_desired().obj(), world, step).members]


@pytest.mark.parametrize("step", [Done(), Hold(check=None)], ids=["done", "hold"])  # type: ignore[arg-type]
def test_what_changes_nothing_changes_nothing(step: Step) -> None:
    world = created(make_desired().obj())
    assert world == act(make_desired().obj(), world, step)


def test_every_transition_of_a_preview_is_one_of_the_table() -> None:
    steps, _ = simulate(TWO.size(2).obj(), standing(TWO.replicas(3).obj()))
    assert {each.split()[0] for each in told(steps)} <= {str(each) for each in Transition}


def test_a_member_on_an_empty_seat_of_a_composed_group_is_taken_in_and_let_go() -> None:
    pair = make_desired().size(2).obj()
    world = settle(created(pair))
    lost = world.members[0]
    world = replace(world, members=world.members[1:])
    world = settle(act(pair, world, Compose((Seat(0, 0, "g0", "t"),))))
    assert {each.uid for each in world.members} == world.workloads["g0"].owner_uids
    assert lost.uid not in world.workloads["g0"].owner_uids
    assert [] == [each.name for each in world.members if each.is_gated]


def test_a_workload_whose_owners_are_all_gone_is_garbage() -> None:
    world = settle(created(make_desired().obj()))
    assert {} == settle(replace(world, members=())).workloads
