"""The component that users write: one deployment, one child resource for each role."""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from gpustack_deploy.model.errors import InvalidSpec
from pulumi_gpustack._outputs import CONNECTION, FRONT
from pulumi_gpustack._set_rules import require_sound_set
from pulumi_gpustack._wire import Wire, to_wire
from pulumi_gpustack.inputs import (
    Connection,
    ConnectionDict,
    Engine,
    EngineDict,
    InstanceType,
    InstanceTypeDict,
    KvTransfer,
    KvTransferDict,
    Pod,
    PodDict,
    Role,
    RoleDict,
    Rollout,
    RolloutDict,
    Service,
    ServiceDict,
)
from pulumi_gpustack.role import ModelDeploymentRole

_SHARED = {"pod": Pod, "service": Service, "rollout": Rollout}


class ModelDeployment(pulumi.ComponentResource):
    """A model served by one engine, in 1 to 10 roles."""

    name: pulumi.Output[str]
    """The deployment's name in Kubernetes."""

    namespace: pulumi.Output[str]
    """Its namespace."""

    endpoint: pulumi.Output[str]
    """Address of the front Service. For a pair, a router of your own is what clients call."""

    roles: Mapping[str, ModelDeploymentRole]
    """Each role's resource by its name: `service_name`, `service_port`, `pod_selector`,
    `fingerprint`, `replicas`, `size`."""

    def __init__(  # noqa: PLR0913 - one parameter for each field a user may write
        self,
        resource_name: str,
        opts: pulumi.ResourceOptions | None = None,
        *,
        model: pulumi.Input[str],
        engine: Engine | EngineDict,
        roles: "Sequence[Role | RoleDict]",
        name: pulumi.Input[str] | None = None,
        namespace: pulumi.Input[str] | None = None,
        front: str | None = None,
        kv_transfer: KvTransfer | KvTransferDict | None = None,
        pod: Pod | PodDict | None = None,
        service: Service | ServiceDict | None = None,
        rollout: Rollout | RolloutDict | None = None,
        profiles: "Mapping[str, InstanceType | InstanceTypeDict] | None" = None,
        connection: Connection | ConnectionDict | None = None,
        role_options: Mapping[str, pulumi.ResourceOptions] | None = None,
    ) -> None:
        """Declare the deployment.

        Args:
            resource_name: The logical name.
            opts: Options of the component.
            model: What is served, such as `Qwen/Qwen3-32B`; fixed when the deployment is created.
            engine: The engine; its name is fixed when the deployment is created.
            roles: The roles; which there are, and their kinds, is fixed likewise.
            name: The name in Kubernetes, fixed likewise; the logical name by default.
            namespace: The namespace, which must exist; `default` by default.
            front: The role behind the deployment's own Service; the first one by default. Fixed
                when the deployment is created, so that reordering the roles changes nothing.
            kv_transfer: The link between the halves of a prefill/decode pair.
            pod: Pod settings of every role.
            service: Service settings of every role.
            rollout: Rollout settings of every role.
            profiles: Hardware profiles by the names that `instance_type` may use; besides them,
                those of the stack's configuration `gpustack:profiles`.
            connection: The cluster, when it is not the stack's.
            role_options: Resource options of single roles, by the role's name.
        """
        super().__init__("gpustack:index:ModelDeployment", resource_name, None, opts)
        entries = [to_wire(role, Role) for role in roles]
        names = _role_names(entries)
        _refuse_unknown("role_options", role_options or {}, names)
        shared = {
            key: to_wire(value, _SHARED[key])
            for key, value in (("pod", pod), ("service", service), ("rollout", rollout))
            if value is not None
        }
        common: Wire = {
            "deployment": resource_name if name is None else name,
            "namespace": namespace or "default",
            "model": model,
            "engine": to_wire(engine, Engine),
            "roleKinds": {entry["name"]: entry.get("kind", "Server") for entry in entries},
            "frontRole": front or names[0],
        }
        optional = {
            FRONT: front,
            "kvTransfer": to_wire(kv_transfer, KvTransfer),
            CONNECTION: to_wire(connection, Connection),
        }
        common |= {key: value for key, value in optional.items() if value is not None}
        known = _profiles(profiles)
        declarations = [
            _role_declaration(entry, shared, known, path=f"roles[{index}]")
            for index, entry in enumerate(entries)
        ]
        require_sound_set({**each, "name": each["role"]} for each in declarations)
        self.roles = {
            role: ModelDeploymentRole(
                f"{resource_name}-{role}",
                common | declaration,
                pulumi.ResourceOptions.merge(
                    pulumi.ResourceOptions(parent=self), (role_options or {}).get(role)
                ),
            )
            for role, declaration in zip(names, declarations, strict=True)
        }
        first = self.roles[names[0]]
        self.name, self.namespace = first.deployment, first.namespace
        self.endpoint = _front_endpoint(first.frontRole, self.roles)
        self.register_outputs(
            {
                "name": self.name,
                "namespace": self.namespace,
                "endpoint": self.endpoint,
                "roles": {role: _summary(resource) for role, resource in self.roles.items()},
            }
        )


def _role_declaration(
    entry: Wire, shared: Mapping[str, Any], profiles: Mapping[str, Any], *, path: str
) -> Wire:
    """Return the role's own keys, the deployment's blocks merged in."""
    own = {key: value for key, value in entry.items() if key not in ("name", *_SHARED)}
    own["role"] = entry["name"]
    for key in _SHARED:
        merged = _merged(shared.get(key, {}), entry.get(key, {}))
        if merged:
            own[key] = merged
    profile = own.get("instanceType")
    if isinstance(profile, str):
        if profile not in profiles:
            known = ", ".join(sorted(profiles)) or "none"
            raise InvalidSpec(
                f"{path}.instanceType",
                f"there is no profile {profile!r} (known: {known}); name one of them, or declare it"
                " in `profiles` or in the stack's configuration `gpustack:profiles`",
            )
        own["instanceType"] = {"name": profile, **profiles[profile]}
    return own


def _merged(default: Mapping[str, Any], override: Mapping[str, Any]) -> Wire:
    """Return the deployment's block with what the role's says; maps are joined key by key."""
    merged = dict(default)
    for key, value in override.items():
        below = merged.get(key)
        is_map = isinstance(value, Mapping) and isinstance(below, Mapping)
        merged[key] = {**below, **value} if is_map else value  # type: ignore[dict-item]
    return merged


def _profiles(given: "Mapping[str, InstanceType | InstanceTypeDict] | None") -> Wire:
    configured = pulumi.Config("gpustack").get_object("profiles") or {}
    if not isinstance(configured, Mapping):
        raise InvalidSpec(
            "gpustack:profiles",
            "it is no object; write each profile under its name, with the keys of an InstanceType",
        )
    both = {**configured, **(given or {})}
    return {name: to_wire(profile, InstanceType) for name, profile in both.items()}


def _role_names(entries: Sequence[Any]) -> list[str]:
    names: list[str] = []
    for index, entry in enumerate(entries):
        name = entry.get("name") if isinstance(entry, Mapping) else None
        if not isinstance(name, str) or not name:
            found = f"found {name!r}" if isinstance(name, str) else "found no plain text"
            raise InvalidSpec(f"roles[{index}].name", f"{found}, needed a name; write one")
        if name in names:
            raise InvalidSpec(
                f"roles[{index}].name",
                f"there are two roles {name!r}, needed each name once; rename one",
            )
        names.append(name)
    if not names:
        raise InvalidSpec("roles", "there is none, needed 1 to 10 roles; declare one")
    return names


def _refuse_unknown(path: str, given: Mapping[str, object], names: Sequence[str]) -> None:
    for name in given:
        if name not in names:
            raise InvalidSpec(
                f"{path}[{name!r}]",
                f"there is no such role (roles: {', '.join(names)}); name one of them or remove it",
            )


def _front_endpoint(
    front: pulumi.Output[str], roles: Mapping[str, ModelDeploymentRole]
) -> pulumi.Output[str]:
    endpoints = pulumi.Output.all(**{name: role.endpoint for name, role in roles.items()})
    chosen = pulumi.Output.all(front=front, endpoints=endpoints)
    return chosen.apply(lambda both: str(both["endpoints"][both["front"]]))


def _summary(role: ModelDeploymentRole) -> dict[str, pulumi.Output[Any]]:
    return {
        "serviceName": role.service_name,
        "servicePort": role.service_port,
        "podSelector": role.pod_selector,
        "fingerprint": role.fingerprint,
        "replicas": role.replicas,
        "size": role.size,
    }
