"""gpt-oss-120b, prefill and decode apart; README.md says which published recipe this follows.

Every edit is a value of the stack's configuration, for example
`pulumi config set --path decode.gpus 4`.
"""

from collections.abc import Mapping
from typing import Any

import pulumi

import pulumi_gpustack as gpustack

MODEL = "openai/gpt-oss-120b"

# Host share of one card, and the LocalQueue that admits Pods onto the pool.
PROFILES = {
    "h200": gpustack.InstanceType(
        name="h200",
        local_queue="h200",
        accelerator_group="nvidia-h200",
        accelerator_memory="141Gi",
        unit_cpu=16,
        unit_memory="192Gi",
        local_storage="2Ti",
    ),
    "a100": gpustack.InstanceType(
        name="a100",
        local_queue="a100",
        accelerator_group="nvidia-a100",
        accelerator_memory="80Gi",
        unit_cpu=16,
        unit_memory="192Gi",
        local_storage="2Ti",
    ),
}

# What both halves of the recipe share.
COMMON = ["--disable-access-log-for-endpoints=/health,/metrics,/v1/models", "--block-size=128"]

# Followers of a leader serve nothing themselves; at one member there is no index.
LEADER_SERVES = (
    'test "${GPUSTACK_MEMBER_INDEX:-0}" != 0 || curl -sf http://localhost:8000/v1/models'
)

config = pulumi.Config()


def settings(role: str, **defaults: Any) -> dict[str, Any]:
    """The role's settings: the stack's configuration over the recipe's values."""
    return {**defaults, **(config.get_object(role) or {})}


def parallelism(role: Mapping[str, Any]) -> list[str]:
    """One tensor-parallel engine on each member; above one member, a data-parallel rank each."""
    arguments = [f"--tensor-parallel-size={role['gpus']}"]
    if role["size"] > 1:
        arguments += [
            f"--data-parallel-size={role['size']}",
            "--data-parallel-rank=$(GPUSTACK_MEMBER_INDEX)",
            "--data-parallel-address=$(GPUSTACK_REPLICA_LEADER_ADDRESS)",
        ]
    return arguments


def role(name: str, kind: str, chosen: Mapping[str, Any], *extra: str) -> gpustack.Role:
    """One half of the pair."""
    serving: dict[str, Any] = {
        "extra_args": [*COMMON, *parallelism(chosen), *extra, *chosen.get("extraArgs", [])]
    }
    if "command" in chosen:
        # A line of one's own brings its own readiness.
        ready = gpustack.ExecReadiness(["/bin/sh", "-c", LEADER_SERVES])
        serving = {
            "command": chosen["command"],
            "readiness": gpustack.Readiness(exec=ready),
        }
    return gpustack.Role(
        name=name,
        kind=kind,
        replicas=chosen["replicas"],
        size=chosen["size"],
        instance_type=PROFILES[chosen["profile"]],
        resources=gpustack.WholeGpu(count=chosen["gpus"]),
        interface=1,
        image=config.get("image") or "vllm/vllm-openai:v0.19.1",
        env=[gpustack.Env("HF_TOKEN", secret_ref=("llm-d-hf-token", "HF_TOKEN"))],
        **serving,
    )


prefill = settings("prefill", replicas=2, size=1, gpus=1, profile="h200")
decode = settings("decode", replicas=2, size=1, gpus=2, profile="h200")

chat = gpustack.ModelDeployment(
    "chat",
    namespace=config.get("namespace") or "default",
    model=MODEL,
    engine=gpustack.Engine(name="vLLM", version="0.19.1"),
    kv_transfer=gpustack.KvTransfer(protocol="RDMA"),
    roles=[
        role("prefill", "Prefill", prefill, "--gpu-memory-utilization=0.9"),
        role("decode", "Decode", decode),
    ],
)

# A router of your own is what clients call; it needs the address of both halves.
pulumi.export("prefill", chat.roles["prefill"].service_name)
pulumi.export("decode", chat.roles["decode"].service_name)
for name, resource in chat.roles.items():
    pulumi.export(f"{name}Fingerprint", resource.fingerprint)
