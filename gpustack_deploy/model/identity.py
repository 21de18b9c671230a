"""Every string key of the product: names, labels, annotations, environment variables.

A name locates an object and never permits a delete; the controller owner UID and captured UIDs do
(decisions D1, D5). Names are never parsed back: ordinal and member index travel in labels.
"""

import hashlib
from typing import Final

FIELD_MANAGER: Final = "gpustack-deploy"

# --- labels of every object we make -------------------------------------------------------------
LABEL_NAME: Final = "app.kubernetes.io/name"
LABEL_DEPLOYMENT: Final = "app.kubernetes.io/instance"
LABEL_ROLE: Final = "app.kubernetes.io/component"
LABEL_PART_OF: Final = "app.kubernetes.io/part-of"
NAME_VALUE: Final = "model-deployment"
PART_OF_VALUE: Final = "gpustack-operator-worker"

# --- labels of Services -------------------------------------------------------------------------
LABEL_SERVICE: Final = "modeldeployment.gpustack.ai/service"

# --- labels of members --------------------------------------------------------------------------
LABEL_ORDINAL: Final = "modeldeployment.gpustack.ai/pod-ordinal"
LABEL_MEMBER_INDEX: Final = "modeldeployment.gpustack.ai/member-index"
LABEL_ROLE_KIND: Final = "modeldeployment.gpustack.ai/role-kind"
LABEL_API_ANSWERING: Final = "modeldeployment.gpustack.ai/api-answering"

# --- annotations of members ---------------------------------------------------------------------
ANNOTATION_FINGERPRINT: Final = "modeldeployment.gpustack.ai/pod-spec-hash"
ANNOTATION_TOKEN: Final = "modeldeployment.gpustack.ai/attempt-token"  # noqa: S105 - a key
ANNOTATION_RENDERER: Final = "modeldeployment.gpustack.ai/renderer-version"
ANNOTATION_PROMETHEUS_PORT: Final = "prometheus.io/port"
ANNOTATION_PROMETHEUS_SCRAPE: Final = "prometheus.io/scrape"
ANNOTATION_PROMETHEUS_PATH: Final = "prometheus.io/path"
ANNOTATION_PROMETHEUS_SCHEME: Final = "prometheus.io/scheme"

# --- Kueue (v0.17, v1beta2) ---------------------------------------------------------------------
KUEUE_GROUP: Final = "kueue.x-k8s.io"
KUEUE_VERSION: Final = "v1beta2"
KUEUE_QUEUE_NAME: Final = "kueue.x-k8s.io/queue-name"
KUEUE_GROUP_NAME: Final = "kueue.x-k8s.io/pod-group-name"
KUEUE_GROUP_TOTAL: Final = "kueue.x-k8s.io/pod-group-total-count"
KUEUE_ROLE_HASH: Final = "kueue.x-k8s.io/role-hash"
KUEUE_SERVING: Final = "kueue.x-k8s.io/pod-group-serving"
KUEUE_REQUIRED_TOPOLOGY: Final = "kueue.x-k8s.io/podset-required-topology"
KUEUE_PRIORITY_CLASS: Final = "kueue.x-k8s.io/priority-class"
KUEUE_MANAGED: Final = "kueue.x-k8s.io/managed"
KUEUE_ADMISSION_GATE: Final = "kueue.x-k8s.io/admission"
KUEUE_WORKLOAD: Final = "kueue.x-k8s.io/workload"

# --- the record ---------------------------------------------------------------------------------
RECORD_KEY: Final = "record"
LABEL_RECORD: Final = "modeldeployment.gpustack.ai/record"

# --- environment of members ---------------------------------------------------------------------
ENV_LEADER_ADDRESS: Final = "GPUSTACK_REPLICA_LEADER_ADDRESS"
ENV_REPLICA_SIZE: Final = "GPUSTACK_REPLICA_SIZE"
ENV_MEMBER_INDEX: Final = "GPUSTACK_MEMBER_INDEX"
RESERVED_ENV: Final = frozenset({ENV_LEADER_ADDRESS, ENV_REPLICA_SIZE, ENV_MEMBER_INDEX})

ENGINE_CONTAINER: Final = "main"

# --- devices ------------------------------------------------------------------------------------
RDMA_SHARED: Final = "device.gpustack.ai/rdma.shared"
RDMA: Final = "device.gpustack.ai/rdma"
EFA: Final = "vpc.amazonaws.com/efa"

_GROUP_PREFIX_LENGTH: Final = 30


def record_name(deployment: str, role: str) -> str:
    """Return the name of the role's record ConfigMap (D1)."""
    return f"{deployment}-{role}"


def front_service_name(deployment: str) -> str:
    """Return the name of the deployment's front Service."""
    return deployment


def role_service_name(deployment: str, role: str) -> str:
    """Return the name of the role's own Service."""
    return f"{deployment}-{role}"


def peer_service_name(deployment: str, role: str, ordinal: int) -> str:
    """Return the name of the headless Service of one replica."""
    return f"{deployment}-{role}-r{ordinal}"


def member_name(deployment: str, role: str, ordinal: int, member_index: int) -> str:
    """Return the deterministic Pod name of one member, the same at every size (D2)."""
    return f"{deployment}-{role}-r{ordinal}-m{member_index}"


def probe_name(deployment: str, role: str, token: str) -> str:
    """Return a free name for the dry run of member 0 (D27); at most 63 characters, DNS-1123."""
    return _bounded(f"{deployment}-{role}", f"probe-{token}")


def group_name(deployment: str, role: str, token: str) -> str:
    """Return the Kueue group name of one attempt: at most 63 characters, DNS-1123 (D3).

    The Workload that Kueue composes carries the same name, so a fresh token is a fresh Workload.
    """
    return _bounded(f"{deployment}-{role}"[:_GROUP_PREFIX_LENGTH].rstrip("-"), token)


def batch_group_name(deployment: str, role: str, batch_token: str, ordinal: int) -> str:
    """Return the group name of an ordinal created outside a slot, from the batch's token (D3)."""
    digest = hashlib.sha256(f"{batch_token}/{ordinal}".encode()).hexdigest()[:20]
    return group_name(deployment, role, digest)


def role_selector(deployment: str, role: str) -> dict[str, str]:
    """Return the labels that every object of one role carries."""
    return {
        LABEL_NAME: NAME_VALUE,
        LABEL_DEPLOYMENT: deployment,
        LABEL_ROLE: role,
    }


def deployment_selector(deployment: str) -> dict[str, str]:
    """Return the labels that every object of one deployment carries."""
    return {LABEL_NAME: NAME_VALUE, LABEL_DEPLOYMENT: deployment}


def selector_text(labels: dict[str, str]) -> str:
    """Return the labels in the API's selector form, sorted so that it is stable."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def _bounded(stem: str, suffix: str) -> str:
    name = f"{stem}-{suffix}"
    if len(name) <= 63:  # a DNS-1123 label
        return name
    digest = hashlib.sha256(stem.encode()).hexdigest()[:8]
    keep = 63 - len(suffix) - len(digest) - 2
    return f"{stem[:keep].rstrip('-')}-{digest}-{suffix}"
