from typing import Any

import pytest

from gpustack_deploy.model.errors import InvalidSpec
from gpustack_deploy.model.spec import (
    DeploymentSpec,
    dump_role,
    parse_deployment,
    parse_role,
    role_declarations,
)
from tests.declarations import CPU, H200, raw_deployment, raw_entry, raw_pair, raw_role, role

pytestmark = pytest.mark.check


def declared(**fields: Any) -> DeploymentSpec:
    return parse_deployment(raw_deployment(**fields))


def test_defaults_are_applied_once() -> None:
    (declaration,) = role_declarations(declared())
    assert (1, 1, 3600) == (
        declaration.replicas,
        declaration.size,
        declaration.startup_timeout_seconds,
    )
    assert ("Ready", 1800, 120, "Wait") == (
        declaration.rollout.gate,
        declaration.rollout.deadline_seconds,
        declaration.rollout.admission_wait_seconds,
        declaration.rollout.lost_node,
    )
    assert "default" == parse_deployment(raw_deployment(namespace=None)).namespace


def test_each_role_carries_what_it_must_know_of_its_deployment() -> None:
    spec = parse_deployment(raw_deployment(*raw_pair(), kvTransfer={"protocol": "TCP"}))
    prefill, decode = role_declarations(spec)
    assert {"prefill": "Prefill", "decode": "Decode"} == decode.role_kinds
    assert ("prefill", "prefill") == (prefill.front_role, decode.front_role)
    assert ("chat", "ml", "Qwen/Qwen3-32B") == (
        decode.deployment,
        decode.namespace,
        decode.model,
    )
    assert decode.kv_transfer == spec.kv_transfer


def test_the_front_role_can_be_named() -> None:
    spec = parse_deployment(raw_deployment(*raw_pair(), front="decode"))
    assert {"decode"} == {each.front_role for each in role_declarations(spec)}


def test_a_roles_blocks_override_the_deployments_key_by_key() -> None:
    spec = parse_deployment(
        raw_deployment(
            raw_entry(
                pod={"labels": {"b": "2", "c": "3"}, "serviceAccountName": "mine"},
                service={"annotations": {"x": "role"}},
                rollout={"deadlineSeconds": 60},
            ),
            pod={"labels": {"a": "1", "b": "1"}, "priorityClassName": "high"},
            service={"annotations": {"x": "all", "y": "all"}},
            rollout={"gate": "Admitted", "admissionWaitSeconds": 7},
        )
    )
    (declaration,) = role_declarations(spec)
    assert {"a": "1", "b": "2", "c": "3"} == declaration.pod.labels
    assert ("mine", "high") == (
        declaration.pod.service_account_name,
        declaration.pod.priority_class_name,
    )
    assert {"x": "role", "y": "all"} == declaration.service.annotations
    assert ("Admitted", 60, 7) == (
        declaration.rollout.gate,
        declaration.rollout.deadline_seconds,
        declaration.rollout.admission_wait_seconds,
    )


def test_types_are_referred_to_by_name() -> None:
    spec = parse_deployment(
        raw_deployment(
            raw_entry(name="a", instanceType="h200"),
            raw_entry(name="b", instanceType=CPU),
            instanceTypes=[H200],
        )
    )
    assert ["h200", "cpu"] == [each.instance_type.name for each in spec.roles]


def test_the_model_is_text_or_an_object_with_a_name() -> None:
    assert "m" == declared(model={"name": "m"}).model
    assert "m" == declared(model="m").model


def test_names_in_snake_case_and_pairs_of_name_and_key_are_accepted() -> None:
    got = role(image_pull_policy="Always", env=[{"name": "T", "secret_ref": ("hf", "token")}])
    want = role(
        imagePullPolicy="Always",
        env=[{"name": "T", "secretRef": {"name": "hf", "key": "token"}}],
    )
    assert want == got


@pytest.mark.parametrize(
    ("written", "want"),
    [(16, "16"), (16.0, "16"), (0.5, "0.5"), (17179869184, "17179869184"), ("16Gi", "16Gi")],
)
def test_a_quantity_may_be_written_as_a_number(written: object, want: str) -> None:
    assert want == role(shmSize=written).shm_size


def test_null_is_unset_and_whole_floats_are_numbers() -> None:
    got = role(size=2.0, ports=[{"port": 80.0, "protocol": None}], pod={"labels": None})
    assert role(size=2, ports=[{"port": 80}]) == got


def test_a_dump_leaves_out_what_is_empty_and_keeps_defaults() -> None:
    dumped = dump_role(role(volumes=[{"mountPath": "/scratch", "emptyDir": {}}]))
    assert [{"mountPath": "/scratch", "readOnly": False, "emptyDir": {}}] == dumped["volumes"]
    assert 1 == dumped["replicas"]
    absent = {"env", "command", "pod", "service", "kvTransfer", "topology", "resources"}
    assert set() == absent & set(dumped)


def test_the_first_refusal_is_raised() -> None:
    with pytest.raises(InvalidSpec, match=r"^size: found 0, needed 1 or more; change it$"):
        parse_role(raw_role(size=0))
    with pytest.raises(InvalidSpec, match=r"^roles\[0\]\.size: "):
        parse_deployment(raw_deployment(raw_entry(size=0)))


@pytest.mark.parametrize("raw", [None, 5, "text", ["list"]])
def test_what_is_no_object_is_refused(raw: Any) -> None:
    for parse in (parse_role, parse_deployment):
        with pytest.raises(InvalidSpec, match="needed an object"):
            parse(raw)
