"""The project's own program: the deployments of the stack's configuration, on its profiles.

`gpustack:profiles` holds the hardware, `deployments` what runs on it, in the spelling of files.
Each `Pulumi.<stack>.yaml` beside this file is one hardware profile to copy from.
"""

from typing import Any

import pulumi

import pulumi_gpustack as gpustack

FIELDS = {
    "model": "model",
    "engine": "engine",
    "kvTransfer": "kv_transfer",
    "roles": "roles",
    "front": "front",
    "pod": "pod",
    "service": "service",
    "rollout": "rollout",
}


def arguments(name: str, declared: dict[str, Any]) -> dict[str, Any]:
    """The component's arguments from a declaration as files spell it."""
    for key in declared:
        if key not in FIELDS:
            raise ValueError(
                f"deployments.{name}.{key}: there is no such field; remove it (fields here:"
                f" {', '.join(FIELDS)})"
            )
    return {FIELDS[key]: value for key, value in declared.items()}


config = pulumi.Config()
for name, declared in config.require_object("deployments").items():
    deployment = gpustack.ModelDeployment(
        name, namespace=config.get("namespace"), **arguments(name, declared)
    )
    pulumi.export(
        name,
        {
            "endpoint": deployment.endpoint,
            "services": {
                role: resource.service_name for role, resource in deployment.roles.items()
            },
        },
    )
