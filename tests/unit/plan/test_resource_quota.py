"""What departing members free of a ResourceQuota."""

from dataclasses import replace

import pytest

from gpustack_deploy.plan.resource_quota import frees_enough, is_over_quota
from tests.builders import make_member

pytestmark = pytest.mark.check

REFUSAL = (
    'pods "chat-decode-probe" is forbidden: exceeded quota: team, requested:'
    " pods=1,requests.nvidia.com/gpu=2, used: pods=4,requests.nvidia.com/gpu=8,"
    " limited: pods=4,requests.nvidia.com/gpu=8"
)
LEAVING = replace(make_member().obj(), requests={"nvidia.com/gpu": "2"})


def test_a_full_quota_is_told_from_other_refusals() -> None:
    assert is_over_quota(REFUSAL)
    assert not is_over_quota("violates PodSecurity")


@pytest.mark.parametrize(
    ("refusal", "leaving", "members", "is_enough"),
    [
        pytest.param(REFUSAL, 1, 1, True, id="as much as is needed"),
        pytest.param(REFUSAL, 0, 1, False, id="nothing leaves"),
        pytest.param(REFUSAL, 1, 2, False, id="the replica grows"),
        pytest.param(REFUSAL, 2, 1, True, id="the replica shrinks"),
        pytest.param(
            REFUSAL.replace("requested: pods=1", "requested: limits.cpu=1"),
            1,
            1,
            False,
            id="a limit is not known to be freed",
        ),
        pytest.param("exceeded quota: unreadable", 1, 1, False, id="unreadable"),
        pytest.param(REFUSAL.replace("pods=4,", "pods=x,"), 1, 1, False, id="no quantity"),
    ],
)
def test_departing_members_free_what_they_request(
    refusal: str, leaving: int, members: int, is_enough: bool
) -> None:
    assert is_enough is frees_enough(refusal, [LEAVING] * leaving, members)
