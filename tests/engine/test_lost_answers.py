"""A write that was served and whose answer never came: this run or the next one makes good."""

from collections.abc import Callable

import pytest

from gpustack_deploy.model.errors import Unreachable
from gpustack_deploy.model.state import RoleState
from tests.declarations import role
from tests.engine.driver import Stage, standing
from tests.fakes.faults import Call, FaultyCluster

pytestmark = pytest.mark.core

PLAIN = role(replicas=1, size=2)
GROWN = role(replicas=1, size=3)


def is_write(call: Call) -> bool:
    return call.is_write


def each_lost(stage: Stage, run: Callable[[Stage, FaultyCluster], object]) -> int:
    """Lose the answer to each write of the run in turn; run again where the run gave up."""
    number = 0
    while True:
        number += 1
        point = stage.fork()
        lossy = FaultyCluster(point.cluster, counts=is_write)
        lossy.lose_answer(number)
        try:
            run(point, lossy)
        except Unreachable:
            run(point, lossy)
        if lossy.numbered < number:
            return number - 1


def test_each_lost_answer_of_a_size_edit() -> None:
    stage, state = standing(PLAIN, gpus=3)

    def edit(point: Stage, lossy: FaultyCluster) -> None:
        point.update(GROWN, state, through=lossy)
        point.assert_stands(GROWN)

    assert 10 < each_lost(stage, edit)


def test_each_lost_answer_of_a_create() -> None:
    def create(point: Stage, lossy: FaultyCluster) -> None:
        point.create(PLAIN, through=lossy)
        point.assert_stands(PLAIN)

    assert 5 < each_lost(Stage(gpus=2), create)


def test_each_lost_answer_of_a_destroy() -> None:
    stage, state = standing(role(replicas=2, size=2))

    def destroy(point: Stage, lossy: FaultyCluster) -> None:
        point.destroy(state, through=lossy)
        point.assert_gone()

    assert 5 < each_lost(stage, destroy)


def test_each_lost_answer_of_an_edit_that_moves_a_service_and_shrinks() -> None:
    stage, state = standing(role(replicas=2, size=2))
    edited = role(replicas=1, size=2, service={"annotations": {"a": "1"}})

    def edit(point: Stage, lossy: FaultyCluster) -> None:
        point.update(edited, state, through=lossy)
        point.assert_stands(edited)

    assert 5 < each_lost(stage, edit)


def test_a_create_whose_record_answer_was_lost_goes_on_with_its_own_record() -> None:
    stage = Stage()
    lossy = FaultyCluster(stage.cluster, counts=is_write)
    lossy.lose_answer(1)
    state: RoleState = stage.create(PLAIN, through=lossy)
    assert state.record_uid == stage.record().uid
    stage.assert_stands(PLAIN)


def test_each_call_that_fails_before_it_is_served_is_made_good_in_the_same_run() -> None:
    stage, state = standing(PLAIN, gpus=3)
    total = len(_writes(stage.fork(), state))
    for number in range(1, total + 1):
        point = stage.fork()
        failing = FaultyCluster(point.cluster)
        _fail_nth_write(failing, number)
        point.update(GROWN, state, through=failing)
        point.assert_stands(GROWN)


def _writes(stage: Stage, state: RoleState) -> list[Call]:
    seen = FaultyCluster(stage.cluster)
    stage.update(GROWN, state, through=seen)
    return seen.writes


def _fail_nth_write(failing: FaultyCluster, number: int) -> None:
    made: list[Call] = []

    def is_due(call: Call) -> bool:
        if call.is_write:
            made.append(call)
        return call.is_write and len(made) == number

    failing.fail(is_due)
