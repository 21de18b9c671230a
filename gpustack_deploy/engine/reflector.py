"""List, then watch from the list's version, for ever: a mirror that wakes the loop, never decides.

A broken, silent or expired watch starts over with a list. Reads that decide go to the server (D4).
"""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from types import MappingProxyType, TracebackType
from typing import Final, Self

from gpustack_deploy.engine.cluster import Change, Cluster, Event, Kind, Listing
from gpustack_deploy.model.errors import ClusterError, Expired, Unreachable
from gpustack_deploy.model.raw import Json, text_at

# The server ends a watch after so long; the next one then resumes where it ended.
WATCH_SECONDS: Final = 240
# A list starts over at least so often, whatever the watch says.
RELIST_SECONDS: Final = 600.0
# A watch that outlives its time by so long, or stays silent, is cut off.
INACTIVITY_SECONDS: Final = 300.0
BACKOFF_SECONDS: Final = (0.5, 30.0)

_log = logging.getLogger(__name__)


class Wakeup:
    """One flag that several mirrors raise and one loop waits for; raised meanwhile counts."""

    def __init__(self) -> None:
        self._raised = asyncio.Event()

    def notify(self) -> None:
        """Let the wait return, or the next one if nobody waits now."""
        self._raised.set()

    async def wait(self, timeout_seconds: float) -> bool:
        """Return True as soon as the flag is raised and lower it; False after the time."""
        try:
            async with asyncio.timeout(max(timeout_seconds, 0.0)):
                await self._raised.wait()
        except TimeoutError:
            return False
        self._raised.clear()
        return True


class Reflector:
    """Mirrors the objects of one kind and namespace, by label selector or by one name.

    `objects` maps name to the newest raw object; `error` is the last failure, None once a list
    succeeded after it. Each change of the mapping, the first list included, raises the wake-up.
    """

    def __init__(
        self,
        cluster: Cluster,
        kind: Kind,
        namespace: str,
        *,
        labels: str = "",
        name: str = "",
        wakeup: Wakeup | None = None,
    ) -> None:
        self.wakeup = wakeup or Wakeup()
        self.error: ClusterError | None = None
        self.version = 0
        self._cluster = cluster
        self._kind = kind
        self._namespace = namespace
        self._labels = labels
        self._name = name
        self._objects: dict[str, Json] = {}
        self._task: asyncio.Task[None] | None = None
        self._moved = asyncio.Event()

    @property
    def objects(self) -> Mapping[str, Json]:
        """The mirror, as a view that follows it."""
        return MappingProxyType(self._objects)

    async def wait(self, version: int, timeout_seconds: float) -> bool:
        """Return True once the mirror is newer than that version, False after the time."""
        try:
            async with asyncio.timeout(max(timeout_seconds, 0.0)):
                while self.version <= version:
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError:
            return False
        return True

    async def __aenter__(self) -> Self:
        """Start mirroring; the first list may still be under way."""
        name = f"reflector {self._kind.plural} {self._labels or self._name}"
        self._task = asyncio.create_task(self._run(), name=name)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop mirroring; the mirror stays as it is."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.wait({task})
        # Only what no retry can mend got this far; an error on its way out already says more.
        if not task.cancelled() and error is None:
            task.result()

    async def _run(self) -> None:
        failures = 0
        while True:
            try:
                listing = await self._cluster.list(
                    self._kind, self._namespace, labels=self._labels, name=self._name
                )
                failures = 0
                self._adopt(listing)
                await self._follow(listing.resource_version)
            except Expired:
                # The server forgot that version: a fresh list is the answer, without delay.
                _log.debug("watch expired kind=%s", self._kind.plural)
            except ClusterError as error:
                failures += 1
                self.error = error
                _log.debug("watch failed kind=%s error=%s", self._kind.plural, error)
                await asyncio.sleep(_backoff(failures))

    async def _follow(self, resource_version: str) -> None:
        """Watch, one server-bounded stream after the other, until it is time to list again."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + RELIST_SECONDS
        while loop.time() < ends:
            began = loop.time()
            stream = self._cluster.watch(
                self._kind,
                self._namespace,
                labels=self._labels,
                name=self._name,
                resource_version=resource_version,
                timeout_seconds=WATCH_SECONDS,
            )
            resource_version = await self._consume(stream, resource_version)
            if loop.time() - began < 1.0:
                # A proxy that ends every stream at once must not make this a tight loop.
                await asyncio.sleep(_backoff(1))

    async def _consume(self, stream: AsyncIterator[Event], resource_version: str) -> str:
        """Apply one stream's events; return the version up to which the mirror is complete."""
        try:
            while True:
                async with asyncio.timeout(INACTIVITY_SECONDS):
                    event = await anext(stream)
                version = text_at(event.obj, "metadata", "resourceVersion")
                resource_version = version or resource_version
                if event.change is not Change.BOOKMARK:
                    self._apply(event)
        except StopAsyncIteration:
            return resource_version
        except TimeoutError:
            raise Unreachable(
                f"the watch of {self._kind.plural} stayed silent for {INACTIVITY_SECONDS:.0f} s"
            ) from None
        finally:
            # A watch is an async generator: it is closed where it was opened, with its connection.
            if isinstance(stream, AsyncGenerator):
                await stream.aclose()

    def _adopt(self, listing: Listing) -> None:
        self.error = None
        listed = {text_at(item, "metadata", "name"): item for item in listing.items}
        self._objects.clear()
        self._objects.update(listed)
        self._notify()

    def _apply(self, event: Event) -> None:
        name = text_at(event.obj, "metadata", "name")
        if event.change is Change.DELETED:
            self._objects.pop(name, None)
        else:
            self._objects[name] = event.obj
        self._notify()

    def _notify(self) -> None:
        self.version += 1
        self._moved.set()
        self.wakeup.notify()


def _backoff(failures: int) -> float:
    """Return how long to wait after so many failures in a row, with jitter."""
    shortest, longest = BACKOFF_SECONDS
    spread = random.uniform(0.5, 1.0)  # noqa: S311 - a delay, not a secret
    return min(shortest * 2.0 ** min(failures - 1, 10), longest) * spread
