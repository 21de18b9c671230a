"""What an edit of a role means, field by field, judged by what it renders (D13, D20)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gpustack_deploy.model.errors import RefusedChange
from gpustack_deploy.model.role import Engine, RoleDeclaration, RoleKind
from gpustack_deploy.plan.desired_role import service_shape
from gpustack_deploy.plan.fingerprint import role_fingerprint

OTHER_DEPLOYMENT: Final = "different value = different deployment: declare another one"


class Effect(StrEnum):
    """What an edit of a field does to the role."""

    NONE = "none"
    IN_PLACE = "in place"
    SCALE = "scale"
    REPLACE = "replace"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One edited field: its path, what the edit does, and why."""

    path: str
    effect: Effect
    reason: str


# Fields that say which deployment this is, in the order in which they are reported.
IDENTITY_FIELDS: Final = (
    "deployment",
    "namespace",
    "role",
    "kind",
    "model",
    "engine",
    "role_kinds",
)
SHAPE_FIELDS: Final = frozenset({"size", "instance_type", "resources", "command"})

_REPLACED_BECAUSE: Final = {
    "size": "a replica has another number of members",
    "instance_type": "its members belong to another instance type, and are admitted there",
    "resources": "a member holds other accelerators",
    "command": "its members run another command line",
}
_NOT_RENDERED: Final = {
    "rollout": "nothing of it is rendered; it holds from this run on",
    "front_role": "the front role is fixed when the deployment is created",
}


def classify(old: RoleDeclaration, new: RoleDeclaration) -> tuple[FieldChange, ...]:
    """Return what each edited field does; nothing when the two declarations are equal."""
    refused = tuple(
        FieldChange(path, Effect.REFUSED, reason) for path, reason in _identity(old, new)
    )
    others = (name for name in RoleDeclaration.model_fields if name not in IDENTITY_FIELDS)
    edited = [name for name in others if getattr(old, name) != getattr(new, name)]
    changes = [_change(name, old=old, new=new) for name in edited]
    if old.engine.version != new.engine.version:
        changes.append(_engine_version(old, new))
    return (*refused, *changes)


def refuse_identity_changes(old: RoleDeclaration, new: RoleDeclaration) -> None:
    """Raise for the first field that says which deployment this is and was edited.

    Raises:
        RefusedChange: with the path of that field.
    """
    for path, reason in _identity(old, new):
        raise RefusedChange(path, reason)


def _identity(old: RoleDeclaration, new: RoleDeclaration) -> Iterator[tuple[str, str]]:
    for name in IDENTITY_FIELDS:
        before, after = getattr(old, name), getattr(new, name)
        if before == after:
            continue
        if isinstance(before, Engine) and isinstance(after, Engine):
            if before.name is not after.name:
                yield "engine.name", _differs(before.name, after.name)
        elif isinstance(before, Mapping) and isinstance(after, Mapping):
            # A role's own kind is reported as such.
            own = {new.role} if old.role == new.role else set()
            roles = _role_set(before, after, without=own)
            if roles:
                yield "roleKinds", f"found {roles}; {OTHER_DEPLOYMENT}"
        else:
            yield name, _differs(before, after)


def _differs(before: object, after: object) -> str:
    return f"found {str(after)!r}, created with {str(before)!r}; {OTHER_DEPLOYMENT}"


def _role_set(
    before: Mapping[str, RoleKind], after: Mapping[str, RoleKind], *, without: set[str]
) -> str:
    added = [f"role {name!r} added" for name in after if name not in before]
    removed = [f"role {name!r} removed" for name in before if name not in after]
    turned = [
        f"role {name!r} turned from {before[name]} into {after[name]}"
        for name in before
        if name in after and before[name] is not after[name] and name not in without
    ]
    return ", ".join((*added, *removed, *turned))


def _change(name: str, *, old: RoleDeclaration, new: RoleDeclaration) -> FieldChange:
    path = RoleDeclaration.model_fields[name].alias or name
    if name in _NOT_RENDERED:
        return FieldChange(path, Effect.NONE, _NOT_RENDERED[name])
    if name == "replicas":
        return FieldChange(path, Effect.SCALE, _scaled(old.replicas, new.replicas))
    reason = _REPLACED_BECAUSE.get(name, "it is rendered into its members")
    return _rendered(path, name, old=old, new=new, reason=reason)


def _engine_version(old: RoleDeclaration, new: RoleDeclaration) -> FieldChange:
    # With its own engine name on both sides, so that only the version is judged.
    return _rendered(
        "engine.version",
        "engine",
        old=old,
        new=new.model_copy(
            update={"engine": Engine(name=old.engine.name, version=new.engine.version)}
        ),
        reason="its runner image is another one",
    )


def _scaled(before: int, after: int) -> str:
    if after > before:
        return f"ordinals {before} to {after - 1} are added; standing replicas are not touched"
    return f"ordinals {after} to {before - 1} leave, highest first; the others are not touched"


def _rendered(
    path: str, name: str, *, old: RoleDeclaration, new: RoleDeclaration, reason: str
) -> FieldChange:
    """Judge the field alone, from both sides: beside another edit it may render or not."""
    before, after = getattr(old, name), getattr(new, name)
    pairs = (
        (old, old.model_copy(update={name: after})),
        (new.model_copy(update={name: before}), new),
    )
    if any(role_fingerprint(one) != role_fingerprint(other) for one, other in pairs):
        return FieldChange(path, Effect.REPLACE, f"{reason}: every replica is replaced whole")
    if any(service_shape(one) != service_shape(other) for one, other in pairs):
        return FieldChange(path, Effect.IN_PLACE, "the role's Services are aligned")
    return FieldChange(path, Effect.NONE, "it renders the same")
