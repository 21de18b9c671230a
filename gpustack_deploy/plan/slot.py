"""The slot's state machine: one table, this file, nothing else changes a slot.

Every edge names the observation that causes it. The diagram in the docs is drawn from `EDGES`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from gpustack_deploy.model.observed import ObservedMember, ObservedWorkload
from gpustack_deploy.model.record import Batch, Departure, RoleRecord, Slot, SlotPhase


class Transition(StrEnum):
    """Everything that may be written into the record once it exists."""

    OPEN = "open"
    RECAPTURE = "recapture"
    CAPTURE_WORKLOAD = "capture-workload"
    BEGIN = "begin"
    ADOPT = "adopt"
    SUPERSEDE = "supersede"
    REBUILD = "rebuild"
    CANCEL = "cancel"
    DROP = "drop"
    PARK = "park"
    CLOSE = "close"
    OPEN_BATCH = "open-batch"
    CLOSE_BATCH = "close-batch"
    CAPTURE_SURPLUS = "capture-surplus"
    FORGET_SURPLUS = "forget-surplus"


class SlotState(StrEnum):
    """The slot's states; `CLOSED` is the absence of a slot."""

    CLOSED = "Closed"
    CLEANUP = "Cleanup"
    WAITING_FOR_ADMISSION = "WaitingForAdmission"


@dataclass(frozen=True, slots=True)
class Edge:
    """One permitted transition of the slot and the observation that causes it."""

    source: SlotState
    target: SlotState
    observation: str


EDGES: Final[Mapping[Transition, Edge]] = {
    Transition.OPEN: Edge(
        SlotState.CLOSED,
        SlotState.CLEANUP,
        "a replica is short of its members, or built from an earlier declaration",
    ),
    Transition.RECAPTURE: Edge(
        SlotState.CLEANUP,
        SlotState.CLEANUP,
        "a member of ours that nobody captured stands on the ordinal (a late create)",
    ),
    Transition.CAPTURE_WORKLOAD: Edge(
        SlotState.CLEANUP,
        SlotState.CLEANUP,
        "a Workload that names a captured member as owner appears where none was captured",
    ),
    Transition.BEGIN: Edge(
        SlotState.CLEANUP,
        SlotState.WAITING_FOR_ADMISSION,
        "the server shows no member on the ordinal and its old Workload is gone",
    ),
    Transition.ADOPT: Edge(
        SlotState.WAITING_FOR_ADMISSION,
        SlotState.WAITING_FOR_ADMISSION,
        "every member of the replacement stands and the record does not name them yet",
    ),
    Transition.SUPERSEDE: Edge(
        SlotState.WAITING_FOR_ADMISSION,
        SlotState.CLEANUP,
        "the declaration renders other fingerprints than the replacement was made for",
    ),
    Transition.REBUILD: Edge(
        SlotState.WAITING_FOR_ADMISSION,
        SlotState.CLEANUP,
        "the replacement lost a member, or its Workload was evicted, finished or composed short",
    ),
    Transition.CANCEL: Edge(
        SlotState.WAITING_FOR_ADMISSION,
        SlotState.CLEANUP,
        "the declared replicas no longer reach the ordinal",
    ),
    Transition.DROP: Edge(
        SlotState.CLEANUP,
        SlotState.CLOSED,
        "the ordinal is vacant and no longer declared",
    ),
    Transition.PARK: Edge(
        SlotState.WAITING_FOR_ADMISSION,
        SlotState.CLOSED,
        "the replacement is queued and was never admitted, and the next replica to go releases"
        " what both replacements need",
    ),
    Transition.CLOSE: Edge(
        SlotState.WAITING_FOR_ADMISSION,
        SlotState.CLOSED,
        "a fresh admission describes exactly these members, and the gate is passed",
    ),
}


def slot_state(record: RoleRecord) -> SlotState:
    """Return the state of the record's slot."""
    return SlotState.CLOSED if record.slot is None else SlotState(record.slot.phase.value)


def open_slot(record: RoleRecord, ordinal: int, departures: tuple[Departure, ...]) -> RoleRecord:
    """Return the record with a slot in Cleanup that may delete exactly what was captured."""
    _require(record, Transition.OPEN)
    slot = Slot(ordinal=ordinal, phase=SlotPhase.CLEANUP, departures=departures)
    return replace(
        record,
        slot=slot,
        batch=_without(record.batch, {ordinal}),
        parked=tuple(each for each in record.parked if each != ordinal),
    )


def recapture(record: RoleRecord, departures: tuple[Departure, ...]) -> RoleRecord:
    """Return the record whose slot captured more; earlier departures stay owed."""
    slot = _require(record, Transition.RECAPTURE)
    return record.with_slot(replace(slot, departures=_merged(slot.departures, departures)))


def reopen_slot(
    record: RoleRecord, transition: Transition, departures: tuple[Departure, ...]
) -> RoleRecord:
    """Return the record whose same slot went back to Cleanup (supersede, rebuild, cancel)."""
    slot = _require(record, transition)
    return record.with_slot(
        Slot(ordinal=slot.ordinal, phase=SlotPhase.CLEANUP, departures=departures)
    )


def begin(record: RoleRecord, token: str, fingerprints: tuple[str, ...]) -> RoleRecord:
    """Return the record whose slot awaits a replacement under a fresh token."""
    slot = _require(record, Transition.BEGIN)
    return record.with_slot(
        Slot(
            ordinal=slot.ordinal,
            phase=SlotPhase.WAITING_FOR_ADMISSION,
            token=token,
            fingerprints=fingerprints,
        )
    )


def adopt(record: RoleRecord, member_uids: Mapping[str, str], workload_uid: str) -> RoleRecord:
    """Return the record that names the replacement's members and, when seen, its Workload."""
    slot = _require(record, Transition.ADOPT)
    return record.with_slot(
        replace(
            slot,
            current_member_uids=dict(member_uids),
            current_workload_uid=workload_uid or slot.current_workload_uid,
        )
    )


def park_slot(record: RoleRecord) -> RoleRecord:
    """Return the record whose slot is closed and whose ordinal still owes a fresh admission."""
    slot = _require(record, Transition.PARK)
    return replace(record, slot=None, parked=(*record.parked, slot.ordinal))


def close_slot(record: RoleRecord, transition: Transition = Transition.CLOSE) -> RoleRecord:
    """Return the record without a slot (close, or drop of an ordinal no longer declared)."""
    _require(record, transition)
    return record.with_slot(None)


def capture(
    ordinal: int,
    members: Iterable[ObservedMember],
    workloads: Mapping[str, ObservedWorkload | None],
) -> tuple[Departure, ...]:
    """Return one departure a group: the members' UIDs, and the Workload that owns one of them.

    A Workload that merely carries the group's name is not captured (D5).
    """
    groups: dict[str, dict[str, str]] = {}
    for member in members:
        groups.setdefault(member.group_name, {})[member.uid] = member.name
    return tuple(
        Departure(
            ordinal=ordinal,
            group_name=group,
            members=members_of,
            workload_uid=owned_workload_uid(workloads.get(group), members_of),
        )
        for group, members_of in sorted(groups.items())
    )


def with_workload_captured(record: RoleRecord, group_name: str, workload_uid: str) -> RoleRecord:
    """Return the record in which the departure of that group owes that Workload a delete."""

    def captured(departures: tuple[Departure, ...]) -> tuple[Departure, ...]:
        return tuple(
            replace(each, workload_uid=workload_uid) if each.group_name == group_name else each
            for each in departures
        )

    slot = record.slot
    return replace(
        record,
        departures=captured(record.departures),
        slot=slot and replace(slot, departures=captured(slot.departures)),
    )


def capture_surplus(record: RoleRecord, departures: tuple[Departure, ...]) -> RoleRecord:
    """Return the record that owes those replicas, beyond the declared count, a delete (D14)."""
    return replace(record, departures=_merged(record.departures, departures))


def forget_surplus(record: RoleRecord, replicas: int) -> RoleRecord:
    """Return the record after the surplus replicas left.

    Their ordinals leave the batch, so that a later growth draws a fresh group name (D3).
    """
    gone = {each.ordinal for each in record.departures}
    return replace(
        record,
        departures=(),
        achieved=min(record.achieved, replicas),
        batch=_without(record.batch, gone),
        parked=tuple(each for each in record.parked if each < replicas),
    )


def open_batch(record: RoleRecord, token: str, ordinals: tuple[int, ...]) -> RoleRecord:
    """Return the record with a batch that covers exactly those ordinals (D3)."""
    return replace(record, batch=Batch(token=token, ordinals=ordinals))


def close_batch(record: RoleRecord, replicas: int) -> RoleRecord:
    """Return the record in which every declared ordinal is established (D6)."""
    return replace(record, batch=None, parked=(), achieved=replicas)


def _require(record: RoleRecord, transition: Transition) -> Slot:
    edge = EDGES[transition]
    if slot_state(record) is not edge.source:
        msg = f"{transition} needs a slot in {edge.source}, found {slot_state(record)}"
        raise ValueError(msg)
    return record.slot or Slot(ordinal=-1, phase=SlotPhase.CLEANUP)


def owned_workload_uid(workload: ObservedWorkload | None, uids: Iterable[str]) -> str:
    """Return the Workload's UID when one of these members owns it, else nothing (D5)."""
    if workload is None or workload.owner_uids.isdisjoint(uids):
        return ""
    return workload.uid


def _without(batch: Batch | None, ordinals: set[int]) -> Batch | None:
    kept = tuple(each for each in batch.ordinals if each not in ordinals) if batch else ()
    return replace(batch, ordinals=kept) if batch and kept else None


def _merged(known: tuple[Departure, ...], more: tuple[Departure, ...]) -> tuple[Departure, ...]:
    by_group = {each.group_name: each for each in known}
    for each in more:
        old = by_group.get(each.group_name)
        by_group[each.group_name] = (
            each
            if old is None
            else replace(
                old,
                members={**old.members, **each.members},
                workload_uid=old.workload_uid or each.workload_uid,
            )
        )
    return tuple(by_group.values())
