"""What one call of the engine is given beside the declaration, and how it tells its progress."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from gpustack_deploy.engine.clock import Clock, SystemClock
from gpustack_deploy.model.record import Writer


def draw_token() -> str:
    """Return a fresh attempt token: 20 hex digits, never used before (D3)."""
    return secrets.token_hex(10)


def _silent(_line: str) -> None:
    return None


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class RunContext:
    """Who runs, where progress lines go, and when to stop.

    `should_stop` is asked before each step (D23). With `bounds_admission_wait` a role that only
    waits for admission gives up after `rollout.admission_wait_seconds` (D24).
    """

    writer: Writer = field(default_factory=Writer)
    progress: Callable[[str], None] = _silent
    should_stop: Callable[[], bool] = _never
    bounds_admission_wait: bool = False
    clock: Clock = field(default_factory=SystemClock)
    draw: Callable[[], str] = draw_token
