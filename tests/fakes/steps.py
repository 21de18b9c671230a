"""One thing that may happen in the world."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Action:
    """Its name (`controller: verb object`), what it does, and the virtual second it is due."""

    name: str
    run: Callable[[], None]
    due_seconds: float = 0.0
