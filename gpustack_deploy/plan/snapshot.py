"""Everything observed at one moment, and the views of it that decisions read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from gpustack_deploy.model.desired import Desired
from gpustack_deploy.model.observed import (
    ObservedMember,
    ObservedNode,
    ObservedService,
    ObservedWorkload,
)
from gpustack_deploy.model.record import RoleRecord


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One observation of a role.

    `workloads` holds the Workloads read by name: `None` is an absence the server stated, a missing
    key is a Workload nobody read; likewise `nodes`, where `None` may also be unreadable. `now` is
    in seconds on the clock of deletion timestamps. `token` is the next attempt's token, drawn by
    the engine (D3).
    """

    members: tuple[ObservedMember, ...] = ()
    services: tuple[ObservedService, ...] = ()
    workloads: Mapping[str, ObservedWorkload | None] = field(default_factory=dict)
    nodes: Mapping[str, ObservedNode | None] = field(default_factory=dict)
    now: float = 0.0
    token: str = ""


class Shape(StrEnum):
    """What a replica's own members say of its completeness."""

    COMPLETE = "Complete"
    INCOMPLETE = "Incomplete"
    UNREADABLE = "Unreadable"


@dataclass(frozen=True)
class ReplicaView:
    """One standing replica, judged by its members alone; terminating members count as standing."""

    ordinal: int
    members: tuple[ObservedMember, ...]
    want: tuple[str, ...]
    owner_uid: str

    @cached_property
    def shape(self) -> Shape:
        """Return whether the members add up to their own declared total.

        Unreadable shapes never authorise a delete: totals that disagree, seats that are missing,
        doubled or beyond the total. Members of two groups are of two attempts, not unreadable.
        """
        shapes = {_shape_of(members) for members in self._groups.values()}
        if Shape.UNREADABLE in shapes:
            return Shape.UNREADABLE
        return Shape.COMPLETE if shapes == {Shape.COMPLETE} else Shape.INCOMPLETE

    @cached_property
    def strays(self) -> tuple[ObservedMember, ...]:
        """Return what an orphaned run created late beside the one complete group (D2)."""
        complete = [
            name for name, members in self._groups.items() if _shape_of(members) is Shape.COMPLETE
        ]
        if len(complete) != 1:
            return ()
        return tuple(member for member in self.members if member.group_name not in complete)

    @cached_property
    def _groups(self) -> Mapping[str, list[ObservedMember]]:
        groups: dict[str, list[ObservedMember]] = {}
        for member in self.members:
            groups.setdefault(member.group_name, []).append(member)
        return groups

    @property
    def total(self) -> int:
        """Return the declared member count of the group, 0 when its members disagree."""
        totals = {member.group_total or 0 for member in self.members}
        return totals.pop() if len(totals) == 1 else 0

    @cached_property
    def is_broken(self) -> bool:
        """Whether it is short of live members, or not made by one attempt of this record (D1, D6).

        A member of another group is an orphaned run's late create: Kueue never admits the two
        together.
        """
        if self.shape is Shape.UNREADABLE:
            return False
        return (
            self.shape is Shape.INCOMPLETE
            or len(self.group_names) > 1
            or any(member.owner_uid != self.owner_uid for member in self.members)
        )

    @cached_property
    def is_outdated(self) -> bool:
        """Whether any member differs from what its own seat renders now."""
        return self.total != len(self.want) or any(
            member.member_index is None
            or member.member_index >= len(self.want)
            or member.fingerprint != self.want[member.member_index]
            for member in self.members
        )

    @property
    def is_current(self) -> bool:
        """Whether exactly the declared members stand and live."""
        return self.shape is Shape.COMPLETE and not self.is_outdated and not self.is_broken

    @cached_property
    def is_admitted(self) -> bool:
        """Whether Kueue let every member go."""
        return all(member.is_admitted for member in self.members)

    @cached_property
    def is_ready(self) -> bool:
        """Whether every member is Ready."""
        return all(member.is_ready for member in self.members)

    @cached_property
    def group_names(self) -> tuple[str, ...]:
        """Return the groups its members belong to; one for every replica this engine made."""
        return tuple(sorted(self._groups))


@dataclass(frozen=True)
class RoleView:
    """The role as observed: its own members by ordinal, and what is not its own."""

    desired: Desired
    snapshot: Snapshot
    record: RoleRecord

    @cached_property
    def owner_uids(self) -> frozenset[str]:
        """Return the record UIDs whose objects are ours: the record's and its lost forerunner's."""
        return frozenset({self.record.uid, self.record.former_uid} - {""})

    @cached_property
    def members(self) -> tuple[ObservedMember, ...]:
        """Return the members whose controller owner is the record; labels alone never suffice."""
        return tuple(
            member for member in self.snapshot.members if member.owner_uid in self.owner_uids
        )

    @cached_property
    def foreign_members(self) -> tuple[ObservedMember, ...]:
        """Return the Pods that carry our labels and are not ours."""
        return tuple(
            member for member in self.snapshot.members if member.owner_uid not in self.owner_uids
        )

    @cached_property
    def unplaced(self) -> tuple[ObservedMember, ...]:
        """Return our members whose ordinal cannot be read."""
        return tuple(member for member in self.members if member.ordinal is None)

    @cached_property
    def replicas(self) -> Mapping[int, ReplicaView]:
        """Return the standing replicas by ordinal, lowest first."""
        by_ordinal: dict[int, list[ObservedMember]] = {}
        for member in self.members:
            if member.ordinal is not None:
                by_ordinal.setdefault(member.ordinal, []).append(member)
        return {
            ordinal: ReplicaView(
                ordinal=ordinal,
                members=tuple(sorted(members, key=_seat)),
                want=self.desired.member_fingerprints(ordinal),
                owner_uid=self.record.uid,
            )
            for ordinal, members in sorted(by_ordinal.items())
        }

    def standing(self, ordinal: int) -> tuple[ObservedMember, ...]:
        """Return the ordinal's members, terminating and terminal ones included."""
        replica = self.replicas.get(ordinal)
        return replica.members if replica else ()

    @cached_property
    def missing_ordinals(self) -> tuple[int, ...]:
        """Return the declared ordinals that no member of ours stands on, lowest first."""
        slot = self.record.slot
        return tuple(
            ordinal
            for ordinal in range(self.desired.replicas)
            if ordinal not in self.replicas and (slot is None or slot.ordinal != ordinal)
        )


def _shape_of(members: Sequence[ObservedMember]) -> Shape:
    totals = {member.group_total for member in members}
    seats = [member.member_index for member in members]
    (total,) = totals if len(totals) == 1 else (None,)
    if total is None or len(set(seats)) != len(seats):
        return Shape.UNREADABLE
    if any(seat is None or seat >= total for seat in seats):
        return Shape.UNREADABLE
    live = sum(member.is_live for member in members)
    return Shape.COMPLETE if live == total else Shape.INCOMPLETE


def _seat(member: ObservedMember) -> tuple[int, str]:
    return (-1 if member.member_index is None else member.member_index, member.uid)
