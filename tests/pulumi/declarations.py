"""Inputs of role resources, as the component writes them; numbers are floats as on the wire."""

from typing import Any

Properties = dict[str, Any]


def role(**changes: Any) -> Properties:
    """Return the inputs of a role as the component writes them; None removes a key."""
    inputs: Properties = {
        "__provider": "pickled",
        "deployment": "chat",
        "namespace": "ml",
        "role": "server",
        "roleKinds": {"server": "Server"},
        "frontRole": "server",
        "model": "Qwen/Qwen3-32B",
        "engine": {"name": "vLLM", "version": "0.11.0"},
        "image": "vllm/vllm-openai:v0.11.0",
        "replicas": 2.0,
        "resources": {"count": 2.0},
        "instanceType": {
            "name": "h200",
            "localQueue": "h200",
            "acceleratorGroup": "nvidia-h200",
            "unitCpu": 16.0,
            "unitMemory": "192Gi",
            "acceleratorMemory": "141Gi",
        },
    }
    merged = {**inputs, **changes}
    return {key: value for key, value in merged.items() if value is not None}


def pair(name: str, **changes: Any) -> Properties:
    """Return the inputs of one half of a prefill/decode pair."""
    return role(
        **{
            "role": name,
            "kind": name.title(),
            "roleKinds": {"prefill": "Prefill", "decode": "Decode"},
            "frontRole": "prefill",
            **changes,
        }
    )
