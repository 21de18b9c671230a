"""Time as an otherwise idle machine would have had it."""

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gpustack_deploy.sandbox.processes import Process

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Moment:
    """The clock, what all processors have been busy with, and this process's part of it."""

    wall: float
    busy: float
    own: float

    @classmethod
    def now(cls) -> "Moment":
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
        user, nice, system, _idle, _waiting, *interrupts = map(int, fields[:8])
        return cls(
            time.monotonic(), (user + nice + system + sum(interrupts)) / _TICKS, time.process_time()
        )


def seconds_for_ourselves(begun: Moment, processes: Iterable[Process]) -> float:
    """Seconds since a moment, less the share that others took of the processors meanwhile.

    Ours is this process and those given, all of which were started after that moment.
    """
    ended = Moment.now()
    wall = ended.wall - begun.wall
    ours = ended.own - begun.own + sum(_processor_seconds(process.pid) for process in processes)
    others = max(0.0, ended.busy - begun.busy - ours)
    return wall * max(0.0, 1 - others / (wall * (os.cpu_count() or 1)))


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
