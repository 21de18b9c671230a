from typing import Any

import pytest

from gpustack_deploy.model.errors import RefusedChange
from gpustack_deploy.model.role import RoleDeclaration
from gpustack_deploy.plan.changes import Effect, classify, refuse_identity_changes
from tests.declarations import CPU, H200, PARTITIONED, raw_role, role

pytestmark = pytest.mark.check

PAIR = {"prefill": "Prefill", "decode": "Decode"}
DECODE = {"role": "decode", "kind": "Decode", "roleKinds": PAIR}
RUNNER = {"image": None, "instanceType": {**H200, "runtimeVersion": "12.9"}}


def effects(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Effect]:
    return {each.path: each.effect for each in classify(role(**old), role(**new))}


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        ({}, {}, {}),
        ({}, {"replicas": 3}, {"replicas": Effect.SCALE}),
        ({"replicas": 3}, {}, {"replicas": Effect.SCALE}),
        ({}, {"size": 2}, {"size": Effect.REPLACE}),
        ({"size": 2}, {}, {"size": Effect.REPLACE}),
        ({}, {"resources": {"count": 2}}, {"resources": Effect.REPLACE}),
        ({}, {"resources": {"count": 1}}, {"resources": Effect.NONE}),
        ({}, {"instanceType": CPU}, {"instanceType": Effect.REPLACE}),
        ({}, {"instanceType": {**H200, "name": "other"}}, {"instanceType": Effect.NONE}),
        ({}, {"command": ["x"]}, {"command": Effect.REPLACE}),
        ({}, {"image": "other"}, {"image": Effect.REPLACE}),
        ({}, {"terminationGracePeriodSeconds": 30}, {"terminationGracePeriodSeconds": Effect.NONE}),
        ({}, {"shmSize": "16Gi"}, {"shmSize": Effect.NONE}),
        ({}, {"shmSize": "8Gi"}, {"shmSize": Effect.REPLACE}),
        ({"command": ["x"]}, {"command": ["x"], "extraArgs": ["--y"]}, {"extraArgs": Effect.NONE}),
        (
            {"extraArgs": ["--y"]},
            {"command": ["x"]},
            {"command": Effect.REPLACE, "extraArgs": Effect.REPLACE},
        ),
        ({}, {"ports": [{"port": 9000}]}, {"ports": Effect.REPLACE}),
        ({}, {"service": {"labels": {"a": "b"}}}, {"service": Effect.IN_PLACE}),
        ({}, {"pod": {"labels": {"a": "b"}}}, {"pod": Effect.REPLACE}),
        ({}, {"rollout": {"gate": "Admitted"}}, {"rollout": Effect.NONE}),
        (DECODE, {**DECODE, "frontRole": "prefill"}, {"frontRole": Effect.NONE}),
        (
            DECODE,
            {**DECODE, "kvTransfer": {"protocol": "RDMA"}},
            {"kvTransfer": Effect.REPLACE},
        ),
        ({}, {"kvTransfer": {"protocol": "RDMA"}}, {"kvTransfer": Effect.NONE}),
        ({}, {"engine": {"name": "vLLM", "version": "9"}}, {"engine.version": Effect.NONE}),
        (
            RUNNER,
            {**RUNNER, "engine": {"name": "vLLM", "version": "9"}},
            {"engine.version": Effect.REPLACE},
        ),
        (
            {},
            {"engine": {"name": "SGLang", "version": "9"}},
            {"engine.name": Effect.REFUSED, "engine.version": Effect.NONE},
        ),
        (
            {},
            {"instanceType": PARTITIONED, "resources": {"profile": "1g.18gb"}},
            {"instanceType": Effect.REPLACE, "resources": Effect.REPLACE},
        ),
        ({}, {"replicas": 2, "size": 2}, {"replicas": Effect.SCALE, "size": Effect.REPLACE}),
    ],
)
def test_each_edited_field_has_one_effect(
    old: dict[str, Any], new: dict[str, Any], want: dict[str, Effect]
) -> None:
    assert want == effects(old, new)


def test_every_effect_says_why() -> None:
    up, down = role(replicas=2), role(replicas=4)
    (grown,), (shrunk,) = classify(up, down), classify(down, up)
    assert "ordinals 2 to 3 are added; standing replicas are not touched" == grown.reason
    assert "ordinals 2 to 3 leave, highest first; the others are not touched" == shrunk.reason
    (size,) = classify(role(), role(size=2))
    assert "a replica has another number of members: every replica is replaced whole" == size.reason
    (image,) = classify(role(), role(image="x"))
    assert "it is rendered into its members: every replica is replaced whole" == image.reason


SENTENCE = "; different value = different deployment: declare another one"


@pytest.mark.parametrize(
    ("old", "new", "path", "found"),
    [
        ({}, {"deployment": "other"}, "deployment", "found 'other', created with 'chat'"),
        ({}, {"namespace": "other"}, "namespace", "found 'other', created with 'ml'"),
        ({}, {"model": "other"}, "model", "found 'other', created with 'Qwen/Qwen3-32B'"),
        ({}, {"engine": {"name": "SGLang"}}, "engine.name", "found 'SGLang', created with 'vLLM'"),
        (DECODE, {**DECODE, "kind": "Server"}, "kind", "found 'Server', created with 'Decode'"),
        ({}, {"role": "other"}, "role", "found 'other', created with 'server'"),
        (
            {},
            {"roleKinds": {"server": "Server", "b": "Server"}},
            "roleKinds",
            "found role 'b' added",
        ),
        (
            DECODE,
            {**DECODE, "roleKinds": {"decode": "Decode"}},
            "roleKinds",
            "found role 'prefill' removed",
        ),
        (
            {"roleKinds": {"server": "Server", "b": "Prefill"}},
            {"roleKinds": {"server": "Server", "b": "Server"}},
            "roleKinds",
            "found role 'b' turned from Prefill into Server",
        ),
    ],
)
def test_an_edit_of_what_the_deployment_is_is_refused(
    old: dict[str, Any], new: dict[str, Any], path: str, found: str
) -> None:
    # Unjudged, because some of these are no valid set by themselves.
    before, after = (RoleDeclaration.model_validate(raw_role(**each)) for each in (old, new))
    with pytest.raises(RefusedChange) as caught:
        refuse_identity_changes(before, after)
    assert (path, f"{found}{SENTENCE}") == (caught.value.field, caught.value.reason)
    assert (path, Effect.REFUSED) in {(each.path, each.effect) for each in classify(before, after)}


def test_a_roles_own_kind_is_refused_once() -> None:
    turned = {**DECODE, "kind": "Server", "roleKinds": {**PAIR, "decode": "Server"}}
    before, after = (RoleDeclaration.model_validate(raw_role(**each)) for each in (DECODE, turned))
    assert ["kind"] == [
        each.path for each in classify(before, after) if each.effect is Effect.REFUSED
    ]


def test_other_edits_are_not_refused() -> None:
    refuse_identity_changes(role(), role(size=2, engine={"name": "vLLM", "version": "9"}))
