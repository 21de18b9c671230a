"""The scheduler, the kubelets and the Pod garbage collector of the fake cluster.

`Timing` says how long each thing takes, and a Pod's annotations overrule it as they do in the
sandbox; zero means that it may happen at once, in whatever order the test chooses.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from gpustack_deploy.engine.cluster import NODE, POD
from tests.fakes.objects import (
    Object,
    annotations_of,
    copy_of,
    gates_of,
    is_terminating,
    labels_of,
    meta,
    name_of,
    namespace_of,
    node_of,
    phase_of,
    pod_requests,
    quantity,
    set_condition,
    uid_of,
)
from tests.fakes.steps import Action
from tests.fakes.store import TERMINAL

if TYPE_CHECKING:
    from tests.fakes.store import Store

# A node without a Node object, used while the cluster has no nodes at all.
ENDLESS_NODE: Final = "endless"

UNREACHABLE_TAINT: Final = "node.kubernetes.io/unreachable"
OUT_OF_SERVICE_TAINT: Final = "node.kubernetes.io/out-of-service"


# What a Pod says of itself, in the sandbox's words.
_SAYS: Final = "sandbox.gpustack.ai/"


@dataclass(frozen=True)
class Timing:
    """How Pods behave unless their annotations or `Kubelet.behaviour` say otherwise.

    `ends_as` is the phase a stopped Pod reaches; one that `ignores_grace` never stops by itself.
    """

    start_seconds: float = 0.0
    ready_seconds: float = 0.0
    stop_seconds: float = 0.0
    ends_as: str = "Succeeded"
    is_never_ready: bool = False
    ignores_grace: bool = False
    fails_after_seconds: float | None = None
    waiting_reason: str = ""

    def of(self, pod: Object) -> "Timing":
        """Return the timing with what the Pod's annotations ask of the sandbox's kubelets."""
        said = {
            key.removeprefix(_SAYS): value
            for key, value in annotations_of(pod).items()
            if key.startswith(_SAYS)
        }
        if not said:
            return self
        fails = said.get("fail-after-ms")
        return replace(
            self,
            ready_seconds=_seconds(said, "ready-after-ms", self.ready_seconds),
            stop_seconds=_seconds(said, "delete-after-ms", self.stop_seconds),
            ends_as=said.get("delete-phase", self.ends_as),
            is_never_ready=said.get("never-ready") == "true" or self.is_never_ready,
            ignores_grace=said.get("ignore-grace-ms") == "forever" or self.ignores_grace,
            fails_after_seconds=self.fails_after_seconds if fails is None else int(fails) / 1000,
        )


@dataclass
class Kubelet:
    """Binds, starts, stops and removes Pods; a lost node does none of it."""

    store: "Store"
    timing: Timing = field(default_factory=Timing)
    behaviour: Callable[[Object], Timing | None] = lambda pod: None
    lost: set[str] = field(default_factory=set)

    def actions(self) -> Iterator[Action]:
        """Yield what kubelets, the scheduler and the Pod garbage collector may do next."""
        nodes = {name_of(node): node for node in self.store.each(NODE)}
        pods = self.store.each(POD)
        for pod in pods:
            if is_terminating(pod):
                yield from self._leave(pod, nodes)
        for pod in pods:
            if not is_terminating(pod):
                yield from self._live(pod, nodes, pods)

    def lose_node(self, name: str) -> None:
        self.lost.add(name)
        self._mark_node(name, "Unknown", [{"key": UNREACHABLE_TAINT, "effect": "NoExecute"}])
        for pod in self.store.each(POD):
            if node_of(pod) == name and phase_of(pod) == "Running":
                wanted = copy_of(pod)
                self._condition(wanted, "Ready", "False", "NodeLost")
                self.store.update(POD, wanted)

    def return_node(self, name: str) -> None:
        self.lost.discard(name)
        self._mark_node(name, "True", [])

    # --- a Pod that leaves ---

    def _leave(self, pod: Object, nodes: dict[str, Object]) -> Iterator[Action]:
        node = node_of(pod)
        if not node:
            return
        is_gone = _is_gone(node, nodes)
        if node in self.lost or is_gone:
            if is_gone or _has_taint(nodes.get(node), OUT_OF_SERVICE_TAINT):
                yield Action(f"podgc: remove {name_of(pod)}", self._collect(pod))
            return
        timing = self._timing(pod)
        metadata = meta(pod)
        grace = int(metadata.get("deletionGracePeriodSeconds", 0))
        if phase_of(pod) in TERMINAL or grace == 0:
            # The kubelet's last word; with nothing left to wait for it may already have been said.
            if grace > 0:
                yield Action(f"kubelet: remove {name_of(pod)}", self._remove(pod))
            elif phase_of(pod) not in TERMINAL:
                yield Action(f"kubelet: end {name_of(pod)}", self._end(pod, "Failed"))
            return
        asked = self.store.clock.seconds_of(metadata["deletionTimestamp"]) - grace
        if timing.ignores_grace:
            return
        yield Action(
            f"kubelet: end {name_of(pod)}",
            self._end(pod, timing.ends_as),
            due_seconds=asked + min(timing.stop_seconds, grace),
        )

    def _end(self, pod: Object, phase: str) -> Callable[[], None]:
        def run() -> None:
            wanted = copy_of(pod)
            wanted["status"]["phase"] = phase
            self._condition(wanted, "Ready", "False", "PodCompleted")
            self._condition(wanted, "ContainersReady", "False", f"Pod{phase}")
            wanted["status"]["containerStatuses"] = [
                _container(
                    container, {"terminated": {"exitCode": 0 if phase == "Succeeded" else 1}}
                )
                for container in pod["spec"].get("containers") or ()
            ]
            self.store.update(POD, wanted)

        return run

    def _remove(self, pod: Object) -> Callable[[], None]:
        def run() -> None:
            self.store.delete(
                POD, namespace_of(pod), name_of(pod), uid=uid_of(pod), grace_seconds=0
            )

        return run

    def _collect(self, pod: Object) -> Callable[[], None]:
        def run() -> None:
            if phase_of(pod) not in TERMINAL:
                self._end(pod, "Failed")()
            if self.store.find(POD, namespace_of(pod), name_of(pod)) is not None:
                self._remove(pod)()

        return run

    # --- a Pod that stays ---

    def _live(self, pod: Object, nodes: dict[str, Object], pods: list[Object]) -> Iterator[Action]:
        node, phase = node_of(pod), phase_of(pod)
        if phase in TERMINAL:
            return
        if not node:
            if not gates_of(pod):
                yield from self._schedule(pod, nodes, pods)
            return
        if _is_gone(node, nodes):
            yield Action(f"podgc: remove {name_of(pod)}", self._collect(pod))
            return
        if node in self.lost:
            return
        timing = self._timing(pod)
        if phase == "Pending":
            bound = self._since(pod, "PodScheduled")
            if timing.waiting_reason:
                if not pod["status"].get("containerStatuses"):
                    yield Action(f"kubelet: hold {name_of(pod)}", self._hold(pod, timing))
                return
            yield Action(
                f"kubelet: start {name_of(pod)}",
                self._start(pod),
                due_seconds=bound + timing.start_seconds,
            )
            return
        started = self.store.clock.seconds_of(pod["status"]["startTime"])
        if timing.fails_after_seconds is not None:
            yield Action(
                f"kubelet: fail {name_of(pod)}",
                self._end(pod, "Failed"),
                due_seconds=started + timing.fails_after_seconds,
            )
        if not timing.is_never_ready and not self._is_ready(pod):
            yield Action(
                f"kubelet: ready {name_of(pod)}",
                self._ready(pod),
                due_seconds=started + timing.ready_seconds,
            )

    def _schedule(
        self, pod: Object, nodes: dict[str, Object], pods: list[Object]
    ) -> Iterator[Action]:
        if not nodes:
            yield Action(f"scheduler: bind {name_of(pod)}", self._bind(pod, ENDLESS_NODE))
            return
        for name, node in nodes.items():
            if name not in self.lost and _fits(pod, node, pods):
                yield Action(f"scheduler: bind {name_of(pod)}", self._bind(pod, name))
                return
        message = f"0/{len(nodes)} nodes are available: no node fits."
        shown = [c for c in pod["status"].get("conditions") or () if c["type"] == "PodScheduled"]
        if not shown or shown[0].get("message") != message:
            yield Action(f"scheduler: refuse {name_of(pod)}", self._unschedulable(pod, message))

    def _bind(self, pod: Object, node: str) -> Callable[[], None]:
        def run() -> None:
            wanted = copy_of(pod)
            wanted["spec"]["nodeName"] = node
            self._condition(wanted, "PodScheduled", "True", "")
            self.store.update(POD, wanted)

        return run

    def _unschedulable(self, pod: Object, message: str) -> Callable[[], None]:
        def run() -> None:
            wanted = copy_of(pod)
            self._condition(wanted, "PodScheduled", "False", "Unschedulable", message)
            self.store.update(POD, wanted)

        return run

    def _start(self, pod: Object) -> Callable[[], None]:
        def run() -> None:
            wanted = copy_of(pod)
            wanted["status"].update(
                phase="Running",
                startTime=self.store.clock.timestamp(),
                podIP="10.0.0.1",
                containerStatuses=[
                    _container(container, {"running": {}})
                    for container in pod["spec"].get("containers") or ()
                ],
            )
            self._condition(wanted, "Ready", "False", "ContainersNotReady")
            self.store.update(POD, wanted)

        return run

    def _hold(self, pod: Object, timing: Timing) -> Callable[[], None]:
        def run() -> None:
            wanted = copy_of(pod)
            wanted["status"]["containerStatuses"] = [
                _container(container, {"waiting": {"reason": timing.waiting_reason}})
                for container in pod["spec"].get("containers") or ()
            ]
            self.store.update(POD, wanted)

        return run

    def _ready(self, pod: Object) -> Callable[[], None]:
        def run() -> None:
            wanted = copy_of(pod)
            for status in wanted["status"].get("containerStatuses") or ():
                status["ready"] = True
            self._condition(wanted, "Ready", "True", "")
            self._condition(wanted, "ContainersReady", "True", "")
            self.store.update(POD, wanted)

        return run

    # --- small things ---

    def _timing(self, pod: Object) -> Timing:
        return self.behaviour(pod) or self.timing.of(pod)

    def _is_ready(self, pod: Object) -> bool:
        return any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in pod["status"].get("conditions") or ()
        )

    def _since(self, pod: Object, kind: str) -> float:
        for condition in pod["status"].get("conditions") or ():
            if condition["type"] == kind:
                return self.store.clock.seconds_of(condition["lastTransitionTime"])
        return 0.0

    def _condition(
        self, pod: Object, kind: str, status: str, reason: str, message: str = ""
    ) -> None:
        set_condition(
            pod,
            kind,
            status,
            reason=reason,
            message=message,
            now=self.store.clock.timestamp(),
        )

    def _mark_node(self, name: str, ready: str, taints: list[Object]) -> None:
        node = self.store.get(NODE, "", name)
        set_condition(
            node,
            "Ready",
            ready,
            reason="NodeStatusUnknown" if ready == "Unknown" else "KubeletReady",
            message="Kubelet stopped posting node status." if ready == "Unknown" else "",
            now=self.store.clock.timestamp(),
        )
        node.setdefault("spec", {})["taints"] = taints
        self.store.update(NODE, node)


def _seconds(said: dict[str, str], key: str, default: float) -> float:
    return int(said[key]) / 1000 if key in said else default


def _container(container: Object, state: Object) -> Object:
    return {"name": container["name"], "state": state, "ready": False, "restartCount": 0}


def _is_gone(node: str, nodes: dict[str, Object]) -> bool:
    return node != ENDLESS_NODE and node not in nodes


def _has_taint(node: Object | None, key: str) -> bool:
    taints = ((node or {}).get("spec") or {}).get("taints") or []
    return any(taint["key"] == key for taint in taints)


def _fits(pod: Object, node: Object, pods: list[Object]) -> bool:
    selector = pod["spec"].get("nodeSelector") or {}
    labels = {"kubernetes.io/hostname": name_of(node), **labels_of(node)}
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    used: dict[str, Decimal] = {}
    for other in pods:
        if node_of(other) == name_of(node) and phase_of(other) not in TERMINAL:
            for resource, amount in pod_requests(other["spec"]).items():
                used[resource] = used.get(resource, Decimal(0)) + amount
    allocatable = node["status"].get("allocatable") or {}
    return all(
        used.get(resource, Decimal(0)) + amount <= quantity(allocatable.get(resource, 0))
        for resource, amount in pod_requests(pod["spec"]).items()
    )
