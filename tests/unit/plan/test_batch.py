"""Creates outside a slot: under one recorded token, filled while nothing was composed of them."""

import pytest

from gpustack_deploy.model import identity
from gpustack_deploy.model.desired import Desired, Gate
from gpustack_deploy.model.observed import ObservedMember
from gpustack_deploy.model.record import Batch
from gpustack_deploy.plan.batch import create_missing, is_fillable, settle_batch
from gpustack_deploy.plan.checks import WaitCode
from gpustack_deploy.plan.slot import Transition
from gpustack_deploy.plan.snapshot import RoleView
from gpustack_deploy.plan.step import Await, Compose, Inspect, Seat, Step, WriteRecord
from tests.builders import (
    MemberBuilder,
    RecordBuilder,
    make_desired,
    make_member,
    make_record,
    make_workload,
    observe,
)

pytestmark = pytest.mark.check

DESIRED = make_desired().replicas(3).obj()
PAIR = make_desired().replicas(2).size(2).obj()


def group(ordinal: int, token: str = "b") -> str:
    return identity.batch_group_name("chat", "decode", token, ordinal)


def batched(desired: Desired, ordinal: int, seat: int = 0) -> MemberBuilder:
    """A member that the batch made and that Kueue has not let go."""
    return make_member().of(desired, ordinal, seat).gated().in_group(group(ordinal), "b")


def recorded(step: Step | None, transition: Transition) -> WriteRecord:
    assert isinstance(step, WriteRecord), step
    assert transition is step.transition
    return step


def awaited(step: Step | None) -> tuple[WaitCode, int | None]:
    assert isinstance(step, Await), step
    return step.check.code, step.check.ordinal


# --- opening ---


def test_the_token_is_recorded_before_the_first_create() -> None:
    step = recorded(create_missing(observe(DESIRED, make_record().obj())), Transition.OPEN_BATCH)
    assert Batch("fresh", (0, 1, 2)) == step.record.batch
    assert "3 declared replicas do not stand" == step.cause


def test_ordinals_that_the_batch_covers_are_composed_lowest_first() -> None:
    record = make_record().batch("b", 0, 1, 2).obj()
    role = observe(DESIRED, record, absent=[group(each) for each in range(3)])
    want = tuple(Seat(ordinal, 0, group(ordinal), "b") for ordinal in range(3))
    assert Compose(want) == create_missing(role)


def test_every_seat_of_a_replica_is_composed_at_once() -> None:
    record = make_record().batch("b", 0).obj()
    single = make_desired().size(2).obj()
    step = create_missing(observe(single, record, absent=[group(0)]))
    assert Compose((Seat(0, 0, group(0), "b"), Seat(0, 1, group(0), "b"))) == step


def test_an_ordinal_beyond_the_batch_opens_a_new_one() -> None:
    record = make_record().batch("b", 0).obj()
    step = recorded(create_missing(observe(DESIRED, record, token="later")), Transition.OPEN_BATCH)
    assert Batch("later", (0, 1, 2)) == step.record.batch


def test_nothing_is_created_when_everything_stands() -> None:
    members = [make_member().of(DESIRED, ordinal).obj() for ordinal in range(3)]
    assert create_missing(observe(DESIRED, make_record().obj(), *members)) is None


def test_the_slots_ordinal_is_not_the_batchs() -> None:
    record = make_record().cleaning(1).obj()
    step = recorded(create_missing(observe(DESIRED, record)), Transition.OPEN_BATCH)
    assert Batch("fresh", (0, 2)) == step.record.batch


@pytest.mark.parametrize(
    ("achieved", "want"),
    [
        pytest.param(2, Batch("fresh", (1,)), id="an established one is created at once"),
        pytest.param(1, None, id="a new one waits until nothing is outdated"),
    ],
)
def test_new_ordinals_wait_for_outdated_replicas(achieved: int, want: Batch | None) -> None:
    outdated = make_member().of(make_desired().fingerprint("v0").obj(), 0).obj()
    role = observe(DESIRED, make_record().achieved(achieved).obj(), outdated)
    step = create_missing(role)
    assert want == (step.record.batch if isinstance(step, WriteRecord) else None)


# --- names that are taken ---


def test_no_group_is_composed_before_its_name_was_read() -> None:
    record = make_record().batch("b", 0, 1, 2).obj()
    assert Inspect((group(1), group(2))) == create_missing(
        observe(DESIRED, record, absent=[group(0)])
    )


def test_a_workload_on_a_groups_name_blocks_and_is_named() -> None:
    record = make_record().batch("b", 0, 1, 2).obj()
    stranger = make_workload(group(1)).uid("stranger").obj()
    role = observe(DESIRED, record, workloads=[stranger], absent=[group(0), group(2)])
    step = create_missing(role)
    assert (WaitCode.WORKLOAD_OCCUPIES, 1) == awaited(step)
    assert isinstance(step, Await)
    assert "(uid stranger)" in step.check.reason


# --- filling a partial group ---


def partial(*members: ObservedMember, record: RecordBuilder | None = None) -> RoleView:
    known = (record or make_record().batch("b", 0)).obj()
    return observe(PAIR, known, *members, absent=[group(0), group(1)])


def test_a_partial_group_of_the_batch_is_filled_on_its_empty_seat() -> None:
    role = partial(
        batched(PAIR, 0, 1).obj(),
        make_member().of(PAIR, 1).obj(),
        make_member().of(PAIR, 1, 1).obj(),
    )
    assert Compose((Seat(0, 0, group(0), "b"),)) == create_missing(role)
    assert is_fillable(role, role.replicas[0])


@pytest.mark.parametrize(
    "member",
    [
        pytest.param(batched(PAIR, 0).terminating(), id="it is leaving"),
        pytest.param(batched(PAIR, 0).ended(), id="it ended"),
        pytest.param(batched(PAIR, 0).in_group(group(0, "a")), id="of an earlier batch"),
        pytest.param(batched(PAIR, 0).having(fingerprint="v0"), id="of an earlier declaration"),
        pytest.param(batched(PAIR, 0).total(3), id="of another total"),
        pytest.param(batched(PAIR, 0).seat(1), id="another seat's fingerprint"),
        pytest.param(batched(PAIR, 0).owned_by("former"), id="of a record that is gone"),
    ],
)
def test_any_other_partial_group_is_never_filled(member: MemberBuilder) -> None:
    record = make_record().batch("b", 0).having(former_uid="former").achieved(2)
    role = partial(member.obj(), make_member().of(PAIR, 1).obj(), record=record)
    assert not is_fillable(role, role.replicas[0])
    assert not isinstance(create_missing(role), Compose)


def test_a_partial_group_without_a_batch_is_never_filled() -> None:
    role = partial(batched(PAIR, 0).obj(), record=make_record())
    assert not is_fillable(role, role.replicas[0])


def test_a_partial_group_that_the_batch_no_longer_covers_is_never_filled() -> None:
    role = partial(batched(PAIR, 0).obj(), record=make_record().batch("b", 1))
    assert not is_fillable(role, role.replicas[0])


def test_a_composed_group_is_never_topped_up() -> None:
    leader = batched(PAIR, 0).obj()
    record = make_record().batch("b", 0, 1).obj()
    composed = make_workload().of(leader).obj()
    role = observe(PAIR, record, leader, workloads=[composed], absent=[group(1)])
    assert not is_fillable(role, role.replicas[0])
    assert (WaitCode.WORKLOAD_OCCUPIES, 0) == awaited(create_missing(role))


def test_a_whole_group_is_not_partial() -> None:
    role = partial(batched(PAIR, 0).obj(), batched(PAIR, 0, 1).obj())
    assert not is_fillable(role, role.replicas[0])


# --- settling ---


def settled(
    *members: ObservedMember,
    desired: Desired = DESIRED,
    record: RecordBuilder | None = None,
    is_admitted: bool = True,
) -> Step | None:
    workloads = [
        (make_workload().of(each).admitted() if is_admitted else make_workload().of(each)).obj()
        for each in members
    ]
    known = (record or make_record().batch("b", 0, 1, 2)).obj()
    return settle_batch(observe(desired, known, *members, workloads=workloads))


def all_three(change: MemberBuilder | None = None) -> list[ObservedMember]:
    members = [make_member().of(DESIRED, ordinal) for ordinal in range(3)]
    if change is not None:
        members[change.value.ordinal or 0] = change
    return [each.obj() for each in members]


def test_the_batch_is_closed_once_every_replica_is_admitted_and_ready() -> None:
    step = recorded(settled(*all_three()), Transition.CLOSE_BATCH)
    assert (None, 3) == (step.record.batch, step.record.achieved)


def test_nothing_is_written_when_all_that_is_declared_is_established() -> None:
    assert settled(*all_three(), record=make_record().achieved(3)) is None


def test_the_lowest_waiting_ordinal_is_told() -> None:
    members = [make_member().of(DESIRED, ordinal).gated().obj() for ordinal in range(3)]
    assert (WaitCode.NOT_ADMITTED, 0) == awaited(settled(*members, is_admitted=False))


def test_a_gated_member_is_noticed_without_a_read() -> None:
    members = [make_member().of(DESIRED, ordinal).gated().obj() for ordinal in range(3)]
    role = observe(DESIRED, make_record().batch("b", 0, 1, 2).obj(), *members)
    assert (WaitCode.NOT_ADMITTED, 0) == awaited(settle_batch(role))


def test_an_admission_of_the_batch_is_confirmed_by_its_workload() -> None:
    role = observe(DESIRED, make_record().batch("b", 0, 1, 2).obj(), *all_three())
    assert Inspect(("g0", "g1", "g2")) == settle_batch(role)


def test_established_replicas_are_read_off_their_members_alone() -> None:
    role = observe(DESIRED, make_record().achieved(3).obj(), *all_three())
    assert settle_batch(role) is None


def test_a_new_ordinal_is_confirmed_even_when_no_batch_covers_it() -> None:
    role = observe(DESIRED, make_record().achieved(2).obj(), *all_three())
    assert Inspect(("g2",)) == settle_batch(role)


def test_a_batched_replica_must_pass_the_gate() -> None:
    unready = make_member().of(DESIRED, 1).unready()
    assert (WaitCode.NOT_READY, 1) == awaited(settled(*all_three(unready)))


def test_the_gate_admitted_lets_an_unready_one_pass() -> None:
    desired = make_desired().replicas(3).gate(Gate.ADMITTED).obj()
    unready = make_member().of(desired, 1).unready()
    recorded(settled(*all_three(unready), desired=desired), Transition.CLOSE_BATCH)


def test_an_established_replica_need_not_be_ready() -> None:
    unready = make_member().of(DESIRED, 1).unready()
    assert settled(*all_three(unready), record=make_record().achieved(3)) is None


def test_an_established_replica_that_lost_its_admission_is_awaited() -> None:
    queued = make_member().of(DESIRED, 1).gated()
    record = make_record().achieved(3)
    assert (WaitCode.NOT_ADMITTED, 1) == awaited(settled(*all_three(queued), record=record))


def test_an_inherited_admission_does_not_close_the_batch() -> None:
    members = all_three()
    workloads = [make_workload().of(each).admitted() for each in members]
    workloads[2] = workloads[2].owned_by("earlier")
    role = observe(
        DESIRED,
        make_record().batch("b", 0, 1, 2).obj(),
        *members,
        workloads=[each.obj() for each in workloads],
    )
    assert (WaitCode.NOT_OWNER, 2) == awaited(settle_batch(role))
