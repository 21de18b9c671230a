"""A cluster in memory that satisfies the port: the fake that the contract suite keeps honest.

With `is_auto` the world (garbage collector, scheduler, kubelet, Kueue) runs by itself on the loop's
virtual time, a little after each change. Without it nothing moves until a test calls `step` or
`settle`, so that a test decides every interleaving.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Final

from gpustack_deploy.engine.cluster import (
    NAMESPACE,
    NODE,
    POD,
    Change,
    ClusterMarks,
    Event,
    Kind,
    Listing,
)
from gpustack_deploy.model import identity
from gpustack_deploy.model.errors import Expired, NotFound, Refused
from gpustack_deploy.model.raw import Json
from tests.fakes.clock import FakeClock
from tests.fakes.kueue import FakeKueue
from tests.fakes.objects import (
    Names,
    Object,
    Objects,
    copy_of,
    labels_of,
    merged,
    meta,
    name_of,
    namespace_of,
    selects,
)
from tests.fakes.store import Revision, Store
from tests.fakes.world import Chooser, World, first

# How long after a change the controllers act, in virtual seconds.
REACTION_SECONDS: Final = 0.005


class MemoryCluster:
    """The port, on a store, with a world that acts on it.

    `requests` counts calls by verb and plural, as the real adapter does.
    """

    def __init__(
        self,
        clock: FakeClock | None = None,
        *,
        namespaces: tuple[str, ...] = ("ml",),
        is_auto: bool = False,
        has_kueue: bool = True,
        latency_seconds: float = 0.0,
    ) -> None:
        self.clock = clock or FakeClock()
        self.store = Store(self.clock)
        self.kueue = FakeKueue(self.store, is_installed=has_kueue)
        self.world = World(self.store, self.kueue)
        self.requests: Counter[tuple[str, str]] = Counter()
        self.latency_seconds = latency_seconds
        self.ca = "fake-authority"
        self._discovered: set[str] = set()
        self._marks: ClusterMarks | None = None
        self._refusals: dict[str, Callable[[Kind, Json], str]] = {}
        self._waiting: set[asyncio.Future[None]] = set()
        self._pump: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_auto = is_auto
        self.store.admission.append(self._refuse)
        self.store.on_change.append(self._notice)
        for namespace in ("kube-system", *namespaces):
            self.add_namespace(namespace)

    # --- the port ---

    async def get(self, kind: Kind, namespace: str, name: str) -> Json:
        await self._arrive("get", kind)
        return self.store.get(kind, namespace, name)

    async def list(
        self, kind: Kind, namespace: str, *, labels: str = "", name: str = ""
    ) -> Listing:
        await self._arrive("list", kind)
        items = tuple(
            copy_of(obj)
            for obj in self.store.each(kind, namespace or None)
            if _matches(obj, labels, name)
        )
        return Listing(items, str(self.store.version))

    async def watch(
        self,
        kind: Kind,
        namespace: str,
        *,
        labels: str = "",
        name: str = "",
        resource_version: str,
        timeout_seconds: int,
    ) -> AsyncIterator[Event]:
        await self._arrive("watch", kind)
        seen = int(resource_version)
        ends = self.clock.seconds + timeout_seconds
        while True:
            if seen < self.store.compacted:
                raise Expired(
                    f"too old resource version: {seen} ({self.store.compacted})", reason="Expired"
                )
            for revision in self._since(seen):
                seen = revision.version
                if revision.kind == kind and namespace in ("", namespace_of(revision.obj)):
                    event = _event(revision, labels, name)
                    if event is not None:
                        yield event
            left = ends - self.clock.seconds
            if left <= 0:
                yield Event(
                    Change.BOOKMARK, {"metadata": {"resourceVersion": str(self.store.version)}}
                )
                return
            if seen >= self.store.version:
                await self._wait(left)

    async def create(
        self, kind: Kind, namespace: str, body: Json, *, dry_run: bool = False
    ) -> Json:
        await self._arrive("create", kind)
        return self.store.create(kind, namespace, body, dry_run=dry_run)

    async def replace(self, kind: Kind, namespace: str, name: str, body: Json) -> Json:
        await self._arrive("replace", kind)
        wanted = copy_of(body)
        meta(wanted).setdefault("namespace", namespace)
        if name_of(wanted) != name:
            raise Refused(
                f"the name of the object ({name_of(wanted)}) does not match the name on the URL"
                f" ({name})",
                reason="BadRequest",
            )
        # A status is a subresource of its own: a write of the object leaves it alone.
        wanted.pop("status", None)
        before = self.store.get(kind, namespace, name)
        if "status" in before:
            wanted["status"] = before["status"]
        return self.store.update(kind, wanted)

    async def patch(self, kind: Kind, namespace: str, name: str, body: Json, *, uid: str) -> Json:
        await self._arrive("patch", kind)
        before = self.store.get(kind, namespace, name)
        wanted = merged(before, {key: value for key, value in body.items() if key != "status"})
        meta(wanted)["uid"] = uid
        return self.store.update(kind, wanted)

    async def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        *,
        uid: str,
        grace_period_seconds: int | None = None,
    ) -> None:
        await self._arrive("delete", kind)
        self.store.delete(kind, namespace, name, uid=uid, grace_seconds=grace_period_seconds)

    async def serves(self, kind: Kind) -> bool:
        if kind.api_version not in self._discovered:
            await self._arrive("discover", kind)
            self._discovered.add(kind.api_version)
        return kind.group != identity.KUEUE_GROUP or self.kueue.is_installed

    async def marks(self) -> ClusterMarks:
        if self._marks is None:
            await self._arrive("get", NAMESPACE)
            self._marks = ClusterMarks(uid=self.uid(NAMESPACE, "", "kube-system"), ca=self.ca)
        return self._marks

    async def close(self) -> None:
        """Release nothing: the cluster goes on, whoever stops talking to it."""

    # --- what a test sets up ---

    def add_namespace(self, name: str, *, is_managed: bool = True) -> None:
        """Make a namespace; Kueue leaves the Pods of an unmanaged one alone."""
        self.store.create(NAMESPACE, "", {"metadata": {"name": name}})
        if not is_managed:
            self.kueue.unmanaged.add(name)

    def add_queue(
        self,
        name: str,
        quota: Mapping[str, str | int],
        *,
        namespaces: tuple[str, ...] = ("ml",),
        node_labels: Mapping[str, str] | None = None,
    ) -> None:
        """Make a flavor, a ClusterQueue and, in each namespace, a LocalQueue of that name."""
        self.kueue.quota.add_queue(name, quota, namespaces=namespaces, node_labels=node_labels)

    def add_node(
        self,
        name: str,
        allocatable: Mapping[str, str | int],
        *,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Make a ready node; without any node, Pods run on one that is never full."""
        self.store.create(
            NODE,
            "",
            {
                "metadata": {"name": name, "labels": dict(labels or {})},
                "status": {
                    "allocatable": {key: str(value) for key, value in allocatable.items()},
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            },
        )

    def refuse(self, name: str, policy: Callable[[Kind, Json], str]) -> None:
        """Install an admission policy: what it returns, unless empty, is its refusal."""
        self._refusals[name] = policy

    def refuse_pods(self, message: str) -> None:
        """Refuse every Pod, as PodSecurity or a LimitRange does."""
        self.refuse("pods", lambda kind, body: message if kind == POD else "")

    def allow(self, name: str = "pods") -> None:
        """Remove the policy of that name."""
        self._refusals.pop(name, None)

    # --- what a test reads, without a request ---

    def objects(self, kind: Kind, namespace: str = "ml") -> Objects:
        """Return all objects of the namespace, by name (every namespace's for an empty one)."""
        return [copy_of(obj) for obj in self.store.each(kind, namespace or None)]

    def names(self, kind: Kind, namespace: str = "ml") -> Names:
        return [name_of(obj) for obj in self.store.each(kind, namespace or None)]

    def peek(self, kind: Kind, name: str, namespace: str = "ml") -> Object | None:
        return self.store.find(kind, namespace, name)

    def uid(self, kind: Kind, namespace: str, name: str) -> str:
        return str(meta(self.store.get(kind, namespace, name))["uid"])

    def usage(self, queue: str) -> dict[str, int]:
        """Return what the ClusterQueue's Workloads hold, whole numbers, zeros left out."""
        used = self.kueue.quota.usage(queue)
        return {resource: int(amount) for resource, amount in sorted(used.items()) if amount}

    # --- the world ---

    def step(self, choose: Chooser = first) -> str:
        """Let the world do one enabled thing and return its name, empty when none is enabled."""
        return self.world.step(choose)

    async def settle(self) -> None:
        """Run the world, time included, until nothing is left to happen; let coroutines run too."""
        self.world.settle()
        for _ in range(3):
            await asyncio.sleep(0)

    # --- inside ---

    async def _arrive(self, verb: str, kind: Kind) -> None:
        self.requests[verb, kind.plural] += 1
        if self._is_auto and self._loop is not asyncio.get_running_loop():
            # Another run, on a loop of its own, finds the world where the last one left it.
            self._schedule(REACTION_SECONDS)
        await asyncio.sleep(self.latency_seconds)
        is_kueue = kind.group == identity.KUEUE_GROUP and verb != "discover"
        if is_kueue and not self.kueue.is_installed:
            raise NotFound("the server could not find the requested resource", reason="NotFound")

    def _refuse(self, kind: Kind, body: Object) -> None:
        for policy in self._refusals.values():
            if message := policy(kind, body):
                raise Refused(
                    f'{kind.plural} "{name_of(body)}" is forbidden: {message}', reason="Forbidden"
                )

    def _since(self, version: int) -> Iterator[Revision]:
        """Yield the later revisions, also those that are made while the caller takes its time."""
        history = self.store.history
        index = 0
        if history:
            # Versions in the history are consecutive.
            index = max(0, version + 1 - history[0].version)
        while history is self.store.history and index < len(history):
            yield history[index]
            index += 1

    async def _wait(self, seconds: float) -> None:
        """Return at the next change, or after the time. A future belongs to its own run's loop."""
        changed = asyncio.get_running_loop().create_future()
        self._waiting.add(changed)
        try:
            async with asyncio.timeout(seconds):
                await changed
        except TimeoutError:
            return
        finally:
            self._waiting.discard(changed)

    def _notice(self) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
        if self._is_auto:
            self._schedule(REACTION_SECONDS)

    def _schedule(self, delay_seconds: float) -> None:
        """Let the world act after that time, unless it acts earlier anyway."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        when = loop.time() + delay_seconds
        if self._pump is not None and self._loop is loop:
            if self._pump.when() <= when:
                return
            self._pump.cancel()
        self._loop, self._pump = loop, loop.call_at(when, self._run_world)

    def _run_world(self) -> None:
        self._pump = None
        self.world.sweep()
        due = self.world.next_due()
        if due is not None:
            self._schedule(max(REACTION_SECONDS, due - self.clock.seconds))


def _matches(obj: Json, labels: str, name: str) -> bool:
    return (not name or name_of(obj) == name) and selects(labels, labels_of(obj))


def _event(revision: Revision, labels: str, name: str) -> Event | None:
    """Return what a watch with that selector sees of the change."""
    is_in = revision.change is not Change.DELETED and _matches(revision.obj, labels, name)
    was_in = revision.before is not None and _matches(revision.before, labels, name)
    if is_in:
        change = Change.MODIFIED if was_in else Change.ADDED
    elif was_in:
        change = Change.DELETED
    else:
        return None
    return Event(change, copy_of(revision.obj))
