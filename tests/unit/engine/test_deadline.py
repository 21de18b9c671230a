"""How long a run waits: each kind of progress counts once, and admission may have its own bound."""

from collections.abc import Callable

import pytest

from gpustack_deploy.engine.clock import SystemClock
from gpustack_deploy.engine.deadline import Deadline
from gpustack_deploy.plan.checks import Unmet, WaitCode
from tests.builders import make_member, make_workload
from tests.fakes import FakeClock

pytestmark = pytest.mark.check

NOT_READY = Unmet(WaitCode.NOT_READY, 0, "why")
NOT_ADMITTED = Unmet(WaitCode.NOT_ADMITTED, 0, "why")
NO_WORKLOAD = Unmet(WaitCode.NO_WORKLOAD, 0, "why")
LEAVING = Unmet(WaitCode.MEMBER_LEAVING, 0, "why")


def a_deadline(clock: FakeClock, *, admission_wait_seconds: float | None = None) -> Deadline:
    return Deadline(
        clock,
        deadline_seconds=100,
        startup_timeout_seconds=1000,
        admission_wait_seconds=admission_wait_seconds,
    )


def test_a_run_waits_for_so_long_since_it_began() -> None:
    clock = FakeClock()
    deadline = a_deadline(clock)
    clock.advance(30)
    assert 70 == deadline.seconds_left(LEAVING)
    clock.advance(80)
    assert -10 == deadline.seconds_left(LEAVING)


def test_waiting_for_ready_is_given_the_start_up_time_as_well() -> None:
    clock = FakeClock()
    deadline = a_deadline(clock)
    assert (1100, 100) == (deadline.seconds_left(NOT_READY), deadline.seconds_left(NOT_ADMITTED))
    assert 100 == deadline.seconds_left(None)


Note = Callable[[Deadline], None]

PROGRESS: list[Note] = [
    lambda deadline: deadline.note("begin", 1),
    lambda deadline: deadline.note_members([make_member().unready().obj()]),
    lambda deadline: deadline.note_members([make_member().obj()]),
    lambda deadline: deadline.note_workloads([make_workload().reserved().obj()], "v1"),
]


@pytest.mark.parametrize(
    "note", PROGRESS, ids=["a record's phase", "scheduled", "ready", "reserved"]
)
def test_progress_counts_once_and_its_repetition_is_none(note: Note) -> None:
    clock = FakeClock()
    deadline = a_deadline(clock)
    clock.advance(40)
    note(deadline)
    assert 100 == deadline.seconds_left(None)
    clock.advance(40)
    note(deadline)
    assert 60 == deadline.seconds_left(None)


def test_each_first_of_a_member_is_progress_of_its_own() -> None:
    clock = FakeClock()
    deadline = a_deadline(clock)
    member = make_member()
    for seen in (
        member.unready().having(has_container_status=False),
        member.unready(),
        member,
    ):
        clock.advance(40)
        deadline.note_members([seen.obj()])
        assert 100 == deadline.seconds_left(None)


def test_a_new_attempt_of_the_same_fingerprint_is_no_progress() -> None:
    clock = FakeClock()
    deadline = a_deadline(clock)
    deadline.note_members([make_member().uid("first").obj()])
    clock.advance(40)
    deadline.note_members([make_member().uid("second").obj()])
    assert 60 == deadline.seconds_left(None)


@pytest.mark.parametrize(
    "note",
    [
        pytest.param(lambda it: it.note_members([make_member().gated().obj()]), id="queued"),
        pytest.param(lambda it: it.note_workloads([make_workload().obj()], "v1"), id="composed"),
        pytest.param(lambda it: it.note_workloads([None], "v1"), id="no Workload"),
    ],
)
def test_waiting_is_no_progress(note: Note) -> None:
    clock = FakeClock()
    deadline = a_deadline(clock)
    clock.advance(40)
    note(deadline)
    assert 60 == deadline.seconds_left(None)


def test_admission_alone_has_a_bound_only_where_it_is_given() -> None:
    clock = FakeClock()
    deadline = a_deadline(clock)
    deadline.note_wait(NOT_ADMITTED)
    assert float("inf") == deadline.admission_seconds_left()


def test_the_bound_counts_from_the_moment_nothing_else_is_awaited() -> None:
    clock = FakeClock()
    deadline = a_deadline(clock, admission_wait_seconds=20)
    assert float("inf") == deadline.admission_seconds_left()
    clock.advance(10)
    deadline.note_wait(NO_WORKLOAD)
    clock.advance(15)
    deadline.note_wait(NOT_ADMITTED)
    assert 5 == deadline.admission_seconds_left()
    assert 5 == deadline.seconds_left(NOT_ADMITTED)


@pytest.mark.parametrize("other", [LEAVING, NOT_READY, None])
def test_waiting_for_something_else_ends_that_count(other: Unmet | None) -> None:
    clock = FakeClock()
    deadline = a_deadline(clock, admission_wait_seconds=20)
    deadline.note_wait(NOT_ADMITTED)
    clock.advance(15)
    deadline.note_wait(other)
    assert float("inf") == deadline.admission_seconds_left()
    deadline.note_wait(NOT_ADMITTED)
    assert 20 == deadline.admission_seconds_left()


def test_the_clock_of_this_machine_goes_on() -> None:
    clock = SystemClock()
    assert clock.monotonic() <= clock.monotonic()
    assert clock.wall() > 1_700_000_000
