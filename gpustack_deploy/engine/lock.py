"""One writer a role (D11): who holds the record's lock, and when another run may take it over.

The lock is data in the record, and every write of the record is conditional on its version: taking
over fences the former holder's writes. Whether a holder still lives is measured by the local
monotonic clock, from one observation of its renewal counter to the next, so that clock skew does
not matter. Nothing here writes.
"""

import os
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from gpustack_deploy.model.record import LockState

DURATION_SECONDS: Final = 15.0
RENEWAL_SECONDS: Final = 5.0
# A holder silent for so long reads the record again before it creates or deletes anything.
SILENCE_SECONDS: Final = 10.0

_PROC: Final = Path("/proc")
# Of /proc/<pid>/stat after the command's closing bracket: the state, and the start in ticks.
_STATE_FIELD: Final = 0
_START_FIELD: Final = 19
_ENDED_STATES: Final = frozenset({"Z", "X", "x"})


class Verdict(StrEnum):
    """What successive observations of a lock say."""

    FREE = "free"
    OURS = "ours"
    DEAD = "its holder is a dead process of this machine"
    EXPIRED = "not renewed for its whole duration"
    WATCHED = "held; whether it is renewed is not known yet"
    RENEWED = "held and renewed"

    @property
    def may_take(self) -> bool:
        """Whether this run may write itself as the holder."""
        return self in {Verdict.FREE, Verdict.OURS, Verdict.DEAD, Verdict.EXPIRED}

    @property
    def is_renewed(self) -> bool:
        """Whether the holder was seen at work."""
        return self is Verdict.RENEWED


def acquired(lock: LockState, me: LockState) -> LockState:
    """Return the lock as held by this run, one generation on."""
    return replace(me, renewals=lock.renewals + 1, generation=lock.generation + 1)


def renewed(lock: LockState) -> LockState:
    """Return the same holder's lock with its counter moved."""
    return replace(lock, renewals=lock.renewals + 1)


def released(lock: LockState) -> LockState:
    """Return the lock as nobody's; its generation stays, so that the next holder's is higher."""
    return LockState(renewals=lock.renewals + 1, generation=lock.generation)


def is_silent(renewed_at: float, *, now: float) -> bool:
    """Whether a holder that renewed last at that moment must read again before it acts."""
    return now - renewed_at >= SILENCE_SECONDS


@dataclass(slots=True)
class LockWatch:
    """Judges a lock from the observations of one run; make one for each attempt to acquire."""

    me: LockState
    is_dead: Callable[[LockState], bool] | None = None
    _seen: LockState | None = None
    _seen_at: float = 0.0

    def judge(self, lock: LockState, *, now: float) -> Verdict:
        """Return the verdict after this observation, made at that monotonic moment."""
        if not lock.holder:
            return Verdict.FREE
        if _holder(lock) == _holder(self.me):
            return Verdict.OURS
        if (self.is_dead or is_dead_process_here)(lock):
            return Verdict.DEAD
        if self._seen is None:
            self._seen, self._seen_at = lock, now
            return Verdict.WATCHED
        if lock != self._seen:
            return Verdict.RENEWED
        return Verdict.EXPIRED if now - self._seen_at >= DURATION_SECONDS else Verdict.WATCHED


def this_process() -> LockState:
    """Return this run as a lock's holder; two runs inside one process differ by their names."""
    pid = os.getpid()
    host = socket.gethostname()
    return LockState(
        holder=f"process {pid} on {host}, run {secrets.token_hex(3)}",
        host=host,
        boot_id=_text(_PROC / "sys/kernel/random/boot_id"),
        pid=pid,
        process_start=_start(pid),
    )


def is_dead_process_here(lock: LockState) -> bool:
    """Whether the holder ran on this machine since its last boot and runs no more.

    False whenever that cannot be told: another machine, another container, no /proc.
    """
    namespace, _, start = lock.process_start.partition("/")
    here = (socket.gethostname(), _text(_PROC / "sys/kernel/random/boot_id"), _pid_namespace())
    if not all(here) or here != (lock.host, lock.boot_id, namespace) or lock.pid <= 0 or not start:
        return False
    fields = _stat(lock.pid)
    if fields:
        return fields[_STATE_FIELD] in _ENDED_STATES or fields[_START_FIELD] != start
    # Other users' processes may be hidden from /proc: only the kernel's own answer counts.
    try:
        os.kill(lock.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _holder(lock: LockState) -> tuple[str, str, str, int, str]:
    return lock.holder, lock.host, lock.boot_id, lock.pid, lock.process_start


def _start(pid: int) -> str:
    """Return the process's start with its pid namespace, in which alone the pid means anything."""
    fields, namespace = _stat(pid), _pid_namespace()
    return f"{namespace}/{fields[_START_FIELD]}" if fields and namespace else ""


def _stat(pid: int) -> list[str]:
    """Return the fields after the command's name, which may itself hold blanks and brackets."""
    fields = _text(_PROC / str(pid) / "stat").rpartition(")")[2].split()
    return fields if len(fields) > _START_FIELD else []


def _pid_namespace() -> str:
    try:
        return str((_PROC / "self/ns/pid").readlink()).strip("pid:[]")
    except OSError:
        return ""


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
