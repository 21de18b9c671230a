"""What a role's resource keeps in state: the keys, and how they become the engine's values (D19).

Keys are camelCase and permanent. Computed keys are added by `check`, so that dependents know them
in a preview; achieved keys say what stands, and come from `create` and `update` only.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from gpustack_deploy.model import identity
from gpustack_deploy.model.errors import GpustackDeployError
from gpustack_deploy.model.state import STATE_SCHEMA_VERSION, RoleState

if TYPE_CHECKING:
    from gpustack_deploy.model.desired import Desired

PROVIDER_KEY: Final = "__provider"
SCHEMA: Final = "schemaVersion"

# Kept beside the declaration in the resource's inputs; the declaration itself does not know them.
CONNECTION: Final = "connection"
FRONT: Final = "front"

COMPUTED: Final = ("endpoint", "fingerprint", "podSelector", "serviceName", "servicePort")
IDENTITY: Final = ("deployment", "namespace", "role", "frontRole", CONNECTION)
ACHIEVED: Final = (
    "claim",
    "clusterCa",
    "clusterUid",
    "isFinished",
    "namespaceUid",
    "recordUid",
    "replicas",
    SCHEMA,
    "size",
)

Properties = dict[str, Any]


class StateUnreadable(GpustackDeployError):
    """The stack's state of this role was written by a version that this one does not know."""

    def __init__(self, found: object) -> None:
        super().__init__(
            f"the state of this role has schemaVersion {found!r}, this version reads up to"
            f" {STATE_SCHEMA_VERSION}; nothing was changed: upgrade gpustack-deploy to the version"
            " that wrote it"
        )


def declared(properties: Mapping[str, Any]) -> Properties:
    """Return only what the user declared: whole numbers whole again, no computed keys."""
    skipped = {PROVIDER_KEY, CONNECTION, FRONT, *COMPUTED, *(set(ACHIEVED) - {"replicas", "size"})}
    return {key: whole(value) for key, value in properties.items() if key not in skipped}


def whole(value: Any) -> Any:
    """Return the value with numbers that the wire made floats as integers again."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [whole(item) for item in value]
    return value


def context_of(properties: Mapping[str, Any]) -> str:
    """Return the name of the kubeconfig context that the resource was given, or nothing."""
    connection = properties.get(CONNECTION)
    context = connection.get("context") if isinstance(connection, Mapping) else None
    return context if isinstance(context, str) else ""


def resource_id(properties: Mapping[str, Any]) -> str:
    """Return the resource's id; a role has one in its namespace."""
    return "/".join(str(properties[key]) for key in ("namespace", "deployment", "role"))


def computed_of(desired: "Desired") -> Properties:
    """Return the keys that follow from the declaration alone."""
    is_front = desired.is_front
    front = identity.front_service_name(desired.deployment)
    service = identity.role_service_name(desired.deployment, desired.role)
    port = desired.service.ports[0].port
    return {
        "endpoint": f"http://{front if is_front else service}.{desired.namespace}.svc:{port}",
        "fingerprint": desired.fingerprint,
        "podSelector": identity.role_selector(desired.deployment, desired.role),
        "serviceName": service,
        "servicePort": port,
    }


def achieved_outputs(inputs: Mapping[str, Any], desired: "Desired", state: RoleState) -> Properties:
    """Return the outputs of a role that reached its declaration."""
    identity_keys = {key: inputs[key] for key in IDENTITY if key in inputs}
    named = {"deployment": desired.deployment, "namespace": desired.namespace, "role": desired.role}
    return {**identity_keys, **named, **computed_of(desired), **_achieved(state)}


def partial_outputs(before: Mapping[str, Any], state: RoleState) -> Properties:
    """Return the outputs of a role on its way: its identities, and what was achieved before.

    What is wished for is not echoed, else the next run would find nothing to do (D20).
    """
    known = state_of(before) if SCHEMA in before else None
    facts = replace(
        state,
        is_finished=False,
        fingerprint=known.fingerprint if known else "",
        replicas=known.replicas if known else 0,
        size=known.size if known else 0,
    )
    kept = {key: whole(before[key]) for key in (*IDENTITY, *COMPUTED) if key in before}
    return {**kept, **_achieved(facts)}


def state_of(outputs: Mapping[str, Any]) -> RoleState:
    """Return what the outputs say was achieved.

    Raises:
        StateUnreadable: a newer version wrote them.
    """
    version = whole(outputs.get(SCHEMA))
    if not isinstance(version, int) or not 1 <= version <= STATE_SCHEMA_VERSION:
        raise StateUnreadable(version)
    return RoleState(
        record_uid=str(outputs.get("recordUid", "")),
        claim=str(outputs.get("claim", "")),
        cluster_uid=str(outputs.get("clusterUid", "")),
        cluster_ca=str(outputs.get("clusterCa", "")),
        namespace_uid=str(outputs.get("namespaceUid", "")),
        fingerprint=str(outputs.get("fingerprint", "")),
        replicas=int(outputs.get("replicas", 0)),
        size=int(outputs.get("size", 0)),
        is_finished=bool(outputs.get("isFinished", False)),
    )


def _achieved(state: RoleState) -> Properties:
    return {
        "claim": state.claim,
        "clusterCa": state.cluster_ca,
        "clusterUid": state.cluster_uid,
        "fingerprint": state.fingerprint,
        "isFinished": state.is_finished,
        "namespaceUid": state.namespace_uid,
        "recordUid": state.record_uid,
        "replicas": state.replicas,
        SCHEMA: STATE_SCHEMA_VERSION,
        "size": state.size,
    }
