"""The planner against a cluster, people and killed runs in random order."""

import pytest
from hypothesis import HealthCheck, settings

from tests.property.planner_machine import PlannerMachine

_RANDOM = settings(
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.check
class TestPlanner(PlannerMachine.TestCase):
    """A few hundred steps."""

    settings = settings(_RANDOM, max_examples=12, stateful_step_count=40)


@pytest.mark.ci
class TestPlannerForLonger(PlannerMachine.TestCase):
    """Some ten thousand steps."""

    settings = settings(_RANDOM, max_examples=200, stateful_step_count=60)


@pytest.mark.nightly
class TestPlannerAllNight(PlannerMachine.TestCase):
    """More than a hundred thousand steps."""

    settings = settings(_RANDOM, max_examples=2000, stateful_step_count=80)
