"""How captured replicas leave: members by UID, their end, their Workload by UID, vacancy (D5)."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from gpustack_deploy.model.desired import LostNode
from gpustack_deploy.model.observed import ObservedMember, ObservedNode, ObservedWorkload
from gpustack_deploy.model.record import Departure
from gpustack_deploy.plan import slot as slots
from gpustack_deploy.plan.checks import Unmet, WaitCode
from gpustack_deploy.plan.services import selects_on_answering
from gpustack_deploy.plan.slot import Transition
from gpustack_deploy.plan.snapshot import RoleView
from gpustack_deploy.plan.step import (
    Await,
    Inspect,
    ObjectRef,
    Remove,
    RemoveWorkload,
    Step,
    Withdraw,
    WriteRecord,
)

FORCE_AFTER_SECONDS: Final = 300.0


def advance_departures(role: RoleView, departures: Sequence[Departure]) -> Step | None:
    """Return the next step until every captured replica has left, then nothing (vacant).

    All members of all departures are deleted before anything is awaited, highest ordinal first.
    """
    ordered = sorted(departures, key=lambda each: (-each.ordinal, each.group_name))
    for departure in ordered:
        step = _remove_members(role, departure)
        if step is not None:
            return step
    unread = tuple(
        each.group_name for each in ordered if each.group_name not in role.snapshot.workloads
    )
    if unread:
        return Inspect(unread)
    waits: list[Await] = []
    for departure in ordered:
        step = _remove_workload(role, departure)
        if isinstance(step, Await):
            waits.append(step)
        elif step is not None:
            return step
    return _soonest(waits)


def _soonest(waits: Sequence[Await]) -> Await | None:
    """Return the first wait, to be woken at the earliest moment at which any of them changes.

    A lost node comes last: who gives up on it must not give up on what still leaves in time.
    """
    if not waits:
        return None
    moments = [wait.wake_at for wait in waits if wait.wake_at is not None]
    first = min(waits, key=lambda wait: wait.check.code is WaitCode.MEMBER_ON_LOST_NODE)
    return Await(first.check, wake_at=min(moments, default=None))


def is_ours(departure: Departure, workload: ObservedWorkload) -> bool:
    """Whether the Workload may be deleted for this departure (D5).

    The captured UID; or, when none was captured, one that names a captured member as an owner; or
    a remnant that Kueue recomposed, every owner of which is a captured member.
    """
    captured = departure.members.keys()
    if departure.workload_uid and workload.uid == departure.workload_uid:
        return True
    if not departure.workload_uid:
        return not workload.owner_uids.isdisjoint(captured)
    return bool(workload.owner_uids) and workload.owner_uids <= captured


def _remove_members(role: RoleView, departure: Departure) -> Step | None:
    leaving = [each for each in _standing(role, departure) if not each.is_terminating]
    if not leaving:
        return None
    answering = [each for each in leaving if each.answers_api]
    if answering and selects_on_answering(role.snapshot.services):
        return Withdraw(tuple(ObjectRef(each.name, each.uid) for each in answering))
    return Remove(departure.ordinal, tuple(ObjectRef(each.name, each.uid) for each in leaving))


def _remove_workload(role: RoleView, departure: Departure) -> Step | None:
    ordinal, standing = departure.ordinal, _standing(role, departure)
    running = [each for each in standing if not each.has_ended]
    ends_at = min((each.deletion_time or 0.0 for each in running), default=0.0)
    workload = role.snapshot.workloads[departure.group_name]
    if workload is None or not is_ours(departure, workload):
        if not standing:
            return None
        if running and role.snapshot.now < ends_at:
            return Await(_leaving(ordinal, running), wake_at=ends_at)
        return _outlived(role, ordinal, standing, running)
    if not departure.workload_uid:
        return WriteRecord(
            Transition.CAPTURE_WORKLOAD,
            slots.with_workload_captured(role.record, departure.group_name, workload.uid),
            ordinal,
            "its Workload appeared after the members were captured",
        )
    if workload.is_terminating:
        reason = f"Workload {workload.name} is terminating"
        return Await(Unmet(WaitCode.WORKLOAD_TERMINATING, ordinal, reason))
    if running and role.snapshot.now < ends_at:
        return Await(_leaving(ordinal, running), wake_at=ends_at)
    if running and workload.uid != departure.workload_uid:
        # Recomposed from a member that outlived its grace: deleting it would only repeat that.
        return _outlived(role, ordinal, standing, running)
    return RemoveWorkload(ordinal, ObjectRef(workload.name, workload.uid))


def _leaving(ordinal: int, running: Sequence[ObservedMember]) -> Unmet:
    return Unmet(WaitCode.MEMBER_LEAVING, ordinal, f"{running[0].name} ends within its grace")


def _outlived(
    role: RoleView,
    ordinal: int,
    standing: Sequence[ObservedMember],
    running: Sequence[ObservedMember],
) -> Step:
    """Wait for members that outlived their grace, or force one out where that is declared (D5)."""
    if not running:
        reason = f"the server still lists {standing[0].name}"
        return Await(Unmet(WaitCode.ORDINAL_HELD, ordinal, reason))
    names = tuple(sorted({each.node_name for each in running}))
    unread = tuple(name for name in names if name not in role.snapshot.nodes)
    if unread:
        return Inspect(nodes=unread)
    member = running[0]
    node = role.snapshot.nodes[member.node_name]
    forced_at = _forced_at(role, node)
    if forced_at is not None and role.snapshot.now >= forced_at:
        return Remove(ordinal, (ObjectRef(member.name, member.uid),), grace_period_seconds=0)
    unmet = Unmet(
        WaitCode.MEMBER_ON_LOST_NODE,
        ordinal,
        f"{member.name} outlived its grace on node {member.node_name} ({_node_words(node)}): bring"
        " the node back, delete the Node object, or taint it node.kubernetes.io/out-of-service",
    )
    return Await(unmet, wake_at=forced_at)


def _forced_at(role: RoleView, node: ObservedNode | None) -> float | None:
    if role.desired.lost_node is not LostNode.FORCE or node is None or node.is_ready is not False:
        return None
    return node.since + FORCE_AFTER_SECONDS


def _node_words(node: ObservedNode | None) -> str:
    if node is None:
        return "the Node object is gone or cannot be read"
    if node.is_ready:
        return "which is Ready: its container runtime hangs"
    try:
        since = datetime.fromtimestamp(node.since, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, OSError, ValueError):
        return "NotReady"
    return f"NotReady since {since}"


def _standing(role: RoleView, departure: Departure) -> list[ObservedMember]:
    return [each for each in role.members if each.uid in departure.members]
