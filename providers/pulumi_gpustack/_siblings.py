"""The deployment's set of roles: fixed when it is created, guarded from three sides (D13).

`check` compares a surviving role's old inputs with its new ones, and a new role with the records in
the cluster. A failed check ends the engine's run before any delete. Three gaps are closed here.

A new role whose check could not ask the cluster is refused by its `create`. With
`--continue-on-error` the engine then still deletes what left the program, so `delete` refuses a
role of a deployment that this run's program declares without it. And after another resource's
error the engine checks nothing that depends on it, yet still deletes: a run that goes on after
errors therefore deletes no role of a deployment it did not check. A destroy deletes all of them.
"""

import threading
from collections.abc import Iterable, Mapping
from typing import Final

from gpustack_deploy.engine.cluster import CONFIG_MAP, Cluster
from gpustack_deploy.model import identity
from gpustack_deploy.model.errors import RefusedChange
from gpustack_deploy.model.raw import mapping_at, text_at
from gpustack_deploy.model.record import RoleRecord, load_record
from pulumi_gpustack._command import running_command

WHAT_TO_DO: Final = (
    "the set of roles is fixed when a deployment is created: declare the same roles again, or"
    " declare another deployment under a name of its own; nothing was changed"
)

RoleKinds = Mapping[str, str]
_Key = tuple[str, str, str]

_declared: Final[dict[_Key, frozenset[str]]] = {}
_lock: Final = threading.Lock()
_went_on: Final = threading.Event()


def remember(role_kinds: RoleKinds, *, context: str, namespace: str, deployment: str) -> None:
    """Keep for this run that the program declares the deployment with these roles."""
    with _lock:
        _declared[context, namespace, deployment] = frozenset(role_kinds)


def note_awaiting() -> None:
    """Keep for this run that a role awaits: the engine then goes on as after an error."""
    _went_on.set()


def count_declared() -> int:
    """Return how many roles this run's program is known to declare."""
    with _lock:
        return sum(len(roles) for roles in _declared.values())


def forget() -> None:
    """Forget every declaration, as a new run does."""
    _went_on.clear()
    with _lock:
        _declared.clear()


def refuse_drop(role: str, *, context: str, namespace: str, deployment: str) -> None:
    """Refuse to delete a role that left a deployment which is still declared, or may be.

    Raises:
        RefusedChange: this run's program declares the deployment without it, or it went on after
            an error and did not check the deployment at all.
    """
    with _lock:
        roles = _declared.get((context, namespace, deployment))
    command = running_command()
    goes_on = command.continues_on_error or _went_on.is_set()
    if roles is None and goes_on and not command.is_destroy:
        raise RefusedChange(
            "roles",
            f"role {role} of deployment {namespace}/{deployment} left the program in a run that"
            " goes on after errors, and an error may have kept its sibling roles from being"
            " checked; nothing was changed: run again without `--continue-on-error`, or remove the"
            " deployment with `pulumi destroy --target`",
        )
    if roles is not None and role not in roles:
        raise RefusedChange(
            "roles",
            f"role {role} left the program, which still declares deployment"
            f" {namespace}/{deployment} with {_listed(roles)}; {WHAT_TO_DO}",
        )


async def records_of(cluster: Cluster, namespace: str, deployment: str) -> tuple[RoleRecord, ...]:
    """Return the records of every role of the deployment that stands in the cluster.

    Raises:
        RecordUnreadable: one of them cannot be understood.
    """
    labels = {**identity.deployment_selector(deployment), identity.LABEL_RECORD: "true"}
    found = await cluster.list(CONFIG_MAP, namespace, labels=identity.selector_text(labels))
    return tuple(
        load_record(
            text_at(item, "data", identity.RECORD_KEY),
            name=text_at(item, "metadata", "name"),
            uid=text_at(item, "metadata", "uid"),
            resource_version=text_at(item, "metadata", "resourceVersion"),
        )
        for item in found.items
        if mapping_at(item, "data")
    )


def set_refusal(
    role_kinds: RoleKinds, front: str, records: Iterable[RoleRecord]
) -> RefusedChange | None:
    """Return why a role with that set cannot join the deployment that the records describe."""
    for record in records:
        refusal = changed_set(dict(record.role_kinds), role_kinds, record=record)
        if refusal is not None:
            return refusal
        if front and front != record.front_role:
            return RefusedChange("front", front_reason(record.front_role, front))
    return None


def changed_set(
    old: RoleKinds, new: RoleKinds, *, record: RoleRecord | None = None
) -> RefusedChange | None:
    """Return why the set of roles may not become the new one, None when it is the same."""
    if dict(old) == dict(new):
        return None
    kinds = [name for name in sorted(old.keys() & new.keys()) if old[name] != new[name]]
    if old.keys() == new.keys():
        change = ", ".join(f"{name} was {old[name]} and would be {new[name]}" for name in kinds)
        return RefusedChange("kind", f"{change}; a role's kind is fixed when it is created")
    where = ""
    if record is not None:
        writer = f", written by {record.writer}" if str(record.writer) else ""
        where = f" (record {identity.record_name(record.deployment, record.role)}{writer})"
    return RefusedChange(
        "roles",
        f"the deployment has {_listed(old)}{where}, the program declares {_listed(new)};"
        f" {WHAT_TO_DO}",
    )


def front_reason(old: str, new: str) -> str:
    """Return why the front role stays what it is."""
    return (
        f"the front role is {old} since the deployment was created and would be {new}; remove"
        f" `front`, or declare another deployment; nothing was changed"
    )


def _listed(roles: Iterable[str]) -> str:
    names = sorted(roles)
    return f"role {names[0]}" if len(names) == 1 else f"roles {', '.join(names)}"
