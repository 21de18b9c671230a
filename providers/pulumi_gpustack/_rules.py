"""What `check` decides without a cluster: rules, identity, computed keys (D13, D20)."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pulumi.output import UNKNOWN, Unknown

from gpustack_deploy.model.errors import InvalidSpec, RefusedChange
from gpustack_deploy.model.paths import path_of
from pulumi_gpustack import _outputs, _siblings

if TYPE_CHECKING:
    from gpustack_deploy.model.role import RoleDeclaration

Properties = dict[str, Any]

# What makes a role this role, with the words for it. `roleKinds` is compared by its own rule.
_IDENTITY: Final = {
    "deployment": "the deployment's name",
    "namespace": "the namespace",
    "role": "the role's name",
    "kind": "the role's kind",
    "model": "the model",
    "engine.name": "the engine",
}
_DEFAULTS: Final = {"kind": "Server", "namespace": "default"}
# What decides whether members are asked for readiness, and whether the gate waits for it.
_READINESS: Final = frozenset({"command", "engine", "extraArgs", "ports", "readiness", "rollout"})


def unknown_paths(value: Any, above: tuple[str | int, ...] = ()) -> Iterator[str]:
    """Yield the property path of each value that is not known in this preview."""
    if isinstance(value, Unknown):
        yield path_of(above)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from unknown_paths(item, (*above, str(key)))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from unknown_paths(item, (*above, index))


def rule_failures(declaration: Mapping[str, Any], unknown: frozenset[str]) -> list[InvalidSpec]:
    """Return what the rules refuse; a rule that needs an unknown value waits for it."""
    from gpustack_deploy.model.spec import role_problems  # noqa: PLC0415 - slow

    return list(role_problems(declaration, unknown))


def identity_failures(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[RefusedChange]:
    """Return what the edit changes of the role's identity; unknown values are not compared."""
    failures = []
    for path, words in _IDENTITY.items():
        before, after = _at(old, path), _at(new, path)
        if before != after and before is not None and not _is_unknown(after):
            failures.append(
                RefusedChange(
                    path,
                    f"{words} was {before} and would be {after}; it is fixed when a deployment is"
                    " created: declare another deployment under a name of its own; nothing was"
                    " changed",
                )
            )
    kinds = new.get("roleKinds")
    if isinstance(kinds, Mapping) and not any(True for _ in unknown_paths(kinds)):
        changed = _siblings.changed_set(old.get("roleKinds", {}), kinds)
        if changed is not None and changed.field not in {failure.field for failure in failures}:
            failures.append(changed)
    return failures


def computed(declaration: Mapping[str, Any], unknown: frozenset[str]) -> Properties:
    """Return the computed keys; those that depend on an unknown value are unknown themselves."""
    from gpustack_deploy.plan.desired_role import desired_of  # noqa: PLC0415 - slow

    role = _as_known(declaration, unknown)
    keys: Properties = _outputs.computed_of(desired_of(role)) if role else {}
    roots = _roots(unknown)
    names = {"deployment", "role"}
    needs = {
        "endpoint": names | {"namespace", "frontRole", "ports"},
        "fingerprint": roots - {"replicas", "rollout"},
        "podSelector": names,
        "serviceName": names,
        "servicePort": {"ports"},
    }
    return {
        key: UNKNOWN if key not in keys or needs[key] & roots else keys[key]
        for key in _outputs.COMPUTED
    }


def warnings(declaration: Mapping[str, Any], unknown: frozenset[str]) -> Iterator[str]:
    """Yield what is accepted but easily misunderstood; nothing while what decides is unknown."""
    from gpustack_deploy.model.desired import Gate  # noqa: PLC0415 - slow
    from gpustack_deploy.plan.probes import has_readiness  # noqa: PLC0415 - slow

    role = None if _roots(unknown) & _READINESS else _as_known(declaration, unknown)
    if role is None or role.rollout.gate is not Gate.READY or has_readiness(role):
        return
    if role.is_managed:
        yield (
            "gate Ready without a readiness probe: the kubelet cannot ask this role's listener (it"
            " has one address only, demands a certificate, or its first port is not TCP), so a"
            " member counts as Ready as soon as its container has started; let it answer on every"
            ' address, or declare `gate="Admitted"`'
        )
    else:
        yield (
            "gate Ready without `readiness`: a member with a command of its own counts as Ready as"
            ' soon as its container has started; declare `readiness`, or `gate="Admitted"`'
        )


def _as_known(declaration: Mapping[str, Any], unknown: frozenset[str]) -> "RoleDeclaration | None":
    """Return the role as far as it is known: unknown values are stood in for, and not relied on."""
    from gpustack_deploy.model.role import RoleDeclaration  # noqa: PLC0415 - slow
    from gpustack_deploy.model.unknowns import validate_known  # noqa: PLC0415 - slow

    return validate_known(RoleDeclaration, declaration, unknown=unknown)[0]


def _roots(paths: frozenset[str]) -> set[str]:
    return {path.split(".")[0].split("[")[0] for path in paths}


def _at(properties: Mapping[str, Any], path: str) -> Any:
    found: Any = properties
    for key in path.split("."):
        if _is_unknown(found) or not isinstance(found, Mapping):
            return found
        found = found.get(key)
    return _DEFAULTS.get(path) if found is None else found


def _is_unknown(value: Any) -> bool:
    return any(True for _ in unknown_paths(value))
