"""The role's fingerprint moves with what is rendered, and with nothing else (D3, D19)."""

from typing import Any

import pytest

from gpustack_deploy.plan.fingerprint import role_fingerprint
from gpustack_deploy.plan.render import Owner, render_member
from tests.declarations import CPU, H200, SLICED, role

pytestmark = pytest.mark.check

PAIR = {"prefill": "Prefill", "decode": "Decode"}
# Standing members carry these: a release that changes one replaces the replicas of every user.
GOLDEN: list[tuple[dict[str, Any], str]] = [
    ({}, "73c8b5fb050a17a9d2191dc0ae587e93"),
    ({"size": 2}, "8f5b2cb3dcb387cd2b4bb51e894249eb"),
    (
        {"role": "prefill", "kind": "Prefill", "roleKinds": PAIR},
        "61f1330936236acdd6c57b06a43c5611",
    ),
    ({"engine": {"name": "SGLang", "version": "0.5.18"}}, "171fbc3160ef16ae76e6362c12c69604"),
    ({"command": ["serve"]}, "a316075d0623a2a8e697c3b519f21166"),
]

MOVES = [
    {"size": 2},
    {"instanceType": {**H200, "localQueue": "other"}},
    {"instanceType": {**H200, "unitCpu": 8}},
    {"instanceType": CPU},
    {"resources": {"count": 2}},
    {"instanceType": SLICED, "resources": {"memoryPercentage": 50}},
    {"command": ["x"]},
    {"image": "other"},
    {"imagePullPolicy": "Always"},
    {"imagePullSecrets": ["s"]},
    {"privileged": True},
    {"ports": [{"port": 8001}]},
    {"volumes": [{"mountPath": "/d", "emptyDir": {}}]},
    {"shmSize": "1Gi"},
    {"terminationGracePeriodSeconds": 31},
    {"extraArgs": ["--x"]},
    {"env": [{"name": "A", "value": "1"}]},
    {"topology": {"requiredLevel": "example.com/rack"}},
    {"startupTimeoutSeconds": 600},
    {"pod": {"labels": {"a": "b"}}},
    {"pod": {"workloadPriorityClass": "high"}},
    {"model": "other"},
    {"engine": {"name": "SGLang", "version": "0.11.0"}},
]

STAYS = [
    {"replicas": 7},
    {"rollout": {"gate": "Admitted", "deadlineSeconds": 1}},
    {"service": {"annotations": {"a": "b"}}},
    {"frontRole": "other", "roleKinds": {"server": "Server", "other": "Server"}},
    {"kvTransfer": {"protocol": "RDMA"}},
    {"engine": {"name": "vLLM", "version": "9"}},
    {"instanceType": {**H200, "name": "renamed", "acceleratorMemory": "80Gi", "arch": "arm64"}},
    {"resources": {"count": 1}},
    {"terminationGracePeriodSeconds": 30},
    {"shmSize": "16Gi"},
    {"volumes": [{"mountPath": "/nothing"}]},
    {"topology": {}},
    {"startupTimeoutSeconds": 3595},
]


@pytest.mark.parametrize("fields", MOVES)
def test_what_is_rendered_moves_it(fields: dict[str, Any]) -> None:
    assert role_fingerprint(role()) != role_fingerprint(role(**fields))


@pytest.mark.parametrize("fields", STAYS)
def test_what_is_not_rendered_leaves_it(fields: dict[str, Any]) -> None:
    assert role_fingerprint(role()) == role_fingerprint(role(**fields))


def test_the_order_of_maps_leaves_it() -> None:
    one = role(pod={"labels": {"a": "1", "b": "2"}})
    other = role(pod={"labels": {"b": "2", "a": "1"}})
    assert role_fingerprint(one) == role_fingerprint(other)


def test_group_token_and_owner_leave_a_members_fingerprint() -> None:
    def stamped(group: str, token: str, owner: Owner | None) -> str:
        pod = render_member(role(), 0, 0, group_name=group, token=token, owner=owner)
        return str(pod["metadata"]["annotations"]["modeldeployment.gpustack.ai/pod-spec-hash"])

    assert stamped("g1", "t1", None) == stamped("g2", "t2", Owner("n", "u"))


@pytest.mark.parametrize(("fields", "want"), GOLDEN)
def test_fingerprints_of_standing_members_are_pinned(fields: dict[str, Any], want: str) -> None:
    assert want == role_fingerprint(role(**fields))
