"""What the API server says of one deployment at one moment, read with plain requests."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

Json = dict[str, Any]
Amounts = Mapping[str, Fraction]

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
ORDINAL = "modeldeployment.gpustack.ai/pod-ordinal"
MEMBER_INDEX = "modeldeployment.gpustack.ai/member-index"
ROLE = "app.kubernetes.io/component"
GROUP = "kueue.x-k8s.io/pod-group-name"
QUEUE = "kueue.x-k8s.io/queue-name"
SERVICE_KIND = "modeldeployment.gpustack.ai/service"

_UNITS = {
    "": Fraction(1),
    "m": Fraction(1, 1000),
    **{unit: Fraction(1000**power) for power, unit in enumerate("kMGTP", start=1)},
    **{f"{unit}i": Fraction(1024**power) for power, unit in enumerate("KMGTP", start=1)},
}


class Reader(Protocol):
    """Reads of an API server by path; a path may carry a query."""

    def get(self, path: str) -> Json: ...

    def list(self, path: str) -> list[Json]: ...


@dataclass(frozen=True)
class Member:
    """One Pod of the deployment."""

    role: str
    ordinal: int
    index: int
    name: str
    uid: str
    group: str
    queue: str
    is_ready: bool
    is_gated: bool
    is_leaving: bool
    requests: Amounts

    @property
    def replica(self) -> tuple[str, int]:
        return self.role, self.ordinal


@dataclass(frozen=True)
class Workload:
    """What Kueue admitted, or not."""

    name: str
    uid: str
    owners: frozenset[tuple[str, str]]
    queue: str
    is_admitted: bool
    cluster_queue: str
    pod_sets: tuple[tuple[str, int, Amounts], ...]
    usage: Amounts


@dataclass(frozen=True)
class Service:
    """One Service of the deployment."""

    name: str
    uid: str
    cluster_ip: str
    role: str
    kind: str
    selector: Mapping[str, str]
    publishes_not_ready: bool


@dataclass(frozen=True)
class Facts:
    """Everything of one deployment, and what its queues count."""

    members: tuple[Member, ...]
    workloads: Mapping[str, Workload]
    services: Mapping[str, Service]
    records: Mapping[str, tuple[str, Json]]
    versions: Mapping[str, str]

    def members_of(self, role: str) -> tuple[Member, ...]:
        return tuple(each for each in self.members if each.role == role)

    def replicas(self, role: str) -> dict[int, tuple[Member, ...]]:
        """The role's members by ordinal, each in seat order."""
        found: dict[int, tuple[Member, ...]] = {}
        for member in sorted(self.members_of(role), key=lambda each: (each.ordinal, each.index)):
            found[member.ordinal] = (*found.get(member.ordinal, ()), member)
        return found

    def workload_of(self, members: Sequence[Member]) -> Workload | None:
        """The Workload that carries the members' group name."""
        return self.workloads.get(members[0].group) if members else None


def read_facts(api: Reader, namespace: str, deployment: str) -> Facts:
    """One look at the namespace; the lists are taken one after the other."""
    selector = f"labelSelector=app.kubernetes.io%2Finstance%3D{deployment}"
    core = f"/api/v1/namespaces/{namespace}"
    pods = api.list(f"{core}/pods?{selector}")
    services = api.list(f"{core}/services?{selector}")
    configs = api.list(f"{core}/configmaps?{selector}")
    workloads = api.list(f"{KUEUE}/namespaces/{namespace}/workloads")
    groups = {pod["metadata"]["labels"].get(GROUP, "") for pod in pods}
    uids = {pod["metadata"]["uid"] for pod in pods}
    ours = [each for each in workloads if _concerns(each, deployment, groups, uids)]
    named = [*pods, *services, *configs, *ours]
    return Facts(
        members=tuple(_member(pod) for pod in pods),
        workloads={each["metadata"]["name"]: _workload(each) for each in ours},
        services={each["metadata"]["name"]: _service(each) for each in services},
        records={
            each["metadata"]["name"]: (
                each["metadata"]["uid"],
                json.loads(each["data"]["record"]),
            )
            for each in configs
            if "record" in each.get("data", {})
        },
        versions={each["metadata"]["uid"]: each["metadata"]["resourceVersion"] for each in named},
    )


def queue_usage(api: Reader) -> dict[str, dict[str, Fraction]]:
    """What every ClusterQueue counts as used, by resource; nothing used is left out."""
    usage: dict[str, dict[str, Fraction]] = {}
    for queue in api.list(f"{KUEUE}/clusterqueues"):
        totals: dict[str, Fraction] = {}
        for flavor in queue.get("status", {}).get("flavorsUsage") or ():
            for resource in flavor.get("resources") or ():
                amount = quantity(resource.get("total", "0"))
                totals[resource["name"]] = totals.get(resource["name"], Fraction(0)) + amount
        usage[queue["metadata"]["name"]] = {key: each for key, each in totals.items() if each}
    return usage


def covered_resources(api: Reader) -> dict[str, frozenset[str]]:
    """The resources that each ClusterQueue counts."""
    return {
        queue["metadata"]["name"]: frozenset(
            name
            for group in queue["spec"].get("resourceGroups") or ()
            for name in group["coveredResources"]
        )
        for queue in api.list(f"{KUEUE}/clusterqueues")
    }


def summed_requests(api: Reader) -> dict[str, dict[str, Fraction]]:
    """The requests of every admitted Pod of the whole cluster, by its ClusterQueue."""
    cluster_queues = {
        (each["metadata"]["namespace"], each["metadata"]["name"]): each["spec"]["clusterQueue"]
        for each in api.list(f"{KUEUE}/localqueues")
    }
    covered = covered_resources(api)
    summed: dict[str, dict[str, Fraction]] = {name: {} for name in covered}
    for pod in api.list("/api/v1/pods"):
        labels = pod["metadata"].get("labels") or {}
        queue = cluster_queues.get((pod["metadata"]["namespace"], labels.get(QUEUE, "")))
        is_over = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
        if queue is None or is_over or pod["spec"].get("schedulingGates"):
            continue
        for resource, amount in requests_of(pod["spec"]).items():
            if resource in covered[queue]:
                total = summed[queue].get(resource, Fraction(0))
                summed[queue][resource] = total + amount
    return summed


def requests_of(spec: Json) -> dict[str, Fraction]:
    """What the containers of a Pod spec request together."""
    total: dict[str, Fraction] = {}
    for container in spec["containers"]:
        for resource, text in (container.get("resources", {}).get("requests") or {}).items():
            total[resource] = total.get(resource, Fraction(0)) + quantity(text)
    return total


def quantity(text: str | float) -> Fraction:
    """The number that a Kubernetes quantity spells."""
    match = re.fullmatch(r"([0-9.]+)([a-zA-Z]*)", str(text))
    if match is None:
        raise ValueError(f"{text!r} is no quantity")
    return Fraction(match[1]) * _UNITS[match[2]]


def _concerns(workload: Json, deployment: str, groups: set[str], uids: set[str]) -> bool:
    metadata = workload["metadata"]
    owners = {owner["uid"] for owner in metadata.get("ownerReferences") or ()}
    named = metadata["name"] in groups or metadata["name"].startswith(f"{deployment}-")
    return named or bool(owners & uids)


def _member(pod: Json) -> Member:
    metadata, status = pod["metadata"], pod.get("status", {})
    labels = metadata["labels"]
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    return Member(
        role=labels[ROLE],
        ordinal=int(labels[ORDINAL]),
        index=int(labels[MEMBER_INDEX]),
        name=metadata["name"],
        uid=metadata["uid"],
        group=labels.get(GROUP, ""),
        queue=labels.get(QUEUE, ""),
        is_ready=conditions.get("Ready") == "True",
        is_gated=bool(pod["spec"].get("schedulingGates")),
        is_leaving="deletionTimestamp" in metadata,
        requests=requests_of(pod["spec"]),
    )


def _workload(workload: Json) -> Workload:
    metadata, spec, status = workload["metadata"], workload["spec"], workload.get("status", {})
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    admission = status.get("admission") or {}
    usage: dict[str, Fraction] = {}
    for assignment in admission.get("podSetAssignments") or ():
        for resource, text in (assignment.get("resourceUsage") or {}).items():
            usage[resource] = usage.get(resource, Fraction(0)) + quantity(text)
    return Workload(
        name=metadata["name"],
        uid=metadata["uid"],
        owners=frozenset(
            (owner["kind"], owner["uid"]) for owner in metadata.get("ownerReferences") or ()
        ),
        queue=spec["queueName"],
        is_admitted=conditions.get("Admitted") == "True",
        cluster_queue=admission.get("clusterQueue", ""),
        pod_sets=tuple(
            (each["name"], each["count"], requests_of(each["template"]["spec"]))
            for each in spec["podSets"]
        ),
        usage=usage,
    )


def _service(service: Json) -> Service:
    metadata, spec = service["metadata"], service["spec"]
    return Service(
        name=metadata["name"],
        uid=metadata["uid"],
        cluster_ip=spec["clusterIP"],
        role=metadata["labels"].get(ROLE, ""),
        kind=metadata["labels"].get(SERVICE_KIND, ""),
        selector=spec.get("selector") or {},
        publishes_not_ready=bool(spec.get("publishNotReadyAddresses")),
    )
