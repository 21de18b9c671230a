"""The role's record in the cluster: created first, written only by the lock's holder (D1, D11).

Every write is conditional on the version that was read, so that a run that took the lock over
fences the former holder's writes.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from gpustack_deploy import __version__
from gpustack_deploy.engine import lock as locks
from gpustack_deploy.engine.cluster import CONFIG_MAP, Cluster
from gpustack_deploy.engine.run import RunContext
from gpustack_deploy.model import identity
from gpustack_deploy.model.errors import (
    ClusterError,
    Conflict,
    ForeignObject,
    LockHeld,
    NotFound,
    Unreachable,
)
from gpustack_deploy.model.raw import Json, mapping_at, text_at
from gpustack_deploy.model.record import LockState, RoleRecord, dump_record, load_record

_POLL_SECONDS = 1.0


class RecordStore:
    """Reads and writes one role's record; after `acquire` each write carries the lock.

    With `outlives_record` a run goes on from what it knows once the record has gone (D28).
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        namespace: str,
        deployment: str,
        role: str,
        run: RunContext,
        outlives_record: bool = False,
    ) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._deployment = deployment
        self._role = role
        self._run = run
        self._me = locks.this_process()
        self._is_held = False
        self._is_persisted = False
        self._written_at = run.clock.monotonic()
        self._turn = asyncio.Lock()
        self._record: RoleRecord | None = None
        self._lost: LockHeld | None = None
        self._outlives_record = outlives_record
        self._is_gone = False

    @property
    def name(self) -> str:
        """The ConfigMap's name."""
        return identity.record_name(self._deployment, self._role)

    @property
    def record(self) -> RoleRecord:
        """The record as last read or written.

        Raises:
            LookupError: there is none yet.
        """
        if self._record is None:
            raise LookupError(self.name)
        return self._record

    async def read(self) -> RoleRecord | None:
        """Return the record, `None` when the server states its absence.

        Raises:
            ForeignObject: a ConfigMap of that name is no record of this role.
            RecordUnreadable: it cannot be understood.
        """
        try:
            found = await self._cluster.get(CONFIG_MAP, self._namespace, self.name)
        except NotFound:
            self._record = None
            return None
        self._record = parse_record(found, deployment=self._deployment, role=self._role)
        return self._record

    def go_on_without(self, record: RoleRecord) -> None:
        """Take this for the record, which is gone: from now on nothing is written."""
        self._record, self._is_gone = record, True

    async def create(self, record: RoleRecord) -> RoleRecord:
        """Create the record, its lock already ours; the first thing a role's create writes.

        Raises:
            LockHeld: another run created it meanwhile.
        """
        held = replace(record, lock=locks.acquired(LockState(), self._me), written_by=__version__)
        try:
            made = await self._cluster.create(
                CONFIG_MAP, self._namespace, self._body(held, resource_version="")
            )
        except (Conflict, Unreachable) as failure:
            found = await self.read()
            if found is None:
                raise
            if found.lock.holder != self._me.holder:
                raise LockHeld(self._role, found.lock.holder or "a run that ended") from failure
            self._written_at = self._run.clock.monotonic()
        else:
            self._keep(held, made)
        self._is_held = self._is_persisted = True
        return self.record

    async def acquire(self) -> RoleRecord:
        """Take the lock: the next write carries it. Watches a held one for one duration (D11).

        Raises:
            LockHeld: another run renews it; nothing was changed.
        """
        watch = locks.LockWatch(self._me)
        while True:
            record = self.record
            verdict = watch.judge(record.lock, now=self._run.clock.monotonic())
            if verdict.may_take:
                self._record = replace(record, lock=locks.acquired(record.lock, self._me))
                self._is_held, self._is_persisted = True, False
                self._written_at = self._run.clock.monotonic()
                return self._record
            if verdict.is_renewed:
                raise LockHeld(self._role, record.lock.holder)
            self._run.progress(f"{self._role}: waiting for the lock of {record.lock.holder}")
            await asyncio.sleep(_POLL_SECONDS)
            if await self.read() is None:
                raise LockHeld(self._role, f"{record.lock.holder}, which removed the record")

    async def write(self, record: RoleRecord) -> RoleRecord:
        """Write the record and return it as stored.

        Raises:
            LockHeld: another run took the lock over.
        """
        return await self._write(lambda _known: record)

    def require_unfenced(self) -> None:
        """Raise `LockHeld` for good once another run was seen to have taken the lock over."""
        if self._lost is not None:
            raise self._lost

    async def ensure_held(self) -> None:
        """Guarantee that a create or delete may go out: the lock stands and was renewed lately.

        Raises:
            LockHeld: another run took the lock over meanwhile.
        """
        silent = self._run.clock.monotonic() - self._written_at
        if not self._is_persisted or silent > locks.SILENCE_SECONDS:
            await self._write(lambda known: known)

    async def renew_forever(self) -> None:
        """Renew the lock while the run goes on; ends by cancellation.

        Failures are left to `ensure_held`, which reads again before anything is changed. A run that
        was asked to stop renews no more: a call that hangs must not keep the next run out (D23).
        """
        while not self._run.should_stop():
            await asyncio.sleep(locks.RENEWAL_SECONDS)
            silent = self._run.clock.monotonic() - self._written_at
            is_due = self._is_persisted and silent >= locks.RENEWAL_SECONDS
            if is_due and not self._run.should_stop():
                with suppress(ClusterError, LockHeld):
                    await self._write(lambda known: known)

    async def release(
        self, change: Callable[[RoleRecord], RoleRecord] = lambda known: known
    ) -> None:
        """Give the lock up, in one write with the change; nothing is written if none was."""
        if not self._is_held:
            return
        if self._is_persisted or change(self.record) is not self.record:
            await self._write(
                lambda known: replace(change(known), lock=locks.released(known.lock)), renews=False
            )
        self._is_held = self._is_persisted = False

    async def delete(self) -> None:
        """Delete the record by its UID; absence is success, also after a lost answer."""
        if self._is_gone:
            return
        uid = self.record.uid
        try:
            await self._cluster.delete(CONFIG_MAP, self._namespace, self.name, uid=uid)
        except (NotFound, Conflict):
            return
        except Unreachable:
            found = await self.read()
            if found is not None and found.uid == uid:
                raise
        finally:
            self._is_held = self._is_persisted = False

    async def _write(
        self, change: Callable[[RoleRecord], RoleRecord], *, renews: bool = True
    ) -> RoleRecord:
        async with self._turn:
            while True:
                self.require_unfenced()
                known = self.record
                wanted = change(known)
                if self._is_gone:
                    self._record = wanted
                    return wanted
                lock = locks.renewed(self._mine(known.lock)) if renews else wanted.lock
                wanted = replace(
                    wanted,
                    lock=lock,
                    uid=known.uid,
                    resource_version=known.resource_version,
                    written_by=__version__,
                )
                try:
                    made = await self._cluster.replace(
                        CONFIG_MAP,
                        self._namespace,
                        self.name,
                        self._body(wanted, resource_version=known.resource_version),
                    )
                except (Conflict, NotFound):
                    await self._require_still_ours(wanted)
                else:
                    self._is_persisted = True
                    return self._keep(wanted, made)

    async def _require_still_ours(self, wanted: RoleRecord) -> None:
        """Find out whose write won: our own, whose answer was lost, or another run's.

        A record that has gone keeps nobody from destroying what it owned.

        Raises:
            LockHeld: another run's; ours would have to be made from what it wrote.
        """
        known = self.record
        found = await self.read()
        if found is None and self._outlives_record:
            self.go_on_without(known)
            return
        if (
            found is None
            or found.uid != known.uid
            or found.lock.generation != wanted.lock.generation
            # Nobody's at the generation that we held: a release of ours whose answer was lost.
            or found.lock.holder not in {self._me.holder, "" if self._is_persisted else None}
        ):
            # The other run's version must never become the precondition of a write of ours.
            self._record = known
            holder = found.lock.holder if found else "one that removed the record"
            self._lost = LockHeld(self._role, holder or "an unknown writer")
            raise self._lost
        self._written_at = self._run.clock.monotonic()

    def _mine(self, lock: LockState) -> LockState:
        return replace(self._me, renewals=lock.renewals, generation=lock.generation)

    def _keep(self, record: RoleRecord, stored: Json) -> RoleRecord:
        self._written_at = self._run.clock.monotonic()
        self._record = replace(
            record,
            uid=text_at(stored, "metadata", "uid"),
            resource_version=text_at(stored, "metadata", "resourceVersion"),
        )
        return self._record

    def _body(self, record: RoleRecord, *, resource_version: str) -> Json:
        metadata: dict[str, object] = {
            "name": self.name,
            "namespace": self._namespace,
            "labels": {
                **identity.role_selector(self._deployment, self._role),
                identity.LABEL_PART_OF: identity.PART_OF_VALUE,
                identity.LABEL_RECORD: "true",
            },
        }
        if resource_version:
            metadata |= {"uid": record.uid, "resourceVersion": resource_version}
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {identity.RECORD_KEY: dump_record(record)},
        }


def parse_record(found: Json, *, deployment: str, role: str) -> RoleRecord:
    """Return the record that the ConfigMap holds for exactly this role.

    Raises:
        ForeignObject: its labels do not say that it is this role's record.
        RecordUnreadable: its text cannot be understood.
    """
    name, uid = text_at(found, "metadata", "name"), text_at(found, "metadata", "uid")
    labels = mapping_at(found, "metadata", "labels")
    ours = {**identity.role_selector(deployment, role), identity.LABEL_RECORD: "true"}
    if any(labels.get(key) != value for key, value in ours.items()):
        raise ForeignObject("ConfigMap", name, uid, "it is the record of no or of another role")
    return load_record(
        text_at(found, "data", identity.RECORD_KEY),
        name=name,
        uid=uid,
        resource_version=text_at(found, "metadata", "resourceVersion"),
    )
