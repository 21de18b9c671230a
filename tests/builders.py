"""Fluent builders of the values that decisions read: each test says only what it is about.

`make_member().of(desired, 1).gated().obj()` is a whole member; what is not said is a healthy one's.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Self

from gpustack_deploy.model import identity
from gpustack_deploy.model.desired import Desired, Gate, LostNode, ServicePort, ServiceShape
from gpustack_deploy.model.observed import (
    Condition,
    ConditionStatus,
    ObservedMember,
    ObservedPodSet,
    ObservedService,
    ObservedWorkload,
)
from gpustack_deploy.model.record import Batch, Departure, RoleRecord, Slot, SlotPhase
from gpustack_deploy.plan.services import WantedService
from gpustack_deploy.plan.snapshot import RoleView, Snapshot

RECORD_UID = "record-uid"
NODE = "node-1"


@dataclass(frozen=True)
class DesiredBuilder:
    """A role `decode` of the deployment `chat`: one replica of one member, managed."""

    value: Desired

    def obj(self) -> Desired:
        return self.value

    def replicas(self, count: int) -> Self:
        return replace(self, value=replace(self.value, replicas=count))

    def size(self, count: int) -> Self:
        return replace(self, value=replace(self.value, size=count))

    def fingerprint(self, text: str) -> Self:
        return replace(self, value=replace(self.value, fingerprint=text))

    def queue(self, name: str) -> Self:
        return replace(self, value=replace(self.value, local_queue=name))

    def take_over(self) -> Self:
        """The role brings its own command."""
        return replace(self, value=replace(self.value, is_managed=False))

    def external_dp(self) -> Self:
        """Every rank answers."""
        return replace(self, value=replace(self.value, is_external_dp=True))

    def front(self) -> Self:
        """The role keeps the deployment's front Service."""
        return replace(self, value=replace(self.value, front_role=self.value.role))

    def gate(self, gate: Gate) -> Self:
        return replace(self, value=replace(self.value, gate=gate))

    def service(
        self,
        *ports: ServicePort,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> Self:
        shape = ServiceShape(
            ports=ports or self.value.service.ports,
            labels=labels or {},
            annotations=annotations or {},
        )
        return replace(self, value=replace(self.value, service=shape))


def make_desired() -> DesiredBuilder:
    return DesiredBuilder(
        Desired(
            deployment="chat",
            namespace="ml",
            role="decode",
            kind="Decode",
            replicas=1,
            size=1,
            fingerprint="v1",
            local_queue="h200",
            requests={"nvidia.com/gpu": "2"},
            is_managed=True,
            is_external_dp=False,
            service=ServiceShape(ports=(ServicePort("http", 80, 8000),)),
            front_role="prefill",
            gate=Gate.READY,
            lost_node=LostNode.WAIT,
        )
    )


@dataclass(frozen=True)
class MemberBuilder:
    """A member of `chat`'s `decode`, r0 m0: admitted, on a node and Ready unless said otherwise."""

    value: ObservedMember

    def obj(self) -> ObservedMember:
        return self.value

    def having(self, **changes: object) -> Self:
        """Set observed fields by their own names."""
        return replace(self, value=replace(self.value, **changes))  # type: ignore[arg-type]

    def of(self, desired: Desired, ordinal: int = 0, seat: int = 0) -> Self:
        """Seat it as that declaration renders it, in the group `g<ordinal>`."""
        name = identity.member_name(desired.deployment, desired.role, ordinal, seat)
        return self.having(
            name=name,
            uid=f"uid-{name}",
            ordinal=ordinal,
            member_index=seat,
            group_name=f"g{ordinal}",
            workload_name=f"g{ordinal}",
            group_total=desired.size,
            fingerprint=desired.member_fingerprints(ordinal)[seat],
            local_queue=desired.local_queue,
            is_managed=desired.is_managed,
            answers_api=seat == 0 or desired.is_external_dp,
            template_digest=f"{desired.role}/{desired.fingerprint}",
        )

    def uid(self, uid: str) -> Self:
        return self.having(uid=uid)

    def owned_by(self, uid: str) -> Self:
        return self.having(owner_uid=uid)

    def in_group(self, name: str, token: str = "") -> Self:
        return self.having(
            group_name=name, token=token, workload_name=name if self.value.workload_name else ""
        )

    def total(self, count: int | None) -> Self:
        return self.having(group_total=count)

    def seat(self, index: int | None) -> Self:
        return self.having(member_index=index)

    def gated(self) -> Self:
        """Kueue has not let it go: no node, nothing started."""
        return self.having(
            is_gated=True,
            workload_name="",
            phase="Pending",
            node_name="",
            is_ready=False,
            has_container_status=False,
        )

    def unready(self, waiting: str = "") -> Self:
        """Admitted and started, and not Ready."""
        return self.having(is_ready=False, waiting_reason=waiting)

    def unstarted(self, unscheduled: str = "") -> Self:
        """Admitted, and nothing of it has started."""
        return self.having(
            is_ready=False,
            has_container_status=False,
            phase="Pending",
            node_name="",
            unscheduled_message=unscheduled,
        )

    def terminating(self, ends_at: float = 30.0) -> Self:
        return self.having(deletion_time=ends_at, is_ready=False)

    def ended(self, phase: str = "Failed") -> Self:
        return self.having(phase=phase, is_ready=False)


def make_member() -> MemberBuilder:
    builder = MemberBuilder(
        ObservedMember(
            name="",
            uid="",
            owner_uid=RECORD_UID,
            ordinal=0,
            member_index=0,
            group_name="g0",
            group_total=1,
            fingerprint="",
            renderer_version=1,
            token="t0",
            local_queue="h200",
            phase="Running",
            node_name=NODE,
            is_gated=False,
            is_managed_by_kueue=True,
            is_ready=True,
            has_container_status=True,
            is_managed=True,
            answers_api=True,
            deletion_time=None,
            is_let_go=False,
            workload_name="g0",
            template_digest="",
            requests={},
            waiting_reason="",
            unscheduled_message="",
        )
    )
    return builder.of(make_desired().obj())


def make_replica(desired: Desired, ordinal: int = 0) -> list[MemberBuilder]:
    """The builders of every member of one replica, in seat order."""
    return [make_member().of(desired, ordinal, seat) for seat in range(desired.size)]


@dataclass(frozen=True)
class WorkloadBuilder:
    """A Workload that Kueue composed of one member and has not admitted."""

    value: ObservedWorkload

    def obj(self) -> ObservedWorkload:
        return self.value

    def having(self, **changes: object) -> Self:
        """Set observed fields by their own names."""
        return replace(self, value=replace(self.value, **changes))  # type: ignore[arg-type]

    def of(self, *members: ObservedMember, role: str = "decode") -> Self:
        """Compose it of exactly these members: name, owners, PodSet and queue are theirs."""
        first = members[0]
        return self.having(
            name=first.group_name,
            uid=f"workload-{first.group_name}",
            owner_uids=frozenset(each.uid for each in members),
            local_queue=first.local_queue,
            pod_sets=(ObservedPodSet(role, len(members), first.template_digest),),
        )

    def uid(self, uid: str) -> Self:
        return self.having(uid=uid)

    def owned_by(self, *uids: str) -> Self:
        return self.having(owner_uids=frozenset(uids))

    def pod_set(self, name: str, count: int) -> Self:
        digest = self.value.pod_sets[0].template_digest
        return self.having(
            pod_sets=(
                *(each for each in self.value.pod_sets if each.name != name),
                ObservedPodSet(name, count, digest),
            )
        )

    def condition(
        self, kind: str, status: str = "True", *, reason: str = "", message: str = ""
    ) -> Self:
        conditions = {
            **self.value.conditions,
            kind: Condition(ConditionStatus(status), reason, message),
        }
        return self.having(conditions=conditions)

    def reserved(self) -> Self:
        """Quota is reserved, and it is not admitted."""
        return self.having(has_admission=True).condition("QuotaReserved")

    def admitted(self) -> Self:
        return self.reserved().condition("Admitted")

    def terminating(self) -> Self:
        return self.having(is_terminating=True)


def make_workload(name: str = "g0") -> WorkloadBuilder:
    return WorkloadBuilder(
        ObservedWorkload(
            name=name,
            uid=f"workload-{name}",
            owner_uids=frozenset(),
            is_terminating=False,
            local_queue="h200",
            has_admission=False,
            is_active=True,
            pod_sets=(ObservedPodSet("decode", 1, ""),),
            conditions={},
            has_admission_history=False,
            flavors={},
        )
    )


@dataclass(frozen=True)
class RecordBuilder:
    """The record of `chat`'s `decode`, with nothing under way."""

    value: RoleRecord

    def obj(self) -> RoleRecord:
        return self.value

    def having(self, **changes: object) -> Self:
        """Set the record's fields by their own names."""
        return replace(self, value=replace(self.value, **changes))  # type: ignore[arg-type]

    def achieved(self, count: int) -> Self:
        return self.having(achieved=count)

    def batch(self, token: str, *ordinals: int) -> Self:
        return self.having(batch=Batch(token, ordinals))

    def departing(self, *departures: Departure) -> Self:
        return self.having(departures=departures)

    def cleaning(self, ordinal: int, *departures: Departure) -> Self:
        """Open a slot whose captured objects leave."""
        return self.having(
            slot=Slot(ordinal=ordinal, phase=SlotPhase.CLEANUP, departures=departures)
        )

    def awaiting(
        self,
        desired: Desired,
        ordinal: int = 0,
        *,
        token: str = "t1",
        members: Iterable[ObservedMember] = (),
        workload_uid: str = "",
    ) -> Self:
        """Open a slot that waits for the replacement which that declaration renders."""
        return self.having(
            slot=Slot(
                ordinal=ordinal,
                phase=SlotPhase.WAITING_FOR_ADMISSION,
                token=token,
                fingerprints=desired.member_fingerprints(ordinal),
                current_member_uids={each.name: each.uid for each in members},
                current_workload_uid=workload_uid,
            )
        )


def make_record(role: str = "decode") -> RecordBuilder:
    return RecordBuilder(
        RoleRecord(
            deployment="chat",
            role=role,
            role_kinds={"prefill": "Prefill", "decode": "Decode"},
            front_role="prefill",
            uid=RECORD_UID,
            resource_version="7",
        )
    )


def make_departure(
    *members: ObservedMember, workload_uid: str = "", ordinal: int | None = None
) -> Departure:
    """What was captured of one group: these members and, when it was seen, their Workload."""
    first = members[0]
    return Departure(
        ordinal=first.ordinal or 0 if ordinal is None else ordinal,
        group_name=first.group_name,
        members={each.uid: each.name for each in members},
        workload_uid=workload_uid,
    )


def make_service(wanted: WantedService, *, owner_uid: str = RECORD_UID) -> ObservedService:
    """The Service as it stands when it is exactly what is wanted."""
    return ObservedService(
        name=wanted.name,
        uid=f"uid-{wanted.name}",
        owner_uid=owner_uid,
        cluster_ip="None" if wanted.is_headless else "10.96.0.10",
        selector=dict(wanted.selector),
        ports=tuple((each.name, each.port, str(each.target_port), "TCP") for each in wanted.ports),
        publishes_not_ready=wanted.is_headless,
        labels=dict(wanted.labels),
        annotations=dict(wanted.annotations),
        is_terminating=False,
    )


def observe(
    desired: Desired,
    record: RoleRecord,
    *members: ObservedMember,
    workloads: Iterable[ObservedWorkload] = (),
    absent: Iterable[str] = (),
    services: Iterable[ObservedService] = (),
    now: float = 0.0,
    token: str = "fresh",
) -> RoleView:
    """The role as observed: Workloads that are neither given nor `absent` were not read."""
    return RoleView(
        desired=desired,
        record=record,
        snapshot=Snapshot(
            members=members,
            services=tuple(services),
            workloads={
                **{each.name: each for each in workloads},
                **dict.fromkeys(absent),
            },
            now=now,
            token=token,
        ),
    )
