"""Kueue's quota: ClusterQueues, LocalQueues, who holds what, and who may be admitted next."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from gpustack_deploy.engine.cluster import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD, Kind
from gpustack_deploy.model import identity
from tests.fakes.objects import (
    Object,
    condition_status,
    copy_of,
    is_terminating,
    meta,
    name_of,
    namespace_of,
    pod_requests,
    quantity,
    set_condition,
)
from tests.fakes.steps import Action

if TYPE_CHECKING:
    from tests.fakes.store import Store

RESOURCE_FLAVOR: Final = Kind(
    "ResourceFlavor",
    "resourceflavors",
    identity.KUEUE_GROUP,
    identity.KUEUE_VERSION,
    is_namespaced=False,
)


@dataclass
class Quota:
    """The scheduler of Kueue: one flavor a ClusterQueue, no cohorts, no preemption by itself."""

    store: "Store"
    _counted_at: int = -1
    _used: dict[str, dict[str, Decimal]] = field(default_factory=dict)

    def add_queue(
        self,
        name: str,
        quota: Mapping[str, str | int],
        *,
        namespaces: tuple[str, ...],
        node_labels: Mapping[str, str] | None = None,
    ) -> None:
        flavor = {
            "name": name,
            "resources": [
                {"name": key, "nominalQuota": str(value)} for key, value in quota.items()
            ],
        }
        self.store.create(
            RESOURCE_FLAVOR,
            "",
            {"metadata": {"name": name}, "spec": {"nodeLabels": dict(node_labels or {})}},
        )
        self.store.create(
            CLUSTER_QUEUE,
            "",
            {
                "metadata": {"name": name},
                "spec": {
                    "queueingStrategy": "BestEffortFIFO",
                    "stopPolicy": "None",
                    "resourceGroups": [
                        {"coveredResources": list(quota), "flavors": [flavor]},
                    ],
                },
            },
        )
        for namespace in namespaces:
            self.store.create(
                LOCAL_QUEUE,
                namespace,
                {"metadata": {"name": name}, "spec": {"clusterQueue": name, "stopPolicy": "None"}},
            )

    def set_quota(self, queue: str, resource: str, amount: str | int) -> None:
        """Change the nominal quota, as an administrator does."""
        found = self.store.get(CLUSTER_QUEUE, "", queue)
        for each in found["spec"]["resourceGroups"][0]["flavors"][0]["resources"]:
            if each["name"] == resource:
                each["nominalQuota"] = str(amount)
        self.store.update(CLUSTER_QUEUE, found)

    def usage(self, queue: str) -> dict[str, Decimal]:
        """Return what Workloads with a reservation in that ClusterQueue hold."""
        if self._counted_at != self.store.version:
            self._counted_at, self._used = self.store.version, self._count_all()
        return self._used.get(queue, {})

    def _count_all(self) -> dict[str, dict[str, Decimal]]:
        total: dict[str, dict[str, Decimal]] = {}
        for workload in self.store.each(WORKLOAD):
            admission = (workload.get("status") or {}).get("admission")
            if not admission:
                continue
            used = total.setdefault(admission["clusterQueue"], {})
            for assignment in admission["podSetAssignments"]:
                for resource, amount in assignment["resourceUsage"].items():
                    used[resource] = used.get(resource, Decimal(0)) + quantity(amount)
        return total

    def actions(self) -> Iterator[Action]:
        """Yield admissions that fit now, reasons for those that do not, and queue statuses."""
        waiting = [workload for workload in self.store.each(WORKLOAD) if _is_waiting(workload)]
        waiting.sort(key=_queue_order)
        for workload in waiting:
            yield from self._consider(workload)
        yield from self._statuses()

    def _consider(self, workload: Object) -> Iterator[Action]:
        label = f"{namespace_of(workload)}/{name_of(workload)}"
        reason, message = self._obstacle(workload)
        if not message:
            yield Action(f"kueue: admit {label}", self._admit(workload))
        elif _shown(workload, "QuotaReserved") != ("False", reason, message):
            yield Action(f"kueue: explain {label}", self._explain(workload, reason, message))

    def _obstacle(self, workload: Object) -> tuple[str, str]:
        """Return why the Workload cannot be admitted: condition reason and message, or nothing."""
        queue_name = workload["spec"].get("queueName", "")
        queue = self.store.find(LOCAL_QUEUE, namespace_of(workload), queue_name)
        if queue is None:
            return "Inadmissible", f"LocalQueue {queue_name} doesn't exist"
        if queue["spec"].get("stopPolicy", "None") != "None":
            return "Inadmissible", f"LocalQueue {queue_name} is inactive"
        cluster_queue_name = queue["spec"]["clusterQueue"]
        cluster_queue = self.store.find(CLUSTER_QUEUE, "", cluster_queue_name)
        if cluster_queue is None:
            return "Inadmissible", f"ClusterQueue {cluster_queue_name} doesn't exist"
        if cluster_queue["spec"].get("stopPolicy", "None") != "None":
            return "Inadmissible", f"ClusterQueue {cluster_queue_name} is inactive"
        return "Pending", self._shortage(workload, cluster_queue)

    def _shortage(self, workload: Object, cluster_queue: Object) -> str:
        nominal = _nominal(cluster_queue)
        used = self.usage(name_of(cluster_queue))
        pod_set = workload["spec"]["podSets"][0]
        for resource, amount in sorted(_needs(pod_set).items()):
            head = f"couldn't assign flavors to pod set {pod_set['name']}: "
            if resource not in nominal:
                return f"{head}resource {resource} unavailable in ClusterQueue"
            if amount > nominal[resource]:
                return (
                    f"{head}insufficient quota for {resource} in flavor {name_of(cluster_queue)},"
                    f" previously considered podsets requests (0) + current podset request"
                    f" ({amount}) > maximum capacity ({nominal[resource]})"
                )
            missing = used.get(resource, Decimal(0)) + amount - nominal[resource]
            if missing > 0:
                return (
                    f"{head}insufficient unused quota for {resource} in flavor"
                    f" {name_of(cluster_queue)}, {missing} more needed"
                )
        return ""

    def _admit(self, workload: Object) -> Callable[[], None]:
        def run() -> None:
            # Others may have been admitted since this action was offered.
            if self._obstacle(workload)[1]:
                return
            queue = self.store.get(
                LOCAL_QUEUE, namespace_of(workload), workload["spec"]["queueName"]
            )
            name = queue["spec"]["clusterQueue"]
            wanted = copy_of(workload)
            now = self.store.clock.timestamp()
            wanted["status"]["admission"] = {
                "clusterQueue": name,
                "podSetAssignments": [
                    {
                        "name": pod_set["name"],
                        "count": pod_set["count"],
                        "flavors": dict.fromkeys(sorted(_needs(pod_set)), name),
                        "resourceUsage": {
                            resource: str(amount)
                            for resource, amount in sorted(_needs(pod_set).items())
                        },
                    }
                    for pod_set in wanted["spec"]["podSets"]
                ],
            }
            message = f"Quota reserved in ClusterQueue {name}"
            set_condition(
                wanted, "QuotaReserved", "True", reason="QuotaReserved", message=message, now=now
            )
            set_condition(
                wanted,
                "Admitted",
                "True",
                reason="Admitted",
                message="The workload is admitted",
                now=now,
            )
            if condition_status(wanted, "Evicted") == "True":
                set_condition(
                    wanted,
                    "Evicted",
                    "False",
                    reason="QuotaReserved",
                    message=f"Previously: {_shown(wanted, 'Evicted')[2]}",
                    now=now,
                )
            self.store.update(WORKLOAD, wanted)

        return run

    def _explain(self, workload: Object, reason: str, message: str) -> Callable[[], None]:
        def run() -> None:
            wanted = copy_of(workload)
            now = self.store.clock.timestamp()
            set_condition(wanted, "QuotaReserved", "False", reason=reason, message=message, now=now)
            self.store.update(WORKLOAD, wanted)

        return run

    def _statuses(self) -> Iterator[Action]:
        """Keep the usage that a ClusterQueue's status shows in step with the Workloads."""
        for queue in self.store.each(CLUSTER_QUEUE):
            used = self.usage(name_of(queue))
            shown = [
                {
                    "name": name_of(queue),
                    "resources": [
                        {
                            "name": resource,
                            "total": str(used.get(resource, Decimal(0))),
                            "borrowed": "0",
                        }
                        for resource in sorted(_nominal(queue))
                    ],
                }
            ]
            if (queue.get("status") or {}).get("flavorsReservation") != shown:
                yield Action(f"kueue: count {name_of(queue)}", self._count(queue, shown))

    def _count(self, queue: Object, shown: list[Object]) -> Callable[[], None]:
        def run() -> None:
            wanted = copy_of(queue)
            wanted.setdefault("status", {}).update(flavorsReservation=shown, flavorsUsage=shown)
            self.store.update(CLUSTER_QUEUE, wanted)

        return run


def _is_waiting(workload: Object) -> bool:
    if is_terminating(workload) or (workload.get("status") or {}).get("admission"):
        return False
    if workload["spec"].get("active") is False or condition_status(workload, "Finished") == "True":
        return False
    if condition_status(workload, "Evicted") == "True":
        return condition_status(workload, "Requeued") == "True"
    return True


def _queue_order(workload: Object) -> tuple[int, int, str]:
    priority = int(workload["spec"].get("priority") or 0)
    return -priority, int(meta(workload)["uid"].split("-")[1]), name_of(workload)


def _needs(pod_set: Object) -> dict[str, Decimal]:
    return {
        resource: amount * int(pod_set["count"])
        for resource, amount in pod_requests(pod_set["template"]["spec"]).items()
    }


def _nominal(cluster_queue: Object) -> dict[str, Decimal]:
    return {
        resource["name"]: quantity(resource["nominalQuota"])
        for group in cluster_queue["spec"]["resourceGroups"]
        for flavor in group["flavors"]
        for resource in flavor["resources"]
    }


def _shown(workload: Object, kind: str) -> tuple[str, str, str]:
    for condition in (workload.get("status") or {}).get("conditions") or ():
        if condition["type"] == kind:
            return condition["status"], condition["reason"], condition["message"]
    return "", "", ""
