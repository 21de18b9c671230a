"""Processes of a sandbox: started detached, remembered with a start time, stopped by id."""

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_TERM_SECONDS = 1.0
_KILL_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Process:
    """A process id and the kernel's start time of it; together they never name another process."""

    pid: int
    started: int


def start(command: Sequence[str], *, environment: Mapping[str, str], log: Path) -> Process:
    """Starts a program in a session of its own, its output appended to the log file."""
    log.parent.mkdir(parents=True, exist_ok=True)
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    pid = os.posix_spawn(
        command[0],
        list(command),
        dict(environment),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), append, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    return Process(pid, _start_time(pid) or 0)


def this_process() -> Process:
    """The running Python process."""
    return Process(os.getpid(), _start_time(os.getpid()) or 0)


def is_alive(process: Process) -> bool:
    """Whether this very process still runs; a recycled id and a zombie are not it."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(process.pid, os.WNOHANG)
    return _start_time(process.pid) == process.started


def stop(processes: Iterable[Process]) -> None:
    """Ends the processes: asked first, killed after a short wait; returns when none is left."""
    left = [process for process in processes if is_alive(process)]
    for number, seconds in ((signal.SIGTERM, _TERM_SECONDS), (signal.SIGKILL, _KILL_SECONDS)):
        for process in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)
        deadline = time.monotonic() + seconds
        while left and time.monotonic() < deadline:
            time.sleep(0.02)
            left = [process for process in left if is_alive(process)]


def _start_time(pid: int) -> int | None:
    """Clock ticks since boot at which the process started, or None when it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The second field is the command in parentheses and may hold anything, also parentheses.
    fields = text.rpartition(")")[2].split()
    state, started = fields[0], int(fields[19])
    return None if state in {"Z", "X"} else started
