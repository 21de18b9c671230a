"""Declarations: a whole deployment, and what one role's resource carries of it.

Defaults are applied here and nowhere else. Refusals are sentences with a camelCase property path.
"""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from gpustack_deploy.model.declared import Declared
from gpustack_deploy.model.raw import Json
from gpustack_deploy.model.refusals import not_an_object, translate
from gpustack_deploy.model.role import (
    DeploymentSpec,
    Engine,
    EngineName,
    KvTransfer,
    RoleDeclaration,
    RoleKind,
    RoleSpec,
    Rollout,
)

__all__ = [
    "DeploymentSpec",
    "Engine",
    "EngineName",
    "KvTransfer",
    "RoleDeclaration",
    "RoleKind",
    "RoleSpec",
    "Rollout",
    "dump_role",
    "parse_deployment",
    "parse_role",
    "role_declarations",
]

_EMPTY: Final[tuple[object, ...]] = (None, [], {})


def parse_deployment(raw: Json) -> DeploymentSpec:
    """Return the deployment that the raw object declares.

    Raises:
        InvalidSpec: with the property path of the first thing that cannot be accepted.
    """
    try:
        return DeploymentSpec.model_validate(raw)
    except ValidationError as error:
        raise translate(error, block=DeploymentSpec)[0].error from None


def role_declarations(spec: DeploymentSpec) -> tuple[RoleDeclaration, ...]:
    """Return the declaration of each role, in the order of the deployment."""
    role_kinds = {role.name: role.kind for role in spec.roles}
    return tuple(_declaration(spec, role, role_kinds) for role in spec.roles)


def parse_role(raw: Json) -> RoleDeclaration:
    """Return the role that the raw object declares.

    Raises:
        InvalidSpec: with the property path of the first thing that cannot be accepted.
    """
    if not isinstance(raw, Mapping):
        raise not_an_object(raw).error
    try:
        return RoleDeclaration.model_validate(raw)
    except ValidationError as error:
        raise translate(error, block=RoleDeclaration)[0].error from None


def dump_role(declaration: RoleDeclaration) -> dict[str, Any]:
    """Return the declaration as camelCase JSON without what is empty; `parse_role` reads it."""
    dumped = declaration.model_dump(mode="json", exclude_none=True)
    for block in ("pod", "service"):
        dumped[block] = {key: value for key, value in dumped[block].items() if value not in _EMPTY}
    return {key: value for key, value in dumped.items() if value not in _EMPTY}


def _declaration(
    spec: DeploymentSpec, role: RoleSpec, role_kinds: Mapping[str, RoleKind]
) -> RoleDeclaration:
    own = role.model_dump(exclude={"name", "pod", "service", "rollout"}, exclude_none=True)
    return RoleDeclaration.model_validate(
        {
            **own,
            "deployment": spec.name,
            "namespace": spec.namespace,
            "role": role.name,
            "roleKinds": dict(role_kinds),
            "frontRole": spec.front or spec.roles[0].name,
            "model": spec.model,
            "engine": spec.engine,
            "kvTransfer": spec.kv_transfer,
            "pod": _merged(spec.pod, role.pod),
            "service": _merged(spec.service, role.service),
            "rollout": _merged(spec.rollout, role.rollout),
        }
    )


def _merged(default: Declared, override: Declared | None) -> dict[str, Any]:
    """Return the deployment's block with what the role's block says: maps are joined key by key."""
    merged = default.model_dump(exclude_none=True)
    if override is not None:
        for key, value in override.model_dump(exclude_unset=True, exclude_none=True).items():
            is_map = isinstance(value, dict) and isinstance(merged.get(key), dict)
            merged[key] = {**merged[key], **value} if is_map else value
    return merged
