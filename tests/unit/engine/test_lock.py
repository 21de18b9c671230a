"""The lock's verdicts from successive observations, and what a dead process of this machine is."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack_deploy.engine import lock as locks
from gpustack_deploy.engine.lock import LockWatch, Verdict
from gpustack_deploy.model.record import LockState

pytestmark = pytest.mark.check

ME = LockState(holder="me", host="here", boot_id="b", pid=1, process_start="n/1")
OTHER = LockState(holder="other", host="there", boot_id="c", pid=2, process_start="n/2")


def watch(*, is_dead: bool = False) -> LockWatch:
    return LockWatch(ME, is_dead=lambda lock: is_dead)


def test_a_lock_of_nobody_is_free() -> None:
    assert watch().judge(LockState(), now=0) is Verdict.FREE


def test_our_own_lock_is_ours_whatever_its_counter() -> None:
    assert watch().judge(replace(locks.renewed(ME), generation=9), now=0) is Verdict.OURS


def test_another_run_in_the_same_process_is_not_ours() -> None:
    first, second = locks.this_process(), locks.this_process()
    assert first.pid == second.pid
    assert LockWatch(first).judge(second, now=0) is Verdict.WATCHED


def test_a_lock_that_does_not_move_expires_after_its_duration() -> None:
    seen = watch()
    assert seen.judge(OTHER, now=100.0) is Verdict.WATCHED
    assert seen.judge(OTHER, now=114.9) is Verdict.WATCHED
    assert seen.judge(OTHER, now=115.0) is Verdict.EXPIRED


def test_a_lock_whose_counter_moves_is_renewed() -> None:
    seen = watch()
    seen.judge(OTHER, now=0)
    verdict = seen.judge(locks.renewed(OTHER), now=20)
    assert verdict is Verdict.RENEWED
    assert (verdict.is_renewed, verdict.may_take) == (True, False)


def test_a_lock_that_a_third_run_took_meanwhile_is_renewed() -> None:
    seen = watch()
    seen.judge(OTHER, now=0)
    assert seen.judge(locks.acquired(OTHER, replace(OTHER, holder="third")), now=20).is_renewed


def test_a_lock_released_while_watched_is_free() -> None:
    seen = watch()
    seen.judge(OTHER, now=0)
    assert seen.judge(locks.released(OTHER), now=1).may_take


def test_a_dead_holder_is_not_waited_for() -> None:
    assert watch(is_dead=True).judge(OTHER, now=0) is Verdict.DEAD


def test_taking_over_is_one_generation_on() -> None:
    held = locks.acquired(replace(OTHER, generation=4, renewals=7), ME)
    assert (held.holder, held.generation, held.renewals) == ("me", 5, 8)
    freed = locks.released(held)
    assert (freed.holder, freed.generation) == ("", 5)


def test_a_holder_silent_for_ten_seconds_reads_again() -> None:
    assert not locks.is_silent(100, now=109.9)
    assert locks.is_silent(100, now=110)


def test_a_holder_that_renews_as_it_should_is_never_taken_over() -> None:
    """The figures fit: a renewal missed once still leaves a whole one before expiry."""
    assert locks.RENEWAL_SECONDS * 2 <= locks.SILENCE_SECONDS < locks.DURATION_SECONDS


@given(
    moves=st.lists(
        st.tuples(st.floats(0.1, 20), st.sampled_from(["stay", "renew", "release", "take"])),
        max_size=8,
    )
)
def test_a_lock_is_only_taken_when_free_or_unmoved_for_its_duration(
    moves: list[tuple[float, str]],
) -> None:
    seen, lock, now, moved_at = watch(), OTHER, 0.0, 0.0
    seen.judge(lock, now=now)
    for seconds, move in moves:
        now += seconds
        before = lock
        match move:
            case "renew":
                lock = locks.renewed(lock)
            case "release":
                lock = locks.released(lock)
            case "take":
                lock = locks.acquired(lock, replace(OTHER, holder=f"{now}"))
            case _:
                pass
        if lock != before:
            moved_at = now
        verdict = seen.judge(lock, now=now)
        if verdict.may_take:
            assert not lock.holder or now - moved_at >= locks.DURATION_SECONDS
            return
        if verdict.is_renewed:
            return


def test_this_process_is_alive_and_an_ended_one_is_dead() -> None:
    here = locks.this_process()
    assert here.boot_id
    assert not locks.is_dead_process_here(here)
    code = (
        "import json, dataclasses; from gpustack_deploy.engine import lock;"
        "print(json.dumps(dataclasses.asdict(lock.this_process())))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    ended = LockState(**json.loads(done.stdout))
    assert locks.is_dead_process_here(ended)


@pytest.mark.parametrize(
    "change",
    [
        {"host": "elsewhere"},
        {"boot_id": "another boot"},
        {"boot_id": ""},
        {"process_start": "another-namespace/1"},
        {"process_start": ""},
        {"pid": 0},
    ],
)
def test_what_cannot_be_told_is_not_dead(change: dict[str, object]) -> None:
    # No process has this number, so that only the changed fact can keep it from being dead.
    ended = replace(locks.this_process(), pid=2**22 + 1)
    assert locks.is_dead_process_here(ended)
    assert not locks.is_dead_process_here(replace(ended, **change))  # type: ignore[arg-type]


def test_a_reused_process_number_is_another_process() -> None:
    here = locks.this_process()
    namespace = here.process_start.partition("/")[0]
    assert locks.is_dead_process_here(replace(here, process_start=f"{namespace}/1"))


def test_a_process_hidden_from_proc_is_not_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_stat", lambda pid: [])
    hidden = replace(locks.this_process(), process_start="")
    assert hidden.process_start == ""
    alive = replace(hidden, process_start=f"{locks._pid_namespace()}/1")
    assert not locks.is_dead_process_here(alive)


def test_without_proc_nothing_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(locks, "_PROC", tmp_path)
    here = locks.this_process()
    assert (here.boot_id, here.process_start) == ("", "")
    assert not locks.is_dead_process_here(here)
