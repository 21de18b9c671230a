"""What the planner is given of a declaration."""

import pytest

from gpustack_deploy.model.desired import member_fingerprint
from tests.builders import make_desired

pytestmark = pytest.mark.check


def test_fingerprints_come_in_seat_order_one_a_member() -> None:
    desired = make_desired().size(3).obj()
    want = tuple(member_fingerprint("v1", 5, seat) for seat in range(3))
    assert want == desired.member_fingerprints(5)


def test_a_members_fingerprint_is_pinned() -> None:
    assert "9fca6632cf91921da9496987227c2299" == member_fingerprint("v1", 0, 0)


@pytest.mark.parametrize(
    "other", [("v2", 0, 0), ("v1", 1, 0), ("v1", 0, 1)], ids=["declaration", "ordinal", "seat"]
)
def test_a_fingerprint_tells_what_differs(other: tuple[str, int, int]) -> None:
    assert member_fingerprint("v1", 0, 0) != member_fingerprint(*other)


def test_more_replicas_change_no_fingerprint() -> None:
    few, many = make_desired().replicas(1).obj(), make_desired().replicas(9).obj()
    assert few.member_fingerprints(0) == many.member_fingerprints(0)


def test_the_front_role_is_named_by_the_record_not_by_the_list() -> None:
    assert not make_desired().obj().is_front
    assert make_desired().front().obj().is_front
