"""A role's world as pure values: what each step does to it, and how the cluster answers.

`simulate` folds `next_step` over this world with a fair scheduler: the plan a preview shows. The
property tests drive the same events in any order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from gpustack_deploy.model import identity
from gpustack_deploy.model.desired import Desired
from gpustack_deploy.model.observed import (
    Condition,
    ConditionStatus,
    ObservedMember,
    ObservedNode,
    ObservedPodSet,
    ObservedService,
    ObservedWorkload,
)
from gpustack_deploy.model.record import RoleRecord
from gpustack_deploy.plan.planner import next_step
from gpustack_deploy.plan.services import ServiceKind, WantedService
from gpustack_deploy.plan.snapshot import Snapshot
from gpustack_deploy.plan.step import (
    Await,
    Compose,
    CreateRecord,
    Done,
    Hold,
    Inspect,
    ObjectRef,
    PruneServices,
    Remove,
    RemoveWorkload,
    Seat,
    Step,
    SyncServices,
    Withdraw,
    WriteRecord,
)

_TRUE = Condition(status=ConditionStatus.TRUE)
_MAX_STEPS_PER_MEMBER = 40


@dataclass(frozen=True, slots=True)
class World:
    """Everything the server holds of one role, and what the engine has read of it.

    `cost` is what one member composed now takes of `capacity` (accelerators, in whole units);
    `costs` remembers it by UID. `capacity` of `None` is a queue without limit.
    """

    members: tuple[ObservedMember, ...] = ()
    services: tuple[ObservedService, ...] = ()
    workloads: Mapping[str, ObservedWorkload] = field(default_factory=dict)
    nodes: Mapping[str, ObservedNode] = field(default_factory=dict)
    read: frozenset[str] = frozenset()
    read_nodes: frozenset[str] = frozenset()
    record: RoleRecord | None = None
    costs: Mapping[str, int] = field(default_factory=dict)
    cost: int = 1
    capacity: int | None = None
    now: float = 0.0
    drawn: int = 0

    def snapshot(self) -> Snapshot:
        """Return what the engine observes: every member and Service, and the Workloads it read."""
        return Snapshot(
            members=self.members,
            services=self.services,
            workloads={name: self.workloads.get(name) for name in self.read},
            nodes={name: self.nodes.get(name) for name in self.read_nodes},
            now=self.now,
            token=f"t{self.drawn:06d}",
        )


def simulate(desired: Desired, world: World) -> tuple[tuple[Step, ...], World]:
    """Return every step until the role is done, held or waits for what nobody will change.

    Raises:
        RuntimeError: the planner took more steps than any role of this shape needs.
    """
    steps: list[Step] = []
    limit = 100 + _MAX_STEPS_PER_MEMBER * (
        len(world.members) + desired.replicas * (desired.size + 1)
    )
    for _ in range(limit):
        step = next_step(desired, world.snapshot(), world.record)
        match step:
            case Done() | Hold():
                return (*steps, step), world
            case Await(wake_at=wake_at):
                moved = settle(world)
                if moved == world and wake_at is not None and wake_at > world.now:
                    moved = replace(world, now=wake_at)
                if moved == world:
                    return (*steps, step), world
                world = replace(moved, read=frozenset(), read_nodes=frozenset())
            case _:
                steps.append(step)
                world = act(desired, world, step)
    msg = f"no end after {limit} steps; the last were {steps[-3:]}"
    raise RuntimeError(msg)


def act(desired: Desired, world: World, step: Step) -> World:
    """Return the world after the server served the step; what was read before is read anew."""
    match step:
        case Inspect(workloads=names, nodes=nodes):
            return replace(
                world,
                read=world.read | frozenset(names),
                read_nodes=world.read_nodes | frozenset(nodes),
            )
        case Await() | Hold() | Done():
            return world
        case _:
            served = _served(desired, world, step)
            return replace(served, read=frozenset(), read_nodes=frozenset())


def _served(
    desired: Desired,
    world: World,
    step: CreateRecord
    | WriteRecord
    | Withdraw
    | Remove
    | RemoveWorkload
    | Compose
    | SyncServices
    | PruneServices,
) -> World:
    match step:
        case CreateRecord():
            return _with_record(desired, world)
        case WriteRecord(record=record):
            return replace(world, record=record, drawn=world.drawn + 1)
        case Withdraw(members=members):
            uids = {each.uid for each in members}
            return _with_members(world, uids, answers_api=False)
        case Remove(members=members, grace_period_seconds=grace_seconds):
            return _with_deleted(world, members, is_forced=grace_seconds == 0)
        case RemoveWorkload(workload=workload):
            return _with_workload_deleted(world, workload)
        case Compose(seats=seats):
            for seat in seats:
                world = _with_member(desired, world, seat)
            return world
        case SyncServices(create=create, align=align):
            for service in (*create, *align):
                world = _with_service(world, service)
            return world
        case PruneServices(services=services):
            uids = {each.uid for each in services}
            return replace(
                world, services=tuple(each for each in world.services if each.uid not in uids)
            )
        case _:
            assert_never(step)


def settle(world: World) -> World:
    """Return the world after kubelets, Kueue and the garbage collector did all they can."""
    while True:
        moved = world
        for name in sorted({each.group_name for each in world.members}):
            moved = collect(admit(compose(moved, name), name), name)
        for member in moved.members:
            moved = end(start(moved, member.uid), member.uid)
        for name in sorted(moved.workloads):
            moved = collect(moved, name)
        if moved == world:
            return world
        world = moved


def compose(world: World, group_name: str) -> World:
    """Kueue composes the Workload once as many active members exist as the group declares.

    A running member that is being deleted still counts, so a remnant may be composed.
    One that is created on an empty seat of a composed group is taken in as an owner.
    """
    active = [
        each
        for each in world.members
        if each.group_name == group_name
        and each.phase != "Failed"
        and not (each.is_terminating and not each.node_name)
    ]
    known = world.workloads.get(group_name)
    if known is not None and not known.is_terminating and active:
        owned = replace(known, owner_uids=known.owner_uids | {each.uid for each in active})
        return replace(world, workloads={**world.workloads, group_name: owned})
    if known is not None or not active or len(active) != active[0].group_total:
        return world
    role = active[0].template_digest.partition("/")[0]
    workload = ObservedWorkload(
        name=group_name,
        uid=f"w{world.drawn}",
        owner_uids=frozenset(each.uid for each in active),
        is_terminating=False,
        local_queue=active[0].local_queue,
        has_admission=False,
        is_active=True,
        pod_sets=(ObservedPodSet(role, len(active), active[0].template_digest),),
        conditions={},
        has_admission_history=False,
        flavors={},
    )
    return replace(
        world, workloads={**world.workloads, group_name: workload}, drawn=world.drawn + 1
    )


def admit(world: World, group_name: str) -> World:
    """Kueue admits the Workload when its members' cost fits, and takes their gates off."""
    workload = world.workloads.get(group_name)
    if workload is None or workload.is_terminating:
        return world
    if workload.is_admitted:
        return _with_members(world, workload.owner_uids, is_gated=False, workload_name=group_name)
    if world.capacity is not None and used(world) + _cost(world, workload) > world.capacity:
        return _refused(world, workload)
    admitted = replace(
        workload,
        has_admission=True,
        conditions={**workload.conditions, "Admitted": _TRUE, "QuotaReserved": _TRUE},
    )
    moved = replace(world, workloads={**world.workloads, group_name: admitted})
    return _with_members(moved, workload.owner_uids, is_gated=False, workload_name=group_name)


def _refused(world: World, workload: ObservedWorkload) -> World:
    """Kueue says, once, that the quota does not suffice."""
    if "QuotaReserved" in workload.conditions:
        return world
    pending = Condition(ConditionStatus.FALSE, "Pending", "insufficient unused quota", world.now)
    refused = replace(workload, conditions={**workload.conditions, "QuotaReserved": pending})
    return replace(world, workloads={**world.workloads, workload.name: refused})


def start(world: World, uid: str) -> World:
    """The scheduler binds an admitted member and the kubelet makes it Ready."""
    member = _member(world, uid)
    if member is None or member.is_gated or member.is_ready or not member.is_live:
        return world
    return _with_members(
        world, {uid}, node_name="node", phase="Running", is_ready=True, has_container_status=True
    )


def end(world: World, uid: str) -> World:
    """The kubelet ends a leaving member's containers; its object stays while finalizers do."""
    member = _member(world, uid)
    if member is None or not member.is_terminating or not member.node_name or member.is_terminal:
        return world
    return _with_members(world, {uid}, phase="Failed", is_ready=False)


def collect(world: World, group_name: str) -> World:
    """Kueue answers a deleted Workload: members are deleted and let go, then the Workload goes.

    Without a Workload, ended members lose their finalizer at once; with one, they stay. An owner
    that is gone is forgotten, and a Workload whose owners are all gone is garbage.
    """
    workload = world.workloads.get(group_name)
    group = [each for each in world.members if each.group_name == group_name]
    if workload is None:
        gone = {each.uid for each in group if each.is_terminating and each.has_ended}
        return _without_members(world, gone)
    workloads = {name: each for name, each in world.workloads.items() if name != group_name}
    owners = workload.owner_uids & {each.uid for each in world.members}
    if workload.owner_uids and not owners:
        return replace(world, workloads=workloads)
    if not workload.is_terminating:
        trimmed = replace(workload, owner_uids=owners)
        return replace(world, workloads={**workloads, group_name: trimmed})
    standing = [ObjectRef(each.name, each.uid) for each in group if not each.is_terminating]
    world = _with_deleted(world, tuple(standing))
    ended = {each.uid for each in world.members if each.group_name == group_name and each.has_ended}
    return _without_members(replace(world, workloads=workloads), ended)


def used(world: World) -> int:
    """Return what admitted Workloads take of the capacity."""
    return sum(_cost(world, each) for each in world.workloads.values() if each.is_admitted)


def _cost(world: World, workload: ObservedWorkload) -> int:
    return sum(world.costs.get(uid, 0) for uid in workload.owner_uids)


def _with_record(desired: Desired, world: World) -> World:
    record = RoleRecord(
        deployment=desired.deployment,
        role=desired.role,
        role_kinds={desired.role: desired.kind},
        front_role=desired.front_role,
        uid=f"r{world.drawn}",
        resource_version="1",
    )
    return replace(world, record=record, drawn=world.drawn + 1)


def _with_member(desired: Desired, world: World, seat: Seat) -> World:
    if world.record is None:
        return world
    name = identity.member_name(desired.deployment, desired.role, seat.ordinal, seat.member_index)
    if any(each.name == name for each in world.members):
        return world
    leads = seat.member_index == 0 or desired.is_external_dp
    member = ObservedMember(
        name=name,
        uid=f"p{world.drawn}",
        owner_uid=world.record.uid,
        ordinal=seat.ordinal,
        member_index=seat.member_index,
        group_name=seat.group_name,
        group_total=desired.size,
        fingerprint=desired.member_fingerprints(seat.ordinal)[seat.member_index],
        renderer_version=1,
        token=seat.token,
        local_queue=desired.local_queue,
        phase="Pending",
        node_name="",
        is_gated=True,
        is_managed_by_kueue=True,
        is_ready=False,
        has_container_status=False,
        is_managed=desired.is_managed,
        answers_api=leads,
        deletion_time=None,
        is_let_go=False,
        workload_name="",
        template_digest=f"{desired.role}/{desired.fingerprint}",
        requests=desired.requests,
        waiting_reason="",
        unscheduled_message="",
    )
    return replace(
        world,
        members=(*world.members, member),
        costs={**world.costs, member.uid: world.cost},
        drawn=world.drawn + 1,
    )


def _with_service(world: World, wanted: WantedService) -> World:
    found = next((each for each in world.services if each.name == wanted.name), None)
    address = "None" if wanted.is_headless else f"10.0.0.{world.drawn}"
    owner = world.record.uid if world.record else ""
    service = ObservedService(
        name=wanted.name,
        uid=found.uid if found else f"s{world.drawn}",
        owner_uid=owner,
        cluster_ip=found.cluster_ip if found else address,
        selector=dict(wanted.selector),
        ports=tuple((p.name, p.port, str(p.target_port), p.protocol) for p in wanted.ports),
        publishes_not_ready=wanted.kind is ServiceKind.PEER,
        labels={**(found.labels if found else {}), **wanted.labels},
        annotations={**(found.annotations if found else {}), **wanted.annotations},
        is_terminating=False,
    )
    others = tuple(each for each in world.services if each.name != wanted.name)
    return replace(world, services=(*others, service), drawn=world.drawn + 1)


def _with_deleted(
    world: World, members: tuple[ObjectRef, ...], *, is_forced: bool = False
) -> World:
    uids = {each.uid for each in members}
    ends_at = world.now + (0.0 if is_forced else 30.0)
    return _with_members(world, uids, deletion_time=ends_at, is_let_go=is_forced, is_ready=False)


def _with_workload_deleted(world: World, ref: ObjectRef) -> World:
    workload = world.workloads.get(ref.name)
    if workload is None or workload.uid != ref.uid:
        return world
    leaving = replace(workload, is_terminating=True)
    return replace(world, workloads={**world.workloads, ref.name: leaving})


def _with_members(world: World, uids: frozenset[str] | set[str], **changes: object) -> World:
    return replace(
        world,
        members=tuple(
            replace(each, **changes)  # type: ignore[arg-type]  # names checked by the callers
            if each.uid in uids
            else each
            for each in world.members
        ),
    )


def _without_members(world: World, uids: set[str]) -> World:
    return replace(world, members=tuple(each for each in world.members if each.uid not in uids))


def _member(world: World, uid: str) -> ObservedMember | None:
    return next((each for each in world.members if each.uid == uid), None)
