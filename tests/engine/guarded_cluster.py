"""The in-memory cluster with a guard at its door: it judges each write of a run as it is served.

What must never happen is noted in `violations`; a copy of the cluster at any moment is what a
process that died there leaves behind.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpustack_deploy.engine.cluster import CONFIG_MAP, POD, SERVICE, WORKLOAD, Change, Kind
from gpustack_deploy.model import identity
from gpustack_deploy.model.raw import Json
from gpustack_deploy.model.record import Departure, RoleRecord, load_record
from tests.fakes import FakeClock, MemoryCluster
from tests.fakes.objects import Object, annotations_of, labels_of, meta, name_of, uid_of

ROOM: Final[Mapping[str, str | int]] = {"cpu": 1000, "memory": "64Ti", "ephemeral-storage": "100Ti"}
GPU: Final = "nvidia.com/gpu"

_WRITES: Final = frozenset({"create", "replace", "patch", "delete"})


@dataclass(frozen=True)
class Served:
    """One served call; `is_lock_only`: a record write that moves the lock alone."""

    verb: str
    kind: str
    name: str
    is_dry_run: bool = False
    is_lock_only: bool = False

    @property
    def is_write(self) -> bool:
        return self.verb in _WRITES and not self.is_dry_run


class GuardedCluster(MemoryCluster):
    """A cluster that notes what was asked of it and what should never have been."""

    def __init__(self, clock: FakeClock, *, is_auto: bool = True, **options: Any) -> None:
        self.served: list[Served] = []
        self.violations: list[str] = []
        self.lost_records: set[str] = set()
        self.on_call: Callable[[], None] = lambda: None
        super().__init__(clock, is_auto=is_auto, **options)
        self.store.on_change.append(self._check_newest)

    # --- the port, judged ---

    async def _arrive(self, verb: str, kind: Kind) -> None:
        if verb in ("get", "list"):
            self.served.append(Served(verb, kind.name, ""))
        self.on_call()
        await super()._arrive(verb, kind)
        self.on_call()

    async def create(
        self, kind: Kind, namespace: str, body: Json, *, dry_run: bool = False
    ) -> Json:
        self.served.append(Served("create", kind.name, name_of(body), is_dry_run=dry_run))
        return self._answered(await super().create(kind, namespace, body, dry_run=dry_run))

    async def replace(self, kind: Kind, namespace: str, name: str, body: Json) -> Json:
        before = self.peek(kind, name, namespace)
        is_lock_only = (
            kind == CONFIG_MAP and before is not None and _content(before) == _content(body)
        )
        self.served.append(Served("replace", kind.name, name, is_lock_only=is_lock_only))
        return self._answered(await super().replace(kind, namespace, name, body))

    async def patch(self, kind: Kind, namespace: str, name: str, body: Json, *, uid: str) -> Json:
        self.served.append(Served("patch", kind.name, name))
        return self._answered(await super().patch(kind, namespace, name, body, uid=uid))

    async def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        *,
        uid: str,
        grace_period_seconds: int | None = None,
    ) -> None:
        self.served.append(Served("delete", kind.name, name))
        self._check_delete(kind, name, uid)
        await super().delete(
            kind, namespace, name, uid=uid, grace_period_seconds=grace_period_seconds
        )
        self.on_call()

    # --- what a test reads ---

    def record(self, deployment: str, role: str) -> RoleRecord | None:
        """The role's record as it is stored, None without one."""
        found = self.peek(CONFIG_MAP, identity.record_name(deployment, role))
        return None if found is None else parsed(found)

    def records(self) -> list[RoleRecord]:
        return [parsed(each) for each in self.objects(CONFIG_MAP) if _is_record(each)]

    @property
    def writes(self) -> list[Served]:
        return [call for call in self.served if call.is_write]

    def count(self, verb: str, kind: str) -> int:
        return sum((call.verb, call.kind) == (verb, kind) for call in self.served)

    def forget_calls(self) -> None:
        self.served.clear()

    def fork(self) -> "GuardedCluster":
        """Return the same objects at the same moment, on a clock of their own."""
        clock = FakeClock()
        clock.seconds = self.clock.seconds
        # Nothing of the copy may run on the loop of a run that is under way.
        other = GuardedCluster(clock, is_auto=False, namespaces=())
        # Nothing changes a stored object in place: the copies may share them.
        other.store.objects = {kind: dict(held) for kind, held in self.store.objects.items()}
        other.store.version = other.store.compacted = self.store.version
        other.store.history.clear()
        other.store._serial = itertools.count(1_000_000)
        other.lost_records = set(self.lost_records)
        other.kueue.unmanaged = set(self.kueue.unmanaged)
        other.world.kubelet.timing = self.world.kubelet.timing
        other.world.kubelet.behaviour = self.world.kubelet.behaviour
        other.world.kubelet.lost = set(self.world.kubelet.lost)
        other._is_auto = True
        return other

    # --- what must hold ---

    def _answered(self, answer: Json) -> Json:
        self.on_call()
        return answer

    def _check_delete(self, kind: Kind, name: str, uid: str) -> None:
        if kind == SERVICE:
            self._check_prune(name)
        if kind not in (POD, WORKLOAD):
            return
        owed = [each for record in self.records() for each in _owed(record)]
        members = {member for each in owed for member in each.members}
        if not self.records():
            # Without a record, what carries the UID of a lost one is what it left.
            members |= {
                uid_of(pod)
                for pod in self.objects(POD)
                for owner in meta(pod).get("ownerReferences", [])
                if owner["uid"] in self.lost_records
            }
        if kind == POD:
            is_permitted = uid in members
        else:
            found = self.peek(WORKLOAD, name)
            owners = {
                owner["uid"] for owner in meta(found or {"metadata": {}}).get("ownerReferences", [])
            }
            is_captured = uid in {each.workload_uid for each in owed}
            is_permitted = found is None or is_captured or (bool(owners) and owners <= members)
        if not is_permitted:
            self.violations.append(f"{kind.name} {name} ({uid}) was deleted and not captured")

    def _check_prune(self, name: str) -> None:
        service = self.peek(SERVICE, name)
        ordinal = (
            ((service or {}).get("spec") or {}).get("selector", {}).get(identity.LABEL_ORDINAL)
        )
        if ordinal is None or service is None:
            return
        role = labels_of(service).get(identity.LABEL_ROLE)
        for pod in self.objects(POD):
            labels = labels_of(pod)
            seat = labels.get(identity.LABEL_ROLE), labels.get(identity.LABEL_ORDINAL)
            if seat == (role, ordinal) and annotations_of(pod)[identity.KUEUE_GROUP_TOTAL] != "1":
                self.violations.append(f"Service {name} was pruned before {name_of(pod)} left")

    def _check_newest(self) -> None:
        """Each Pod that appears joins an ordinal of its own attempt, and no group grows too big."""
        newest = self.store.history[-1]
        if newest.kind == CONFIG_MAP and newest.change is Change.DELETED:
            self.lost_records.add(uid_of(newest.obj))
        if newest.kind != POD or newest.before is not None or not _seat(newest.obj)[0]:
            return
        group = labels_of(newest.obj)[identity.KUEUE_GROUP_NAME]
        total = int(annotations_of(newest.obj)[identity.KUEUE_GROUP_TOTAL])
        fellows = [each for each in self.store.each(POD) if _seat(each) == _seat(newest.obj)]
        groups = {labels_of(each)[identity.KUEUE_GROUP_NAME] for each in fellows}
        if groups != {group}:
            self.violations.append(f"{name_of(newest.obj)} joined members of {groups - {group}}")
        if len(fellows) > total:
            self.violations.append(f"group {group} has {len(fellows)} members of {total}")
        if self.store.find(WORKLOAD, "ml", group) is not None:
            self.violations.append(f"{name_of(newest.obj)} joined a group composed already")


def parsed(found: Json) -> RoleRecord:
    return load_record(
        found["data"][identity.RECORD_KEY],
        name=name_of(found),
        uid=uid_of(found),
        resource_version=meta(found).get("resourceVersion", ""),
    )


def _content(found: Json) -> tuple[object, ...]:
    record = parsed(found)
    return record.slot, record.batch, record.departures, record.achieved, record.claim


def _is_record(found: Object) -> bool:
    return labels_of(found).get(identity.LABEL_RECORD) == "true" and bool(
        found.get("data", {}).get(identity.RECORD_KEY)
    )


def _owed(record: RoleRecord) -> Iterable[Departure]:
    return (*record.departures, *(record.slot.departures if record.slot else ()))


def _seat(pod: Object) -> tuple[str, str]:
    labels = labels_of(pod)
    role = labels.get(identity.LABEL_ROLE, "")
    return role, labels.get(identity.LABEL_ORDINAL, "")
