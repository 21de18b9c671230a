"""The planner against a cluster, people and killed runs in random order."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.property.planner_machine import PlannerMachine

_RANDOM = settings(
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def _play(*, examples: int, steps: int) -> None:
    chosen = settings(_RANDOM, max_examples=examples, stateful_step_count=steps)
    run_state_machine_as_test(PlannerMachine, settings=chosen)


@pytest.mark.check
def test_a_few_hundred_steps_keep_what_must_hold() -> None:
    _play(examples=12, steps=40)


@pytest.mark.ci
def test_some_ten_thousand_steps_keep_what_must_hold() -> None:
    _play(examples=200, steps=60)


@pytest.mark.nightly
def test_more_than_a_hundred_thousand_steps_keep_what_must_hold() -> None:
    _play(examples=2000, steps=80)
