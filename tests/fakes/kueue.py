"""Kueue's pod integration as version 0.17 behaves: its webhook and its reconciler of pod groups.

A translation of the rules that matter to a serving group, one write an action. Nothing of it is
kinder than the original: members deleted alone stay, dying members may be composed into a Workload
again, a Pod too many is deleted, a running member without a Workload is stopped.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpustack_deploy.engine.cluster import POD, WORKLOAD, Kind
from gpustack_deploy.model import identity
from gpustack_deploy.model.errors import Refused, Unreachable
from tests.fakes.kueue_quota import Quota
from tests.fakes.kueue_writes import (
    POD_FINALIZER,
    TOPOLOGY_GATE,
    WORKLOAD_FINALIZER,
    Writes,
    agree,
    by_seniority,
    has_finalizer,
    is_active,
    is_suspended,
    role_hash,
    total,
)
from tests.fakes.objects import (
    Object,
    annotations_of,
    condition_status,
    conditions_of,
    gates_of,
    is_terminating,
    labels_of,
    meta,
    name_of,
    namespace_of,
    phase_of,
    set_condition,
    uid_of,
)
from tests.fakes.steps import Action

if TYPE_CHECKING:
    from tests.fakes.store import Store


@dataclass
class FakeKueue:
    """The manager: `is_installed` says that the cluster has Kueue, `is_down` that it is silent."""

    store: "Store"
    is_installed: bool = True
    is_down: bool = False
    unmanaged: set[str] = field(default_factory=lambda: {"kube-system", "kueue-system"})

    def __post_init__(self) -> None:
        self.quota = Quota(self.store)
        self.writes = Writes(self.store)
        self.store.admission.append(self._mutate)
        self.store.on_pod_update.append(self._check_update)

    # --- what an administrator or another tenant does ---

    def evict(
        self, namespace: str, name: str, *, reason: str = "Preempted", message: str = ""
    ) -> None:
        """Take the admission back: members are deleted, quota returns when none is active."""
        workload = self.store.get(WORKLOAD, namespace, name)
        now = self.store.clock.timestamp()
        message = message or f"Evicted by a test: {reason}"
        set_condition(workload, "Evicted", "True", reason=reason, message=message, now=now)
        if reason == "Preempted":
            set_condition(
                workload, "Preempted", "True", reason="InClusterQueue", message=message, now=now
            )
        self.store.update(WORKLOAD, workload)

    def deactivate(self, namespace: str, name: str) -> None:
        """Set `spec.active` to false: the Workload is evicted and held until somebody undoes it."""
        workload = self.store.get(WORKLOAD, namespace, name)
        workload["spec"]["active"] = False
        self.store.update(WORKLOAD, workload)

    # --- the webhook ---

    def _mutate(self, kind: Kind, pod: Object) -> None:
        if not self._concerns(kind, pod):
            return
        self._answer_webhook("mpod.kb.io")
        labels, annotations = labels_of(pod), annotations_of(pod)
        group = labels.get(identity.KUEUE_GROUP_NAME, "")
        total = annotations.get(identity.KUEUE_GROUP_TOTAL, "")
        if bool(group) != bool(total) or (total and not (total.isdigit() and int(total) > 0)):
            raise Refused(
                'admission webhook "vpod.kb.io" denied the request: both the'
                f" '{identity.KUEUE_GROUP_TOTAL}' annotation and the"
                f" '{identity.KUEUE_GROUP_NAME}' label should be set",
                reason="Forbidden",
            )
        meta(pod).setdefault("labels", {})[identity.KUEUE_MANAGED] = "true"
        finalizers = meta(pod).setdefault("finalizers", [])
        if POD_FINALIZER not in finalizers:
            finalizers.append(POD_FINALIZER)
        gates = pod["spec"].setdefault("schedulingGates", [])
        for gate in (identity.KUEUE_ADMISSION_GATE, TOPOLOGY_GATE):
            if gate not in gates_of(pod):
                gates.append({"name": gate})
        meta(pod).setdefault("annotations", {}).setdefault(identity.KUEUE_ROLE_HASH, "main")

    def _check_update(self, pod: Object) -> None:
        if self._concerns(POD, pod):
            self._answer_webhook("vpod.kb.io")

    def _concerns(self, kind: Kind, pod: Object) -> bool:
        return (
            kind == POD
            and self.is_installed
            and namespace_of(pod) not in self.unmanaged
            and bool(labels_of(pod).get(identity.KUEUE_QUEUE_NAME))
        )

    def _answer_webhook(self, webhook: str) -> None:
        if self.is_down:
            raise Unreachable(
                f'Internal error occurred: failed calling webhook "{webhook}": failed to call'
                " webhook: connection refused",
                reason="InternalError",
            )

    # --- the reconciler ---

    def actions(self) -> Iterator[Action]:
        """Yield the next write of each pod group and of the scheduler."""
        if not self.is_installed or self.is_down:
            return
        groups: dict[tuple[str, str], list[Object]] = {}
        for pod in self.store.each(POD):
            group = labels_of(pod).get(identity.KUEUE_GROUP_NAME)
            if group and labels_of(pod).get(identity.KUEUE_MANAGED) == "true":
                groups.setdefault((namespace_of(pod), group), []).append(pod)
        workloads = {
            (namespace_of(workload), name_of(workload)): workload
            for workload in self.store.each(WORKLOAD)
        }
        for key in sorted(groups.keys() | workloads.keys()):
            yield from self._reconcile(key, groups.get(key, []), workloads.get(key))
        yield from self._activation(workloads)
        yield from self.quota.actions()

    def _activation(self, workloads: dict[tuple[str, str], Object]) -> Iterator[Action]:
        """Evict what an administrator deactivated, queue again what was activated since."""
        for key, workload in workloads.items():
            if is_terminating(workload):
                continue
            if workload["spec"].get("active") is False:
                if condition_status(workload, "Evicted") != "True":
                    yield Action(f"kueue: deactivate {'/'.join(key)}", self._deactivation(key))
            elif _is_held_by_deactivation(workload):
                yield Action(f"kueue: reactivate {'/'.join(key)}", self.writes.requeue(workload))

    def _deactivation(self, key: tuple[str, str]) -> Callable[[], None]:
        return lambda: self.evict(*key, reason="Deactivated", message="The workload is deactivated")

    def _reconcile(
        self, key: tuple[str, str], pods: list[Object], workload: Object | None
    ) -> Iterator[Action]:
        label = "/".join(key)
        if workload is None:
            yield from self._without_workload(key, pods)
        elif not pods:
            if WORKLOAD_FINALIZER in meta(workload).get("finalizers", []):
                yield Action(f"kueue: release {label}", self.writes.release(workload))
        elif is_terminating(workload):
            yield from self._dismantle(label, pods, workload)
        else:
            yield from self._with_workload(label, pods, workload)

    def _without_workload(self, key: tuple[str, str], pods: list[Object]) -> Iterator[Action]:
        label = "/".join(key)
        any_suspended = any(is_suspended(pod) for pod in pods)
        running = [pod for pod in pods if not is_terminating(pod) and not is_suspended(pod)]
        if not any_suspended and running:
            for pod in running:
                yield Action(
                    f"kueue: stop {name_of(pod)}", self.writes.stop(pod, "NoMatchingWorkload")
                )
            return
        # Members that are Running and within twice their grace keep the group from composition.
        ends = [self._active_until(pod) for pod in pods if phase_of(pod) == "Running"]
        inactive = [pod for pod in pods if not is_active(pod)]
        for pod in inactive:
            if has_finalizer(pod) and max(ends, default=0.0) != float("inf"):
                yield Action(
                    f"kueue: finalize {name_of(pod)}",
                    self.writes.finalize(pod),
                    due_seconds=max(ends, default=0.0),
                )
        active = by_seniority([pod for pod in pods if is_active(pod)])
        wanted = total(pods)
        if wanted is None or len(active) < wanted or float("inf") in ends:
            return
        due = max(ends, default=0.0)
        for pod in active[wanted:]:
            yield Action(f"kueue: excess {name_of(pod)}", self.writes.excess(pod), due_seconds=due)
        if len(active) == wanted and agree(active):
            yield Action(
                f"kueue: compose {label}", self.writes.compose(key, active), due_seconds=due
            )

    def _dismantle(self, label: str, pods: list[Object], workload: Object) -> Iterator[Action]:
        """The Workload is being deleted: stop and release every member, then let it go."""
        held = False
        for pod in pods:
            if not is_terminating(pod):
                held = True
                yield Action(
                    f"kueue: stop {name_of(pod)}", self.writes.stop(pod, "WorkloadDeleted")
                )
            elif has_finalizer(pod):
                held = True
                yield Action(f"kueue: finalize {name_of(pod)}", self.writes.finalize(pod))
        if not held and WORKLOAD_FINALIZER in meta(workload).get("finalizers", []):
            yield Action(f"kueue: release {label}", self.writes.release(workload))

    def _with_workload(self, label: str, pods: list[Object], workload: Object) -> Iterator[Action]:
        pod_sets = {
            pod_set["name"]: int(pod_set["count"]) for pod_set in workload["spec"]["podSets"]
        }
        members = [pod for pod in pods if role_hash(pod) in pod_sets]
        if not members:
            yield Action(f"kueue: discard {label}", self.writes.discard(workload))
            return
        kept: list[Object] = []
        absent = 0
        for role, count in pod_sets.items():
            of_role = [pod for pod in members if role_hash(pod) == role]
            active = by_seniority([pod for pod in of_role if is_active(pod)])
            inactive = [pod for pod in of_role if not is_active(pod)]
            replaced = max(min(len(inactive), len(inactive) + len(active) - count), 0)
            staying = len(inactive) - replaced
            absent += max(count - len(active), 0)
            kept += [*active[:count], *inactive[:staying]]
            yield from self._seats(active[count:], inactive[staying:])
        owners = {owner["uid"] for owner in meta(workload).get("ownerReferences", [])}
        if not {uid_of(pod) for pod in kept} <= owners:
            yield Action(f"kueue: own {label}", self.writes.own(workload, kept))
            return
        if self._waits(workload) != (absent > 0):
            yield Action(f"kueue: note {label}", self.writes.note(workload, absent))
            return
        yield from self._run_or_stop(label, kept, workload)

    def _run_or_stop(self, label: str, kept: list[Object], workload: Object) -> Iterator[Action]:
        if condition_status(workload, "Evicted") == "True":
            yield from self._evicted(label, kept, workload)
        elif condition_status(workload, "Admitted") == "True":
            for pod in kept:
                if identity.KUEUE_ADMISSION_GATE in gates_of(pod):
                    yield Action(f"kueue: ungate {name_of(pod)}", self.writes.ungate(pod, workload))
        elif not any(is_suspended(pod) for pod in kept):
            for pod in kept:
                if not is_terminating(pod):
                    yield Action(
                        f"kueue: stop {name_of(pod)}", self.writes.stop(pod, "NotAdmitted")
                    )

    def _seats(self, excess: list[Object], replaced: list[Object]) -> Iterator[Action]:
        """Delete Pods beyond a role's count; release the members that others replaced."""
        for pod in excess:
            yield Action(f"kueue: excess {name_of(pod)}", self.writes.excess(pod))
        for pod in replaced:
            if has_finalizer(pod):
                yield Action(f"kueue: finalize {name_of(pod)}", self.writes.finalize(pod))

    def _evicted(self, label: str, pods: list[Object], workload: Object) -> Iterator[Action]:
        stopping = [pod for pod in pods if not is_terminating(pod) and not is_suspended(pod)]
        for pod in stopping:
            yield Action(f"kueue: stop {name_of(pod)}", self.writes.stop(pod, "WorkloadEvicted"))
        ends = [self._active_until(pod) for pod in pods if phase_of(pod) == "Running"]
        if (
            not stopping
            and (workload.get("status") or {}).get("admission")
            and float("inf") not in ends
        ):
            yield Action(
                f"kueue: unreserve {label}",
                self.writes.unreserve(workload),
                due_seconds=max(ends, default=0.0),
            )

    # --- small readings ---

    def _active_until(self, pod: Object) -> float:
        """Return when a Running Pod stops counting as active: never, unless it is terminating."""
        if not is_terminating(pod):
            return float("inf")
        grace = int(meta(pod).get("deletionGracePeriodSeconds", 0))
        # One second more: Kueue wants the moment to have passed, and timestamps are whole seconds.
        return self.store.clock.seconds_of(meta(pod)["deletionTimestamp"]) + grace + 1

    def _waits(self, workload: Object) -> bool:
        return condition_status(workload, "WaitingForReplacementPods") == "True"


def _is_held_by_deactivation(workload: Object) -> bool:
    return any(
        condition["type"] == "Requeued"
        and condition["status"] == "False"
        and condition["reason"] == "Deactivated"
        for condition in conditions_of(workload)
    )
