"""A role's life in random order: what clusters, people and killed runs do, and what must hold.

The run looks (members and Services), reads Workloads one at a time and acts on what it saw, while
the world moves on between any two of its steps. A killed run keeps nothing but the world.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from gpustack_deploy.model import identity
from gpustack_deploy.model.desired import Desired, Gate
from gpustack_deploy.model.observed import (
    Condition,
    ConditionStatus,
    ObservedMember,
    ObservedService,
    ObservedWorkload,
)
from gpustack_deploy.model.record import Departure, RoleRecord, SlotPhase
from gpustack_deploy.plan import simulate as simulation
from gpustack_deploy.plan.planner import next_step
from gpustack_deploy.plan.services import ServiceKind, wanted_services
from gpustack_deploy.plan.simulate import World, act, simulate, used
from gpustack_deploy.plan.slot import Transition
from gpustack_deploy.plan.snapshot import RoleView, Snapshot
from gpustack_deploy.plan.step import (
    Await,
    Compose,
    Done,
    Hold,
    Inspect,
    ObjectRef,
    PruneServices,
    Remove,
    RemoveWorkload,
    Step,
    SyncServices,
    Withdraw,
    WriteRecord,
)
from gpustack_deploy.plan.teardown import next_teardown_step
from tests.builders import make_desired, make_member

_READ_ANEW = (Transition.ADOPT, Transition.CLOSE, Transition.CLOSE_BATCH)
_ABSENT = Condition(ConditionStatus.FALSE)
_EVICTED = Condition(ConditionStatus.TRUE, "Preempted", "preempted")


@dataclass
class Sight:
    """What the run knows: one look at members and Services, and the Workloads read since."""

    members: tuple[ObservedMember, ...]
    services: tuple[ObservedService, ...]
    workloads: dict[str, ObservedWorkload | None] = field(default_factory=dict)


class PlannerMachine(RuleBasedStateMachine):
    """One role, one declaration at a time, one run at a time and the ghosts of earlier ones."""

    def __init__(self) -> None:
        super().__init__()
        self.desired = make_desired().obj()
        self.world = World()
        self.sight: Sight | None = None
        self.strangers: dict[str, ObservedMember] = {}
        self.late: set[str] = set()
        self.composes: list[tuple[Desired, Compose]] = []
        self.stood: dict[int, set[str]] = {}
        self.captured_workloads: set[str] = set()
        self.addresses: dict[str, tuple[str, str]] = {}

    @initialize(
        replicas=st.integers(1, 3),
        size=st.integers(1, 3),
        capacity=st.sampled_from([None, 1, 2, 4, 8]),
        gate=st.sampled_from(list(Gate)),
        is_front=st.booleans(),
        is_standing=st.integers(0, 3),
    )
    def declare(
        self,
        replicas: int,
        size: int,
        capacity: int | None,
        gate: Gate,
        is_front: bool,
        is_standing: int,
    ) -> None:
        """Begin with nothing, or three times out of four with the role as it is declared."""
        built = make_desired().replicas(replicas).size(size).gate(gate)
        self.desired = (built.front() if is_front else built).obj()
        if is_standing:
            self.world = simulate(self.desired, self.world)[1]
            capacity = capacity and replicas * size
        self.world = replace(self.world, capacity=capacity, read=frozenset())
        self._remember()

    # --- the run ---

    @rule()
    def look(self) -> None:
        self.sight = Sight(self.world.members, self.world.services)

    @precondition(lambda self: self.sight is not None)
    @rule(served=st.integers(1, 4), is_killed=st.booleans())
    def think(self, served: int, is_killed: bool) -> None:
        """Take the next step; of a step of several calls only the first may have been served."""
        self._take(served)
        if is_killed:
            self.sight = None

    @rule(steps=st.integers(1, 25), is_fair=st.booleans())
    def go_on(self, steps: int, is_fair: bool) -> None:
        """Several whole steps: most runs are not killed, and most clusters do their part."""
        for _ in range(steps):
            if self.sight is None:
                self.look()
            self._take(None)
            if self.sight is None and is_fair:
                self.settle()
                self.pass_time(1.0)
            self.everything_holds()

    @rule()
    def fail_to_look(self) -> None:
        """A read fails or the process is killed: nothing is concluded, nothing is kept."""
        self.sight = None

    def _take(self, served: int | None) -> None:
        sight = self.sight
        assert sight is not None
        snapshot = Snapshot(
            members=sight.members,
            services=sight.services,
            workloads=dict(sight.workloads),
            now=self.world.now,
            token=f"t{self.world.drawn:06d}",
        )
        step = next_step(self.desired, snapshot, self.world.record)
        match step:
            case Inspect(workloads=names):
                assert not set(names) & sight.workloads.keys(), "a Workload is read twice"
                sight.workloads |= {name: self.world.workloads.get(name) for name in names}
                return
            case Await() | Hold() | Done():
                self.sight = None
                return
            case _:
                pass
        self._permit(step, sight)
        if isinstance(step, Compose):
            self.composes = [*self.composes[-3:], (self.desired, step)]
        self.world = act(self.desired, self.world, step if served is None else _cut(step, served))
        self._remember()
        if not isinstance(step, WriteRecord) or step.transition in _READ_ANEW:
            self.sight = None

    # --- the cluster ---

    @precondition(lambda self: self._ours())
    @rule(data=st.data())
    def compose(self, data: st.DataObject) -> None:
        self.world = simulation.compose(self.world, self._a_group(data))

    @precondition(lambda self: self.world.workloads)
    @rule(data=st.data())
    def admit(self, data: st.DataObject) -> None:
        self.world = simulation.admit(self.world, self._a_workload(data))

    @precondition(lambda self: self._ours())
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        self.world = simulation.start(self.world, self._a_member(data).uid)

    @precondition(lambda self: self._ours())
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        self.world = simulation.end(self.world, self._a_member(data).uid)

    @precondition(lambda self: self._ours() or self.world.workloads)
    @rule(data=st.data())
    def collect(self, data: st.DataObject) -> None:
        groups = {each.group_name for each in self._ours()} | self.world.workloads.keys()
        self.world = simulation.collect(self.world, data.draw(st.sampled_from(sorted(groups))))

    @rule()
    def settle(self) -> None:
        self.world = simulation.settle(self.world)

    @rule(seconds=st.sampled_from([1.0, 31.0]))
    def pass_time(self, seconds: float) -> None:
        self.world = replace(self.world, now=self.world.now + seconds)

    @precondition(lambda self: any(each.is_admitted for each in self.world.workloads.values()))
    @rule(data=st.data())
    def evict(self, data: st.DataObject) -> None:
        """Kueue takes an admission back and stops what runs of it."""
        names = sorted(name for name, each in self.world.workloads.items() if each.is_admitted)
        name = data.draw(st.sampled_from(names))
        workload = self.world.workloads[name]
        conditions = {**workload.conditions, "Admitted": _ABSENT, "Evicted": _EVICTED}
        evicted = replace(
            workload, has_admission=False, conditions=conditions, has_admission_history=True
        )
        self.world = replace(self.world, workloads={**self.world.workloads, name: evicted})
        self._delete(each for each in self.world.members if each.uid in workload.owner_uids)

    @precondition(lambda self: any(each.is_ready for each in self._ours()))
    @rule(data=st.data(), is_failed=st.booleans())
    def stumble(self, data: st.DataObject, is_failed: bool) -> None:
        """A running member fails, or only stops being Ready."""
        ready = [each for each in self._ours() if each.is_ready]
        member = _one_of(data, ready)
        fallen = replace(member, is_ready=False, phase="Failed" if is_failed else member.phase)
        self._put([fallen])

    @rule(room=st.sampled_from([0, 1, 4, None]))
    def change_the_room(self, room: int | None) -> None:
        """Another tenant takes quota or gives it back: so much is free from now on."""
        capacity = None if room is None else used(self.world) + room
        self.world = replace(self.world, capacity=capacity)

    # --- people ---

    @rule(
        size=st.integers(1, 3) | st.none(),
        replicas=st.integers(1, 3) | st.none(),
        fingerprint=st.sampled_from(["v1", "v2", "v3"]) | st.none(),
        is_managed=st.booleans() | st.none(),
        is_external_dp=st.booleans() | st.none(),
    )
    def edit(
        self,
        size: int | None,
        replicas: int | None,
        fingerprint: str | None,
        is_managed: bool | None,
        is_external_dp: bool | None,
    ) -> None:
        """Declare something else; that is another run."""
        old = self.desired
        wanted = replace(
            old,
            size=size or old.size,
            replicas=replicas or old.replicas,
            is_managed=old.is_managed if is_managed is None else is_managed,
            is_external_dp=old.is_external_dp if is_external_dp is None else is_external_dp,
        )
        # A fingerprint covers everything that is rendered: size, command mode and shape as well.
        head = fingerprint or old.fingerprint.partition("/")[0]
        self.desired = replace(
            wanted,
            fingerprint=f"{head}/{wanted.size}/{wanted.is_managed}/{wanted.is_external_dp}",
        )
        self.sight = None

    @precondition(lambda self: self.desired.size > 1 and self._ours())
    @rule()
    def ask_for_more_and_then_for_smaller(self) -> None:
        """Growth that the quota has no room for, and then the edit that makes room for it."""
        self.change_the_room(0)
        self.desired = replace(self.desired, replicas=self.desired.replicas + 1)
        self.sight = None
        self.go_on(15, True)
        self.edit(size=1, replicas=None, fingerprint=None, is_managed=None, is_external_dp=None)
        self.go_on(30, True)

    @precondition(lambda self: self._ours())
    @rule(data=st.data(), is_forced=st.booleans())
    def delete_by_hand(self, data: st.DataObject, is_forced: bool) -> None:
        """Somebody deletes a member; by force it is gone at once."""
        member = self._a_member(data)
        if is_forced:
            rest = tuple(each for each in self.world.members if each.uid != member.uid)
            self.world = replace(self.world, members=rest)
        else:
            self._delete([member])

    @precondition(lambda self: len(self.strangers) < 2)
    @rule(ordinal=st.integers(0, 3), seat=st.integers(0, 2), owner=st.sampled_from(["", "x"]))
    def let_a_stranger_in(self, ordinal: int, seat: int, owner: str) -> None:
        """Somebody makes a Pod of one of our names, with our labels and another owner."""
        name = identity.member_name("chat", "decode", ordinal, seat)
        if any(each.name == name for each in self.world.members):
            return
        stranger = make_member().gated().owned_by(owner).uid(f"x{self.world.drawn}")
        pod = stranger.having(
            name=name, ordinal=ordinal, member_index=seat, group_name="", group_total=None
        ).obj()
        self.strangers[name] = pod
        members = (*self.world.members, pod)
        self.world = replace(self.world, members=members, drawn=self.world.drawn + 1)

    @precondition(lambda self: self.strangers)
    @rule()
    def show_the_strangers_out(self) -> None:
        uids = {each.uid for each in self.strangers.values()}
        rest = tuple(each for each in self.world.members if each.uid not in uids)
        self.world, self.strangers = replace(self.world, members=rest), {}

    @precondition(lambda self: self.composes)
    @rule(data=st.data())
    def create_late(self, data: st.DataObject) -> None:
        """A call of an earlier run arrives only now."""
        calls = [(declared, seat) for declared, step in self.composes for seat in step.seats]
        declared, seat = calls[data.draw(st.integers(0, len(calls) - 1))]
        before = {each.uid for each in self.world.members}
        self.world = act(declared, self.world, Compose((seat,)))
        self.late |= {each.uid for each in self.world.members} - before
        self._remember()

    @precondition(lambda self: self._can_lose_its_record())
    @rule()
    def lose_the_record(self) -> None:
        """The record is deleted; the next run starts anew and inherits what it owned."""
        lost = self.world.record
        assert lost is not None
        anew = RoleRecord(
            deployment=lost.deployment,
            role=lost.role,
            role_kinds=lost.role_kinds,
            front_role=lost.front_role,
            uid=f"r{self.world.drawn}",
            former_uid=lost.uid,
        )
        # The garbage collector follows: Services are gone at once, members leave.
        self.world = replace(self.world, record=anew, services=(), drawn=self.world.drawn + 1)
        self._delete(self._ours())
        self.addresses = {}
        self.sight = None

    def _can_lose_its_record(self) -> bool:
        record = self.world.record
        return record is not None and all(each.owner_uid == record.uid for each in self._ours())

    # --- what each step must be permitted by ---

    def _permit(self, step: Step, sight: Sight) -> None:
        record = self.world.record
        captured = _captured(record)
        match step:
            case Remove(members=members) | Withdraw(members=members):
                known = {(uid, name) for each in captured for uid, name in each.members.items()}
                assert {(each.uid, each.name) for each in members} <= known, "never captured"
            case RemoveWorkload(workload=ref):
                self._permit_workload(ref, captured)
            case PruneServices(services=services):
                standing = {
                    identity.peer_service_name("chat", "decode", each.ordinal or 0)
                    for each in self._timely()
                    if (each.group_total or 0) > 1
                }
                assert standing.isdisjoint(each.name for each in services), "a member needs it"
            case Compose():
                self._permit_members(step)
            case WriteRecord():
                self._permit_transition(step, sight)
            case _:
                pass

    def _permit_workload(self, ref: ObjectRef, captured: Sequence[Departure]) -> None:
        if any(ref.uid == each.workload_uid for each in captured):
            return
        (workload,) = (each for each in self.world.workloads.values() if each.uid == ref.uid)
        uids = {uid for each in captured for uid in each.members}
        assert workload.owner_uids, "an ownerless Workload is nobody's to delete"
        assert workload.owner_uids <= uids, "a Workload of members that nobody captured"

    def _permit_members(self, step: Compose) -> None:
        for seat in step.seats:
            beside = [each for each in self._timely() if each.ordinal == seat.ordinal]
            assert {seat.group_name} >= {each.group_name for each in beside}, "not vacant"
            earlier = self.stood.get(seat.ordinal, set()) - {each.uid for each in beside}
            standing = {each.uid for each in self.world.members}
            owned = [
                each.name
                for each in self.world.workloads.values()
                # One whose owners somebody removed by force is garbage.
                if each.owner_uids & earlier - self.late and each.owner_uids & standing
            ]
            assert [] == owned, "the ordinal's old Workload still stands"

    def _permit_transition(self, step: WriteRecord, sight: Sight) -> None:
        before = self.world.record
        assert before is not None
        match step.transition:
            case Transition.OPEN:
                assert before.slot is None
                assert step.record.slot is not None
                assert step.record.slot.departures, "nothing was captured"
            case Transition.BEGIN:
                self._permit_begin(before, sight)
            case Transition.CLOSE:
                self._permit_close(before, sight)
            case _:
                pass

    def _permit_begin(self, before: RoleRecord, sight: Sight) -> None:
        slot = before.slot
        assert slot is not None
        assert [] == _owned(sight, before, slot.ordinal), "not vacant"
        for departure in slot.departures:
            workload = sight.workloads[departure.group_name]
            assert workload is None or workload.uid != departure.workload_uid, "still there"

    def _permit_close(self, before: RoleRecord, sight: Sight) -> None:
        slot = before.slot
        assert slot is not None
        members = _owned(sight, before, slot.ordinal)
        group = identity.group_name("chat", "decode", slot.token)
        workload = sight.workloads[group]
        assert workload is not None
        assert workload.is_admitted
        assert workload.owner_uids == {each.uid for each in members}
        assert workload.uid not in self.captured_workloads, "an admission of earlier members"
        assert self.desired.member_fingerprints(slot.ordinal) == tuple(
            each.fingerprint for each in sorted(members, key=lambda each: each.member_index or 0)
        )

    # --- what must hold after every step ---

    @invariant()
    def everything_holds(self) -> None:
        self.no_ordinal_holds_two_declarations()
        self.no_group_has_more_members_than_its_total()
        self.strangers_survive()
        self.services_keep_their_identity()
        self.a_peer_service_outlives_its_last_member()
        self.followers_are_never_selected()

    def no_ordinal_holds_two_declarations(self) -> None:
        shapes: dict[int | None, set[tuple[str, int | None]]] = {}
        for each in self._timely():
            shapes.setdefault(each.ordinal, set()).add((each.template_digest, each.group_total))
        assert {} == {ordinal: found for ordinal, found in shapes.items() if len(found) > 1}

    def no_group_has_more_members_than_its_total(self) -> None:
        for group in {each.group_name for each in self._ours()}:
            members = [each for each in self._ours() if each.group_name == group]
            assert len(members) <= (members[0].group_total or 0)

    def strangers_survive(self) -> None:
        standing = {each.uid for each in self.world.members}
        assert [] == [each.name for each in self.strangers.values() if each.uid not in standing]

    def services_keep_their_identity(self) -> None:
        for service in self.world.services:
            now = service.uid, service.cluster_ip
            if service.labels[identity.LABEL_SERVICE] != ServiceKind.PEER:
                assert now == self.addresses.setdefault(service.name, now)

    def a_peer_service_outlives_its_last_member(self) -> None:
        names = {each.name for each in self.world.services}
        record = self.world.record
        for member in self._timely():
            if (member.group_total or 0) > 1 and record and member.owner_uid == record.uid:
                peer = identity.peer_service_name("chat", "decode", member.ordinal or 0)
                assert peer in names, f"{member.name} stands without {peer}"

    def followers_are_never_selected(self) -> None:
        addressed = [
            each
            for each in self.world.services
            if each.labels[identity.LABEL_SERVICE] != ServiceKind.PEER
        ]
        for member in self._timely():
            # A rank of an External DP role answers by its own shape, as it was created.
            if not member.member_index or member.template_digest.endswith("/True"):
                continue
            labels = {
                **identity.role_selector("chat", "decode"),
                identity.LABEL_MEMBER_INDEX: str(member.member_index),
                identity.LABEL_API_ANSWERING: "true" if member.answers_api else "",
            }
            for service in addressed:
                assert not service.selector.items() <= labels.items(), f"{member.name} is selected"

    # --- and with a fair cluster every run ends ---

    def teardown(self) -> None:
        self.show_the_strangers_out()
        world = replace(self.world, capacity=None, read=frozenset())
        steps, after = simulate(self.desired, world)
        assert Done() == steps[-1], steps[-1]
        self._nothing_leaked(after)
        self._can_be_destroyed(world)

    def _nothing_leaked(self, world: World) -> None:
        desired, record = self.desired, world.record
        assert record is not None
        assert (None, (), None, desired.replicas) == (
            record.slot,
            record.departures,
            record.batch,
            record.achieved,
        )
        seats = [(each.ordinal, each.member_index) for each in world.members]
        want = [(o, s) for o in range(desired.replicas) for s in range(desired.size)]
        assert want == sorted(seats, key=lambda seat: (seat[0] or 0, seat[1] or 0))
        assert len(world.workloads) == desired.replicas
        for ordinal in range(desired.replicas):
            uids = {each.uid for each in world.members if each.ordinal == ordinal}
            (workload,) = (each for each in world.workloads.values() if each.owner_uids & uids)
            assert uids == workload.owner_uids
            assert workload.is_admitted
        assert len(world.members) == used(world)
        view = RoleView(desired, world.snapshot(), record)
        assert {each.name for each in wanted_services(view)} == {
            each.name for each in world.services
        }

    def _can_be_destroyed(self, world: World) -> None:
        """From wherever the role is, a fair cluster lets a destroy end with nothing left."""
        while (record := world.record) is not None:
            step = next_teardown_step(RoleView(self.desired, world.snapshot(), record))
            if isinstance(step, Done):
                break
            if isinstance(step, Await):
                moved = simulation.settle(world)
                now = max(world.now, step.wake_at or 0.0)
                moved = replace(moved, now=now if moved == world else world.now)
                assert moved != world, step
                world = replace(moved, read=frozenset())
            else:
                self._permit_deletes(step, record)
                world = act(self.desired, world, step)
        # What an earlier record left belongs to the garbage collector.
        owned = {record.uid, record.former_uid} if record else set()
        assert [] == [each.name for each in world.members if each.owner_uid in owned]
        assert [] == [each.name for each in world.services if each.owner_uid in owned]
        assert [] == sorted(simulation.settle(world).workloads)

    def _permit_deletes(self, step: Step, record: RoleRecord) -> None:
        if isinstance(step, Remove):
            owed = (*record.departures, *(record.slot.departures if record.slot else ()))
            assert {each.uid for each in step.members} <= {uid for it in owed for uid in it.members}

    # --- small things ---

    def _ours(self) -> list[ObservedMember]:
        known = {each.uid for each in self.strangers.values()}
        return [each for each in self.world.members if each.uid not in known]

    def _timely(self) -> list[ObservedMember]:
        """Our members but those that an earlier run's call created late."""
        return [each for each in self._ours() if each.uid not in self.late]

    def _remember(self) -> None:
        for each in self._ours():
            self.stood.setdefault(each.ordinal or 0, set()).add(each.uid)
        self.captured_workloads |= {each.workload_uid for each in _captured(self.world.record)}

    def _put(self, members: Sequence[ObservedMember]) -> None:
        changed = {each.uid: each for each in members}
        kept = tuple(changed.get(each.uid, each) for each in self.world.members)
        self.world = replace(self.world, members=kept)

    def _delete(self, members: Iterator[ObservedMember] | Sequence[ObservedMember]) -> None:
        ends = self.world.now + 30.0
        self._put(
            [
                replace(each, deletion_time=ends, is_ready=False)
                for each in members
                if not each.is_terminating
            ]
        )

    def _a_member(self, data: st.DataObject) -> ObservedMember:
        return _one_of(data, self._ours())

    def _a_group(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted({each.group_name for each in self._ours()})))

    def _a_workload(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.world.workloads)))


def _one_of(data: st.DataObject, members: Sequence[ObservedMember]) -> ObservedMember:
    """Draw by UID, which keeps a failure's story short."""
    by_uid = {each.uid: each for each in members}
    return by_uid[data.draw(st.sampled_from(sorted(by_uid)))]


def _captured(record: RoleRecord | None) -> tuple[Departure, ...]:
    if record is None:
        return ()
    slot = record.slot
    in_slot = slot.departures if slot and slot.phase is SlotPhase.CLEANUP else ()
    return (*record.departures, *in_slot)


def _owned(sight: Sight, record: RoleRecord, ordinal: int) -> list[ObservedMember]:
    known = {record.uid, record.former_uid} - {""}
    return [each for each in sight.members if each.owner_uid in known and each.ordinal == ordinal]


def _cut(step: Step, served: int) -> Step:
    """Return the step as far as it was served before the run was killed."""
    match step:
        case Compose(seats=seats):
            return Compose(seats[:served])
        case Remove(members=members):
            return replace(step, members=members[:served])
        case Withdraw(members=members):
            return Withdraw(members[:served])
        case SyncServices(create=create, align=align):
            return SyncServices(create[:served], align[: max(0, served - len(create))])
        case PruneServices(services=services):
            return PruneServices(services[:served])
        case _:
            return step
