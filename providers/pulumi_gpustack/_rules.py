"""What `check` decides without a cluster: rules, identity, computed keys (D13, D20)."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pulumi.output import UNKNOWN, Unknown

from gpustack_deploy.model.errors import InvalidSpec, RefusedChange
from gpustack_deploy.model.paths import path_of
from pulumi_gpustack import _outputs, _siblings

if TYPE_CHECKING:
    from gpustack_deploy.model.desired import Desired

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
    desired = _rendered(declaration, unknown)
    keys: Properties = _outputs.computed_of(desired) if desired else {}
    roots = {path.split(".")[0].split("[")[0] for path in unknown}
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


def warnings(declaration: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is accepted but easily misunderstood."""
    rollout = declaration.get("rollout") or {}
    is_ready = isinstance(rollout, Mapping) and rollout.get("gate", "Ready") == "Ready"
    if declaration.get("command") and not declaration.get("readiness") and is_ready:
        yield (
            "gate Ready without `readiness`: a member with a command of its own counts as Ready as"
            ' soon as its container has started; declare `readiness`, or `gate="Admitted"`'
        )


def _rendered(declaration: Mapping[str, Any], unknown: frozenset[str]) -> "Desired | None":
    """Return the role as far as it is known: unknown values are stood in for, and not relied on."""
    from gpustack_deploy.model.role import RoleDeclaration  # noqa: PLC0415 - slow
    from gpustack_deploy.model.unknowns import validate_known  # noqa: PLC0415 - slow
    from gpustack_deploy.plan.desired_role import desired_of  # noqa: PLC0415 - slow

    role, _ = validate_known(RoleDeclaration, declaration, unknown=unknown)
    return None if role is None else desired_of(role)


def _at(properties: Mapping[str, Any], path: str) -> Any:
    found: Any = properties
    for key in path.split("."):
        if _is_unknown(found) or not isinstance(found, Mapping):
            return found
        found = found.get(key)
    return _DEFAULTS.get(path) if found is None else found


def _is_unknown(value: Any) -> bool:
    return any(True for _ in unknown_paths(value))
