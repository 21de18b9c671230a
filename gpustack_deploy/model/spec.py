"""Declarations: a whole deployment, and what one role's resource carries of it.

Defaults are applied here and nowhere else. Refusals are sentences with a camelCase property path.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from gpustack_deploy.model.command_rules import COMMAND_RULES
from gpustack_deploy.model.declared import Declared
from gpustack_deploy.model.deployment_rules import mapped, set_rules
from gpustack_deploy.model.errors import InvalidSpec
from gpustack_deploy.model.hardware_rules import HARDWARE_RULES
from gpustack_deploy.model.naming_rules import NAMING_RULES
from gpustack_deploy.model.paths import plain
from gpustack_deploy.model.raw import Json
from gpustack_deploy.model.refusals import Problem, not_an_object
from gpustack_deploy.model.role import (
    DeploymentSpec,
    Engine,
    EngineName,
    KvTransfer,
    RoleDeclaration,
    RoleKind,
    RoleSpec,
    Rollout,
    TransferProtocol,
)
from gpustack_deploy.model.rollout_rules import ROLLOUT_RULES
from gpustack_deploy.model.unknowns import validate_known

__all__ = [
    "DeploymentSpec",
    "Engine",
    "EngineName",
    "KvTransfer",
    "RoleDeclaration",
    "RoleKind",
    "RoleSpec",
    "Rollout",
    "TransferProtocol",
    "deployment_problems",
    "dump_role",
    "parse_deployment",
    "parse_role",
    "role_declarations",
    "role_problems",
]

_RULES: Final = (*NAMING_RULES, *COMMAND_RULES, *HARDWARE_RULES, *ROLLOUT_RULES)
_EMPTY_BY_DEFAULT: Final = frozenset(
    {"command", "imagePullSecrets", "ports", "volumes", "extraArgs", "env", "pod", "service"}
)


def parse_deployment(raw: Json) -> DeploymentSpec:
    """Return the deployment that the raw object declares.

    Raises:
        InvalidSpec: with the property path of the first thing that cannot be accepted.
    """
    spec, problems = _judged_deployment(raw)
    if spec is None or problems:
        raise problems[0].error
    return spec


def deployment_problems(raw: Json) -> tuple[InvalidSpec, ...]:
    """Return everything that cannot be accepted in the deployment; never raises."""
    return _errors(_judged_deployment(raw)[1])


def role_declarations(spec: DeploymentSpec) -> tuple[RoleDeclaration, ...]:
    """Return the declaration of each role, in the order of the deployment."""
    role_kinds = {role.name: role.kind for role in spec.roles}
    return tuple(_declaration(spec, role, role_kinds) for role in spec.roles)


def parse_role(raw: Json) -> RoleDeclaration:
    """Return the role that the raw object declares.

    Raises:
        InvalidSpec: with the property path of the first thing that cannot be accepted.
    """
    declaration, problems = _judged_role(raw, frozenset())
    if declaration is None or problems:
        raise problems[0].error
    return declaration


def role_problems(raw: Json, unknown: frozenset[str]) -> tuple[InvalidSpec, ...]:
    """Return everything that cannot be accepted in the role; never raises.

    Rules that read an unknown path say nothing until it is known.
    """
    return _errors(_judged_role(raw, unknown)[1])


def dump_role(declaration: RoleDeclaration) -> dict[str, Any]:
    """Return the declaration as camelCase JSON without what is empty; `parse_role` reads it."""
    dumped = declaration.model_dump(mode="json", exclude_none=True)
    for block in ("pod", "service"):
        dumped[block] = _without_empty(dumped[block])
    # An optional block that is written empty is not an unset one: it is kept.
    return {key: value for key, value in dumped.items() if value or key not in _EMPTY_BY_DEFAULT}


def _without_empty(block: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in block.items() if value not in ([], {})}


def _judged_role(
    raw: object, unknown: frozenset[str]
) -> tuple[RoleDeclaration | None, tuple[Problem, ...]]:
    if not isinstance(raw, Mapping):
        return None, (not_an_object(raw),)
    declaration, problems = validate_known(RoleDeclaration, raw, unknown=unknown)
    if declaration is None:
        return None, problems
    found = _role_rules(declaration)
    return declaration, tuple(each for each in found if not each.is_touched_by(unknown))


def _role_rules(declaration: RoleDeclaration) -> Iterator[Problem]:
    for rule in _RULES:
        yield from rule.problems(declaration)


def _judged_deployment(raw: object) -> tuple[DeploymentSpec | None, tuple[Problem, ...]]:
    if not isinstance(raw, Mapping):
        return None, (not_an_object(raw),)
    resolved, problems = _with_instance_types(plain(raw))
    if not problems:
        spec, problems = validate_known(DeploymentSpec, resolved)
        if spec is not None:
            # A deployment-level field is judged once for each role: said once.
            found = {(each.path, each.reason): each for each in _deployment_rules(spec, resolved)}
            return spec, tuple(found.values())
    return None, problems


def _deployment_rules(spec: DeploymentSpec, raw: Json) -> Iterator[Problem]:
    own = tuple(set_rules(spec))
    yield from own
    if any(problem.path.endswith(".name") for problem in own):
        return  # roles cannot be told apart
    for position, declaration in enumerate(role_declarations(spec)):
        for problem in _role_rules(declaration):
            found = mapped(problem, position=position, raw=raw)
            if found.path not in ("roles", "front"):  # said once, above
                yield found


def _with_instance_types(raw: dict[str, Any]) -> tuple[dict[str, Any], tuple[Problem, ...]]:
    """Return the deployment with each type that is referred to by name put in its place."""
    types, roles = raw.get("instanceTypes"), raw.get("roles")
    offers = {
        offer["name"]: offer
        for offer in (types if isinstance(types, list) else ())
        if isinstance(offer, dict) and isinstance(offer.get("name"), str)
    }
    problems = []
    for position, role in enumerate(roles if isinstance(roles, list) else ()):
        name = role.get("instanceType") if isinstance(role, dict) else None
        if not isinstance(name, str):
            continue
        if name in offers:
            role["instanceType"] = offers[name]
        else:
            known = ", ".join(sorted(offers)) or "none"
            problems.append(
                Problem(
                    f"roles[{position}].instanceType",
                    f"found the name {name!r}, needed one of `instanceTypes` ({known}); declare it"
                    " there, or write the type in place",
                )
            )
    return raw, tuple(problems)


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
    """Return the deployment's block with what the role's block says: maps are joined by key."""
    merged = default.model_dump(exclude_none=True)
    if override is not None:
        for key, value in override.model_dump(exclude_unset=True, exclude_none=True).items():
            is_map = isinstance(value, dict) and isinstance(merged.get(key), dict)
            merged[key] = {**merged[key], **value} if is_map else value
    return merged


def _errors(problems: Iterable[Problem]) -> tuple[InvalidSpec, ...]:
    return tuple(problem.error for problem in problems)
