"""How long a run waits: since the last progress, where each kind of progress counts once (D12)."""

from collections.abc import Iterable

from gpustack_deploy.engine.clock import Clock
from gpustack_deploy.model.observed import ObservedMember, ObservedWorkload
from gpustack_deploy.plan.checks import ADMISSION_CODES, Unmet, WaitCode


class Deadline:
    """Counts from the last progress; a new attempt, a restart or a flapping condition is none."""

    def __init__(
        self,
        clock: Clock,
        *,
        deadline_seconds: float,
        startup_timeout_seconds: float,
        admission_wait_seconds: float | None,
    ) -> None:
        self._clock = clock
        self._deadline_seconds = deadline_seconds
        self._startup_timeout_seconds = startup_timeout_seconds
        self._admission_wait_seconds = admission_wait_seconds
        self._moved_at = clock.monotonic()
        self._awaits_admission_since: float | None = None
        self._seen: set[tuple[object, ...]] = set()

    def note(self, *progress: object) -> None:
        """Count the progress, unless this one was seen before."""
        if progress not in self._seen:
            self._seen.add(progress)
            self._moved_at = self._clock.monotonic()

    def note_members(self, members: Iterable[ObservedMember]) -> None:
        """Count each member's first scheduling, start and Ready."""
        for member in members:
            seat = (member.ordinal, member.member_index, member.fingerprint)
            if member.node_name:
                self.note("scheduled", *seat)
            if member.has_container_status:
                self.note("started", *seat)
            if member.is_ready:
                self.note("ready", *seat)

    def note_workloads(self, workloads: Iterable[ObservedWorkload | None], wanted: str) -> None:
        """Count the first quota reservation of each Workload of the wanted fingerprint."""
        for workload in workloads:
            if workload is not None and workload.condition("QuotaReserved").is_true:
                self.note("reserved", workload.name, wanted)

    def note_wait(self, check: Unmet | None) -> None:
        """Remember since when nothing but admission is awaited."""
        if check is None or check.code not in ADMISSION_CODES:
            self._awaits_admission_since = None
        elif self._awaits_admission_since is None:
            self._awaits_admission_since = self._clock.monotonic()

    def seconds_left(self, check: Unmet | None) -> float:
        """Return how long this check may still stay unmet; not positive once it is over."""
        allowed = self._deadline_seconds
        if check is not None and check.code is WaitCode.NOT_READY:
            allowed += self._startup_timeout_seconds
        left = self._moved_at + allowed - self._clock.monotonic()
        return min(left, self.admission_seconds_left())

    def admission_seconds_left(self) -> float:
        """Return how long admission alone may still be awaited; infinite without that bound."""
        since = self._awaits_admission_since
        if self._admission_wait_seconds is None or since is None:
            return float("inf")
        return since + self._admission_wait_seconds - self._clock.monotonic()
