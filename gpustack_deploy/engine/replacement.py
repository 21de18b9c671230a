"""The engine's public calls: create, update, read and delete one role.

`update_role` replaces whole replicas, one ordinal at a time, and can be killed anywhere: the next
call resumes from the record (D1, D12).
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace

from gpustack_deploy.engine.admission import dry_run_member
from gpustack_deploy.engine.cluster import Cluster
from gpustack_deploy.engine.deadline import Deadline
from gpustack_deploy.engine.executor import Executor
from gpustack_deploy.engine.observer import Observer
from gpustack_deploy.engine.preflight import (
    Place,
    require_free_services,
    require_place,
    require_queue,
)
from gpustack_deploy.engine.record_store import RecordStore
from gpustack_deploy.engine.rollout import Accept, Planner, Rollout, cluster_error
from gpustack_deploy.engine.run import RunContext
from gpustack_deploy.model.desired import Desired
from gpustack_deploy.model.errors import (
    ClusterError,
    GpustackDeployError,
    LockHeld,
    OtherWriter,
)
from gpustack_deploy.model.record import RoleRecord
from gpustack_deploy.model.role import RoleDeclaration
from gpustack_deploy.model.state import RoleState
from gpustack_deploy.plan.desired_role import desired_of
from gpustack_deploy.plan.planner import departing_members, next_step, will_create
from gpustack_deploy.plan.render import Owner
from gpustack_deploy.plan.snapshot import Snapshot
from gpustack_deploy.plan.step import Done, Step


@dataclass(frozen=True, slots=True)
class RoleReading:
    """What a read-only look at the role found.

    `step` is what a run would do first; `is_gone` says that the server states the absence of the
    record, or of the namespace that held it.
    """

    is_gone: bool
    step: Step | None
    record: RoleRecord | None

    @property
    def is_converged(self) -> bool:
        """Whether a run would change nothing."""
        return isinstance(self.step, Done)


async def create_role(
    cluster: Cluster, declaration: RoleDeclaration, run: RunContext, *, adopt: bool = False
) -> RoleState:
    """Create the role, or find and finish what an earlier create began; return what stands.

    Raises:
        GpustackDeployError: one sentence; before the record stands, nothing was written.
        ReplacementHeld: with `state` set, once objects stand that must stay tracked.
    """
    place = await require_place(cluster, declaration.namespace)
    store = _store(cluster, declaration, run)
    found = await store.read()
    claim = run.draw()
    if found is None:
        await _create_record(cluster, store, declaration, run, place, claim=claim)
    else:
        _require_writer(found, run, adopt=adopt)
        await require_queue(cluster, declaration)
        await _take_over(store, run, place, claim=claim)
    return await _converge(cluster, store, declaration, run, is_accepted=found is None)


async def update_role(
    cluster: Cluster, declaration: RoleDeclaration, previous: RoleState, run: RunContext
) -> RoleState:
    """Bring the role to the declaration by whole-replica replacement; return what stands.

    Raises:
        WrongCluster: the connection leads to another cluster.
        ReplacementHeld: a check stayed unmet; `state` says what stands.
    """
    place = await require_place(cluster, declaration.namespace, previous=previous)
    store = _store(cluster, declaration, run)
    found = await store.read()
    if found is None:
        await _create_record(
            cluster,
            store,
            declaration,
            run,
            place,
            claim=previous.claim or run.draw(),
            former_uid=previous.record_uid,
        )
    else:
        _require_writer(found, run, adopt=False)
        await require_queue(cluster, declaration)
        await store.acquire()
    return await _converge(cluster, store, declaration, run, is_accepted=found is None)


async def read_role(
    cluster: Cluster, declaration: RoleDeclaration, previous: RoleState, run: RunContext
) -> RoleReading:
    """Look at the role without writing: three reads, and the cluster's marks once a process.

    Raises:
        WrongCluster: the connection leads to another cluster; the role is then never "gone".
        ClusterError: a read failed; one plain error, although two are made at once.
    """
    place = await require_place(cluster, declaration.namespace, previous=previous, is_read=True)
    if place.is_gone:
        return RoleReading(is_gone=True, step=None, record=None)
    store = _store(cluster, declaration, run)
    record = await store.read()
    if record is None:
        return RoleReading(is_gone=True, step=None, record=None)
    desired = _desired(declaration, record)
    async with _observer(cluster, declaration, run) as observer:
        try:
            await observer.read()
        except ExceptionGroup as failure:
            raise cluster_error(failure) from failure
        return RoleReading(
            is_gone=False,
            step=next_step(desired, observer.snapshot(""), record),
            record=record,
        )


def state_of(record: RoleRecord, desired: Desired, *, is_finished: bool = True) -> RoleState:
    """Return what the resource keeps: identities from the record, achieved facts."""
    return RoleState(
        record_uid=record.uid,
        claim=record.claim,
        cluster_uid=record.cluster_uid,
        cluster_ca=record.cluster_ca,
        namespace_uid=record.namespace_uid,
        fingerprint=desired.fingerprint,
        replicas=desired.replicas,
        size=desired.size,
        is_finished=is_finished,
    )


async def _create_record(
    cluster: Cluster,
    store: RecordStore,
    declaration: RoleDeclaration,
    run: RunContext,
    place: Place,
    *,
    claim: str,
    former_uid: str = "",
) -> None:
    """Check everything that can refuse, then write the record: the first thing written (D1)."""
    await require_queue(cluster, declaration)
    await require_free_services(cluster, declaration, former_uid=former_uid)
    await dry_run_member(cluster, declaration, token=run.draw(), owner=None)
    record = RoleRecord(
        deployment=declaration.deployment,
        role=declaration.role,
        role_kinds={name: kind.value for name, kind in declaration.role_kinds.items()},
        front_role=declaration.front_role,
        claim=claim,
        writer=run.writer,
        cluster_uid=place.marks.uid,
        cluster_ca=place.marks.ca,
        namespace_uid=place.namespace_uid,
        former_uid=former_uid,
    )
    await store.create(record)


async def _take_over(store: RecordStore, run: RunContext, place: Place, *, claim: str) -> None:
    """Stamp a fresh claim, so that an earlier state's delete removes nothing any more (D12)."""
    record = await store.acquire()
    await store.write(
        replace(
            record,
            claim=claim,
            writer=run.writer,
            cluster_uid=place.marks.uid,
            cluster_ca=place.marks.ca,
            namespace_uid=place.namespace_uid,
        )
    )


def _require_writer(found: RoleRecord, run: RunContext, *, adopt: bool) -> None:
    known, mine = found.writer, run.writer
    if adopt or not str(known) or not str(mine) or str(known) == str(mine):
        return
    raise OtherWriter(found.role, str(known))


async def _converge(
    cluster: Cluster,
    store: RecordStore,
    declaration: RoleDeclaration,
    run: RunContext,
    *,
    is_accepted: bool = False,
) -> RoleState:
    desired = _desired(declaration, store.record)

    async def judge(snapshot: Snapshot, record: RoleRecord, ordinal: int | None) -> None:
        owner = Owner(name=store.name, uid=record.uid)
        departing = departing_members(desired, snapshot, record, ordinal)
        await dry_run_member(
            cluster, declaration, token=run.draw(), owner=owner, departing=departing
        )

    def is_needed(snapshot: Snapshot, record: RoleRecord) -> bool:
        return will_create(desired, snapshot, record)

    def planner(snapshot: Snapshot, record: RoleRecord) -> Step:
        return next_step(desired, snapshot, record)

    try:
        await drive(
            cluster,
            store,
            planner,
            run,
            namespace=declaration.namespace,
            declaration=declaration,
            accept=None if is_accepted else Accept(is_needed, judge),
        )
    except GpustackDeployError as error:
        error.state = state_of(store.record, desired, is_finished=False)
        raise
    return state_of(store.record, desired)


async def drive(
    cluster: Cluster,
    store: RecordStore,
    planner: Planner,
    run: RunContext,
    *,
    namespace: str,
    declaration: RoleDeclaration | None = None,
    accept: Accept | None = None,
) -> None:
    """Run the loop under the lock, renewing it, and give the lock up however the loop ends."""
    rollout = declaration.rollout if declaration else None
    deadline = Deadline(
        run.clock,
        deadline_seconds=rollout.deadline_seconds if rollout else _TEARDOWN_SECONDS,
        startup_timeout_seconds=declaration.startup_timeout_seconds if declaration else 0,
        admission_wait_seconds=rollout.admission_wait_seconds
        if rollout and run.bounds_admission_wait
        else None,
    )
    record = store.record
    renewal = asyncio.create_task(store.renew_forever())
    try:
        async with Observer(
            cluster,
            namespace=namespace,
            deployment=record.deployment,
            role=record.role,
            run=run,
        ) as observer:
            await Rollout(
                planner=planner,
                observer=observer,
                store=store,
                executor=Executor(cluster, store, declaration, namespace),
                deadline=deadline,
                run=run,
                accept=accept,
            ).converge()
    except GpustackDeployError:
        with suppress(ClusterError, LockHeld):
            await store.release()
        raise
    finally:
        renewal.cancel()
        with suppress(asyncio.CancelledError):
            await renewal


_TEARDOWN_SECONDS = 1800


def _desired(declaration: RoleDeclaration, record: RoleRecord) -> Desired:
    return replace(desired_of(declaration), front_role=record.front_role)


def _store(cluster: Cluster, declaration: RoleDeclaration, run: RunContext) -> RecordStore:
    return RecordStore(
        cluster,
        namespace=declaration.namespace,
        deployment=declaration.deployment,
        role=declaration.role,
        run=run,
    )


@asynccontextmanager
async def _observer(
    cluster: Cluster, declaration: RoleDeclaration, run: RunContext
) -> AsyncIterator[Observer]:
    async with Observer(
        cluster,
        namespace=declaration.namespace,
        deployment=declaration.deployment,
        role=declaration.role,
        run=run,
    ) as observer:
        yield observer
