"""The planner against a cluster, people and killed runs in random order."""

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.property.planner_machine import PlannerMachine

_RANDOM = settings(
    deadline=None,
    print_blob=True,
    # Explaining a failure traces every line, which takes minutes here.
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.check
def test_what_must_hold_holds_for_a_thousand_steps() -> None:
    few = settings(_RANDOM, max_examples=40, stateful_step_count=25)
    run_state_machine_as_test(PlannerMachine, settings=few)


@pytest.mark.ci
@pytest.mark.timeout(600)
def test_what_must_hold_holds_for_ten_thousand_steps() -> None:
    more = settings(_RANDOM, max_examples=250, stateful_step_count=50)
    run_state_machine_as_test(PlannerMachine, settings=more)


@pytest.mark.nightly
@pytest.mark.timeout(7200)
def test_what_must_hold_holds_all_night() -> None:
    most = settings(_RANDOM, max_examples=3000, stateful_step_count=80)
    run_state_machine_as_test(PlannerMachine, settings=most)
