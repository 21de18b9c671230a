"""Property paths: `roles[1].size`, `pod.labels["example.com/team"]`."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

Step = str | int

_STEP: Final = re.compile(r"""\[(\d+)\]|\["([^"]*)"\]|([^.\[\]]+)""")
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def path_of(steps: Iterable[Step]) -> str:
    """Return the path of those steps."""
    path = ""
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step) is None:
            path += f'["{step}"]'
        else:
            path += f".{step}" if path else step
    return path


def steps_of(path: str) -> tuple[Step, ...]:
    """Return the steps of a path."""
    return tuple(
        int(match[1]) if match[1] is not None else (match[2] if match[3] is None else match[3])
        for match in _STEP.finditer(path)
    )


def overlap(first: str, second: str) -> bool:
    """Whether one path is the other, or stands above or below it."""
    one, other = steps_of(first), steps_of(second)
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared]


def exists(raw: Any, steps: Sequence[Step]) -> bool:
    """Whether the raw object says something at those steps."""
    for step in steps:
        if not has_step(raw, step):
            return False
        raw = raw[step]
    return True


def has_step(raw: Any, step: Step) -> bool:
    """Whether the object has that key, or the list that position."""
    if isinstance(raw, Mapping):
        return step in raw
    return is_list(raw) and isinstance(step, int) and step < len(raw)


def is_list(value: object) -> bool:
    """Whether the value is a list rather than text."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def plain(value: Any) -> Any:
    """Return a copy in plain dicts and lists, leaves as they are."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if is_list(value) else value
