"""How a whole role leaves: members, Workloads, Services; the record goes last (D28)."""

from gpustack_deploy.model.observed import ObservedMember
from gpustack_deploy.model.record import Departure
from gpustack_deploy.plan import slot as slots
from gpustack_deploy.plan.departure import advance_departures
from gpustack_deploy.plan.slot import Transition
from gpustack_deploy.plan.snapshot import RoleView
from gpustack_deploy.plan.step import Done, Inspect, ObjectRef, PruneServices, Step, WriteRecord

_NO_ORDINAL = -1


def next_teardown_step(role: RoleView) -> Step:
    """Return the next step until nothing of the role stands but its record.

    Everything whose controller owner is the record is captured first, by UID; what an open slot
    or an earlier scale-down still owes is kept.
    """
    record = role.record
    owed = (*record.departures, *(record.slot.departures if record.slot else ()))
    captured = {uid for departure in owed for uid in departure.members}
    standing = [each for each in role.members if each.uid not in captured]
    if standing:
        groups = tuple(sorted({each.group_name for each in standing}))
        unread = tuple(name for name in groups if name not in role.snapshot.workloads)
        if unread:
            return Inspect(unread)
        by_ordinal: dict[int, list[ObservedMember]] = {}
        for each in standing:
            ordinal = _NO_ORDINAL if each.ordinal is None else each.ordinal
            by_ordinal.setdefault(ordinal, []).append(each)
        more: tuple[Departure, ...] = tuple(
            departure
            for ordinal, members in by_ordinal.items()
            for departure in slots.capture(ordinal, members, role.snapshot.workloads)
        )
        return WriteRecord(
            Transition.CAPTURE_SURPLUS,
            slots.capture_surplus(record, more),
            None,
            "the role is destroyed",
        )
    step = advance_departures(role, owed)
    if step is not None:
        return step
    services = tuple(
        ObjectRef(each.name, each.uid)
        for each in role.snapshot.services
        if each.owner_uid in role.owner_uids and not each.is_terminating
    )
    return PruneServices(services) if services else Done()
