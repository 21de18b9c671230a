"""How an open slot advances, one step at a time (D6-D8)."""

from collections.abc import Mapping, Sequence
from typing import Final, assert_never

from gpustack_deploy.model import identity
from gpustack_deploy.model.observed import (
    ABSENT_CONDITION,
    ConditionStatus,
    ObservedMember,
    ObservedWorkload,
)
from gpustack_deploy.model.record import Departure, Slot, SlotPhase
from gpustack_deploy.plan import slot as slots
from gpustack_deploy.plan.checks import (
    Unmet,
    WaitCode,
    administrators_hold,
    fresh_admission,
    gate_passed,
    looks_queued,
    members_released,
    members_standing,
)
from gpustack_deploy.plan.departure import advance_departures
from gpustack_deploy.plan.order import releases_enough
from gpustack_deploy.plan.slot import Transition
from gpustack_deploy.plan.snapshot import RoleView
from gpustack_deploy.plan.step import Await, Compose, Hold, Inspect, Seat, Step, WriteRecord

PARK_AFTER_SECONDS: Final = 5.0


def advance_slot(role: RoleView) -> Step | None:
    """Return the open slot's next step, or nothing when no slot is open."""
    slot = role.record.slot
    if slot is None:
        return None
    match slot.phase:
        case SlotPhase.CLEANUP:
            return _clean_up(role, slot)
        case SlotPhase.WAITING_FOR_ADMISSION:
            return _await_admission(role, slot)
        case _:
            assert_never(slot.phase)


def _clean_up(role: RoleView, slot: Slot) -> Step:
    captured = {uid for departure in slot.departures for uid in departure.members}
    late = [each for each in role.standing(slot.ordinal) if each.uid not in captured]
    if late:
        # A name match locates them and our owner UID makes them ours (D2).
        return _recapture(role, slot, late)
    step = advance_departures(role, slot.departures)
    if step is not None:
        return step
    if slot.ordinal >= role.desired.replicas:
        return WriteRecord(
            Transition.DROP,
            slots.close_slot(role.record, Transition.DROP),
            slot.ordinal,
            "the ordinal is vacant and no longer declared",
        )
    return WriteRecord(
        Transition.BEGIN,
        slots.begin(
            role.record, role.snapshot.token, role.desired.member_fingerprints(slot.ordinal)
        ),
        slot.ordinal,
        "the ordinal is vacant",
    )


def _recapture(role: RoleView, slot: Slot, late: Sequence[ObservedMember]) -> Step:
    groups = tuple(sorted({each.group_name for each in late}))
    unread = tuple(name for name in groups if name not in role.snapshot.workloads)
    if unread:
        return Inspect(unread)
    return WriteRecord(
        Transition.RECAPTURE,
        slots.recapture(role.record, slots.capture(slot.ordinal, late, role.snapshot.workloads)),
        slot.ordinal,
        f"{late[0].name} was created late by an earlier run",
    )


def _await_admission(role: RoleView, slot: Slot) -> Step:
    desired, ordinal = role.desired, slot.ordinal
    standing = role.standing(ordinal)
    group = identity.group_name(desired.deployment, desired.role, slot.token)
    workload = role.snapshot.workloads.get(group)
    held = workload and administrators_hold(ordinal, workload)
    if held and ordinal < desired.replicas:
        # A hold is not answered with a new attempt; what is no longer declared leaves all the same.
        return Await(held)
    reopened = _reopen(role, slot, standing, group, workload)
    if reopened is not None:
        return reopened
    if len(standing) < desired.size:
        if group not in role.snapshot.workloads:
            return Inspect((group,))
        if workload is not None:
            reason = f"Workload {workload.name} (uid {workload.uid}) is not of this replica"
            return Hold(Unmet(WaitCode.WORKLOAD_OCCUPIES, ordinal, reason))
        return Compose(_empty_seats(role, slot, group, standing))
    if {each.name: each.uid for each in standing} != slot.current_member_uids:
        return _adopt(role, slot, standing, workload)
    return _judge(role, slot, standing, group)


def _judge(role: RoleView, slot: Slot, standing: Sequence[ObservedMember], group: str) -> Step:
    desired, ordinal = role.desired, slot.ordinal
    workload = role.snapshot.workloads.get(group)
    unmet = members_standing(desired, ordinal, standing) or members_released(
        desired, ordinal, standing, workload
    )
    if unmet is not None:
        return _park(role, ordinal, standing, group) or Await(unmet)
    if group not in role.snapshot.workloads:
        return Inspect((group,))
    unmet = fresh_admission(desired, ordinal, standing, workload) or gate_passed(
        desired, ordinal, standing
    )
    if unmet is not None:
        return Await(unmet)
    return WriteRecord(
        Transition.CLOSE,
        slots.close_slot(role.record),
        ordinal,
        "a fresh admission describes its members and the gate is passed",
    )


def _park(
    role: RoleView, ordinal: int, standing: Sequence[ObservedMember], group: str
) -> Step | None:
    """Leave a replacement queued when the next replica frees what both need (D6).

    Only once Kueue has refused it quota for a while: a group that was just composed is queued too.
    """
    if not looks_queued(standing) or not releases_enough(role, ordinal):
        return None
    if group not in role.snapshot.workloads:
        return Inspect((group,))
    workload = role.snapshot.workloads[group]
    reserved = workload.condition("QuotaReserved") if workload else ABSENT_CONDITION
    if reserved.status is not ConditionStatus.FALSE:
        return None
    parks_at = reserved.since + PARK_AFTER_SECONDS
    if role.snapshot.now < parks_at:
        unmet = members_released(role.desired, ordinal, standing, workload)
        return None if unmet is None else Await(unmet, wake_at=parks_at)
    return WriteRecord(
        Transition.PARK,
        slots.park_slot(role.record),
        ordinal,
        "it is queued, and the next replica releases what both need",
    )


def _reopen(
    role: RoleView,
    slot: Slot,
    standing: Sequence[ObservedMember],
    group: str,
    workload: ObservedWorkload | None,
) -> Step | None:
    """Return the step back to Cleanup in the same slot when this replacement cannot stand."""
    ours = workload is not None and _is_of_replacement(slot, standing, workload)
    verdict = _verdict(role, slot, standing, workload if ours else None)
    if verdict is None:
        return None
    transition, cause = verdict
    if group not in role.snapshot.workloads:
        return Inspect((group,))
    members = {each.uid: each.name for each in standing if each.group_name == group}
    members |= {uid: name for name, uid in slot.current_member_uids.items()}
    seen = workload.uid if workload is not None and ours else ""
    departures: tuple[Departure, ...] = (
        Departure(
            ordinal=slot.ordinal,
            group_name=group,
            members=members,
            workload_uid=slot.current_workload_uid or seen,
        ),
        *slots.capture(
            slot.ordinal,
            [each for each in standing if each.group_name != group],
            role.snapshot.workloads,
        ),
    )
    return WriteRecord(
        transition,
        slots.reopen_slot(role.record, transition, departures if members or standing else ()),
        slot.ordinal,
        cause,
    )


def _verdict(
    role: RoleView,
    slot: Slot,
    standing: Sequence[ObservedMember],
    workload: ObservedWorkload | None,
) -> tuple[Transition, str] | None:
    desired = role.desired
    if slot.ordinal >= desired.replicas:
        return Transition.CANCEL, f"declared replicas are {desired.replicas}"
    if slot.fingerprints != desired.member_fingerprints(slot.ordinal):
        return Transition.SUPERSEDE, "a newer declaration renders other members"
    uids = {each.uid for each in standing}
    if any(uid not in uids for uid in slot.current_member_uids.values()):
        return Transition.REBUILD, "a member of the replacement is gone"
    for each in standing:
        if each.token != slot.token:
            return Transition.REBUILD, f"{each.name} was created late by an earlier run"
        if each.is_terminating:
            return Transition.REBUILD, f"{each.name} is leaving"
        if each.is_terminal:
            return Transition.REBUILD, f"{each.name} ended as {each.phase}"
    if workload is None:
        return None
    if len(standing) < desired.size:
        return Transition.REBUILD, f"its Workload stands on {len(standing)} of {desired.size}"
    if workload.is_evicted or workload.is_finished:
        evicted = workload.condition("Evicted")
        return Transition.REBUILD, f"its Workload was evicted ({evicted.reason or 'Finished'})"
    return None


def _is_of_replacement(
    slot: Slot, standing: Sequence[ObservedMember], workload: ObservedWorkload
) -> bool:
    known = {each.uid for each in standing} | set(slot.current_member_uids.values())
    return workload.uid == slot.current_workload_uid or not known.isdisjoint(workload.owner_uids)


def _empty_seats(
    role: RoleView, slot: Slot, group: str, standing: Sequence[ObservedMember]
) -> tuple[Seat, ...]:
    taken = {each.member_index for each in standing}
    return tuple(
        Seat(slot.ordinal, member_index, group, slot.token)
        for member_index in range(role.desired.size)
        if member_index not in taken
    )


def _adopt(
    role: RoleView,
    slot: Slot,
    standing: Sequence[ObservedMember],
    workload: ObservedWorkload | None,
) -> Step:
    uids: Mapping[str, str] = {each.name: each.uid for each in standing}
    seen = slots.owned_workload_uid(workload, uids.values())
    return WriteRecord(
        Transition.ADOPT,
        slots.adopt(role.record, uids, seen),
        slot.ordinal,
        "every member of the replacement stands",
    )
