"""The program of the real-CLI tests, run by `pulumi` as a user's: what it declares is in a file."""

import json
from pathlib import Path
from typing import Any

import pulumi
from pulumi.dynamic import (
    CheckResult,
    CreateResult,
    DiffResult,
    Resource,
    ResourceProvider,
    UpdateResult,
)

import pulumi_gpustack as gpustack

declared: dict[str, Any] = json.loads(Path("declared.json").read_text())


class SourceProvider(ResourceProvider):
    """Makes values that are known only after its resource was made; refuses the value `bad`."""

    def check(self, _olds: dict[str, Any], news: dict[str, Any]) -> CheckResult:
        return CheckResult(news, [])

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        return DiffResult(changes=_olds["value"] != _news["value"])

    def create(self, props: dict[str, Any]) -> CreateResult:
        return CreateResult("source", {**props, "made": props["value"]})

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        if _news["value"] == "bad":
            raise RuntimeError("this build fails")
        return UpdateResult({**_news, "made": _news["value"]})


class Source(Resource):
    """Stands for an image build or any other resource that a role depends on."""

    made: pulumi.Output[str]

    def __init__(self, name: str, value: str) -> None:
        super().__init__(SourceProvider(), name, {"value": value, "made": None})


H200 = gpustack.InstanceType(
    name="h200",
    local_queue="h200",
    accelerator_group="nvidia-h200",
    unit_cpu=16,
    unit_memory="192Gi",
    accelerator_memory="141Gi",
)

image: pulumi.Input[str] = "vllm/vllm-openai:v0.11.0"
namespace: pulumi.Input[str] = declared["namespace"]
if "source" in declared:
    source = Source("source", declared["source"])
    image = source.made.apply(lambda made: f"vllm/vllm-openai:{made}")

if declared["roles"]:
    roles: list[Any] = [
        {
            "instance_type": H200,
            "resources": gpustack.WholeGpu(count=2),
            "image": image,
            "env": [{"name": "IMAGE", "value": image}],
            **role,
        }
        for role in declared["roles"]
    ]
    chat = gpustack.ModelDeployment(
        "chat",
        namespace=namespace,
        model="Qwen/Qwen3-32B",
        engine=gpustack.Engine(name="vLLM", version="0.11.0"),
        rollout=declared.get("rollout"),
        roles=roles,
    )
    pulumi.export("endpoint", chat.endpoint)
    for name, role in chat.roles.items():
        pulumi.export(f"service-{name}", role.service_name)
