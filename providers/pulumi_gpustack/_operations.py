"""Diff, create, read, update, delete: from properties to the engine and back (D20, D25)."""

import os
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpustack_deploy.engine.cluster import Cluster
from gpustack_deploy.model.errors import InvalidSpec
from gpustack_deploy.model.record import Writer
from gpustack_deploy.model.state import RoleState
from pulumi_gpustack import _outputs, _rules, _siblings
from pulumi_gpustack._bridge import Call
from pulumi_gpustack._command import running_command
from pulumi_gpustack._connection import ask_cluster, on_cluster
from pulumi_gpustack._explain import explanation
from pulumi_gpustack._outputs import context_of, declared
from pulumi_gpustack._progress import Voice

if TYPE_CHECKING:
    from gpustack_deploy.engine.replacement import RoleReading
    from gpustack_deploy.engine.run import RunContext
    from gpustack_deploy.model.desired import Desired
    from gpustack_deploy.model.role import RoleDeclaration

Properties = dict[str, Any]

FORCE_CLUSTER = "GPUSTACK_FORCE_CLUSTER"
_NOTHING_KNOWN = RoleState("", "", "", "", "", fingerprint="", replicas=0, size=0)


def diff(
    olds: Mapping[str, Any], news: Mapping[str, Any], old_inputs: Properties | None, voice: Voice
) -> bool | None:
    """Return False for nothing to do, None where the inputs say what changes, else True (D20)."""
    state = _outputs.state_of(olds)
    new = declared(news)
    if any(True for _ in _rules.unknown_paths(news)):
        return None
    declaration, desired = _parsed(new)
    reading = ask_cluster(_reading(declaration, state), voice.note, context=context_of(news))
    old = declared(old_inputs) if old_inputs else None
    if reading is None:
        stands = old == new or (old is not None and _renders_like(old, desired))
    else:
        stands = reading.is_converged
    if stands and _is_achieved(state, desired):
        return False
    text = explanation(old, declaration, reading)
    if text:
        voice.tell(text)
    return True if old is None or old == new else None


def create(props: Mapping[str, Any], call: Call) -> Properties:
    """Create the role and return its outputs."""
    from gpustack_deploy.engine.replacement import create_role  # noqa: PLC0415 - slow

    declaration, desired = _parsed(declared(props))
    front = str(props.get(_outputs.FRONT) or desired.front_role)

    async def work(cluster: Cluster) -> RoleState:
        records = await _siblings.records_of(cluster, desired.namespace, desired.deployment)
        kinds = {name: str(kind) for name, kind in declaration.role_kinds.items()}
        refusal = _siblings.set_refusal(kinds, front, records)
        if refusal is not None:
            raise refusal
        return await create_role(cluster, declaration, _run(call))

    state = on_cluster(work, context=context_of(props))
    return _outputs.achieved_outputs(props, desired, state)


def update(olds: Mapping[str, Any], news: Mapping[str, Any], call: Call) -> Properties:
    """Bring the role to the declaration and return its outputs."""
    from gpustack_deploy.engine.replacement import update_role  # noqa: PLC0415 - slow

    previous = _outputs.state_of(olds)
    declaration, desired = _parsed(declared(news))

    async def work(cluster: Cluster) -> RoleState:
        return await update_role(cluster, declaration, previous, _run(call))

    state = on_cluster(work, context=context_of(news))
    return _outputs.achieved_outputs(news, desired, state)


def read(
    props: Mapping[str, Any], inputs: Properties | None, voice: Voice
) -> tuple[Properties, Properties | None] | None:
    """Return outputs and inputs of what stands, None when the role is gone.

    Without the inputs, which the SDK does not pass on, nothing can be compared: the outputs stay.
    """
    from gpustack_deploy.engine.replacement import state_of  # noqa: PLC0415 - slow

    previous = _outputs.state_of(props) if _outputs.SCHEMA in props else _NOTHING_KNOWN
    try:
        declaration, desired = _parsed(declared(inputs or {}))
    except InvalidSpec as error:
        voice.note(f"not compared with the cluster, the stored declaration is unreadable: {error}")
        return dict(props), None
    reading = on_cluster(
        _reading(declaration, previous), context=context_of(inputs or {}), is_reading=True
    )
    if reading.is_gone or reading.record is None:
        return None
    found = state_of(reading.record, desired, is_finished=reading.is_converged)
    found = replace(found, claim=previous.claim or found.claim)
    outputs = (
        _outputs.achieved_outputs(inputs or {}, desired, found)
        if reading.is_converged
        else _outputs.partial_outputs({**(inputs or {}), **props}, found)
    )
    beside = {key: value for key, value in (inputs or {}).items() if key != _outputs.PROVIDER_KEY}
    return outputs, {**_outputs.whole(beside), **_outputs.computed_of(desired)}


def delete(props: Mapping[str, Any], call: Call) -> None:
    """Remove the role's objects; what was left alone is a note."""
    from gpustack_deploy.engine.teardown import delete_role  # noqa: PLC0415 - slow

    previous = _outputs.state_of(props)
    namespace, deployment, role = (str(props[k]) for k in ("namespace", "deployment", "role"))
    context = context_of(props)
    _siblings.refuse_drop(role, context=context, namespace=namespace, deployment=deployment)

    async def work(cluster: Cluster) -> tuple[str, ...]:
        return await delete_role(
            cluster,
            deployment=deployment,
            role=role,
            namespace=namespace,
            previous=previous,
            run=_run(call),
            force_cluster=os.environ.get(FORCE_CLUSTER) == "1",
        )

    voice = Voice(call.urn)
    for warning in on_cluster(work, context=context):
        voice.note(warning)


def _parsed(new: Mapping[str, Any]) -> "tuple[RoleDeclaration, Desired]":
    from gpustack_deploy.model.spec import parse_role  # noqa: PLC0415 - slow
    from gpustack_deploy.plan.desired_role import desired_of  # noqa: PLC0415 - slow

    declaration = parse_role(new)
    return declaration, desired_of(declaration)


def _reading(
    declaration: "RoleDeclaration", previous: RoleState
) -> "Callable[[Cluster], Awaitable[RoleReading]]":
    from gpustack_deploy.engine.replacement import read_role  # noqa: PLC0415 - slow
    from gpustack_deploy.engine.run import RunContext  # noqa: PLC0415 - slow

    async def work(cluster: Cluster) -> "RoleReading":
        return await read_role(cluster, declaration, previous, RunContext())

    return work


def _is_achieved(state: RoleState, desired: "Desired") -> bool:
    achieved = (state.fingerprint, state.replicas, state.size)
    return state.is_finished and achieved == (desired.fingerprint, desired.replicas, desired.size)


def _renders_like(old: Mapping[str, Any], desired: "Desired") -> bool:
    """Whether the old inputs mean the same objects; how a rollout is paced is none of them."""
    try:
        _, before = _parsed(old)
    except InvalidSpec:
        return False
    return replace(before, gate=desired.gate, lost_node=desired.lost_node) == desired


def _run(call: Call) -> "RunContext":
    from gpustack_deploy.engine.run import RunContext  # noqa: PLC0415 - slow

    ends_at = time.monotonic() + call.timeout_seconds if call.timeout_seconds else float("inf")
    return RunContext(
        writer=_writer(call.urn),
        progress=Voice(call.urn).progress,
        should_stop=lambda: call.is_ending() or time.monotonic() >= ends_at,
        bounds_admission_wait=not call.has_wide_pool
        or running_command().parallel < _siblings.count_declared(),
    )


def _writer(urn: str) -> Writer:
    """Return the stack that the URN names: `urn:pulumi:<stack>::<project>::<type>::<name>`."""
    parts = urn.removeprefix("urn:pulumi:").split("::")
    return Writer(project=parts[1], stack=parts[0], urn=urn) if len(parts) > 2 else Writer()
