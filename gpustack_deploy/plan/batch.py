"""Creates outside a slot: missing ordinals in one batch, under one recorded token (D3, D6)."""

from collections.abc import Sequence

from gpustack_deploy.model import identity
from gpustack_deploy.model.record import Batch
from gpustack_deploy.plan import slot as slots
from gpustack_deploy.plan.checks import (
    Unmet,
    WaitCode,
    fresh_admission,
    gate_passed,
    looks_queued,
    members_released,
    members_standing,
)
from gpustack_deploy.plan.slot import Transition
from gpustack_deploy.plan.snapshot import ReplicaView, RoleView
from gpustack_deploy.plan.step import Await, Compose, Inspect, Seat, Step, WriteRecord


def create_missing(role: RoleView) -> Step | None:
    """Return the step that fills the declared ordinals nobody stands on, lowest first.

    The batch's token is recorded before the first create. A partial group of the batch is filled as
    long as no Workload was composed from it.
    """
    record, missing = role.record, _due(role)
    partial = [each for each in role.replicas.values() if _is_partial(role, each)]
    if not missing and not partial:
        return None
    covered = record.batch.ordinals if record.batch else ()
    if any(ordinal not in covered for ordinal in missing):
        return WriteRecord(
            Transition.OPEN_BATCH,
            slots.open_batch(record, role.snapshot.token, missing),
            None,
            f"{len(missing)} declared replicas do not stand",
        )
    ordinals = (*missing, *(each.ordinal for each in partial))
    groups = tuple(_group(role, record.batch, ordinal) for ordinal in ordinals)
    unread = tuple(name for name in groups if name not in role.snapshot.workloads)
    if unread:
        return Inspect(unread)
    for ordinal, group in zip(ordinals, groups, strict=True):
        workload = role.snapshot.workloads[group]
        if workload is not None:
            reason = f"Workload {group} (uid {workload.uid}) stands on its group's name"
            return Await(Unmet(WaitCode.WORKLOAD_OCCUPIES, ordinal, reason))
    return Compose(_empty_seats(role, ordinals))


def settle_batch(role: RoleView) -> Step | None:
    """Return what is still awaited of replicas outside a slot, lowest ordinal first.

    Replicas of an open batch, and parked ones, must pass the gate and show a fresh admission;
    established ones are read off their members alone. Workloads are read once, when nothing else
    is awaited.
    """
    record, desired = role.record, role.desired
    replicas = role.replicas.values()
    for each in replicas:
        unmet = _not_standing(role, each)
        if unmet is not None:
            return Await(unmet)
    owing = {*(record.batch.ordinals if record.batch else ()), *record.parked}
    fresh = [each for each in replicas if each.ordinal in owing or _is_new(role, each)]
    for each in fresh:
        unmet = gate_passed(desired, each.ordinal, each.members)
        if unmet is not None:
            return Await(unmet)
    groups = tuple(each.group_names[0] for each in fresh)
    unread = tuple(name for name in groups if name not in role.snapshot.workloads)
    if unread:
        return Inspect(unread)
    for each, group in zip(fresh, groups, strict=True):
        unmet = fresh_admission(desired, each.ordinal, each.members, role.snapshot.workloads[group])
        if unmet is not None:
            return Await(unmet)
    if record.batch is not None or record.parked or record.achieved != desired.replicas:
        return WriteRecord(
            Transition.CLOSE_BATCH,
            slots.close_batch(record, desired.replicas),
            None,
            "every declared replica is admitted and passed the gate",
        )
    return None


def _not_standing(role: RoleView, replica: ReplicaView) -> Unmet | None:
    if replica.is_current and replica.is_admitted:
        return None  # what the checks below would find, member by member
    desired, ordinal, members = role.desired, replica.ordinal, replica.members
    workload = role.snapshot.workloads.get(replica.group_names[0])
    return members_standing(desired, ordinal, members) or members_released(
        desired, ordinal, members, workload
    )


def _is_new(role: RoleView, replica: ReplicaView) -> bool:
    return replica.ordinal >= role.record.achieved


def is_fillable(role: RoleView, replica: ReplicaView) -> bool:
    """Whether a partial group belongs to the current batch and may be filled (D3).

    Never once a Workload was composed from it: a composed group is never topped up.
    """
    if not _is_partial(role, replica):
        return False
    return role.snapshot.workloads.get(replica.group_names[0]) is None


def _due(role: RoleView) -> tuple[int, ...]:
    """Return the missing ordinals whose turn it is: new ones wait for every outdated replica."""
    if not any(each.is_outdated for each in role.replicas.values()):
        return role.missing_ordinals
    return tuple(each for each in role.missing_ordinals if each < role.record.achieved)


def _is_partial(role: RoleView, replica: ReplicaView) -> bool:
    batch = role.record.batch
    if batch is None or replica.ordinal not in batch.ordinals:
        return False
    if len(replica.members) >= len(replica.want) or replica.is_outdated:
        return False
    if not looks_queued(replica.members):
        return False  # it was composed and admitted once
    group = _group(role, batch, replica.ordinal)
    return all(
        each.is_live and each.group_name == group and each.owner_uid == role.record.uid
        for each in replica.members
    )


def _group(role: RoleView, batch: Batch | None, ordinal: int) -> str:
    token = batch.token if batch else ""
    return identity.batch_group_name(role.desired.deployment, role.desired.role, token, ordinal)


def _empty_seats(role: RoleView, ordinals: Sequence[int]) -> tuple[Seat, ...]:
    batch = role.record.batch
    return tuple(
        Seat(ordinal, member_index, _group(role, batch, ordinal), batch.token if batch else "")
        for ordinal in sorted(ordinals)
        for member_index in range(role.desired.size)
        if member_index not in {each.member_index for each in role.standing(ordinal)}
    )
