"""Killed at any call, before it or after it was served: the next run ends as declared, leak-free.

Every tier takes another part of the calls; together `check` and `ci` take each of them.
"""

from collections.abc import Callable, Coroutine
from functools import cache
from typing import Any, NamedTuple

import pytest

from gpustack_deploy.engine.cluster import Cluster
from gpustack_deploy.engine.replacement import create_role, update_role
from gpustack_deploy.engine.run import RunContext
from gpustack_deploy.engine.teardown import delete_role
from gpustack_deploy.model.errors import Unreachable
from gpustack_deploy.model.role import RoleDeclaration
from gpustack_deploy.model.state import RoleState
from tests.declarations import role
from tests.engine_stage import Stage
from tests.fakes.faults import FaultyCluster

Doomed = Callable[[Cluster, RunContext], Coroutine[Any, Any, object]]


def declared(**fields: object) -> RoleDeclaration:
    return role(**{"replicas": 2, "resources": {"count": 2}, **fields})


TWO, PAIRS, ONE = declared(), declared(size=2), declared(replicas=1)


class Story(NamedTuple):
    """Where it begins, what is killed, and the run that must then end as declared."""

    begin: Callable[[], tuple[Stage, RoleState | None]]
    kill: Callable[[RoleState | None], Doomed]
    resume: Callable[[Stage, RoleState | None], None]


def nothing() -> tuple[Stage, RoleState | None]:
    return Stage(gpus=12), None


@cache
def two_stand() -> tuple[Stage, RoleState]:
    stage = Stage(gpus=12)
    return stage, stage.create(TWO)


@cache
def pairs_are_queued() -> tuple[Stage, RoleState]:
    """Two stand at full quota, and pairs were declared: one is queued."""
    stage = Stage(gpus=4)
    state = stage.create(TWO)
    held = stage.held(lambda: stage.update(PAIRS, state, bounds_admission_wait=True))
    assert held.state is not None
    return stage, held.state


def updating(declaration: RoleDeclaration) -> Callable[[RoleState | None], Doomed]:
    def kill(state: RoleState | None) -> Doomed:
        assert state is not None
        known = state
        return lambda cluster, run: update_role(cluster, declaration, known, run)

    return kill


def updated(declaration: RoleDeclaration) -> Callable[[Stage, RoleState | None], None]:
    def resume(stage: Stage, state: RoleState | None) -> None:
        assert state is not None
        stage.update(declaration, state)
        stage.stands(declaration)

    return resume


def created(stage: Stage, _: RoleState | None) -> None:
    stage.create(PAIRS)
    stage.stands(PAIRS)


def deleting(state: RoleState | None) -> Doomed:
    assert state is not None
    known = state
    return lambda cluster, run: delete_role(
        cluster, deployment="chat", role="server", namespace="ml", previous=known, run=run
    )


def deleted(stage: Stage, state: RoleState | None) -> None:
    assert state is not None
    stage.delete(TWO, state)
    stage.settle()
    stage.is_empty()


def twin_of(
    begun: Callable[[], tuple[Stage, RoleState]],
) -> Callable[[], tuple[Stage, RoleState | None]]:
    def begin() -> tuple[Stage, RoleState | None]:
        stage, state = begun()
        return stage.twin(), state

    return begin


STORIES = {
    "create": Story(
        nothing, lambda _: lambda cluster, run: create_role(cluster, PAIRS, run), created
    ),
    "size edit": Story(twin_of(two_stand), updating(PAIRS), updated(PAIRS)),
    "scale-down": Story(twin_of(two_stand), updating(ONE), updated(ONE)),
    "supersede": Story(
        twin_of(pairs_are_queued),
        updating(declared(image="vllm/vllm-openai:v0.12.0")),
        updated(declared(image="vllm/vllm-openai:v0.12.0")),
    ),
    "destroy": Story(twin_of(two_stand), deleting, deleted),
}

HOW: dict[str, Callable[[FaultyCluster, int], None]] = {
    "before": FaultyCluster.stop_before,
    "after": FaultyCluster.stop_after_served,
}


@cache
def calls_of(name: str) -> int:
    """How many calls the story makes when nobody is killed."""
    story = STORIES[name]
    stage, state = story.begin()
    faulty = FaultyCluster(stage.cluster)
    stage.killed(story.kill(state), lambda _: None, through=faulty)
    return faulty.numbered


def kill_at(name: str, how: str, number: int) -> None:
    story = STORIES[name]
    stage, state = story.begin()
    faulty = FaultyCluster(stage.cluster)
    was_killed = stage.killed(
        story.kill(state), lambda each: HOW[how](each, number), through=faulty
    )
    assert was_killed, f"call {number} was never made"
    story.resume(stage, state)
    stage.uses_what_stands()


def sweep(name: str, how: str, numbers: range) -> None:
    failed: dict[int, str] = {}
    for number in numbers:
        try:
            kill_at(name, how, number)
        except Exception as error:  # noqa: BLE001 - told with its call below
            failed[number] = f"{type(error).__name__}: {str(error).splitlines()[:1]}"
    assert {} == failed, f"killed {how} these of {numbers}"


@pytest.mark.check
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", STORIES)
def test_killed_at_one_call_in_many_the_next_run_ends_as_declared(name: str, how: str) -> None:
    calls = calls_of(name)
    step = max(calls // 4, 1)
    sweep(name, how, range(step // 2 + (how == "after"), calls, step))


@pytest.mark.ci
@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", STORIES)
def test_killed_at_every_call_the_next_run_ends_as_declared(name: str, how: str) -> None:
    sweep(name, how, range(1, calls_of(name) + 1))


def lose_answers(name: str, numbers: range) -> None:
    """Each of these answers is lost once; only before its first write may a run give up."""
    story = STORIES[name]
    failed: dict[int, str] = {}
    for number in numbers:
        stage, state = story.begin()
        faulty = FaultyCluster(stage.cluster)
        faulty.lose_answer(number)
        try:
            stage.killed(story.kill(state), lambda _: None, through=faulty)
        except Unreachable as error:
            if faulty.writes:
                failed[number] = str(error)
        story.resume(stage, state)
        stage.uses_what_stands()
    assert {} == failed


@pytest.mark.check
@pytest.mark.parametrize("name", STORIES)
def test_one_lost_answer_in_many_is_survived_by_the_run_itself(name: str) -> None:
    calls = calls_of(name)
    lose_answers(name, range(7, calls + 1, max(calls // 4, 1)))


@pytest.mark.check
def test_the_lost_answer_to_the_last_call_of_a_destroy_is_survived() -> None:
    lose_answers("destroy", range(calls_of("destroy"), calls_of("destroy") + 1))


@pytest.mark.ci
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", STORIES)
def test_every_lost_answer_is_survived_by_the_run_itself(name: str) -> None:
    lose_answers(name, range(1, calls_of(name) + 1))
