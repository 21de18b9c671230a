"""The component under Pulumi's mocks: its children, their inputs and options, its outputs."""

from collections.abc import Iterator
from typing import Any

import pulumi
import pytest

import pulumi_gpustack as gpustack
from gpustack_deploy.model.errors import InvalidSpec
from gpustack_deploy.model.spec import parse_deployment, parse_role, role_declarations
from pulumi_gpustack._outputs import declared
from tests.pulumi_program import ROLE_TYPE, Engine, mocked_engine, run

pytestmark = pytest.mark.check

H200 = gpustack.InstanceType(
    name="h200",
    local_queue="h200",
    accelerator_group="nvidia-h200",
    unit_cpu=16,
    unit_memory="192Gi",
    accelerator_memory="141Gi",
)
IMAGE = "vllm/vllm-openai:v0.11.0"
VLLM = gpustack.Engine(name="vLLM", version="0.11.0")


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    with mocked_engine(monkeypatch) as made:
        yield made


def pair(**fields: Any) -> gpustack.ModelDeployment:
    return gpustack.ModelDeployment(
        "chat",
        namespace="ml",
        model="Qwen/Qwen3-32B",
        engine=VLLM,
        roles=[
            gpustack.Role(
                name="prefill", kind="Prefill", replicas=2, instance_type=H200, image=IMAGE
            ),
            gpustack.Role(name="decode", kind="Decode", instance_type=H200, image=IMAGE),
        ],
        **fields,
    )


def test_each_role_is_one_child_named_after_the_deployment(engine: Engine) -> None:
    run(pair)
    roles = {name: made.typ for name, made in engine.made.items() if made.typ == ROLE_TYPE}
    assert {"chat-prefill": ROLE_TYPE, "chat-decode": ROLE_TYPE} == roles
    assert "gpustack:index:ModelDeployment" == engine.made["chat"].typ


def test_a_child_carries_what_it_must_know_of_its_deployment(engine: Engine) -> None:
    run(pair)
    inputs = engine.inputs("chat-decode")
    assert "chat" == inputs["deployment"]
    assert "decode" == inputs["role"]
    assert {"prefill": "Prefill", "decode": "Decode"} == inputs["roleKinds"]
    assert "prefill" == inputs["frontRole"]
    assert "front" not in inputs


def test_a_child_is_what_the_same_deployment_in_a_file_declares(engine: Engine) -> None:
    run(
        lambda: pair(
            pod={"labels": {"team": "a", "tier": "b"}, "priority_class_name": "high"},
            rollout=gpustack.Rollout(gate="Admitted"),
            kv_transfer=gpustack.KvTransfer(protocol="TCP"),
        )
    )
    offer = {
        "name": "h200",
        "localQueue": "h200",
        "acceleratorGroup": "nvidia-h200",
        "unitCpu": 16,
        "unitMemory": "192Gi",
        "acceleratorMemory": "141Gi",
    }
    spec = parse_deployment(
        {
            "name": "chat",
            "namespace": "ml",
            "model": "Qwen/Qwen3-32B",
            "engine": {"name": "vLLM", "version": "0.11.0"},
            "kvTransfer": {"protocol": "TCP"},
            "pod": {"labels": {"team": "a", "tier": "b"}, "priorityClassName": "high"},
            "rollout": {"gate": "Admitted"},
            "roles": [
                {
                    "name": "prefill",
                    "kind": "Prefill",
                    "replicas": 2,
                    "instanceType": offer,
                    "image": IMAGE,
                },
                {"name": "decode", "kind": "Decode", "instanceType": offer, "image": IMAGE},
            ],
        }
    )
    for want in role_declarations(spec):
        assert want == parse_role(declared(engine.inputs(f"chat-{want.role}")))


def test_a_role_s_blocks_win_key_by_key(engine: Engine) -> None:
    run(
        lambda: gpustack.ModelDeployment(
            "chat",
            model="m",
            engine=VLLM,
            pod=gpustack.Pod(labels={"team": "a", "tier": "b"}, priority_class_name="high"),
            roles=[
                {"name": "server", "instance_type": H200, "pod": {"labels": {"tier": "c"}}},
            ],
        )
    )
    want = {"labels": {"team": "a", "tier": "c"}, "priorityClassName": "high"}
    assert want == engine.inputs("chat-server")["pod"]


def test_values_that_are_known_later_reach_the_child(engine: Engine) -> None:
    def program() -> None:
        later = pulumi.Output.from_input("vllm/vllm-openai:v0.11.0")
        gpustack.ModelDeployment(
            "chat",
            namespace=pulumi.Output.from_input("ml"),
            model="m",
            engine=VLLM,
            roles=[
                gpustack.Role(
                    name="server",
                    instance_type=H200,
                    image=later,
                    env=[gpustack.Env("A", value=later.apply(lambda image: image[:4]))],
                )
            ],
        )

    run(program)
    inputs = engine.inputs("chat-server")
    assert "ml" == inputs["namespace"]
    assert "vllm/vllm-openai:v0.11.0" == inputs["image"]
    assert [{"name": "A", "value": "vllm"}] == inputs["env"]


def test_the_endpoint_is_the_front_role_s(engine: Engine) -> None:
    found: dict[str, Any] = {}

    def program() -> None:
        chat = pair(front="decode")
        found["endpoint"] = chat.endpoint
        found["roles"] = sorted(chat.roles)
        found["outputs"] = pulumi.Output.all(
            chat.name, chat.namespace, chat.endpoint, chat.roles["prefill"].replicas
        ).apply(lambda values: found.update(values=values))

    run(program)
    assert "decode" == engine.inputs("chat-prefill")["front"]
    assert ["chat", "ml", "http://chat.ml.svc:8000", 2] == found["values"]
    assert ["decode", "prefill"] == found["roles"]


def test_a_profile_is_found_by_its_name(engine: Engine) -> None:
    pulumi.runtime.set_all_config({"gpustack:profiles": '{"cfg": {"localQueue": "q"}}'})

    def program() -> None:
        gpustack.ModelDeployment(
            "chat",
            model="m",
            engine=VLLM,
            profiles={"h200": H200},
            roles=[
                gpustack.Role(name="one", instance_type="h200"),
                gpustack.Role(name="two", instance_type="cfg"),
            ],
        )

    try:
        run(program)
    finally:
        pulumi.runtime.set_all_config({})
    assert "h200" == engine.inputs("chat-one")["instanceType"]["localQueue"]
    assert {"name": "cfg", "localQueue": "q"} == engine.inputs("chat-two")["instanceType"]


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        (
            {"roles": [{"name": "a", "instance_type": "b200"}], "profiles": {"h200": H200}},
            r"roles\[0\].instanceType: there is no profile 'b200' \(known: h200\)",
        ),
        (
            {
                "roles": [
                    {"name": "a", "instance_type": H200},
                    {"name": "a", "instance_type": H200},
                ]
            },
            r"roles\[1\].name: there are two roles 'a'",
        ),
        ({"roles": []}, r"roles: there is none"),
        (
            {
                "roles": [{"name": "a", "instance_type": H200}],
                "role_options": {"b": pulumi.ResourceOptions()},
            },
            r"role_options\['b'\]: there is no such role \(roles: a\)",
        ),
        (
            {
                "roles": [
                    {
                        "name": name,
                        "kind": name.title(),
                        "instance_type": H200,
                        "resources": {"memory_percentage": 50},
                    }
                    for name in ("prefill", "decode")
                ]
            },
            r"roles\[1\].resources: found slices of group",
        ),
    ],
    ids=["profile", "two of a name", "none", "options", "slices of a pair"],
)
def test_what_no_single_role_can_see_is_refused_by_the_program(
    engine: Engine, fields: dict[str, Any], want: str
) -> None:
    failures: list[BaseException] = []

    def program() -> None:
        try:
            gpustack.ModelDeployment("chat", model="m", engine=VLLM, **fields)
        except InvalidSpec as error:
            failures.append(error)

    run(program)
    [failure] = failures
    with pytest.raises(InvalidSpec, match=want):
        raise failure


def test_options_reach_the_role_s_resource(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, pulumi.ResourceOptions] = {}
    register = pulumi.runtime.resource.register_resource

    def spy(res: Any, ty: str, name: str, *rest: Any, **more: Any) -> None:
        seen[name] = next(each for each in rest if isinstance(each, pulumi.ResourceOptions))
        register(res, ty, name, *rest, **more)

    monkeypatch.setattr("pulumi.resource.register_resource", spy)
    run(
        lambda: pair(
            role_options={
                "decode": pulumi.ResourceOptions(
                    protect=True, ignore_changes=["replicas"], delete_before_replace=False
                )
            }
        )
    )
    assert seen["chat-decode"].protect
    assert ["replicas"] == seen["chat-decode"].ignore_changes
    assert seen["chat-decode"].delete_before_replace
    assert seen["chat-prefill"].delete_before_replace
    assert not seen["chat-prefill"].protect
