"""The role's record: what must survive a killed run, as JSON in one ConfigMap (D1, D19).

The record's object UID is the ownership authority of the role's Pods and Services. A record that
cannot be parsed, or that a newer version wrote, is refused and never read as an empty one.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from gpustack_deploy.model.errors import RecordUnreadable

SCHEMA_VERSION: Final = 1


class SlotPhase(StrEnum):
    """The two phases of an open slot; a closed slot is no slot."""

    CLEANUP = "Cleanup"
    WAITING_FOR_ADMISSION = "WaitingForAdmission"


@dataclass(frozen=True, slots=True)
class Departure:
    """A replica that leaves: what was captured before the first delete.

    `members` maps UID to name. `workload_uid` is empty when no Workload was visible; one that
    names a captured member as its owner is then ours as well (D5).
    """

    ordinal: int
    group_name: str
    members: Mapping[str, str]
    workload_uid: str = ""


@dataclass(frozen=True, slots=True)
class Slot:
    """The role's single open replacement.

    In `CLEANUP` the `departures` may be deleted (more than one after a supersede). In
    `WAITING_FOR_ADMISSION` `token`, `fingerprints` and the current identities describe the
    replacement.
    """

    ordinal: int
    phase: SlotPhase
    departures: tuple[Departure, ...] = ()
    token: str = ""
    fingerprints: tuple[str, ...] = ()
    current_member_uids: Mapping[str, str] = field(default_factory=dict)
    current_workload_uid: str = ""


@dataclass(frozen=True, slots=True)
class Batch:
    """Creates outside a slot: one token and the ordinals it covers (D3)."""

    token: str
    ordinals: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LockState:
    """The role's lock (D11); `holder` is empty when nobody holds it."""

    holder: str = ""
    host: str = ""
    boot_id: str = ""
    pid: int = 0
    process_start: str = ""
    renewals: int = 0
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Writer:
    """Who declares the role."""

    organization: str = ""
    project: str = ""
    stack: str = ""
    urn: str = ""

    def __str__(self) -> str:
        """Return `organization/project/stack`, as Pulumi writes a stack's full name."""
        return "/".join(part for part in (self.organization, self.project, self.stack) if part)


@dataclass(frozen=True, slots=True)
class RoleRecord:
    """Everything the record holds, with the ConfigMap's own UID and version beside it.

    `uid` and `resource_version` are empty until the ConfigMap exists; they are not part of the
    stored text. `parked` are ordinals whose replacement was left
    queued (D6). `former_uid` is the UID of a lost record whose Pods this one inherits (D1).
    """

    deployment: str
    role: str
    role_kinds: Mapping[str, str]
    front_role: str
    claim: str = ""
    writer: Writer = field(default_factory=Writer)
    lock: LockState = field(default_factory=LockState)
    slot: Slot | None = None
    departures: tuple[Departure, ...] = ()
    batch: Batch | None = None
    parked: tuple[int, ...] = ()
    achieved: int = 0
    cluster_uid: str = ""
    cluster_ca: str = ""
    namespace_uid: str = ""
    written_by: str = ""
    former_uid: str = ""
    uid: str = ""
    resource_version: str = ""

    def with_slot(self, slot: Slot | None) -> "RoleRecord":
        """Return the record with that slot."""
        return replace(self, slot=slot)


def dump_record(record: RoleRecord) -> str:
    """Return the stored text: JSON with sorted keys, camelCase, without the object's own UID."""
    stored = asdict(record)
    del stored["uid"], stored["resource_version"]
    stored["schema_version"] = SCHEMA_VERSION
    return json.dumps(_camel(stored), sort_keys=True, separators=(",", ":"))


def load_record(text: str, *, name: str, uid: str, resource_version: str) -> RoleRecord:
    """Return the record that the text spells.

    Raises:
        RecordUnreadable: the text is no JSON object, lacks a field, or a newer version wrote it.
    """
    try:
        stored = json.loads(text)
    except ValueError as error:
        raise RecordUnreadable(name, f"it is no JSON ({error})") from error
    if not isinstance(stored, dict):
        raise RecordUnreadable(name, "it is no JSON object")
    version = stored.get("schemaVersion")
    if not isinstance(version, int) or version < 1:
        raise RecordUnreadable(name, f"its schemaVersion is {version!r}, a number is needed")
    if version > SCHEMA_VERSION:
        raise RecordUnreadable(
            name,
            f"schemaVersion {version} was written by gpustack-deploy"
            f" {stored.get('writtenBy') or 'of an unknown version'}, this one reads up to"
            f" {SCHEMA_VERSION}",
        )
    try:
        return _parse(stored, uid=uid, resource_version=resource_version)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordUnreadable(name, f"{type(error).__name__}: {error}") from error


def _parse(stored: Mapping[str, Any], *, uid: str, resource_version: str) -> RoleRecord:
    slot, batch = stored["slot"], stored["batch"]
    return RoleRecord(
        deployment=str(stored["deployment"]),
        role=str(stored["role"]),
        role_kinds=dict(stored["roleKinds"]),
        front_role=str(stored["frontRole"]),
        claim=str(stored["claim"]),
        writer=Writer(**_snake(stored["writer"])),
        lock=LockState(**_snake(stored["lock"])),
        slot=None if slot is None else _parse_slot(slot),
        departures=tuple(_parse_departure(each) for each in stored["departures"]),
        batch=None
        if batch is None
        else Batch(token=batch["token"], ordinals=tuple(int(each) for each in batch["ordinals"])),
        parked=tuple(int(each) for each in stored["parked"]),
        achieved=int(stored["achieved"]),
        cluster_uid=str(stored["clusterUid"]),
        cluster_ca=str(stored["clusterCa"]),
        namespace_uid=str(stored["namespaceUid"]),
        written_by=str(stored["writtenBy"]),
        former_uid=str(stored["formerUid"]),
        uid=uid,
        resource_version=resource_version,
    )


def _parse_slot(stored: Mapping[str, Any]) -> Slot:
    return Slot(
        ordinal=int(stored["ordinal"]),
        phase=SlotPhase(stored["phase"]),
        departures=tuple(_parse_departure(each) for each in stored["departures"]),
        token=str(stored["token"]),
        fingerprints=tuple(stored["fingerprints"]),
        current_member_uids=dict(stored["currentMemberUids"]),
        current_workload_uid=str(stored["currentWorkloadUid"]),
    )


def _parse_departure(stored: Mapping[str, Any]) -> Departure:
    return Departure(
        ordinal=int(stored["ordinal"]),
        group_name=str(stored["groupName"]),
        members=dict(stored["members"]),
        workload_uid=str(stored["workloadUid"]),
    )


# Keys of these maps are UIDs and names, not fields: they are stored as they are.
_NAMED_MAPS: Final = frozenset({"members", "current_member_uids", "role_kinds"})


def _camel(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            _camel_key(key): dict(item) if key in _NAMED_MAPS else _camel(item)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_camel(item) for item in value]
    return value


def _camel_key(key: str) -> str:
    head, *rest = key.split("_")
    return head + "".join(part.title() for part in rest)


def _snake(value: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "".join(f"_{char.lower()}" if char.isupper() else char for char in key): item
        for key, item in value.items()
    }
