"""The edits of the walk-through: each is a change of the stack's configuration, as a user makes it.

`Expected` says in plain numbers what must stand after it.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Settings = dict[str, dict[str, Any]]

# The recipe's own way to start: the transfer engine is installed first. Written as one engine over
# both members, which takes a flag on the follower that the leader must not have.
_LINE = (
    "pip install mooncake-transfer-engine-cuda13"
    ' && if [ "$GPUSTACK_MEMBER_INDEX" != 0 ]; then follower=--headless; fi'
    " && exec vllm serve openai/gpt-oss-120b"
    " --disable-access-log-for-endpoints=/health,/metrics,/v1/models --block-size=128"
    " --tensor-parallel-size=8"
    ' --nnodes="$GPUSTACK_REPLICA_SIZE" --node-rank="$GPUSTACK_MEMBER_INDEX"'
    ' --master-addr="$GPUSTACK_REPLICA_LEADER_ADDRESS"'
    ' --kv-transfer-config=\'{"kv_connector":"MooncakeConnector","kv_role":"kv_consumer",'
    '"kv_connector_extra_config":{"mooncake_protocol":"rdma"}}\''
    " --port=8000 ${follower:-}"
)
TAKE_OVER = ["/bin/bash", "-c", _LINE]


@dataclass(frozen=True)
class ExpectedRole:
    """What must stand of one role."""

    replicas: int
    size: int
    gpus: int
    queue: str


Expected = Mapping[str, ExpectedRole]


@dataclass(frozen=True)
class Edit:
    """One step: what is set, and which role is replaced, scaled or left alone by it."""

    number: str
    title: str
    changes: Settings = field(default_factory=dict)
    replaces: str = ""
    scales: str = ""


EDITS = (
    Edit("1", "create prefill 2 x 1 GPU and decode 2 x 2 GPUs"),
    Edit("2", "decode: 2 -> 4 GPUs a member", {"decode": {"gpus": 4}}, replaces="decode"),
    Edit("3", "decode: 1 -> 2 members a replica", {"decode": {"size": 2}}, replaces="decode"),
    Edit(
        "4a",
        "decode: engine arguments for tool calls",
        {
            "decode": {
                "extraArgs": [
                    "--enable-auto-tool-choice",
                    "--tool-call-parser=openai",
                    "--reasoning-parser=openai_gptoss",
                ]
            }
        },
        replaces="decode",
    ),
    Edit(
        "4b",
        "decode: a command of one's own",
        {"decode": {"command": TAKE_OVER}},
        replaces="decode",
    ),
    Edit(
        "5",
        "decode: instance type h200 -> a100",
        {"decode": {"profile": "a100"}},
        replaces="decode",
    ),
    Edit("6a", "prefill: 2 -> 3 replicas", {"prefill": {"replicas": 3}}, scales="prefill"),
    Edit("6b", "prefill: 3 -> 1 replica", {"prefill": {"replicas": 1}}, scales="prefill"),
)

START: Settings = {
    "prefill": {"replicas": 2, "size": 1, "gpus": 1, "profile": "h200"},
    "decode": {"replicas": 2, "size": 1, "gpus": 2, "profile": "h200"},
}


def settings_after(count: int) -> Settings:
    """The configuration once that many edits are made."""
    settings = copy.deepcopy(START)
    for edit in EDITS[:count]:
        for role, changed in edit.changes.items():
            settings[role] |= changed
    return settings


def expected(settings: Settings) -> Expected:
    """What must stand with these settings."""
    return {
        role: ExpectedRole(
            replicas=chosen["replicas"],
            size=chosen["size"],
            gpus=chosen["gpus"],
            queue=chosen["profile"],
        )
        for role, chosen in settings.items()
    }
