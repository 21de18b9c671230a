"""Named checks: pure predicates with a reason; the first unmet one is what the user reads.

`fresh_admission` is the definition of a fresh admission, line by line (D7).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpustack_deploy.model.desired import Desired, Gate
from gpustack_deploy.model.observed import ObservedMember, ObservedWorkload


class WaitCode(StrEnum):
    """Why a role waits; the docs list each with its cause and remedy."""

    ORDINAL_HELD = "OrdinalHeld"
    WORKLOAD_TERMINATING = "WorkloadTerminating"
    WORKLOAD_OCCUPIES = "WorkloadOccupies"
    MEMBER_LEAVING = "MemberLeaving"
    MEMBER_ON_LOST_NODE = "MemberOnLostNode"
    MEMBERS_SHORT = "MembersShort"
    SEAT_MISSING = "SeatMissing"
    SEAT_DUPLICATE = "SeatDuplicate"
    RENDER_DIFFERS = "RenderDiffers"
    NO_WORKLOAD = "NoWorkload"
    NOT_ADMITTED = "NotAdmitted"
    NOT_OWNER = "NotOwner"
    COMPOSITION_DIFFERS = "CompositionDiffers"
    QUEUE_DIFFERS = "QueueDiffers"
    NOT_READY = "NotReady"
    WAITING_FOR_CAPACITY = "WaitingForCapacity"
    WAITING_FOR_READMISSION = "WaitingForReadmission"
    SERVICE_LEAVING = "ServiceLeaving"
    UNREADABLE = "Unreadable"
    FOREIGN_OBJECT = "ForeignObject"
    ADMINISTRATORS_HOLD = "AdministratorsHold"


ADMISSION_CODES = frozenset({WaitCode.NO_WORKLOAD, WaitCode.NOT_ADMITTED})


@dataclass(frozen=True, slots=True)
class Unmet:
    """A check that does not hold: its code, the ordinal concerned, and the reason in words."""

    code: WaitCode
    ordinal: int | None
    reason: str


def members_standing(
    desired: Desired, ordinal: int, members: Sequence[ObservedMember]
) -> Unmet | None:
    """Return what is missing until exactly the declared members stand on the ordinal."""
    want = desired.member_fingerprints(ordinal)
    leaving = [member.name for member in members if member.is_terminating]
    seats = [member.member_index for member in members]
    missing = sorted(set(range(len(want))) - {seat for seat in seats if seat is not None})
    differing = [
        member.name
        for member in members
        if member.member_index is None
        or member.member_index >= len(want)
        or member.fingerprint != want[member.member_index]
    ]
    if leaving:
        return Unmet(WaitCode.MEMBER_LEAVING, ordinal, f"{leaving[0]} is leaving")
    if not members:
        return Unmet(WaitCode.MEMBERS_SHORT, ordinal, "no members to read")
    if len(members) != len(want):
        return Unmet(
            WaitCode.MEMBERS_SHORT, ordinal, f"{len(members)} of {len(want)} members stand"
        )
    if len(set(seats)) != len(seats):
        return Unmet(WaitCode.SEAT_DUPLICATE, ordinal, "two members claim one seat")
    if missing:
        return Unmet(WaitCode.SEAT_MISSING, ordinal, f"no member on seat {missing[0]}")
    if differing:
        return Unmet(
            WaitCode.RENDER_DIFFERS,
            ordinal,
            f"{differing[0]} does not carry the current fingerprint",
        )
    return None


def members_released(
    desired: Desired,
    ordinal: int,
    members: Sequence[ObservedMember],
    workload: ObservedWorkload | None,
) -> Unmet | None:
    """Return why members are still gated; noticed on the members, told by the Workload if read."""
    gated = [member for member in members if not member.is_admitted]
    if not gated:
        return None
    queue = f"waiting for quota in LocalQueue {desired.local_queue}"
    if workload is None:
        return Unmet(WaitCode.NOT_ADMITTED, ordinal, queue)
    return Unmet(WaitCode.NOT_ADMITTED, ordinal, f"{queue}{_admission_reason(workload)}")


def fresh_admission(
    desired: Desired,
    ordinal: int,
    members: Sequence[ObservedMember],
    workload: ObservedWorkload | None,
) -> Unmet | None:
    """Return the first line of a fresh admission that does not hold, or nothing.

    The Workload must describe exactly the members standing now: an admission inherited from
    earlier members is none.
    """
    standing = members_standing(desired, ordinal, members)
    if standing is not None:
        return standing
    if workload is None:
        return Unmet(
            WaitCode.NO_WORKLOAD,
            ordinal,
            f"Kueue has composed no Workload yet for LocalQueue {desired.local_queue}",
        )
    lines: tuple[Callable[[], Unmet | None], ...] = (
        lambda: _not_terminating(ordinal, workload),
        lambda: _owned_by_all(ordinal, members, workload),
        lambda: _pod_set_matches(desired, ordinal, members, workload),
        lambda: _queue_matches(desired, ordinal, workload),
        lambda: _admitted(desired, ordinal, workload),
    )
    return next((unmet for line in lines if (unmet := line()) is not None), None)


def gate_passed(desired: Desired, ordinal: int, members: Sequence[ObservedMember]) -> Unmet | None:
    """Return what the rollout's gate still asks of the members (D7)."""
    if desired.gate is Gate.ADMITTED:
        return None
    waiting = next((member for member in members if not member.is_ready), None)
    if waiting is None:
        return None
    why = waiting.waiting_reason or waiting.unscheduled_message
    if not why:
        why = "started and not Ready" if waiting.has_container_status else "not started"
    ready = sum(member.is_ready for member in members)
    return Unmet(
        WaitCode.NOT_READY,
        ordinal,
        f"{ready} of {len(members)} members are Ready; {waiting.name}: {why}",
    )


def administrators_hold(ordinal: int, workload: ObservedWorkload) -> Unmet | None:
    """Return who keeps the Workload from running: reported, no new attempt answers it (D6)."""
    evicted = workload.condition("Evicted")
    if not evicted.is_true:
        return None
    if evicted.reason in ("ClusterQueueStopped", "LocalQueueStopped"):
        kind = evicted.reason.removesuffix("Stopped")
        return Unmet(
            WaitCode.ADMINISTRATORS_HOLD,
            ordinal,
            f"the {kind} of Workload {workload.name} is stopped; resume it (stopPolicy None)",
        )
    deactivated = evicted.reason.startswith("Deactivated") and not workload.is_active
    if not deactivated or "RequeuingLimitExceeded" in evicted.reason:
        return None
    return Unmet(
        WaitCode.ADMINISTRATORS_HOLD,
        ordinal,
        f"Workload {workload.name} was deactivated; set its spec.active to true again",
    )


def never_admitted(members: Sequence[ObservedMember], workload: ObservedWorkload) -> bool:
    """Whether a complete group has never been admitted, by every sign there is (D6).

    The admission gate is one-way, which is why it is trusted; a Workload that ran once keeps
    history, whatever the status of the condition that says so.
    """
    uids = {member.uid for member in members}
    pods_ready = workload.condition("PodsReady")
    return (
        looks_queued(members)
        and not workload.is_terminating
        and uids <= workload.owner_uids
        and not workload.has_admission_history
        and workload.condition("Admitted").status in ("Absent", "False")
        and all(
            workload.condition(kind).status == "Absent"
            for kind in ("Evicted", "Preempted", "Requeued", "Finished")
        )
        and pods_ready.status in ("Absent", "False")
        and pods_ready.reason != "WaitForRecovery"
    )


def looks_queued(members: Sequence[ObservedMember]) -> bool:
    """Whether what is already known allows that the group never ran (asked before any read)."""
    return all(
        not member.node_name
        and not member.has_container_status
        and not member.is_terminating
        and member.phase in ("", "Pending")
        and member.is_gated
        for member in members
    )


def _not_terminating(ordinal: int, workload: ObservedWorkload) -> Unmet | None:
    if workload.is_terminating:
        return Unmet(
            WaitCode.WORKLOAD_TERMINATING, ordinal, f"Workload {workload.name} is terminating"
        )
    return None


def _owned_by_all(
    ordinal: int, members: Sequence[ObservedMember], workload: ObservedWorkload
) -> Unmet | None:
    uids = {member.uid for member in members}
    if uids != workload.owner_uids:
        return Unmet(
            WaitCode.NOT_OWNER,
            ordinal,
            f"Workload {workload.name} is owned by {len(uids & workload.owner_uids)} of"
            f" {len(uids)} members and {len(workload.owner_uids - uids)} others",
        )
    return None


def _pod_set_matches(
    desired: Desired,
    ordinal: int,
    members: Sequence[ObservedMember],
    workload: ObservedWorkload,
) -> Unmet | None:
    found = ", ".join(f"{each.name} x {each.count}" for each in workload.pod_sets) or "none"
    if [(each.name, each.count) for each in workload.pod_sets] != [(desired.role, desired.size)]:
        return Unmet(
            WaitCode.COMPOSITION_DIFFERS,
            ordinal,
            f"Workload {workload.name} has PodSets {found}, needed {desired.role} x {desired.size}",
        )
    if workload.pod_sets[0].template_digest not in {each.template_digest for each in members}:
        return Unmet(
            WaitCode.COMPOSITION_DIFFERS,
            ordinal,
            f"the containers of Workload {workload.name} are those of no member",
        )
    return None


def _queue_matches(desired: Desired, ordinal: int, workload: ObservedWorkload) -> Unmet | None:
    if workload.local_queue != desired.local_queue:
        return Unmet(
            WaitCode.QUEUE_DIFFERS,
            ordinal,
            f"Workload {workload.name} is queued in LocalQueue"
            f" {workload.local_queue or '(none)'}, needed {desired.local_queue}",
        )
    return None


def _admitted(desired: Desired, ordinal: int, workload: ObservedWorkload) -> Unmet | None:
    if workload.is_admitted:
        return None
    return Unmet(
        WaitCode.NOT_ADMITTED,
        ordinal,
        f"waiting for quota in LocalQueue {desired.local_queue}{_admission_reason(workload)}",
    )


def _admission_reason(workload: ObservedWorkload) -> str:
    for kind in ("Admitted", "QuotaReserved"):
        condition = workload.condition(kind)
        if condition.message and not condition.is_true:
            return f": {condition.message}"
    return ""
