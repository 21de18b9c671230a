"""What the running command says of itself: settings that the engine tells no provider.

Read from the command line of the `pulumi` process above this one, where the system shows it, else
from the environment variables that mean the same.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

_VERBS: Final = frozenset({"up", "update", "preview", "pre", "refresh", "destroy", "down", "dn"})
_DESTROYS: Final = frozenset({"destroy", "down", "dn"})
_MOST_ANCESTORS: Final = 8
# The engine runs this many steps at once for each processor, unless it is told otherwise.
_STEPS_FOR_EACH_PROCESSOR: Final = 4


@dataclass(frozen=True, slots=True)
class Command:
    """The command: whether it destroys, goes on after errors, and how much it runs at once."""

    is_destroy: bool
    continues_on_error: bool
    parallel: int


@cache
def running_command() -> Command:
    """Return what is known of the command that this process works for."""
    return read_command(_arguments(), os.environ.get)


def read_command(arguments: Sequence[str], variable: Callable[[str], str | None]) -> Command:
    """Return what those arguments say, and the environment variables where they are silent."""
    goes_on = _flag(arguments, "--continue-on-error", takes_value=False)
    parallel = _flag(arguments, "--parallel") or _flag(arguments, "-p")
    return Command(
        is_destroy=next((each for each in arguments if each in _VERBS), "") in _DESTROYS,
        continues_on_error=(goes_on or variable("PULUMI_CONTINUE_ON_ERROR") or "").lower()
        in ("1", "t", "true"),
        parallel=_whole(parallel or variable("PULUMI_PARALLEL"))
        or _STEPS_FOR_EACH_PROCESSOR * (os.cpu_count() or 1),
    )


def _flag(arguments: Sequence[str], name: str, *, takes_value: bool = True) -> str | None:
    for index, each in enumerate(arguments):
        if each == name:
            following = arguments[index + 1 : index + 2]
            return "".join(following) if takes_value else "true"
        if each.startswith(f"{name}="):
            return each.removeprefix(f"{name}=")
        if len(name) == 2 and each.startswith(name) and each[2:].isdigit():
            return each[2:]
    return None


def _whole(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0


def _arguments(process: Path = Path("/proc/self")) -> list[str]:
    """Return the arguments of the nearest `pulumi` process above, nothing where none is seen."""
    for _ in range(_MOST_ANCESTORS):
        try:
            words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
            status = (process / "status").read_text(errors="replace")
        except OSError:
            break
        if Path(words[0]).name == "pulumi":
            return words[1:]
        parent = next(line for line in status.splitlines() if line.startswith("PPid:"))
        process = process.parent / parent.removeprefix("PPid:").strip()
    return []
