"""How a role leaves: everything it owns is captured, removed by UID, Services last."""

from dataclasses import replace

import pytest

from gpustack_deploy.plan.simulate import World, act, settle, simulate
from gpustack_deploy.plan.slot import Transition
from gpustack_deploy.plan.snapshot import RoleView
from gpustack_deploy.plan.step import (
    Await,
    Done,
    Inspect,
    PruneServices,
    Remove,
    RemoveWorkload,
    Step,
    Withdraw,
    WriteRecord,
)
from gpustack_deploy.plan.teardown import next_teardown_step
from tests.builders import (
    make_departure,
    make_desired,
    make_member,
    make_record,
    make_workload,
    observe,
)

pytestmark = pytest.mark.check

PAIRS = make_desired().replicas(2).size(2)
DESIRED = PAIRS.obj()


def tear_down(world: World) -> tuple[list[Step], World]:
    """Take each step with a fair cluster until it is done."""
    steps: list[Step] = []
    for _ in range(200):
        assert world.record is not None
        step = next_teardown_step(RoleView(DESIRED, world.snapshot(), world.record))
        if isinstance(step, Done):
            return steps, world
        if isinstance(step, Await):
            moved = settle(world)
            if moved == world and step.wake_at is not None:
                moved = replace(world, now=step.wake_at)
            assert moved != world, step
            world = replace(moved, read=frozenset())
        else:
            steps.append(step)
            world = act(DESIRED, world, step)
    raise AssertionError(steps[-3:])


def standing() -> World:
    return simulate(DESIRED, World())[1]


def test_nothing_of_the_role_is_left_but_its_record() -> None:
    steps, after = tear_down(standing())
    assert ((), {}, ()) == (after.members, after.workloads, after.services)
    assert after.record is not None
    order = [type(step) for step in steps if not isinstance(step, Inspect)]
    assert [
        WriteRecord,
        Remove,
        Remove,
        RemoveWorkload,
        RemoveWorkload,
        PruneServices,
    ] == order


def test_a_queued_replacement_leaves_with_the_rest() -> None:
    full = simulate(DESIRED, World(capacity=4))[1]
    queued = simulate(PAIRS.size(3).obj(), full)[1]
    assert queued.record is not None
    assert queued.record.slot is not None
    _, after = tear_down(replace(queued, read=frozenset()))
    assert ((), {}, ()) == (after.members, after.workloads, after.services)


def test_what_an_open_slot_and_a_scale_down_owe_is_kept() -> None:
    in_slot, surplus = make_member().of(DESIRED, 1).obj(), make_member().of(DESIRED, 2).obj()
    other = make_member().of(DESIRED, 0).obj()
    record = (
        make_record()
        .cleaning(1, make_departure(in_slot, workload_uid="w1"))
        .departing(make_departure(surplus, workload_uid="w2"))
        .obj()
    )
    workload = make_workload().of(other).uid("w0").obj()
    role = observe(DESIRED, record, other, in_slot, surplus, workloads=[workload])
    step = next_teardown_step(role)
    assert isinstance(step, WriteRecord)
    assert Transition.CAPTURE_SURPLUS is step.transition
    assert record.slot == step.record.slot
    assert [("g2", "w2"), ("g0", "w0")] == [
        (each.group_name, each.workload_uid) for each in step.record.departures
    ]


def test_workloads_are_read_before_their_members_are_captured() -> None:
    role = observe(DESIRED, make_record().obj(), make_member().of(DESIRED).obj())
    assert Inspect(("g0",)) == next_teardown_step(role)


def test_a_member_without_an_ordinal_leaves_as_well() -> None:
    lost = make_member().of(DESIRED).having(ordinal=None).obj()
    step = next_teardown_step(observe(DESIRED, make_record().obj(), lost, absent=["g0"]))
    assert isinstance(step, WriteRecord)
    assert [{lost.uid: lost.name}] == [dict(each.members) for each in step.record.departures]
    again = next_teardown_step(observe(DESIRED, step.record, lost, absent=["g0"]))
    assert isinstance(again, Remove)


def test_a_replica_that_cannot_be_read_leaves_as_well() -> None:
    odd = make_member().of(DESIRED).total(None).obj()
    step = next_teardown_step(observe(DESIRED, make_record().obj(), odd, absent=["g0"]))
    assert isinstance(step, WriteRecord)


def test_strangers_stay() -> None:
    stranger = make_member().of(DESIRED).owned_by("somebody").obj()
    world = standing()
    foreign = replace(world.services[0], name="theirs", owner_uid="somebody")
    role = observe(DESIRED, make_record().obj(), stranger, services=[foreign])
    assert Done() == next_teardown_step(role)


def test_a_service_that_is_leaving_is_not_deleted_again() -> None:
    world = standing()
    assert world.record is not None
    leaving = [replace(each, is_terminating=True) for each in world.services]
    assert Done() == next_teardown_step(observe(DESIRED, world.record, services=leaving))


def test_the_routing_label_is_withdrawn_before_members_go() -> None:
    external = PAIRS.external_dp().obj()
    world = simulate(external, World())[1]
    steps, _ = tear_down(replace(world, read=frozenset()))
    order = [type(step) for step in steps]
    assert order.index(Withdraw) < order.index(Remove)
