"""Which replica is replaced next: D6's classes, highest ordinal first within each."""

from collections.abc import Sequence
from fractions import Fraction

from gpustack_deploy.model.quantity import parse_quantity
from gpustack_deploy.plan import slot as slots
from gpustack_deploy.plan.batch import is_fillable
from gpustack_deploy.plan.checks import (
    Unmet,
    WaitCode,
    administrators_hold,
    gate_passed,
    looks_queued,
    never_admitted,
)
from gpustack_deploy.plan.slot import Transition
from gpustack_deploy.plan.snapshot import ReplicaView, RoleView
from gpustack_deploy.plan.step import Await, Inspect, Step, WriteRecord


def open_replacement(role: RoleView) -> Step | None:
    """Return the step that opens a slot on the next replica, or nothing when none is due.

    Broken replicas wait for nobody. Then complete replicas that were never admitted. A healthy
    outdated one goes only while every established ordinal is admitted.
    """
    broken = [
        each for each in _highest_first(role) if each.is_broken and not is_fillable(role, each)
    ]
    if broken:
        return _open_broken(role, broken)
    outdated = [each for each in _highest_first(role) if each.is_outdated and not each.is_broken]
    if not outdated:
        return None
    queued = [each for each in outdated if looks_queued(each.members)]
    unread = _unread(role, queued)
    if unread:
        return Inspect(unread)
    for each in queued:
        workload = role.snapshot.workloads[each.group_names[0]]
        if workload is None or never_admitted(each.members, workload):
            return _open(role, each, "built from an earlier declaration, never admitted")
    return _open_healthy(role)


def _open_broken(role: RoleView, broken: Sequence[ReplicaView]) -> Step:
    """Open a slot on the first broken replica that nobody holds back on purpose."""
    holds: list[Unmet] = []
    for each in broken:
        unread = _unread(role, [each])
        if unread:
            return Inspect(unread)
        workloads = (role.snapshot.workloads[name] for name in each.group_names)
        held = next(
            (unmet for it in workloads if it and (unmet := administrators_hold(each.ordinal, it))),
            None,
        )
        if held is None:
            return _open(role, each, _shortness(each))
        holds.append(held)
    return Await(holds[0])


def releases_enough(role: RoleView, waiting: int) -> bool:
    """Whether the queued replacement on `waiting` need not hold the next healthy replica (D6).

    It need not when what that one releases covers its own replacement and one queued one: both
    carry the declaration's shape, so twice its requests. Then more, smaller replicas converge at
    full quota. Devices are compared; without any, CPU and memory.
    """
    candidate = _next_healthy(role, except_ordinal=waiting)
    if candidate is None or {each.local_queue for each in candidate.members} != {
        role.desired.local_queue
    }:
        return False
    wanted = {key: parse_quantity(each) for key, each in role.desired.requests.items()}
    devices = {key for key in wanted if "/" in key} or (wanted.keys() & {"cpu", "memory"})
    released = {
        key: sum(_amount(each.requests.get(key, "0")) for each in candidate.members)
        for key in devices
    }
    return bool(devices) and all(
        released[key] >= 2 * wanted[key] * role.desired.size for key in devices
    )


def _amount(text: str) -> Fraction:
    """Return a live request; one that cannot be read releases nothing."""
    try:
        return parse_quantity(text)
    except ValueError:
        return Fraction(0)


def _next_healthy(role: RoleView, *, except_ordinal: int | None = None) -> ReplicaView | None:
    healthy = [
        each
        for each in _highest_first(role)
        if each.is_outdated
        and not each.is_broken
        and not looks_queued(each.members)
        and each.ordinal != except_ordinal
    ]
    return min(healthy, key=lambda each: (each.is_ready, -each.ordinal), default=None)


def _open_healthy(role: RoleView) -> Step | None:
    established = range(min(role.record.achieved, role.desired.replicas))
    if any(ordinal in role.missing_ordinals for ordinal in established):
        return None  # the missing ordinal is created first
    for ordinal in established:
        replica = role.replicas.get(ordinal)
        if replica is None or replica.is_admitted or _is_excused(role, replica):
            continue
        code = (
            WaitCode.WAITING_FOR_READMISSION
            if replica.is_outdated
            else WaitCode.WAITING_FOR_CAPACITY
        )
        reason = f"r{ordinal} is not admitted, so no healthy replica is replaced"
        return Await(Unmet(code, ordinal, reason))
    held = _gate_of_unsettled(role)
    if held is not None:
        return Await(held)
    first = _next_healthy(role)
    return None if first is None else _open(role, first, "built from an earlier declaration")


def _gate_of_unsettled(role: RoleView) -> Unmet | None:
    """Return what a replica made outside a slot, or left queued, still owes the gate (D7)."""
    batch = role.record.batch
    for ordinal in (*(batch.ordinals if batch else ()), *role.record.parked):
        replica = role.replicas.get(ordinal)
        if replica is not None and replica.is_current and replica.is_admitted:
            unmet = gate_passed(role.desired, ordinal, replica.members)
            if unmet is not None:
                return unmet
    return None


def _is_excused(role: RoleView, replica: ReplicaView) -> bool:
    return (
        not replica.is_outdated
        and looks_queued(replica.members)
        and releases_enough(role, replica.ordinal)
    )


def _open(role: RoleView, replica: ReplicaView, cause: str) -> Step:
    unread = _unread(role, [replica])
    if unread:
        return Inspect(unread)
    departures = slots.capture(replica.ordinal, replica.members, role.snapshot.workloads)
    return WriteRecord(
        Transition.OPEN,
        slots.open_slot(role.record, replica.ordinal, departures),
        replica.ordinal,
        cause,
    )


def _highest_first(role: RoleView) -> list[ReplicaView]:
    return [
        replica
        for ordinal, replica in sorted(role.replicas.items(), reverse=True)
        if ordinal < role.desired.replicas
    ]


def _unread(role: RoleView, replicas: Sequence[ReplicaView]) -> tuple[str, ...]:
    return tuple(
        name
        for each in replicas
        for name in each.group_names
        if name not in role.snapshot.workloads
    )


def _shortness(replica: ReplicaView) -> str:
    if len(replica.group_names) > 1:
        return f"its members are of {len(replica.group_names)} groups"
    live = sum(member.is_live for member in replica.members)
    if live == replica.total:
        return "belongs to a record that is gone"
    return f"short of its members ({live} of {replica.total})"
