"""Waiting with a deadline: a probe is asked again until it answers, never a blind sleep."""

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def wait_for(
    probe: Callable[[], Found | None],
    *,
    what: str,
    seconds: float = 30.0,
    interval: float = 0.05,
) -> Found:
    """The probe's first answer that is not None or False; `TimeoutError` names what was awaited."""
    deadline = time.monotonic() + seconds
    while True:
        answer = probe()
        if answer is not None and answer is not False:
            return answer
        if time.monotonic() >= deadline:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        time.sleep(interval)


def wait_until(
    condition: Callable[[], bool], *, what: str, seconds: float = 30.0, interval: float = 0.05
) -> None:
    """Returns once the condition holds; `TimeoutError` names what was awaited."""
    wait_for(lambda: condition() or None, what=what, seconds=seconds, interval=interval)
