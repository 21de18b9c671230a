"""What an API server does with objects: versions, UIDs, preconditions, grace, finalizers, history.

Synchronous and without a clock of its own; the in-memory cluster puts the port in front of it, and
the fake controllers write through it with the versions they read, as real ones do.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from gpustack_deploy.engine.cluster import (
    CONFIG_MAP,
    NAMESPACE,
    POD,
    SERVICE,
    Change,
    Kind,
)
from gpustack_deploy.model.errors import Conflict, NotFound, Refused
from gpustack_deploy.model.raw import Json
from tests.fakes.clock import FakeClock
from tests.fakes.objects import (
    Object,
    copy_of,
    is_terminating,
    meta,
    name_of,
    namespace_of,
    node_of,
    phase_of,
    set_condition,
    uid_of,
)

DEFAULT_GRACE_SECONDS = 30
TERMINAL = frozenset({"Succeeded", "Failed"})

Admission = Callable[[Kind, Object], None]


@dataclass(frozen=True)
class Revision:
    """One change in the history that watches read: the object after it and before it."""

    version: int
    kind: Kind
    change: Change
    obj: Object
    before: Object | None


@dataclass
class Store:
    """All objects, newest version only, and the history since the last compaction.

    `admission` holds what runs on a create before it is stored (webhooks, policies): each may
    change the object or raise. `on_update` does the same for updates of Pods.
    """

    clock: FakeClock
    admission: list[Admission] = field(default_factory=list)
    on_change: list[Callable[[], None]] = field(default_factory=list)
    on_pod_update: list[Callable[[Object], None]] = field(default_factory=list)
    objects: dict[Kind, dict[tuple[str, str], Object]] = field(default_factory=dict)
    history: list[Revision] = field(default_factory=list)
    compacted: int = 0
    version: int = 100
    _serial: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    # --- reads ---

    def find(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """Return a copy of the object, or None."""
        found: Object | None = copy_of(self.objects.get(kind, {}).get((namespace, name)))
        return found

    def get(self, kind: Kind, namespace: str, name: str) -> Object:
        found = self.find(kind, namespace, name)
        if found is None:
            raise not_found(kind, name)
        return found

    def each(self, kind: Kind, namespace: str | None = None) -> list[Object]:
        """Return the stored objects themselves, by name: to read, never to change."""
        held = self.objects.get(kind, {})
        return [held[key] for key in sorted(held) if namespace is None or key[0] == namespace]

    def has_uid(self, uid: str) -> bool:
        return any(uid_of(obj) == uid for held in self.objects.values() for obj in held.values())

    # --- writes ---

    def create(self, kind: Kind, namespace: str, body: Json, *, dry_run: bool = False) -> Object:
        """Admit and store a new object."""
        obj: Object = copy_of(body)
        metadata = obj.setdefault("metadata", {})
        name = metadata.get("name")
        if not name:
            raise Refused(
                f"{kind.name} is invalid: metadata.name: Required value", reason="Invalid"
            )
        if kind.is_namespaced:
            self._check_namespace(kind, namespace, name)
            metadata["namespace"] = namespace
        obj["apiVersion"], obj["kind"] = kind.api_version, kind.name
        _defaults(kind, obj)
        for admit in self.admission:
            admit(kind, obj)
        if (namespace, name) in self.objects.get(kind, {}):
            raise Conflict(f'{kind.plural} "{name}" already exists', reason="AlreadyExists")
        metadata["uid"] = f"uid-{next(self._serial)}-{name}"
        metadata["creationTimestamp"] = self.clock.timestamp()
        metadata["generation"] = 1
        self._server_values(kind, obj)
        if dry_run:
            return obj
        self._put(kind, obj, Change.ADDED, None)
        stored: Object = copy_of(obj)
        return stored

    def update(self, kind: Kind, obj: Json) -> Object:
        """Replace the object under its own resourceVersion and UID, where it carries them."""
        wanted: Object = copy_of(obj)
        before = self.get(kind, namespace_of(wanted), name_of(wanted))
        self._check_same(kind, before, meta(wanted))
        if kind == POD:
            for check in self.on_pod_update:
                check(wanted)
        return self._write(kind, before, wanted)

    def delete(
        self, kind: Kind, namespace: str, name: str, *, uid: str, grace_seconds: int | None = None
    ) -> None:
        """Delete the object of that UID as far as its grace and its finalizers allow."""
        before = self.get(kind, namespace, name)
        if uid_of(before) != uid:
            raise Conflict(
                f'Operation cannot be fulfilled on {kind.plural} "{name}": the UID in the'
                f" precondition ({uid}) does not match the UID in record ({uid_of(before)}). The"
                " object might have been deleted and then recreated",
                reason="Conflict",
            )
        obj = copy_of(before)
        metadata = meta(obj)
        grace = self._grace(kind, obj, grace_seconds)
        if is_terminating(obj):
            left = int(metadata.get("deletionGracePeriodSeconds", 0))
            if grace >= left:
                return
            asked = self.clock.seconds_of(metadata["deletionTimestamp"]) - left
            metadata["deletionTimestamp"] = self.clock.timestamp(
                later_seconds=asked + grace - self.clock.seconds
            )
        else:
            metadata["deletionTimestamp"] = self.clock.timestamp(later_seconds=grace)
        metadata["deletionGracePeriodSeconds"] = grace
        if kind == NAMESPACE:
            obj.setdefault("status", {})["phase"] = "Terminating"
            metadata["finalizers"] = metadata.get("finalizers") or ["kubernetes"]
        self._settle(kind, before, obj)

    def compact(self) -> None:
        """Forget the history: watches from an older version answer 410."""
        self.history.clear()
        self.compacted = self.version

    # --- inside ---

    def _check_namespace(self, kind: Kind, namespace: str, name: str) -> None:
        found = self.objects.get(NAMESPACE, {}).get(("", namespace))
        if found is None:
            raise NotFound(f'namespaces "{namespace}" not found', reason="NotFound")
        if is_terminating(found):
            raise Refused(
                f'{kind.plural} "{name}" is forbidden: unable to create new content in namespace'
                f" {namespace} because it is being terminated",
                reason="Forbidden",
            )

    def _server_values(self, kind: Kind, obj: Object) -> None:
        if kind == SERVICE and not obj["spec"].get("clusterIP"):
            serial = next(self._serial)
            obj["spec"]["clusterIP"] = f"10.96.{serial // 250}.{serial % 250 + 1}"
            obj["spec"]["clusterIPs"] = [obj["spec"]["clusterIP"]]
        if kind == POD and obj["spec"].get("schedulingGates"):
            set_condition(
                obj,
                "PodScheduled",
                "False",
                reason="SchedulingGated",
                message="Scheduling is blocked due to non-empty scheduling gates",
                now=self.clock.timestamp(),
            )

    def _check_same(self, kind: Kind, before: Object, wanted: Object) -> None:
        if wanted.setdefault("uid", uid_of(before)) != uid_of(before):
            raise Conflict(
                f'Operation cannot be fulfilled on {kind.plural} "{name_of(before)}": Precondition'
                f" failed: UID in precondition: {wanted['uid']}, UID in object meta:"
                f" {uid_of(before)}",
                reason="Conflict",
            )
        current = meta(before)["resourceVersion"]
        if wanted.setdefault("resourceVersion", current) != current:
            raise Conflict(
                f'Operation cannot be fulfilled on {kind.plural} "{name_of(before)}": the object'
                " has been modified; please apply your changes to the latest version and try again",
                reason="Conflict",
            )

    def _write(self, kind: Kind, before: Object, wanted: Object) -> Object:
        for key in ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
            if key in meta(before):
                meta(wanted)[key] = meta(before)[key]
            else:
                meta(wanted).pop(key, None)
        if kind == SERVICE and not wanted["spec"].get("clusterIP"):
            for key in ("clusterIP", "clusterIPs"):
                if key in before["spec"]:
                    wanted["spec"][key] = before["spec"][key]
        if wanted.get("spec") != before.get("spec"):
            meta(wanted)["generation"] = meta(before).get("generation", 1) + 1
        if wanted == before:
            return wanted
        return self._settle(kind, before, wanted)

    def _grace(self, kind: Kind, obj: Object, asked: int | None) -> int:
        if kind != POD or not node_of(obj) or phase_of(obj) in TERMINAL:
            return 0
        if asked is not None:
            return asked
        return int(obj["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE_SECONDS))

    def _settle(self, kind: Kind, before: Object, obj: Object) -> Object:
        """Store the changed object, or remove it when nothing holds it any more."""
        metadata = meta(obj)
        is_held = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds", 0) > 0
        if is_terminating(obj) and not is_held:
            del self.objects[kind][(namespace_of(obj), name_of(obj))]
            self._record(kind, Change.DELETED, obj, before)
        else:
            self._put(kind, obj, Change.MODIFIED, before)
        stored: Object = copy_of(obj)
        return stored

    def _put(self, kind: Kind, obj: Object, change: Change, before: Object | None) -> None:
        self.objects.setdefault(kind, {})[(namespace_of(obj), name_of(obj))] = obj
        self._record(kind, change, obj, before)

    def _record(self, kind: Kind, change: Change, obj: Object, before: Object | None) -> None:
        self.version += 1
        meta(obj)["resourceVersion"] = str(self.version)
        self.history.append(Revision(self.version, kind, change, copy_of(obj), before))
        for notify in self.on_change:
            notify()


def not_found(kind: Kind, name: str) -> NotFound:
    """Return the API server's own sentence about an absent object."""
    plural = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
    return NotFound(f'{plural} "{name}" not found', reason="NotFound")


def _defaults(kind: Kind, obj: Object) -> None:
    if kind == POD:
        spec = obj.setdefault("spec", {})
        spec.setdefault("terminationGracePeriodSeconds", DEFAULT_GRACE_SECONDS)
        spec.setdefault("restartPolicy", "Always")
        obj["status"] = {"phase": "Pending", "qosClass": "Burstable"}
    elif kind == SERVICE:
        spec = obj.setdefault("spec", {})
        spec.setdefault("type", "ClusterIP")
        for port in spec.get("ports") or ():
            port.setdefault("protocol", "TCP")
            port.setdefault("targetPort", port["port"])
    elif kind == NAMESPACE:
        obj["status"] = {"phase": "Active"}
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name_of(obj)
    elif kind == CONFIG_MAP and not isinstance(obj.get("data", {}), dict):
        raise Refused("ConfigMap is invalid: data: Invalid value", reason="Invalid")
