"""The dynamic provider of a role's resource: it translates, and leaves deciding to the engine.

Its import path and class name are a persisted format: they stand in every stack's state (D19). It
has no attributes and captures nothing; connection settings live in this process's memory.
"""

from collections.abc import Mapping
from typing import Any, NoReturn

from pulumi.dynamic import (
    CheckFailure,
    CheckResult,
    ConfigureRequest,
    CreateResult,
    DiffResult,
    ReadResult,
    ResourceProvider,
    UpdateResult,
)

from gpustack_deploy.model.errors import AdmissionAwaited, GpustackDeployError
from pulumi_gpustack import _bridge, _checking, _connection, _operations, _outputs, _siblings
from pulumi_gpustack._progress import Voice

Properties = dict[str, Any]


class RoleProvider(ResourceProvider):
    """Creates, replaces and removes the replicas of one role."""

    # The pickled class is a reference without secrets; encrypting it would only hide it in diffs.
    serialize_as_secret_always = False

    def configure(self, req: ConfigureRequest) -> None:
        """Keep where the cluster is for this process; nothing of it goes into state."""
        _connection.configure(
            kubeconfig=str(req.config.get("gpustack:kubeconfig") or ""),
            context=str(req.config.get("gpustack:context") or ""),
        )

    def check(self, _olds: Properties, news: Properties) -> CheckResult:
        """Refuse what cannot be, and add the keys that follow from the declaration."""
        call = _bridge.current_call()
        marks = call.properties("old_outputs") or {}
        inputs, failures = _checking.check(_olds, news, marks, Voice(call.urn))
        return CheckResult(inputs, [CheckFailure(path, reason) for path, reason in failures])

    def diff(self, _id: str, _olds: Properties, _news: Properties) -> DiffResult:
        """Answer in three ways: nothing to do, the inputs say what, or the cluster says so."""
        call = _bridge.current_call()
        try:
            old_inputs = call.properties("old_inputs")
            changes = _operations.diff(_olds, _news, old_inputs, Voice(call.urn))
        except GpustackDeployError as error:
            _fail(call, error)
        return DiffResult(changes=changes, replaces=[], delete_before_replace=True)

    def create(self, props: Properties) -> CreateResult:
        """Create the role, or take up what an earlier run of it left."""
        call = _bridge.current_call()
        try:
            outputs = _operations.create(props, call)
        except GpustackDeployError as error:
            _fail(call, error, props=props, before=props)
        return CreateResult(_outputs.resource_id(props), outputs)

    def read(self, id_: str, props: Properties) -> ReadResult:
        """Return what stands, as `check` and `create` would have said it; gone is without an id."""
        call = _bridge.current_call()
        try:
            found = _operations.read(props, call.properties("inputs"), Voice(call.urn))
        except GpustackDeployError as error:
            _fail(call, error)
        return ReadResult(id_, *found) if found else ReadResult(None, {})

    def update(self, _id: str, _olds: Properties, _news: Properties) -> UpdateResult:
        """Replace replicas until the role is as declared; a run that was cut short resumes."""
        call = _bridge.current_call()
        try:
            return UpdateResult(_operations.update(_olds, _news, call))
        except GpustackDeployError as error:
            _fail(call, error, props=_news, before=_olds, may_await=True)

    def delete(self, _id: str, _props: Properties) -> None:
        """Remove the role's objects, each by its UID."""
        call = _bridge.current_call()
        try:
            _operations.delete(_props, call)
        except GpustackDeployError as error:
            _fail(call, error)


def _fail(
    call: _bridge.Call,
    error: GpustackDeployError,
    *,
    props: Mapping[str, Any] | None = None,
    before: Mapping[str, Any] | None = None,
    may_await: bool = False,
) -> NoReturn:
    """Raise the error, with what the engine can make of it where the bridge holds (D21)."""
    state = getattr(error, "state", None)
    if may_await and isinstance(error, AdmissionAwaited):
        # The engine has a text of its own for awaiting, so the sentence goes beside it.
        call.keep_awaiting(str(error))
        Voice(call.urn).note(str(error))
        _siblings.note_awaiting()
    elif state is not None and props is not None and before is not None:
        outputs = _outputs.partial_outputs(before, state)
        outputs[_outputs.PROVIDER_KEY] = props[_outputs.PROVIDER_KEY]
        call.keep_partial(_outputs.resource_id(props), outputs, str(error))
    else:
        call.keep_message(str(error))
    raise error
