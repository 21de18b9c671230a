"""A queued replacement does not hold the next replica when that one frees what both need (D6)."""

from dataclasses import replace

import pytest

from gpustack_deploy.model.desired import Desired
from gpustack_deploy.model.observed import Condition, ConditionStatus, ObservedWorkload
from gpustack_deploy.plan import simulate as simulation
from gpustack_deploy.plan.order import releases_enough
from gpustack_deploy.plan.planner import next_step
from gpustack_deploy.plan.replacement import PARK_AFTER_SECONDS
from gpustack_deploy.plan.simulate import World, simulate
from gpustack_deploy.plan.slot import Transition
from gpustack_deploy.plan.snapshot import RoleView
from gpustack_deploy.plan.step import Await, Done, Inspect, Step, WriteRecord
from tests.builders import make_desired

pytestmark = pytest.mark.check

GPU = "nvidia.com/gpu"


def declared(replicas: int, gpus: int, fingerprint: str) -> Desired:
    desired = make_desired().replicas(replicas).obj()
    return replace(desired, requests={GPU: str(gpus), "cpu": "1"}, fingerprint=fingerprint)


def stand(desired: Desired, *, gpus: int, capacity: int | None = 8) -> World:
    _, world = simulate(desired, World(capacity=capacity, cost=gpus))
    return world


def transitions(steps: tuple[Step, ...]) -> list[tuple[Transition, int | None]]:
    return [(step.transition, step.ordinal) for step in steps if isinstance(step, WriteRecord)]


def test_halving_the_cards_and_doubling_the_replicas_converges_in_one_edit() -> None:
    world = stand(declared(2, 4, "big"), gpus=4)
    steps, after = simulate(declared(4, 2, "small"), replace(world, cost=2))
    assert isinstance(steps[-1], Done)
    assert 4 == len(after.workloads)
    assert 8 == simulation.used(after)


def test_it_converges_with_the_growth_queued_by_an_earlier_run() -> None:
    world = stand(declared(2, 4, "big"), gpus=4)
    steps, world = simulate(declared(4, 4, "big"), world)
    assert isinstance(steps[-1], Await)
    steps, after = simulate(declared(4, 2, "small"), replace(world, cost=2))
    assert isinstance(steps[-1], Done)
    assert 4 == len(after.workloads)
    assert 8 == simulation.used(after)
    assert (Transition.PARK, 3) in transitions(steps)
    assert after.record is not None
    assert () == after.record.parked


def test_a_replacement_that_needs_more_holds_the_next_one() -> None:
    world = stand(declared(2, 4, "small"), gpus=4)
    steps, after = simulate(declared(2, 5, "big"), replace(world, cost=5))
    assert isinstance(steps[-1], Await)
    assert Transition.PARK not in [transition for transition, _ in transitions(steps)]
    assert after.record is not None
    assert after.record.slot is not None
    assert 4 == simulation.used(after)


def waiting(desired: Desired, world: World) -> World:
    """Go on until the replacement of the highest ordinal stands and Kueue composed its Workload."""
    while True:
        step = next_step(desired, world.snapshot(), world.record)
        if isinstance(step, Await) and world.record and world.record.slot:
            standing = [m for m in world.members if m.ordinal == world.record.slot.ordinal]
            if standing and all(m.fingerprint != "" and m.is_gated for m in standing):
                return simulation.compose(world, standing[0].group_name)
        world = (
            replace(simulation.settle(world), read=frozenset())
            if isinstance(step, Await)
            else simulation.act(desired, world, step)
        )


def refused(workload: ObservedWorkload, since: float) -> ObservedWorkload:
    pending = Condition(ConditionStatus.FALSE, "Pending", "no quota", since)
    return replace(workload, conditions={"QuotaReserved": pending})


def test_a_group_that_was_just_composed_is_not_parked() -> None:
    old, new = declared(2, 4, "big"), declared(2, 2, "small")
    world = waiting(new, replace(stand(old, gpus=4), cost=2))
    assert world.record is not None
    assert world.record.slot is not None
    (group,) = {m.group_name for m in world.members if m.is_gated}
    step = next_step(new, replace(world, read=frozenset()).snapshot(), world.record)
    assert Inspect((group,)) == step
    world = replace(world, read=frozenset({group}), now=1000.0)
    assert isinstance(next_step(new, world.snapshot(), world.record), Await)
    workloads = {**world.workloads, group: refused(world.workloads[group], 0.0)}
    early = replace(world, workloads=workloads, now=PARK_AFTER_SECONDS - 1)
    step = next_step(new, early.snapshot(), world.record)
    assert isinstance(step, Await)
    assert PARK_AFTER_SECONDS == step.wake_at
    late = replace(early, now=PARK_AFTER_SECONDS)
    step = next_step(new, late.snapshot(), world.record)
    assert isinstance(step, WriteRecord)
    assert Transition.PARK is step.transition
    assert (1,) == step.record.parked
    assert step.record.slot is None


@pytest.mark.parametrize(
    ("was", "becomes", "is_enough"),
    [
        pytest.param({GPU: "4"}, {GPU: "2", "cpu": "9"}, True, id="half the cards"),
        pytest.param({GPU: "4"}, {GPU: "3"}, False, id="more than half"),
        pytest.param({"cpu": "4"}, {GPU: "1"}, False, id="other devices"),
        pytest.param({"cpu": "4", "memory": "4Gi"}, {"cpu": "2", "memory": "2Gi"}, True, id="cpu"),
        pytest.param({"cpu": "4", "memory": "4Gi"}, {"cpu": "2", "memory": "3Gi"}, False, id="ram"),
        pytest.param({GPU: "4e0"}, {GPU: "1"}, False, id="an unreadable amount"),
        pytest.param({}, {}, False, id="nothing"),
    ],
)
def test_what_the_next_one_releases_is_compared_by_devices(
    was: dict[str, str], becomes: dict[str, str], is_enough: bool
) -> None:
    old = replace(declared(2, 1, "old"), requests=was)
    new = replace(declared(2, 1, "new"), requests=becomes)
    world = stand(old, gpus=1)
    assert world.record is not None
    role = RoleView(desired=new, snapshot=world.snapshot(), record=world.record)
    assert is_enough is releases_enough(role, 1)
    elsewhere = replace(role, desired=replace(new, local_queue="other"))
    assert not releases_enough(elsewhere, 1)
