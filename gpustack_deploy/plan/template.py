"""What every member of a role shares: labels, annotations and the Pod spec.

The same declaration gives the same template. It holds nothing of a seat, a group or an owner, and
is exactly what the role's fingerprint covers (D3).
"""

from collections.abc import Mapping
from typing import Any

from gpustack_deploy.model import identity
from gpustack_deploy.model.hardware import Fabric, render_resources
from gpustack_deploy.model.image import image_of
from gpustack_deploy.model.listener import BOOTSTRAP_PORT, Listener, listener_of
from gpustack_deploy.model.pod_fields import EnvVar
from gpustack_deploy.model.role import RoleDeclaration, TransferProtocol
from gpustack_deploy.plan.drain import DEFAULT_GRACE_PERIOD_SECONDS, drain_hook
from gpustack_deploy.plan.engine_arguments import EngineArguments, engine_arguments
from gpustack_deploy.plan.probes import render_probes
from gpustack_deploy.plan.volumes import render_volumes

Manifest = dict[str, Any]


def render_template(declaration: RoleDeclaration) -> Manifest:
    """Return what every member of the role shares: labels, annotations and the Pod spec."""
    listener = listener_of(declaration)
    return {
        "metadata": {
            "labels": _labels(declaration),
            "annotations": _annotations(declaration, listener=listener),
        },
        "spec": _pod_spec(declaration, listener=listener),
    }


def fabric_of(declaration: RoleDeclaration) -> Fabric:
    """Return the network of the role's interfaces: the pair's, RDMA where none is said."""
    transfer = declaration.kv_transfer
    is_efa = transfer is not None and transfer.protocol is TransferProtocol.EFA
    return Fabric.EFA if is_efa else Fabric.RDMA


def _labels(declaration: RoleDeclaration) -> dict[str, str]:
    labels = {
        **declaration.pod.labels,
        **identity.role_selector(declaration.deployment, declaration.role),
        identity.LABEL_PART_OF: identity.PART_OF_VALUE,
        identity.LABEL_ROLE_KIND: declaration.kind.lower(),
        identity.KUEUE_QUEUE_NAME: declaration.instance_type.local_queue,
    }
    if declaration.pod.workload_priority_class:
        labels[identity.KUEUE_PRIORITY_CLASS] = declaration.pod.workload_priority_class
    return labels


def _annotations(declaration: RoleDeclaration, *, listener: Listener) -> dict[str, str]:
    annotations = {
        **declaration.pod.annotations,
        identity.KUEUE_GROUP_TOTAL: str(declaration.size),
        identity.KUEUE_ROLE_HASH: declaration.role,
        identity.KUEUE_SERVING: "true",
    }
    if declaration.topology is not None and declaration.topology.required_level:
        annotations[identity.KUEUE_REQUIRED_TOPOLOGY] = declaration.topology.required_level
    if declaration.is_managed:
        # The port is what tells a managed member from a take-over one.
        annotations |= {
            identity.ANNOTATION_PROMETHEUS_SCRAPE: "true",
            identity.ANNOTATION_PROMETHEUS_PATH: "/metrics",
            identity.ANNOTATION_PROMETHEUS_PORT: str(listener.port),
            identity.ANNOTATION_PROMETHEUS_SCHEME: listener.scheme.lower(),
        }
    return annotations


def _pod_spec(declaration: RoleDeclaration, *, listener: Listener) -> Manifest:
    pod = declaration.pod
    volumes, mounts = render_volumes(declaration)
    grace = declaration.termination_grace_period_seconds
    if grace is None and declaration.is_managed:
        grace = DEFAULT_GRACE_PERIOD_SECONDS
    container = _container(declaration, listener=listener, mounts=mounts, grace=grace)
    fields: Manifest = {
        "restartPolicy": "Always",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": grace,
        "serviceAccountName": pod.service_account_name,
        "priorityClassName": pod.priority_class_name,
        "runtimeClassName": pod.runtime_class_name,
        "dnsPolicy": pod.dns_policy,
        "nodeSelector": dict(pod.node_selector),
        "tolerations": [
            each.model_dump(mode="json", exclude_none=True) for each in pod.tolerations
        ],
        "securityContext": dict(pod.security_context),
        "imagePullSecrets": [{"name": name} for name in declaration.image_pull_secrets],
        "volumes": volumes,
        "containers": [container],
    }
    return _without_empty(fields)


def _container(
    declaration: RoleDeclaration,
    *,
    listener: Listener,
    mounts: list[Manifest],
    grace: int | None,
) -> Manifest:
    managed = engine_arguments(declaration) if declaration.is_managed else None
    resources = render_resources(
        declaration.geometry,
        instance_type=declaration.instance_type,
        fabric=fabric_of(declaration),
    )
    security: Manifest = dict(declaration.pod.container_security_context)
    if declaration.privileged:
        security["privileged"] = True
    fields: Manifest = {
        "name": identity.ENGINE_CONTAINER,
        "image": image_of(declaration),
        "imagePullPolicy": declaration.image_pull_policy,
        "command": list(managed.command if managed else declaration.command),
        "ports": _container_ports(declaration, listener=listener, managed=managed),
        "env": _environment(declaration, managed=managed),
        "resources": {"limits": dict(resources.limits), "requests": dict(resources.requests)},
        "volumeMounts": mounts,
        "securityContext": security,
        **render_probes(declaration),
    }
    if managed is not None and grace is not None:
        hook = drain_hook(declaration.engine.name, listener=listener, grace_period_seconds=grace)
        fields["lifecycle"] = {"preStop": hook}
    return _without_empty(fields)


def _container_ports(
    declaration: RoleDeclaration, *, listener: Listener, managed: EngineArguments | None
) -> list[Manifest]:
    ports: list[Manifest] = [
        {
            "name": f"{each.protocol.lower()}-{each.port}",
            "containerPort": each.port,
            "protocol": str(each.protocol),
        }
        for each in declaration.ports
    ] or [{"name": "http", "containerPort": listener.port, "protocol": "TCP"}]
    if managed is not None and managed.has_bootstrap_port:
        ports.append({"name": "bootstrap", "containerPort": BOOTSTRAP_PORT, "protocol": "TCP"})
    return ports


def _environment(
    declaration: RoleDeclaration, *, managed: EngineArguments | None
) -> list[Manifest]:
    own = [_env_entry(each) for each in declaration.env]
    seat = _seat_environment() if declaration.size > 1 else []
    if managed is None:
        return [*seat, *own]
    named = {each.name for each in declaration.env}
    defaults = [pair for pair in managed.default_env if pair[0] not in named]
    written = [{"name": name, "value": value} for name, value in (*managed.owned_env, *defaults)]
    # The seat comes first: Kubernetes expands $(NAME) only from entries before it.
    return [*seat, *written, *own]


def _seat_environment() -> list[Manifest]:
    # The size and the leader's address are filled in per replica; the index is read off the label,
    # so that one container spec serves every member.
    index = {"fieldRef": {"fieldPath": f"metadata.labels['{identity.LABEL_MEMBER_INDEX}']"}}
    return [
        {"name": identity.ENV_LEADER_ADDRESS, "value": ""},
        {"name": identity.ENV_REPLICA_SIZE, "value": ""},
        {"name": identity.ENV_MEMBER_INDEX, "valueFrom": index},
    ]


def _env_entry(env: EnvVar) -> Manifest:
    if env.secret_ref is not None:
        source: Manifest = {"secretKeyRef": env.secret_ref.model_dump()}
    elif env.config_map_ref is not None:
        source = {"configMapKeyRef": env.config_map_ref.model_dump()}
    elif env.field_ref is not None:
        source = {"fieldRef": {"fieldPath": env.field_ref}}
    else:
        return {"name": env.name, "value": env.value or ""}
    return {"name": env.name, "valueFrom": source}


def _without_empty(fields: Mapping[str, Any]) -> Manifest:
    return {key: value for key, value in fields.items() if value not in (None, [], {}, "")}
