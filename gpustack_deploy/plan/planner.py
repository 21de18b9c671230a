"""The decision: `next_step` from the declaration, one observation and the record.

Pure and total: any snapshot gives a step or a named hold, never an exception. Preview, simulate,
the property tests and the engine call this function, so a preview cannot disagree with the run.
"""

from collections.abc import Callable, Mapping

from gpustack_deploy.model import identity
from gpustack_deploy.model.desired import Desired
from gpustack_deploy.model.observed import ObservedMember
from gpustack_deploy.model.record import RoleRecord
from gpustack_deploy.plan import slot as slots
from gpustack_deploy.plan.batch import create_missing, settle_batch
from gpustack_deploy.plan.checks import Unmet, WaitCode
from gpustack_deploy.plan.departure import advance_departures
from gpustack_deploy.plan.order import open_replacement
from gpustack_deploy.plan.replacement import advance_slot
from gpustack_deploy.plan.services import (
    WantedService,
    is_aligned,
    surplus_peers,
    wanted_services,
)
from gpustack_deploy.plan.slot import Transition
from gpustack_deploy.plan.snapshot import RoleView, Shape, Snapshot
from gpustack_deploy.plan.step import (
    Await,
    CreateRecord,
    Done,
    Hold,
    Inspect,
    ObjectRef,
    PruneServices,
    Step,
    SyncServices,
    WriteRecord,
)

Rule = Callable[[RoleView], Step | None]


def next_step(desired: Desired, snapshot: Snapshot, record: RoleRecord | None) -> Step:
    """Return the one step to take now; `Done` when the role stands as declared.

    The order of the rules is D6's: what leaves goes first, then what is broken, then what was never
    admitted, then healthy replicas one at a time, and only then new ordinals.
    """
    if record is None:
        return CreateRecord()
    role = RoleView(desired=desired, snapshot=snapshot, record=record)
    for rule in _RULES:
        step = rule(role)
        if step is not None:
            return step
    return Done()


def will_create(desired: Desired, snapshot: Snapshot, record: RoleRecord) -> bool:
    """Whether a run from here creates members, so that the cluster must accept one first (D27)."""
    role = RoleView(desired=desired, snapshot=snapshot, record=record)
    return bool(role.missing_ordinals) or any(
        replica.is_outdated or replica.is_broken
        for ordinal, replica in role.replicas.items()
        if ordinal < desired.replicas
    )


def departing_members(
    desired: Desired, snapshot: Snapshot, record: RoleRecord, ordinal: int | None
) -> tuple[ObservedMember, ...]:
    """Return the members that leave before the first create: the slot's, or the next one's."""
    role = RoleView(desired=desired, snapshot=snapshot, record=record)
    if ordinal is not None:
        return role.standing(ordinal)
    leaving = (
        each
        for each in reversed(tuple(role.replicas.values()))
        if each.is_outdated or each.is_broken or each.ordinal >= desired.replicas
    )
    return next((each.members for each in leaving), ())


def _hold_foreign(role: RoleView) -> Step | None:
    """Hold while a Pod we did not make has a name we need; it is never deleted (D5)."""
    for member in role.foreign_members:
        if _is_needed(role.desired, member):
            return Hold(
                Unmet(
                    WaitCode.FOREIGN_OBJECT,
                    member.ordinal,
                    f"Pod {member.name} (uid {member.uid})",
                )
            )
    return None


def _is_needed(desired: Desired, member: ObservedMember) -> bool:
    return any(
        member.name == identity.member_name(desired.deployment, desired.role, ordinal, member_index)
        for ordinal in range(desired.replicas)
        for member_index in range(desired.size)
    )


def _hold_unreadable(role: RoleView) -> Step | None:
    """Hold on a replica that cannot be read: it never authorises a delete."""
    if role.unplaced:
        member = role.unplaced[0]
        reason = f"{member.name} carries no readable {identity.LABEL_ORDINAL} label"
        return Hold(Unmet(WaitCode.UNREADABLE, None, reason))
    for replica in role.replicas.values():
        if replica.shape is Shape.UNREADABLE and not _is_captured(role, replica.ordinal):
            names = ", ".join(member.name for member in replica.members)
            reason = f"the members {names} disagree on their total or their seats"
            return Hold(Unmet(WaitCode.UNREADABLE, replica.ordinal, reason))
    return None


def _is_captured(role: RoleView, ordinal: int) -> bool:
    slot = role.record.slot
    return (slot is not None and slot.ordinal == ordinal) or any(
        departure.ordinal == ordinal for departure in role.record.departures
    )


def _serve(role: RoleView) -> Step | None:
    """Keep the Services right: before any member starts, whenever routing moves, until all left."""
    wanted = wanted_services(role)
    return _hold_taken(role, wanted) or _sync(role, wanted) or _prune(role, wanted)


def _hold_taken(role: RoleView, wanted: tuple[WantedService, ...]) -> Step | None:
    """Hold while a Service we did not make has a name we need, or a former one still leaves."""
    names = {service.name for service in wanted}
    for service in role.snapshot.services:
        if service.name not in names:
            continue
        if service.owner_uid not in role.owner_uids:
            reason = f"Service {service.name} (uid {service.uid})"
            return Hold(Unmet(WaitCode.FOREIGN_OBJECT, None, reason))
        if service.is_terminating or service.owner_uid != role.record.uid:
            reason = f"Service {service.name} of a former record is leaving"
            return Await(Unmet(WaitCode.SERVICE_LEAVING, None, reason))
    return None


def _sync(role: RoleView, wanted: tuple[WantedService, ...]) -> Step | None:
    found = {service.name: service for service in role.snapshot.services}
    create = tuple(service for service in wanted if service.name not in found)
    align = tuple(
        service
        for service in wanted
        if service.name in found and not is_aligned(service, found[service.name])
    )
    return SyncServices(create=create, align=align) if create or align else None


def _prune(role: RoleView, wanted: tuple[WantedService, ...]) -> Step | None:
    surplus = surplus_peers(role, wanted)
    if not surplus:
        return None
    return PruneServices(tuple(ObjectRef(service.name, service.uid) for service in surplus))


def _leave_surplus(role: RoleView) -> Step | None:
    """Take away replicas beyond the declared count before anything that needs quota (D14).

    So leaves what an orphaned run created late beside a complete replica, which stays (D2).
    """
    record = role.record
    known = {each.ordinal for each in record.departures}
    slot_ordinal = record.slot.ordinal if record.slot else None
    surplus = {
        ordinal: members
        for ordinal, replica in role.replicas.items()
        if ordinal not in known | {slot_ordinal}
        and (members := replica.members if ordinal >= role.desired.replicas else replica.strays)
    }
    if surplus:
        return _capture_surplus(role, surplus)
    step = advance_departures(role, record.departures)
    if step is not None:
        return step
    if record.departures or record.achieved > role.desired.replicas:
        return WriteRecord(
            Transition.FORGET_SURPLUS,
            slots.forget_surplus(record, role.desired.replicas),
            None,
            "the surplus replicas have left",
        )
    return None


def _capture_surplus(
    role: RoleView, surplus: Mapping[int, tuple[ObservedMember, ...]]
) -> WriteRecord | Inspect:
    groups = sorted({each.group_name for members in surplus.values() for each in members})
    unread = tuple(name for name in groups if name not in role.snapshot.workloads)
    if unread:
        return Inspect(unread)
    departures = tuple(
        departure
        for ordinal, members in surplus.items()
        for departure in slots.capture(ordinal, members, role.snapshot.workloads)
    )
    highest = max(surplus)
    is_beyond = highest >= role.desired.replicas
    return WriteRecord(
        Transition.CAPTURE_SURPLUS,
        slots.capture_surplus(role.record, departures),
        highest,
        f"declared replicas are {role.desired.replicas}"
        if is_beyond
        else f"{surplus[highest][0].name} was created late by an earlier run",
    )


_RULES: tuple[Rule, ...] = (
    _hold_foreign,
    _hold_unreadable,
    _serve,
    _leave_surplus,
    advance_slot,
    open_replacement,
    create_missing,
    settle_batch,
)
