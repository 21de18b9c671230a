"""What `check` answers: refusals with their paths, or the inputs with the computed keys (D13, D20).

What the cluster could not be asked is a note, never a failure: `create` and `update` raise (D4).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from gpustack_deploy.engine.cluster import Cluster, ClusterMarks
from gpustack_deploy.model.errors import (
    GpustackDeployError,
    InvalidSpec,
    RefusedChange,
    WrongCluster,
)
from gpustack_deploy.model.record import RoleRecord
from pulumi_gpustack import _outputs, _rules, _siblings
from pulumi_gpustack._connection import ask_cluster
from pulumi_gpustack._outputs import CONNECTION, FRONT, context_of
from pulumi_gpustack._progress import Voice

Properties = dict[str, Any]
Failures = list[tuple[str, str]]


def check(
    olds: Mapping[str, Any], news: Mapping[str, Any], old_outputs: Mapping[str, Any], voice: Voice
) -> tuple[Properties, Failures]:
    """Return the inputs as they go into state, and what is refused as (path, sentence)."""
    new = _outputs.declared(news)
    beside = {key: news[key] for key in (CONNECTION, FRONT) if key in news}
    unknown = frozenset(_rules.unknown_paths({**new, **beside}))
    refused: list[GpustackDeployError] = [*_rules.rule_failures(new, unknown)]
    if not unknown & {"deployment", "namespace"}:
        _siblings.remember(
            new.get("roleKinds", {}),
            context=context_of(news),
            namespace=str(new.get("namespace", "default")),
            deployment=str(new.get("deployment")),
        )
    if olds.get("deployment"):
        old = _outputs.declared(olds)
        refused += _edit_refusals(old, {**new, **beside})
        new["frontRole"] = old["frontRole"]
        refused += _wrong_cluster(old_outputs, voice, context=context_of(news))
    elif not unknown & {"deployment", "namespace", "role", FRONT, CONNECTION}:
        refused += _join(new, beside, voice)
    if refused:
        return {**new, **beside}, [_failure(error) for error in refused]
    for warning in _rules.warnings(new, unknown):
        voice.note(warning)
    return {**new, **beside, **_rules.computed(new, unknown)}, []


def _edit_refusals(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[GpustackDeployError]:
    yield from _rules.identity_failures(old, new)
    asked, front = new.get(FRONT), str(old["frontRole"])
    if isinstance(asked, str) and asked != front:
        yield RefusedChange(FRONT, _siblings.front_reason(front, asked))


def _wrong_cluster(
    outputs: Mapping[str, Any], voice: Voice, *, context: str
) -> Iterator[GpustackDeployError]:
    """Refuse, before anything else happens, a connection that leads to another cluster (D25)."""
    if not outputs.get("schemaVersion"):
        return
    from gpustack_deploy.engine.preflight import require_cluster  # noqa: PLC0415 - slow

    async def marks(cluster: Cluster) -> ClusterMarks:
        return await cluster.marks()

    found = ask_cluster(marks, voice.note, context=context)
    try:
        if found is not None:
            require_cluster(found, _outputs.state_of(outputs))
    except (WrongCluster, _outputs.StateUnreadable) as error:
        yield error


def _join(
    new: Properties, beside: Mapping[str, Any], voice: Voice
) -> Iterator[GpustackDeployError]:
    """Refuse a new role of a deployment that stands with other roles; take over its front role."""
    namespace, deployment = str(new.get("namespace", "default")), str(new.get("deployment"))

    async def records(cluster: Cluster) -> tuple[RoleRecord, ...]:
        return await _siblings.records_of(cluster, namespace, deployment)

    try:
        found = ask_cluster(records, voice.note, context=context_of(beside))
    except GpustackDeployError as error:
        yield error
        return
    if found:
        refusal = _siblings.set_refusal(new.get("roleKinds", {}), str(beside.get(FRONT, "")), found)
        if refusal is not None:
            yield refusal
        new["frontRole"] = found[0].front_role


def _failure(error: GpustackDeployError) -> tuple[str, str]:
    match error:
        case InvalidSpec(path=path, reason=reason) | RefusedChange(field=path, reason=reason):
            return path, reason
        case _:
            return "", str(error)
