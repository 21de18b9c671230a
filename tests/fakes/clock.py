"""Virtual time: an event loop whose clock jumps to the next timer, so that no test sleeps."""

import asyncio
import selectors
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")

_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class FakeClock:
    """Seconds since the start of the test; the wall clock starts at the beginning of 2026."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def wall(self) -> float:
        """The virtual moment in seconds since the epoch, as `time.time()` would say it."""
        return _EPOCH.timestamp() + self.seconds

    def timestamp(self, *, later_seconds: float = 0) -> str:
        """Return the moment as Kubernetes writes it: whole seconds, UTC."""
        moment = _EPOCH + timedelta(seconds=int(self.seconds + later_seconds))
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")

    def seconds_of(self, timestamp: str) -> float:
        """Return the virtual second that a Kubernetes timestamp names."""
        return (datetime.fromisoformat(timestamp) - _EPOCH).total_seconds()

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


class _JumpingSelector(selectors.DefaultSelector):
    """Never waits: moves the clock forward by what the loop wanted to wait."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready:
            return ready
        if timeout is None:
            raise RuntimeError("every coroutine waits and no timer is set: this would hang")
        # A hair more, so that rounding never leaves the loop one step short of its timer.
        self._clock.advance(timeout + 1e-9 if timeout > 0 else 0)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on a fake clock."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(_JumpingSelector(clock))
        self._fake_clock = clock
        # A slow callback is measured on this loop's own clock, which others move.
        self.slow_callback_duration = float("inf")

    def time(self) -> float:
        return self._fake_clock.monotonic()


def run_virtual(main: Coroutine[Any, Any, T], clock: FakeClock) -> T:
    """Run the coroutine to its end on a loop whose time is the clock's."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        return runner.run(main)
