"""What the fake Kueue writes, one closure an action, and how it reads the Pods of a group."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gpustack_deploy.engine.cluster import POD, WORKLOAD
from gpustack_deploy.model import identity
from tests.fakes.kueue_quota import RESOURCE_FLAVOR
from tests.fakes.objects import (
    Object,
    annotations_of,
    conditions_of,
    copy_of,
    gates_of,
    is_terminating,
    labels_of,
    meta,
    name_of,
    namespace_of,
    node_of,
    phase_of,
    set_condition,
    uid_of,
)
from tests.fakes.store import TERMINAL

if TYPE_CHECKING:
    from tests.fakes.store import Store

POD_FINALIZER: Final = identity.KUEUE_MANAGED
WORKLOAD_FINALIZER: Final = "kueue.x-k8s.io/resource-in-use"
TOPOLOGY_GATE: Final = "kueue.x-k8s.io/topology"

# Evictions after which the Workload is queued again at once; the others wait for their reason.
_REQUEUED_AT_ONCE: Final = frozenset({"Preempted", "NodeFailures"})


@dataclass
class Writes:
    """Each method returns the write as a closure over the versions that were read."""

    store: "Store"

    def stop(self, pod: Object, reason: str) -> Callable[[], None]:
        def run() -> None:
            wanted = copy_of(pod)
            now = self.store.clock.timestamp()
            set_condition(wanted, "TerminationTarget", "True", reason=reason, message="", now=now)
            self.store.update(POD, wanted)
            self.store.delete(POD, namespace_of(pod), name_of(pod), uid=uid_of(pod))

        return run

    def finalize(self, pod: Object) -> Callable[[], None]:
        def run() -> None:
            wanted = copy_of(pod)
            meta(wanted)["finalizers"] = [
                each for each in meta(pod)["finalizers"] if each != POD_FINALIZER
            ]
            self.store.update(POD, wanted)

        return run

    def excess(self, pod: Object) -> Callable[[], None]:
        def run() -> None:
            if has_finalizer(pod):
                self.finalize(pod)()
            if not is_terminating(pod):
                self.store.delete(POD, namespace_of(pod), name_of(pod), uid=uid_of(pod))

        return run

    def release(self, workload: Object) -> Callable[[], None]:
        def run() -> None:
            wanted = copy_of(workload)
            meta(wanted)["finalizers"] = [
                each for each in meta(workload)["finalizers"] if each != WORKLOAD_FINALIZER
            ]
            self.store.update(WORKLOAD, wanted)

        return run

    def discard(self, workload: Object) -> Callable[[], None]:
        def run() -> None:
            if WORKLOAD_FINALIZER in meta(workload).get("finalizers", []):
                self.release(workload)()
            self.store.delete(
                WORKLOAD, namespace_of(workload), name_of(workload), uid=uid_of(workload)
            )

        return run

    def compose(self, key: tuple[str, str], pods: list[Object]) -> Callable[[], None]:
        def run() -> None:
            template = copy_of(pods[0]["spec"])
            self.store.create(
                WORKLOAD,
                key[0],
                {
                    "metadata": {
                        "name": key[1],
                        "annotations": {"kueue.x-k8s.io/is-group-workload": "true"},
                        "finalizers": [WORKLOAD_FINALIZER],
                        "ownerReferences": [owner(pod) for pod in pods],
                    },
                    "spec": {
                        "active": True,
                        "queueName": labels_of(pods[0])[identity.KUEUE_QUEUE_NAME],
                        "podSets": [
                            {
                                "name": role_hash(pods[0]),
                                "count": len(pods),
                                "template": {"spec": template},
                            }
                        ],
                    },
                    "status": {},
                },
            )

        return run

    def own(self, workload: Object, pods: list[Object]) -> Callable[[], None]:
        def run() -> None:
            wanted = copy_of(workload)
            owners = meta(wanted).setdefault("ownerReferences", [])
            known = {owner["uid"] for owner in owners}
            owners.extend(owner(pod) for pod in pods if uid_of(pod) not in known)
            self.store.update(WORKLOAD, wanted)

        return run

    def note(self, workload: Object, absent: int) -> Callable[[], None]:
        def run() -> None:
            wanted = copy_of(workload)
            status = "True" if absent else "False"
            reason = "PodsFailed" if absent else "PodsReady"
            message = "Some Failed pods need replacement" if absent else "No pods need replacement"
            set_condition(
                wanted,
                "WaitingForReplacementPods",
                status,
                reason=reason,
                message=message,
                now=self.store.clock.timestamp(),
            )
            self.store.update(WORKLOAD, wanted)

        return run

    def ungate(self, pod: Object, workload: Object) -> Callable[[], None]:
        def run() -> None:
            wanted = copy_of(pod)
            queue = workload["status"]["admission"]["clusterQueue"]
            wanted["spec"]["schedulingGates"] = [
                gate
                for gate in wanted["spec"]["schedulingGates"]
                if gate["name"] not in {identity.KUEUE_ADMISSION_GATE, TOPOLOGY_GATE}
            ]
            flavor = self.store.find(RESOURCE_FLAVOR, "", queue) or {}
            node_labels = (flavor.get("spec") or {}).get("nodeLabels") or {}
            if node_labels:
                wanted["spec"].setdefault("nodeSelector", {}).update(node_labels)
            meta(wanted)["annotations"][identity.KUEUE_WORKLOAD] = name_of(workload)
            meta(wanted)["labels"].update(
                {
                    "kueue.x-k8s.io/podset": role_hash(pod),
                    "kueue.x-k8s.io/local-queue-name": workload["spec"]["queueName"],
                    "kueue.x-k8s.io/cluster-queue-name": queue,
                }
            )
            conditions = wanted["status"].get("conditions", [])
            wanted["status"]["conditions"] = [
                each for each in conditions if each["type"] != "PodScheduled"
            ]
            self.store.update(POD, wanted)

        return run

    def requeue(self, workload: Object) -> Callable[[], None]:
        def run() -> None:
            wanted = copy_of(workload)
            set_condition(
                wanted,
                "Requeued",
                "True",
                reason="Reactivated",
                message="The workload was reactivated",
                now=self.store.clock.timestamp(),
            )
            self.store.update(WORKLOAD, wanted)

        return run

    def unreserve(self, workload: Object) -> Callable[[], None]:
        def run() -> None:
            wanted = copy_of(workload)
            now = self.store.clock.timestamp()
            evicted = next(each for each in conditions_of(wanted) if each["type"] == "Evicted")
            requeued = "True" if evicted["reason"] in _REQUEUED_AT_ONCE else "False"
            del wanted["status"]["admission"]
            set_condition(
                wanted,
                "Requeued",
                requeued,
                reason=evicted["reason"],
                message=evicted["message"],
                now=now,
            )
            set_condition(
                wanted,
                "QuotaReserved",
                "False",
                reason="Pending",
                message=evicted["message"],
                now=now,
            )
            set_condition(
                wanted,
                "Admitted",
                "False",
                reason="NoReservation",
                message="The workload has no reservation",
                now=now,
            )
            self.store.update(WORKLOAD, wanted)

        return run


def is_suspended(pod: Object) -> bool:
    return phase_of(pod) in TERMINAL or identity.KUEUE_ADMISSION_GATE in gates_of(pod)


def is_active(pod: Object) -> bool:
    """Whether the Pod keeps its seat: not Failed, and not deleted before it had a node."""
    return phase_of(pod) != "Failed" and not (is_terminating(pod) and not node_of(pod))


def has_finalizer(pod: Object) -> bool:
    return POD_FINALIZER in meta(pod).get("finalizers", [])


def role_hash(pod: Object) -> str:
    return annotations_of(pod).get(identity.KUEUE_ROLE_HASH, "main")


def total(pods: list[Object]) -> int | None:
    """Return the total that the members agree on, None when they do not."""
    totals = {annotations_of(pod).get(identity.KUEUE_GROUP_TOTAL, "") for pod in pods}
    return int(totals.pop()) if len(totals) == 1 else None


def agree(pods: list[Object]) -> bool:
    return len({labels_of(pod).get(identity.KUEUE_QUEUE_NAME) for pod in pods}) == 1


def by_seniority(pods: list[Object]) -> list[Object]:
    """Return who stays first: finalizer holders, then ungated ones, then the oldest."""
    return sorted(
        pods,
        key=lambda pod: (
            not has_finalizer(pod),
            identity.KUEUE_ADMISSION_GATE in gates_of(pod),
            int(uid_of(pod).split("-")[1]),
        ),
    )


def owner(pod: Object) -> Object:
    return {"apiVersion": "v1", "kind": "Pod", "name": name_of(pod), "uid": uid_of(pod)}
