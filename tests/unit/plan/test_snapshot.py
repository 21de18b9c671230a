"""The views of one observation: whose members they are, how complete a replica is, who is due."""

from collections.abc import Callable

import pytest

from gpustack_deploy.plan.snapshot import ReplicaView, Shape
from tests.builders import (
    RECORD_UID,
    MemberBuilder,
    make_desired,
    make_member,
    make_record,
    make_replica,
    observe,
)

pytestmark = pytest.mark.check

PAIR = make_desired().replicas(2).size(2).obj()

Change = Callable[[MemberBuilder], MemberBuilder]


def a_replica(*changes: Change, ordinal: int = 0) -> ReplicaView:
    """Return the pair with its members changed in seat order."""
    members = make_replica(PAIR, ordinal)
    for seat, change in enumerate(changes):
        members[seat] = change(members[seat])
    view = observe(PAIR, make_record().obj(), *(each.obj() for each in members))
    return view.replicas[ordinal]


def same(each: MemberBuilder) -> MemberBuilder:
    return each


# --- shape ---


def test_a_whole_replica_is_complete_current_and_neither_broken_nor_outdated() -> None:
    replica = a_replica()
    assert Shape.COMPLETE is replica.shape
    assert (2, ("g0",)) == (replica.total, replica.group_names)
    assert not replica.is_broken
    assert not replica.is_outdated
    assert replica.is_admitted
    assert replica.is_ready


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda each: each.terminating(), id="leaving"),
        pytest.param(lambda each: each.ended("Failed"), id="failed"),
        pytest.param(lambda each: each.ended("Succeeded"), id="succeeded"),
    ],
)
def test_a_member_that_leaves_or_ended_breaks_its_replica(change: Change) -> None:
    replica = a_replica(same, change)
    assert Shape.INCOMPLETE is replica.shape
    assert replica.is_broken


def test_a_member_that_is_gone_breaks_its_replica() -> None:
    leader = make_replica(PAIR)[0].obj()
    replica = observe(PAIR, make_record().obj(), leader).replicas[0]
    assert Shape.INCOMPLETE is replica.shape
    assert replica.is_broken


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda each: each.total(3), id="totals that disagree"),
        pytest.param(lambda each: each.total(None), id="a total that cannot be read"),
        pytest.param(lambda each: each.seat(0), id="a seat twice"),
        pytest.param(lambda each: each.seat(2), id="a seat beyond the total"),
        pytest.param(lambda each: each.seat(None), id="a seat that cannot be read"),
    ],
)
@pytest.mark.parametrize("is_leaving", [False, True], ids=["standing", "leaving"])
def test_what_cannot_be_read_is_never_called_broken(change: Change, is_leaving: bool) -> None:
    def changed(each: MemberBuilder) -> MemberBuilder:
        return change(each.terminating()) if is_leaving else change(each)

    replica = a_replica(same, changed)
    assert Shape.UNREADABLE is replica.shape
    assert not replica.is_broken


def test_no_total_anywhere_cannot_be_read() -> None:
    replica = a_replica(lambda each: each.total(None), lambda each: each.total(None))
    assert Shape.UNREADABLE is replica.shape
    assert 0 == replica.total


def test_disagreeing_totals_have_no_total() -> None:
    assert 0 == a_replica(same, lambda each: each.total(3)).total


def test_a_member_of_a_record_that_is_gone_breaks_its_replica() -> None:
    members = [each.owned_by("lost").obj() for each in make_replica(PAIR)]
    record = make_record().having(former_uid="lost").obj()
    replica = observe(PAIR, record, *members).replicas[0]
    assert Shape.COMPLETE is replica.shape
    assert replica.is_broken


def test_members_of_two_groups_are_no_replica() -> None:
    """Kueue admits groups: a seat filled from another one is never admitted with its fellows."""
    replica = a_replica(same, lambda each: each.in_group("late"))
    assert replica.is_broken


# --- late creates of an orphaned run ---


def late(seat: int, total: int) -> MemberBuilder:
    return make_member().of(PAIR, 0, seat).gated().in_group("late").total(total).uid("late")


def beside(*members: MemberBuilder) -> ReplicaView:
    seen = [each.obj() for each in members]
    return observe(PAIR, make_record().obj(), *seen).replicas[0]


SINGLE = make_member().of(make_desired().obj())


def test_a_late_member_beside_a_complete_group_is_a_stray_and_not_unreadable() -> None:
    replica = beside(SINGLE, late(1, 2))
    assert Shape.INCOMPLETE is replica.shape
    assert ["late"] == [each.uid for each in replica.strays]


def test_a_replica_of_one_group_has_no_strays() -> None:
    assert () == beside(SINGLE).strays


def test_where_no_group_is_complete_all_of_it_is_rebuilt() -> None:
    replica = beside(SINGLE.terminating(), late(1, 2))
    assert () == replica.strays
    assert replica.is_broken


def test_a_late_group_that_cannot_be_read_makes_the_replica_unreadable() -> None:
    assert Shape.UNREADABLE is beside(SINGLE, late(1, 1)).shape


# --- outdated ---


def test_one_member_of_an_earlier_declaration_outdates_the_replica() -> None:
    assert a_replica(same, lambda each: each.having(fingerprint="earlier")).is_outdated


def test_another_size_outdates_the_replica_and_does_not_break_it() -> None:
    single = make_desired().size(1).obj()
    view = observe(PAIR, make_record().obj(), make_member().of(single).obj())
    assert view.replicas[0].is_outdated
    assert not view.replicas[0].is_broken


def test_a_seat_that_is_no_longer_declared_outdates_the_replica() -> None:
    single = make_desired().size(1).obj()
    members = [each.obj() for each in make_replica(PAIR)]
    assert observe(single, make_record().obj(), *members).replicas[0].is_outdated


# --- whose members they are ---


def test_labels_alone_make_nobody_ours() -> None:
    ours = make_member().of(PAIR, 0).obj()
    foreign = make_member().of(PAIR, 1).owned_by("somebody").obj()
    orphan = make_member().of(PAIR, 1).owned_by("").uid("o").obj()
    view = observe(PAIR, make_record().obj(), ours, foreign, orphan)
    assert (ours,) == view.members
    assert (foreign, orphan) == view.foreign_members
    assert [0] == list(view.replicas)


def test_members_of_a_lost_record_are_ours() -> None:
    record = make_record().having(former_uid="lost").obj()
    view = observe(PAIR, record, make_member().of(PAIR).owned_by("lost").obj())
    assert {RECORD_UID, "lost"} == view.owner_uids
    assert () == view.foreign_members


def test_without_a_former_record_nobody_without_an_owner_is_ours() -> None:
    assert {RECORD_UID} == observe(PAIR, make_record().obj()).owner_uids


def test_a_member_without_a_readable_ordinal_stands_nowhere() -> None:
    lost = make_member().of(PAIR).having(ordinal=None).obj()
    view = observe(PAIR, make_record().obj(), lost)
    assert (lost,) == view.unplaced
    assert {} == view.replicas


# --- who stands where ---


def test_replicas_come_lowest_first_and_members_in_seat_order() -> None:
    members = [each.obj() for ordinal in (1, 0) for each in reversed(make_replica(PAIR, ordinal))]
    view = observe(PAIR, make_record().obj(), *members)
    assert [0, 1] == list(view.replicas)
    assert [0, 1] == [each.member_index for each in view.standing(1)]
    assert () == view.standing(2)


@pytest.mark.parametrize(
    ("slot_on", "want"),
    [
        pytest.param(None, (0, 2), id="no slot"),
        pytest.param(0, (2,), id="an ordinal that a slot holds is not missing"),
    ],
)
def test_the_ordinals_that_nobody_stands_on(slot_on: int | None, want: tuple[int, ...]) -> None:
    desired = make_desired().replicas(3).obj()
    record = make_record() if slot_on is None else make_record().cleaning(slot_on)
    view = observe(desired, record.obj(), make_member().of(desired, 1).terminating().obj())
    assert want == view.missing_ordinals
