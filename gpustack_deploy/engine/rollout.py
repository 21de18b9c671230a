"""The loop: observe, plan, act, wait.

1. Observe: list the role's Pods and Services; read the Workloads that the planner names.
2. Plan: `next_step`, pure.
3. Act: the record first, then what it permits, each call once.
4. Wait: on watches, until the role moves or the deadline passes.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, NoReturn

from gpustack_deploy.engine.deadline import Deadline
from gpustack_deploy.engine.executor import Executor
from gpustack_deploy.engine.observer import Observer
from gpustack_deploy.engine.record_store import RecordStore
from gpustack_deploy.engine.run import RunContext
from gpustack_deploy.model import identity
from gpustack_deploy.model.errors import (
    AdmissionAwaited,
    ClusterError,
    Expired,
    Forbidden,
    InvalidSpec,
    NotFound,
    Refused,
    ReplacementHeld,
)
from gpustack_deploy.model.record import RoleRecord, SlotPhase
from gpustack_deploy.plan.checks import ADMISSION_CODES, Unmet, WaitCode
from gpustack_deploy.plan.slot import Transition
from gpustack_deploy.plan.snapshot import Snapshot
from gpustack_deploy.plan.step import (
    Await,
    CreateRecord,
    Done,
    Hold,
    Inspect,
    Step,
    WriteRecord,
)

MAX_ATTEMPTS: Final = 3
_ATTEMPT_DELAYS: Final = (0.0, 10.0, 30.0)
_RELIST_SECONDS: Final = 30.0
_CLOCK_GRAIN_SECONDS: Final = 0.05
_REASON_SECONDS: Final = 10.0
_STOP_NOTICE_SECONDS: Final = 1.0
_FIRST_BACKOFF_SECONDS: Final = 0.2
_MAX_BACKOFF_SECONDS: Final = 5.0
# What the Workload says of members that wait; it may say more than that they wait.
_TOLD_BY_KUEUE: Final = ADMISSION_CODES | {WaitCode.ADMINISTRATORS_HOLD}

Planner = Callable[[Snapshot, RoleRecord], Step]


@dataclass(frozen=True, slots=True)
class Accept:
    """Has the cluster judge one member before anything is deleted or written (D27).

    `judge` is given the ordinal that is about to leave, `None` before the run's first write.
    """

    is_needed: Callable[[Snapshot, RoleRecord], bool]
    judge: Callable[[Snapshot, RoleRecord, int | None], Awaitable[None]]


_PHRASES: Final = {
    Transition.OPEN: "replacing",
    Transition.RECAPTURE: "removing a late member",
    Transition.CAPTURE_WORKLOAD: "noting its Workload",
    Transition.BEGIN: "creating anew",
    Transition.ADOPT: "members stand",
    Transition.SUPERSEDE: "starting over",
    Transition.REBUILD: "starting over",
    Transition.CANCEL: "removing",
    Transition.DROP: "removed",
    Transition.PARK: "left queued",
    Transition.CLOSE: "replaced",
    Transition.OPEN_BATCH: "creating",
    Transition.CLOSE_BATCH: "created",
    Transition.CAPTURE_SURPLUS: "removing",
    Transition.FORGET_SURPLUS: "removed",
}


class Rollout:
    """One run over one role, from the lock to `Done`."""

    def __init__(
        self,
        *,
        planner: Planner,
        observer: Observer,
        store: RecordStore,
        executor: Executor,
        deadline: Deadline,
        run: RunContext,
        accept: Accept | None = None,
    ) -> None:
        self._planner = planner
        self._observer = observer
        self._store = store
        self._executor = executor
        self._deadline = deadline
        self._run = run
        self._accept = accept
        self._is_accepted = False
        self._has_written = False
        self._has_ended = False
        self._token = run.draw()
        self._backoff_seconds = _FIRST_BACKOFF_SECONDS
        self._attempts: Counter[tuple[int | None, tuple[str, ...]]] = Counter()
        self._reason_read_at = float("-inf")
        self._detail: Unmet | None = None
        self._last_line = ""
        self._last_step: Step | None = None
        self._repeat_seconds = _FIRST_BACKOFF_SECONDS

    async def converge(self) -> None:
        """Take steps until the role is done, then give the lock up.

        Raises:
            ReplacementHeld, AdmissionAwaited: a check stayed unmet; the next run resumes.
            GpustackDeployError: whatever a step refuses.
        """
        needs_read = True
        while not self._has_ended:
            self._stop_if_asked()
            try:
                if needs_read:
                    await self._observer.read()
                step = self._plan()
                if isinstance(step, Done):
                    await self._store.release()
                    return
                needs_read = await self._take(step)
                self._backoff_seconds = _FIRST_BACKOFF_SECONDS
            except (ClusterError, ExceptionGroup) as failure:
                await self._survive(failure)
                needs_read = True

    def _plan(self) -> Step:
        snapshot = self._observer.snapshot(self._token)
        self._deadline.note_members(snapshot.members)
        self._deadline.note_workloads(snapshot.workloads.values(), self._wanted())
        return self._planner(snapshot, self._store.record)

    async def _take(self, step: Step) -> bool:
        """Take the step; return whether the role has to be read anew."""
        match step:
            case Inspect(workloads=names, nodes=nodes):
                await self._observer.inspect(names)
                await self._observer.inspect_nodes(nodes)
                return False
            case Await(check=check, wake_at=wake_at):
                await self._wait(check, wake_at)
            case Hold(check=check):
                self._raise_held(check)
            case WriteRecord():
                return await self._write(step)
            case CreateRecord() | Done():
                msg = f"{type(step).__name__} is taken before the loop"
                raise RuntimeError(msg)
            case _:
                await self._pace(step)
                await self._accept_first()
                try:
                    await self._executor.perform(step, self._observer.snapshot(self._token))
                finally:
                    # Served or not: what was known of these groups is known no more.
                    self._observer.forget(self._groups())
        return True

    async def _write(self, step: WriteRecord) -> bool:
        await self._accept_first()
        if step.transition is Transition.OPEN and self._accept is not None:
            if not self._is_accepted:
                await self._accept.judge(
                    self._observer.snapshot(self._token), self._store.record, step.ordinal
                )
            self._is_accepted = False
        if step.transition is Transition.BEGIN:
            await self._count_attempt(step)
        self._say(step.ordinal, f"{_PHRASES[step.transition]}: {step.cause}")
        ends = isinstance(
            self._planner(
                self._observer.snapshot(self._token), _as_stored(step, self._store.record)
            ),
            Done,
        )
        if ends:
            # The last write of the run gives the lock up as well; without it nothing may follow.
            await self._store.release(lambda _known: step.record)
            self._has_ended = True
            return False
        await self._store.write(step.record)
        self._deadline.note(step.transition, step.ordinal, self._wanted(), self._store.record.batch)
        if step.transition in (Transition.BEGIN, Transition.OPEN_BATCH):
            self._observer.expect_unused(self._groups())
            self._token = self._run.draw()
        return step.transition in (Transition.ADOPT, Transition.CLOSE, Transition.CLOSE_BATCH)

    async def _pace(self, step: Step) -> None:
        """Slow a step down that comes again without effect, and end it with the deadline.

        Somebody undoes it, or changes what we write as soon as it stands: no reason to loop (D7).
        """
        if step != self._last_step:
            self._last_step, self._repeat_seconds = step, _FIRST_BACKOFF_SECONDS
            return
        if self._deadline.seconds_left(None) <= 0:
            raise ReplacementHeld(
                "NoEffect",
                self._store.record.role,
                None,
                f"{type(step).__name__} was served again and again and changed nothing: look for"
                " who undoes it, then run `pulumi up` again",
            )
        await asyncio.sleep(self._repeat_seconds)
        self._repeat_seconds = min(self._repeat_seconds * 2, _MAX_BACKOFF_SECONDS)

    async def _accept_first(self) -> None:
        """Before the run's first write: the cluster must accept what the run will create."""
        if self._has_written:
            return
        snapshot = self._observer.snapshot(self._token)
        if self._accept is not None and self._accept.is_needed(snapshot, self._store.record):
            await self._accept.judge(snapshot, self._store.record, None)
            self._is_accepted = True
        self._has_written = True

    async def _count_attempt(self, step: WriteRecord) -> None:
        slot = step.record.slot
        key = (step.ordinal, slot.fingerprints if slot else ())
        done = self._attempts[key]
        if done >= MAX_ATTEMPTS:
            self._raise_held(
                Unmet(
                    WaitCode.NOT_ADMITTED,
                    step.ordinal,
                    f"{MAX_ATTEMPTS} attempts of this declaration failed; the last line was:"
                    f" {self._last_line}",
                )
            )
        self._attempts[key] += 1
        if _ATTEMPT_DELAYS[done]:
            await asyncio.sleep(_ATTEMPT_DELAYS[done])

    async def _wait(self, check: Unmet, wake_at: float | None) -> None:
        """Wait until the watches show that the role is worth reading anew.

        What they mirror is judged by the same planner; while it still says to wait, only the
        message follows.
        """
        clock = self._run.clock
        read_again_at = clock.monotonic() + _RELIST_SECONDS
        while True:
            check = await self._detailed(check)
            self._deadline.note_wait(check)
            left = self._deadline.seconds_left(check)
            if left <= 0:
                self._raise_held(check)
            self._say(check.ordinal, f"{check.reason} ({check.code})")
            seconds = min(left, read_again_at - clock.monotonic(), _REASON_SECONDS)
            if wake_at is not None:
                seconds = min(seconds, wake_at - clock.wall() + _CLOCK_GRAIN_SECONDS)
            await self._pause(seconds)
            mirrored = self._observer.mirrored(self._token)
            if mirrored is None or clock.monotonic() >= read_again_at:
                return
            self._deadline.note_members(mirrored.members)
            step = self._planner(mirrored, self._store.record)
            if not isinstance(step, Await) or (self._slot_groups() and step.check == check):
                return
            check, wake_at = step.check, step.wake_at

    async def _pause(self, seconds: float) -> None:
        """Wait until the role moves or the time is over, and notice a stop within a second."""
        clock = self._run.clock
        ends_at = clock.monotonic() + seconds
        has_moved = False
        while not has_moved and (left := ends_at - clock.monotonic()) > 0:
            has_moved = await self._observer.wait(
                min(left, _STOP_NOTICE_SECONDS), workloads=self._slot_groups()
            )
            self._stop_if_asked()

    async def _detailed(self, check: Unmet) -> Unmet:
        """Return the check with Kueue's own words, read at most every ten seconds (D4).

        Only the lowest waiting ordinal's Workload is read.
        """
        now = self._run.clock.monotonic()
        if check.code not in ADMISSION_CODES:
            return check
        if now - self._reason_read_at >= _REASON_SECONDS:
            self._reason_read_at = now
            members = self._observer.snapshot(self._token).members
            groups = {each.group_name for each in members if each.ordinal == check.ordinal}
            await self._observer.inspect(groups)
            step = self._plan()
            self._detail = step.check if isinstance(step, Await) else None
        known = self._detail
        if known is not None and known.code in _TOLD_BY_KUEUE and known.ordinal == check.ordinal:
            return known
        return check

    async def _survive(self, failure: Exception) -> None:
        """Wait before another try after a failed call; give up at once where waiting is useless."""
        error = cluster_error(failure)
        if isinstance(error, (Forbidden, Refused)):
            raise error
        if isinstance(error, NotFound) and "namespaces" in str(error):
            raise InvalidSpec(
                "namespace", f"{error}: create it first, then run `pulumi up` again"
            ) from error
        if self._deadline.seconds_left(None) <= 0:
            raise error
        self._say(None, f"the API server answered: {error}; trying again")
        seconds = max(self._backoff_seconds, getattr(error, "retry_after_seconds", 0.0))
        self._backoff_seconds = min(self._backoff_seconds * 2, _MAX_BACKOFF_SECONDS)
        if not isinstance(error, Expired):
            await asyncio.sleep(seconds)

    def _raise_held(self, check: Unmet) -> NoReturn:
        role = self._store.record.role
        only_admission = (
            check.code in ADMISSION_CODES and self._deadline.admission_seconds_left() <= 0
        )
        kind = AdmissionAwaited if only_admission else ReplacementHeld
        raise kind(
            str(check.code),
            role,
            check.ordinal,
            f"{check.reason}; nothing is lost: run `pulumi up` again to resume",
        )

    def _stop_if_asked(self) -> None:
        self._store.require_unfenced()
        if self._run.should_stop():
            raise ReplacementHeld(
                "Stopped",
                self._store.record.role,
                None,
                "the run was asked to stop; run `pulumi up` again to resume",
            )

    def _say(self, ordinal: int | None, line: str) -> None:
        where = (
            self._store.record.role if ordinal is None else f"{self._store.record.role} r{ordinal}"
        )
        text = f"{where}: {line}"
        if text != self._last_line:
            self._last_line = text
            self._run.progress(text)

    def _wanted(self) -> str:
        slot = self._store.record.slot
        return ",".join(slot.fingerprints) if slot else ""

    def _groups(self) -> tuple[str, ...]:
        """Return the groups that the record's slot and batch are about to compose."""
        record = self._store.record
        batch = record.batch
        batched = (
            tuple(
                identity.batch_group_name(record.deployment, record.role, batch.token, ordinal)
                for ordinal in batch.ordinals
            )
            if batch
            else ()
        )
        return (*self._slot_groups(), *batched)

    def _slot_groups(self) -> tuple[str, ...]:
        record, slot = self._store.record, self._store.record.slot
        if slot is None:
            return tuple(each.group_name for each in record.departures)
        if slot.phase is SlotPhase.CLEANUP:
            return tuple(each.group_name for each in slot.departures)
        return (identity.group_name(record.deployment, record.role, slot.token),)


def _as_stored(step: WriteRecord, known: RoleRecord) -> RoleRecord:
    return replace(step.record, uid=known.uid, resource_version=known.resource_version)


def cluster_error(failure: Exception) -> ClusterError:
    """Return the cluster's error; raise anything else that a group of calls brought."""
    if isinstance(failure, ExceptionGroup):
        for each in failure.exceptions:
            found = cluster_error(each)
        return found
    if not isinstance(failure, ClusterError):
        raise failure
    return failure
