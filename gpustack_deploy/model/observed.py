"""What the API server shows, as small frozen values read from raw objects.

Reading never raises on a foreign shape: a label that spells no number is `None`, and the planner
treats what it cannot read as a reason to hold, never as a reason to act (behaviour: an unreadable
observation grants nothing, revokes nothing, deletes nothing).
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from gpustack_deploy.model import identity
from gpustack_deploy.model.raw import Json, count_text, list_at, mapping_at, text_at

TERMINAL_PHASES: Final = frozenset({"Succeeded", "Failed"})

# What admission legitimately changes between a member and the Workload's template: only these
# fields of a container say what runs and what it costs.
_COMPARED_CONTAINER_FIELDS: Final = ("name", "image", "command", "args", "resources", "ports")


class ConditionStatus(StrEnum):
    """Status of a Kubernetes condition; `ABSENT` when the object carries none of that type."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"
    ABSENT = "Absent"


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition: status, reason, message, and since when (seconds since the epoch)."""

    status: ConditionStatus = ConditionStatus.ABSENT
    reason: str = ""
    message: str = ""
    since: float = 0.0

    @property
    def is_true(self) -> bool:
        """Whether the condition says True."""
        return self.status is ConditionStatus.TRUE


ABSENT_CONDITION: Final = Condition()


@dataclass(frozen=True, slots=True)
class ObservedMember:
    """One Pod that carries the role's labels; whether it is ours is decided by `owner_uid`."""

    name: str
    uid: str
    owner_uid: str
    ordinal: int | None
    member_index: int | None
    group_name: str
    group_total: int | None
    fingerprint: str
    renderer_version: int | None
    token: str
    local_queue: str
    phase: str
    node_name: str
    is_gated: bool
    is_managed_by_kueue: bool
    is_ready: bool
    has_container_status: bool
    is_managed: bool
    answers_api: bool
    deletion_time: float | None
    is_let_go: bool
    workload_name: str
    template_digest: str
    requests: Mapping[str, str]
    waiting_reason: str
    unscheduled_message: str

    @property
    def is_terminating(self) -> bool:
        """Whether a delete of this member has been accepted."""
        return self.deletion_time is not None

    @property
    def is_terminal(self) -> bool:
        """Whether the kubelet reported the end of every container."""
        return self.phase in TERMINAL_PHASES

    @property
    def is_live(self) -> bool:
        """Whether the member neither leaves nor has ended."""
        return not self.is_terminating and not self.is_terminal

    @property
    def has_ended(self) -> bool:
        """Whether nothing of the member runs, as far as the server knows (D5).

        Terminal; or leaving and never bound to a node; or let go: deleted with a grace of 0, by its
        kubelet or by force.
        """
        return self.is_terminal or (self.is_terminating and (not self.node_name or self.is_let_go))

    @property
    def is_admitted(self) -> bool:
        """Whether Kueue let the member go: its gate is off and Kueue names its Workload (D4)."""
        return not self.is_gated and bool(self.workload_name)


@dataclass(frozen=True, slots=True)
class ObservedPodSet:
    """One PodSet of a Workload."""

    name: str
    count: int
    template_digest: str


@dataclass(frozen=True, slots=True)
class ObservedWorkload:
    """One Workload, read by name."""

    name: str
    uid: str
    owner_uids: frozenset[str]
    is_terminating: bool
    local_queue: str
    has_admission: bool
    is_active: bool
    pod_sets: tuple[ObservedPodSet, ...]
    conditions: Mapping[str, Condition]
    has_admission_history: bool
    flavors: Mapping[str, str]

    def condition(self, kind: str) -> Condition:
        """Return the condition of that type, `ABSENT_CONDITION` when there is none."""
        return self.conditions.get(kind, ABSENT_CONDITION)

    @property
    def is_admitted(self) -> bool:
        """Whether Kueue admitted it; quota reserved alone is not admission."""
        return self.condition("Admitted").is_true and self.has_admission

    @property
    def is_evicted(self) -> bool:
        """Whether Kueue took the admission back, for whatever reason."""
        return self.condition("Evicted").is_true

    @property
    def is_finished(self) -> bool:
        """Whether Kueue considers it ended; a serving group never is by itself."""
        return self.condition("Finished").is_true


@dataclass(frozen=True, slots=True)
class ObservedNode:
    """One Node: whether its kubelet reports (None: unknown), and since when."""

    name: str
    is_ready: bool | None
    since: float


@dataclass(frozen=True, slots=True)
class ObservedService:
    """One Service of a name we use."""

    name: str
    uid: str
    owner_uid: str
    cluster_ip: str
    selector: Mapping[str, str]
    ports: tuple[tuple[str, int, str, str], ...]
    publishes_not_ready: bool
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    is_terminating: bool


def observe_member(pod: Json) -> ObservedMember:
    """Return the member that the raw Pod describes."""
    labels = mapping_at(pod, "metadata", "labels")
    annotations = mapping_at(pod, "metadata", "annotations")
    gates = {text_at(gate, "name") for gate in list_at(pod, "spec", "schedulingGates")}
    statuses = [
        status
        for kind in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
        for status in list_at(pod, "status", kind)
    ]
    conditions = _conditions(pod)
    scheduled = conditions.get("PodScheduled", ABSENT_CONDITION)
    return ObservedMember(
        name=text_at(pod, "metadata", "name"),
        uid=text_at(pod, "metadata", "uid"),
        owner_uid=_controller_uid(pod),
        ordinal=count_text(text_at(labels, identity.LABEL_ORDINAL)),
        member_index=count_text(text_at(labels, identity.LABEL_MEMBER_INDEX)),
        group_name=text_at(labels, identity.KUEUE_GROUP_NAME),
        group_total=count_text(text_at(annotations, identity.KUEUE_GROUP_TOTAL)) or None,
        fingerprint=text_at(annotations, identity.ANNOTATION_FINGERPRINT),
        renderer_version=count_text(text_at(annotations, identity.ANNOTATION_RENDERER)),
        token=text_at(annotations, identity.ANNOTATION_TOKEN),
        local_queue=text_at(labels, identity.KUEUE_QUEUE_NAME),
        phase=text_at(pod, "status", "phase"),
        node_name=text_at(pod, "spec", "nodeName"),
        is_gated=identity.KUEUE_ADMISSION_GATE in gates,
        is_managed_by_kueue=text_at(labels, identity.KUEUE_MANAGED) == "true",
        is_ready=conditions.get("Ready", ABSENT_CONDITION).is_true,
        has_container_status=bool(statuses),
        is_managed=bool(text_at(annotations, identity.ANNOTATION_PROMETHEUS_PORT)),
        answers_api=text_at(labels, identity.LABEL_API_ANSWERING) == "true",
        deletion_time=_seconds(text_at(pod, "metadata", "deletionTimestamp")),
        is_let_go=mapping_at(pod, "metadata").get("deletionGracePeriodSeconds") == 0,
        workload_name=text_at(annotations, identity.KUEUE_WORKLOAD),
        template_digest=_template_digest(mapping_at(pod, "spec")),
        requests=_engine_requests(mapping_at(pod, "spec")),
        waiting_reason=_waiting_reason(statuses),
        unscheduled_message="" if scheduled.is_true else scheduled.message,
    )


def observe_workload(workload: Json) -> ObservedWorkload:
    """Return the Workload that the raw object describes."""
    status = mapping_at(workload, "status")
    spec = mapping_at(workload, "spec")
    history = ("accumulatedPastExecutionTimeSeconds", "requeueState", "reclaimablePods")
    return ObservedWorkload(
        name=text_at(workload, "metadata", "name"),
        uid=text_at(workload, "metadata", "uid"),
        owner_uids=frozenset(
            text_at(owner, "uid")
            for owner in list_at(workload, "metadata", "ownerReferences")
            if text_at(owner, "kind") == "Pod"
        ),
        is_terminating=bool(text_at(workload, "metadata", "deletionTimestamp")),
        local_queue=text_at(workload, "spec", "queueName"),
        has_admission=bool(mapping_at(workload, "status", "admission")),
        is_active=spec.get("active") is not False,
        pod_sets=tuple(
            ObservedPodSet(
                name=text_at(pod_set, "name"),
                count=_number(pod_set.get("count", 1)),
                template_digest=_template_digest(mapping_at(pod_set, "template", "spec")),
            )
            for pod_set in list_at(workload, "spec", "podSets")
        ),
        conditions=_conditions(workload),
        # A zero counts: Kueue writes the field only once the Workload has run.
        has_admission_history=any(key in status for key in history)
        or bool(mapping_at(workload, "status", "schedulingStats").get("evictions")),
        flavors={
            resource: str(flavor)
            for assignment in list_at(workload, "status", "admission", "podSetAssignments")
            for resource, flavor in mapping_at(assignment, "flavors").items()
        },
    )


def observe_node(node: Json) -> ObservedNode:
    """Return the Node that the raw object describes; `Unknown` is what a lost kubelet leaves."""
    ready = _conditions(node).get("Ready", ABSENT_CONDITION)
    is_known = ready.status is not ConditionStatus.ABSENT
    return ObservedNode(
        name=text_at(node, "metadata", "name"),
        is_ready=ready.is_true if is_known else None,
        since=ready.since,
    )


def observe_service(service: Json) -> ObservedService:
    """Return the Service that the raw object describes."""
    spec = mapping_at(service, "spec")
    return ObservedService(
        name=text_at(service, "metadata", "name"),
        uid=text_at(service, "metadata", "uid"),
        owner_uid=_controller_uid(service),
        cluster_ip=text_at(service, "spec", "clusterIP"),
        selector=dict(mapping_at(service, "spec", "selector")),
        ports=tuple(
            (
                text_at(port, "name"),
                _number(port.get("port", 0)),
                str(port.get("targetPort", "")),
                text_at(port, "protocol") or "TCP",
            )
            for port in list_at(service, "spec", "ports")
        ),
        publishes_not_ready=spec.get("publishNotReadyAddresses") is True,
        labels=dict(mapping_at(service, "metadata", "labels")),
        annotations=dict(mapping_at(service, "metadata", "annotations")),
        is_terminating=bool(text_at(service, "metadata", "deletionTimestamp")),
    )


def _controller_uid(obj: Json) -> str:
    for owner in list_at(obj, "metadata", "ownerReferences"):
        if owner.get("controller") is True:
            return text_at(owner, "uid")
    return ""


def _conditions(obj: Json) -> dict[str, Condition]:
    known = {status.value for status in ConditionStatus}
    return {
        text_at(condition, "type"): Condition(
            status=ConditionStatus(status)
            if (status := text_at(condition, "status")) in known
            else ConditionStatus.UNKNOWN,
            reason=text_at(condition, "reason"),
            message=text_at(condition, "message"),
            since=_seconds(text_at(condition, "lastTransitionTime")) or 0.0,
        )
        for condition in list_at(obj, "status", "conditions")
    }


def _seconds(timestamp: str) -> float | None:
    """Return the moment; one that cannot be read never comes, so that nothing is cut short."""
    if not timestamp:
        return None
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except (ValueError, OverflowError):
        return float("inf")


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _waiting_reason(statuses: list[Json]) -> str:
    for status in statuses:
        waiting = mapping_at(status, "state", "waiting")
        if waiting:
            reason, message = text_at(waiting, "reason"), text_at(waiting, "message")
            return f"{reason}: {message}" if message else reason
    return ""


def _engine_requests(spec: Json) -> dict[str, str]:
    """Return what the engine's container requests: all that a member of ours asks for."""
    for container in list_at(spec, "containers"):
        if text_at(container, "name") == identity.ENGINE_CONTAINER:
            requests = mapping_at(container, "resources", "requests")
            return {key: str(amount) for key, amount in requests.items()}
    return {}


def _template_digest(spec: Json) -> str:
    compared = [
        {key: container[key] for key in _COMPARED_CONTAINER_FIELDS if container.get(key)}
        for container in list_at(spec, "containers")
    ]
    return hashlib.sha256(json.dumps(compared, sort_keys=True).encode()).hexdigest()[:16]
