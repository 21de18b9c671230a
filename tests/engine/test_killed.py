"""A process that ends at any call, before or after it was served: the next run makes good."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from gpustack_deploy.engine.cluster import POD
from gpustack_deploy.model.errors import ReplacementHeld
from gpustack_deploy.model.state import RoleState
from tests.declarations import role
from tests.engine.driver import Stage, decode, kill_points, sibling, standing
from tests.fakes.faults import FaultyCluster, Killed

pytestmark = pytest.mark.core

PLAIN = role(replicas=2, size=2)
EDITED = role(replicas=2, size=2, env=[{"name": "A", "value": "b"}])
GROWN = role(replicas=2, size=3)


def sweep(stage: Stage, main: Callable[[Stage], object], then: Callable[[Stage], None]) -> int:
    """Let the run end at every moment that leaves something of its own behind."""
    points = kill_points(stage, main)
    for point in points:
        then(point)
    return len(points)


def test_a_create_that_ended_anywhere_is_finished_by_the_next_one() -> None:
    def again(stage: Stage) -> None:
        stage.create(PLAIN)
        stage.assert_stands(PLAIN)

    assert 10 < sweep(Stage(gpus=4), lambda stage: stage.create(PLAIN), again)


def test_a_size_edit_that_ended_anywhere_is_finished_by_the_next_run() -> None:
    stage, state = standing(PLAIN, gpus=6)

    def again(point: Stage) -> None:
        point.update(GROWN, state)
        point.assert_stands(GROWN)

    assert 20 < sweep(stage, lambda stage: stage.update(GROWN, state), again)


def test_an_edit_that_ended_anywhere_can_be_taken_back() -> None:
    stage, state = standing(role(replicas=1, size=2), gpus=3)
    edited = role(replicas=1, size=3)

    def taken_back(point: Stage) -> None:
        point.update(role(replicas=1, size=2), state)
        point.assert_stands(role(replicas=1, size=2))

    assert 10 < sweep(stage, lambda stage: stage.update(edited, state), taken_back)


def test_a_role_whose_edit_ended_anywhere_can_be_destroyed() -> None:
    stage, state = standing(role(replicas=1, size=2), gpus=3)

    def destroyed(point: Stage) -> None:
        point.destroy(state)
        point.assert_gone()

    edited = role(replicas=1, size=3)
    assert 10 < sweep(stage, lambda stage: stage.update(edited, state), destroyed)


def test_a_shrink_that_ended_anywhere_is_finished_by_the_next_run() -> None:
    stage, state = standing(PLAIN)

    def again(point: Stage) -> None:
        point.update(role(replicas=1, size=2), state)
        point.assert_stands(role(replicas=1, size=2))

    assert 5 < sweep(stage, lambda stage: stage.update(role(replicas=1, size=2), state), again)


def test_a_second_edit_that_ended_anywhere_is_finished_by_the_next_run() -> None:
    stage, state = standing(role(replicas=2, resources={"count": 2}), gpus=4)
    with pytest.raises(ReplacementHeld):
        stage.update(
            role(replicas=2, resources={"count": 8}, rollout={"deadlineSeconds": 60}), state
        )
    second = role(replicas=2, resources={"count": 2})

    def again(point: Stage) -> None:
        point.update(second, state)
        point.assert_stands(second)

    assert 10 < sweep(stage, lambda stage: stage.update(second, state), again)


def test_a_destroy_that_ended_anywhere_is_finished_by_the_next_one() -> None:
    stage, state = standing(PLAIN)

    def again(point: Stage) -> None:
        point.destroy(state)
        point.assert_gone()

    assert 5 < sweep(stage, lambda stage: stage.destroy(state), again)


def test_the_sibling_of_a_role_whose_edit_ended_anywhere_is_not_touched() -> None:
    stage = Stage(gpus=3)
    stage.create(sibling())
    state = stage.create(decode())
    stage.settle()
    prefill = stage.cluster.peek(POD, "chat-prefill-r0-m0")

    def again(point: Stage) -> None:
        point.update(decode(size=2), state)
        point.assert_stands(decode(size=2))
        assert prefill == point.cluster.peek(POD, "chat-prefill-r0-m0")

    assert 10 < sweep(stage, lambda stage: stage.update(decode(size=2), state), again)


@pytest.mark.parametrize("number", [1, 9, 14, 40])
@pytest.mark.parametrize("moment", ["stop_before", "stop_after_served"])
def test_a_killed_process_makes_no_further_call(moment: str, number: int) -> None:
    stage, state = standing(PLAIN)
    dying = FaultyCluster(stage.cluster)
    getattr(dying, moment)(number)
    with suppress(Killed, BaseExceptionGroup):
        stage.update(EDITED, state, through=dying)
    assert dying.is_stopped
    recovered(stage, state)


def recovered(stage: Stage, state: RoleState) -> None:
    stage.update(EDITED, state)
    stage.assert_stands(EDITED)
