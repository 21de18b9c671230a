"""How a provider call reaches its cluster, and what one process reads only once (D15, D25).

Connection settings live in this process's memory, never in state. The cluster's marks, what it
serves and, for calls that only read, its namespaces are read once a process for each connection.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from gpustack_deploy.engine.cluster import (
    NAMESPACE,
    Cluster,
    ClusterMarks,
    Event,
    Kind,
    Listing,
)
from gpustack_deploy.model.errors import ClusterError, Unreachable
from gpustack_deploy.model.raw import Json

T = TypeVar("T")

# One loop for each call, in the thread of that call.
run_loop = asyncio.run

# Asked for so long while checking and, after silence, for less before writing: told within 15 s.
_ASK_SECONDS: Final = 5.0
_ASK_AGAIN_SECONDS: Final = 3.0
_SILENT_SECONDS: Final = 30.0
_TURN_SECONDS: Final = 0.02


@dataclass(slots=True)
class _Settings:
    kubeconfig: str = ""
    context: str = ""


_settings: Final = _Settings()
_memories: Final[dict[tuple[str, str], "Memory"]] = {}
_silent_until: Final[dict[str, float]] = {}


def configure(kubeconfig: str, context: str) -> None:
    """Keep the stack's `gpustack:kubeconfig` and `gpustack:context` for this process."""
    _settings.kubeconfig, _settings.context = kubeconfig, context


def forget() -> None:
    """Forget every answer, as a new process does."""
    _memories.clear()
    _silent_until.clear()


def on_cluster(
    work: Callable[[Cluster], Awaitable[T]], *, context: str = "", is_reading: bool = False
) -> T:
    """Return what the work returns, run on the cluster of that context (default: the stack's)."""
    return run_loop(_on_cluster(work, context or _settings.context, is_reading=is_reading))


async def _on_cluster(
    work: Callable[[Cluster], Awaitable[T]], context: str, *, is_reading: bool
) -> T:
    cluster = await open_connection(_settings.kubeconfig, context)
    try:
        if not is_reading and time.monotonic() < _silent_until.get(context, 0.0):
            await _bounded(cluster, lambda it: it.marks(), seconds=_ASK_AGAIN_SECONDS)
        memory = _memories.setdefault((_settings.kubeconfig, context), Memory())
        return await work(RememberingCluster(cluster, memory, is_reading=is_reading))
    finally:
        await cluster.close()


def ask_cluster(
    work: Callable[[Cluster], Awaitable[T]], note: Callable[[str], None], *, context: str = ""
) -> T | None:
    """Return what a question finds, or None with a note when the cluster could not be asked.

    A preview must not fail, or wait for each role anew, because the cluster is out of reach.

    Raises:
        GpustackDeployError: an answer that is an error of its own, such as `WrongCluster`.
    """
    asked = context or _settings.context
    if time.monotonic() < _silent_until.get(asked, 0.0):
        return None

    try:
        return on_cluster(lambda it: _bounded(it, work), context=context, is_reading=True)
    except* ClusterError as group:
        _silent_until[asked] = time.monotonic() + _SILENT_SECONDS
        note(f"the cluster could not be asked, so nothing is compared with it: {_last(group)}")
    return None


async def _bounded(
    cluster: Cluster, work: Callable[[Cluster], Awaitable[T]], *, seconds: float = _ASK_SECONDS
) -> T:
    """Return what the work returns, if it does so soon.

    Raises:
        Unreachable: it does not.
    """
    try:
        async with asyncio.timeout(seconds):
            return await work(cluster)
    except TimeoutError:
        raise Unreachable(
            f"{getattr(cluster, 'server', 'the API server')} gave no answer within"
            f" {seconds:.0f} s; a reachable API server is needed: check the address, the"
            " network and the cluster, then run again"
        ) from None


def _last(group: BaseExceptionGroup[ClusterError]) -> str:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error)


async def open_connection(kubeconfig: str, context: str) -> Cluster:
    """Open the cluster; the client is imported here, on the first use."""
    from gpustack_deploy.engine.kube import Connection, open_cluster  # noqa: PLC0415 - slow

    return await open_cluster(Connection(kubeconfig=kubeconfig, context=context))


class Memory:
    """Answers that hold for a whole run, each asked for by one call at a time."""

    def __init__(self) -> None:
        self._answers: dict[object, Any] = {}
        self._lock = threading.Lock()

    async def answer(
        self,
        key: object,
        ask: Callable[[], Awaitable[T]],
        holds: Callable[[T], bool] = lambda _answer: True,
    ) -> T:
        """Return the remembered answer, or ask; only what holds is remembered, no failure."""
        async with self._held():
            if key in self._answers:
                known: T = self._answers[key]
                return known
            found = await ask()
            if holds(found):
                self._answers[key] = found
            return found

    @asynccontextmanager
    async def _held(self) -> AsyncIterator[None]:
        # Calls run in threads with a loop each, so the lock is a thread's. A call that is cancelled
        # while it waits must not be handed the lock afterwards: hence no blocking acquire.
        while not self._lock.acquire(blocking=False):  # noqa: ASYNC110 - no event between loops
            await asyncio.sleep(_TURN_SECONDS)
        try:
            yield
        finally:
            self._lock.release()


class RememberingCluster:
    """The cluster, with the answers that hold for a whole run remembered."""

    def __init__(self, cluster: Cluster, memory: Memory, *, is_reading: bool) -> None:
        self._cluster = cluster
        self._memory = memory
        self._is_reading = is_reading

    async def marks(self) -> ClusterMarks:
        """Return the cluster's marks; unreadable ones are asked for again."""
        return await self._memory.answer(
            "marks", self._cluster.marks, lambda marks: bool(marks.uid)
        )

    async def serves(self, kind: Kind) -> bool:
        return await self._memory.answer(("serves", kind), lambda: self._cluster.serves(kind))

    async def get(self, kind: Kind, namespace: str, name: str) -> Json:
        if self._is_reading and kind == NAMESPACE:
            return await self._memory.answer(
                ("namespace", name), lambda: self._cluster.get(kind, namespace, name)
            )
        return await self._cluster.get(kind, namespace, name)

    async def list(
        self, kind: Kind, namespace: str, *, labels: str = "", name: str = ""
    ) -> Listing:
        return await self._cluster.list(kind, namespace, labels=labels, name=name)

    def watch(
        self,
        kind: Kind,
        namespace: str,
        *,
        labels: str = "",
        name: str = "",
        resource_version: str,
        timeout_seconds: int,
    ) -> AsyncIterator[Event]:
        return self._cluster.watch(
            kind,
            namespace,
            labels=labels,
            name=name,
            resource_version=resource_version,
            timeout_seconds=timeout_seconds,
        )

    async def create(
        self, kind: Kind, namespace: str, body: Json, *, dry_run: bool = False
    ) -> Json:
        return await self._cluster.create(kind, namespace, body, dry_run=dry_run)

    async def replace(self, kind: Kind, namespace: str, name: str, body: Json) -> Json:
        return await self._cluster.replace(kind, namespace, name, body)

    async def patch(self, kind: Kind, namespace: str, name: str, body: Json, *, uid: str) -> Json:
        return await self._cluster.patch(kind, namespace, name, body, uid=uid)

    async def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        *,
        uid: str,
        grace_period_seconds: int | None = None,
    ) -> None:
        await self._cluster.delete(
            kind, namespace, name, uid=uid, grace_period_seconds=grace_period_seconds
        )

    async def close(self) -> None:
        await self._cluster.close()
