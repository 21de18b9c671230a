"""Rules about a deployment as a whole; each role is judged by the rules of its own declaration."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from gpustack_deploy.model.hardware import GeometryMode
from gpustack_deploy.model.naming_rules import set_problems
from gpustack_deploy.model.paths import exists, path_of, steps_of
from gpustack_deploy.model.raw import Json
from gpustack_deploy.model.refusals import Problem
from gpustack_deploy.model.role import DeploymentSpec, RoleKind

# Where a field of a role's declaration is written in the deployment.
_DEPLOYMENT_PATHS: Final = {
    "deployment": "name",
    "namespace": "namespace",
    "model": "model",
    "engine": "engine",
    "kvTransfer": "kvTransfer",
    "frontRole": "front",
}
_SHARED_BLOCKS: Final = frozenset({"pod", "service", "rollout"})


def set_rules(spec: DeploymentSpec) -> Iterator[Problem]:
    """Yield what is refused about the roles together."""
    names = Counter(role.name for role in spec.roles)
    for position, role in enumerate(spec.roles):
        if names[role.name] > 1:
            yield Problem(
                f"roles[{position}].name",
                f"found {role.name!r} {names[role.name]} times, needed each name once; rename one",
            )
    where = {role.name: f"roles[{position}]" for position, role in enumerate(spec.roles)}
    for name, reason in set_problems({role.name: role.kind for role in spec.roles}):
        yield Problem(f"{where[name]}.kind" if name else "roles", reason, touches=("roles",))
    if spec.front is not None and spec.front not in names:
        yield Problem(
            "front",
            f"found {spec.front!r}, needed one of the roles {', '.join(names)}; name one of them",
            touches=("roles",),
        )
    yield from _cardless_sharing(spec)
    yield from _slice_pair(spec)


def _cardless_sharing(spec: DeploymentSpec) -> Iterator[Problem]:
    shared = Counter(role.instance_type.name for role in spec.roles)
    for position, role in enumerate(spec.roles):
        offer = role.instance_type
        asks_none = role.resources is not None and role.resources.count == 0
        if asks_none and offer.is_acceleratable and shared[offer.name] > 1:
            yield Problem(
                f"roles[{position}].resources.count",
                f"found 0 on type {offer.name!r}, which another role shares; needed at least 1 card"
                " there; ask for one, or move this role to a type without cards",
                touches=("roles",),
            )


def _slice_pair(spec: DeploymentSpec) -> Iterator[Problem]:
    groups: dict[str, str] = {}
    for position, role in enumerate(spec.roles):
        group = role.instance_type.accelerator_group
        is_half = role.kind is not RoleKind.SERVER
        if not (is_half and group and role.geometry.mode is GeometryMode.SLICE):
            continue
        if group in groups:
            yield Problem(
                f"roles[{position}].resources",
                f"found slices of group {group!r} for {groups[group]!r} and {role.name!r}, which"
                " could land on one card; needed whole cards or partitions for one half; change"
                " one of the two",
                touches=("roles",),
            )
        groups.setdefault(group, role.name)


def deployment_path(path: str, *, position: int, raw: Json) -> str:
    """Return where a path of a role's declaration is written in the deployment.

    `raw` is the deployment as written: a shared block's field stands in the role where the role
    sets it, in the deployment otherwise.
    """
    head, *rest = steps_of(path)
    if head in _DEPLOYMENT_PATHS:
        return path_of((_DEPLOYMENT_PATHS[str(head)], *rest))
    if head == "roleKinds":
        return "roles"
    if head == "role":
        return path_of(("roles", position, "name"))
    own = ("roles", position, head, *rest)
    is_shared = head in _SHARED_BLOCKS and not exists(raw, own)
    return path if is_shared else path_of(own)


def mapped(problem: Problem, *, position: int, raw: Json) -> Problem:
    """Return the problem of a role's declaration in the deployment's paths."""
    return replace(
        problem,
        path=deployment_path(problem.path, position=position, raw=raw),
        touches=tuple(
            deployment_path(each, position=position, raw=raw) for each in problem.touches
        ),
    )
