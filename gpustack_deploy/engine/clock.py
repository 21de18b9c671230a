"""Time as the engine sees it; tests give a virtual one."""

import time
from typing import Protocol


class Clock(Protocol):
    """Two readings in seconds; waiting is the event loop's business."""

    def monotonic(self) -> float:
        """Return a reading that never goes back: for deadlines and the lock."""
        ...

    def wall(self) -> float:
        """Return seconds since the epoch: to compare with deletion timestamps."""
        ...


class SystemClock:
    """The clock of this machine."""

    def monotonic(self) -> float:
        """Return the process's monotonic reading."""
        return time.monotonic()

    def wall(self) -> float:
        """Return seconds since the epoch."""
        return time.time()
