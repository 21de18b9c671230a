"""Raw declarations that tests start from; a test says only what matters to it."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from gpustack_deploy.model.spec import RoleDeclaration, parse_role

H200: Mapping[str, Any] = {
    "name": "h200",
    "localQueue": "h200",
    "acceleratorGroup": "nvidia-h200",
    "unitCpu": 16,
    "unitMemory": "192Gi",
    "acceleratorMemory": "141Gi",
    "localStorage": "500Gi",
}
SLICED: Mapping[str, Any] = {**H200, "name": "h200-sliced", "sliceable": True}
PARTITIONED: Mapping[str, Any] = {
    **H200,
    "name": "h200-mig",
    "partitionProfiles": [
        {"name": "1g.18gb", "memory": "18Gi"},
        {"name": "3g.71gb", "memory": "71Gi"},
    ],
}
CPU: Mapping[str, Any] = {"name": "cpu", "localQueue": "cpu", "unitCpu": 1, "unitMemory": "4Gi"}
ASCEND: Mapping[str, Any] = {
    **H200,
    "name": "npu",
    "acceleratorGroup": "ascend-910b",
    "runtimeVersion": "9.0",
    "runtimeVariant": "910b",
}


def raw_role(**fields: Any) -> dict[str, Any]:
    """Return one role resource's declaration; a field that is None is left out."""
    kind = fields.get("kind", "Server")
    role = fields.get("role", "server")
    raw = {
        "deployment": "chat",
        "namespace": "ml",
        "role": role,
        "kind": kind,
        "roleKinds": {role: kind},
        "frontRole": role,
        "model": "Qwen/Qwen3-32B",
        "engine": {"name": "vLLM", "version": "0.11.0"},
        "instanceType": H200,
        "image": "vllm/vllm-openai:v0.11.0",
        **fields,
    }
    return {key: deepcopy(value) for key, value in raw.items() if value is not None}


def role(**fields: Any) -> RoleDeclaration:
    """Return that declaration, accepted."""
    return parse_role(raw_role(**fields))


def raw_entry(**fields: Any) -> dict[str, Any]:
    """Return one entry of a deployment's roles; a field that is None is left out."""
    raw = {
        "name": "server",
        "instanceType": H200,
        "image": "vllm/vllm-openai:v0.11.0",
        **fields,
    }
    return {key: deepcopy(value) for key, value in raw.items() if value is not None}


def raw_deployment(*roles: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a deployment's declaration; a field that is None is left out."""
    raw = {
        "name": "chat",
        "namespace": "ml",
        "model": "Qwen/Qwen3-32B",
        "engine": {"name": "vLLM", "version": "0.11.0"},
        "roles": list(roles) or [raw_entry()],
        **fields,
    }
    return {key: value for key, value in raw.items() if value is not None}


def raw_pair(**decode: Any) -> list[dict[str, Any]]:
    """Return the two entries of a prefill/decode pair; fields are the decode role's."""
    return [
        raw_entry(name="prefill", kind="Prefill"),
        raw_entry(**{"name": "decode", "kind": "Decode", **decode}),
    ]
