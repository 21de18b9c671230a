"""What a preview says of a change: what each edited field does, and which step comes first."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gpustack_deploy.model.errors import InvalidSpec

if TYPE_CHECKING:
    from gpustack_deploy.engine.replacement import RoleReading
    from gpustack_deploy.model.role import RoleDeclaration


def explanation(
    old: Mapping[str, Any] | None, new: "RoleDeclaration", reading: "RoleReading | None"
) -> str:
    """Return one line, empty when there is nothing to add to the detailed diff."""
    return "; ".join((*_fields(old, new), *_first_step(reading)))


def _fields(old: Mapping[str, Any] | None, new: "RoleDeclaration") -> Iterator[str]:
    from gpustack_deploy.model.spec import parse_role  # noqa: PLC0415 - slow
    from gpustack_deploy.plan.changes import Effect, classify  # noqa: PLC0415 - slow

    try:
        changes = classify(parse_role(old), new) if old else ()
    except InvalidSpec:  # the old inputs are of a version with other rules
        return
    for change in changes:
        if change.effect is not Effect.NONE:
            yield f"{change.path}: {change.reason}"


def _first_step(reading: "RoleReading | None") -> Iterator[str]:
    from gpustack_deploy.plan import step as steps  # noqa: PLC0415 - slow

    if reading is None:
        return
    if reading.is_gone:
        yield "the role's record is gone: it is created anew"
    match reading.step:
        case steps.WriteRecord(ordinal=int() as ordinal, cause=cause):
            yield f"first r{ordinal}: {cause}"
        case steps.WriteRecord(cause=cause):
            yield f"first: {cause}"
        case steps.Await(check=check) | steps.Hold(check=check):
            yield f"first: {check.reason} ({check.code})"
        case steps.Remove() | steps.RemoveWorkload() | steps.Compose():
            yield "first: what an earlier run began is finished"
        case steps.SyncServices() | steps.PruneServices():
            yield "first: Services are brought in line"
        case _:
            return
