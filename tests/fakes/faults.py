"""A cluster that fails on purpose: stops the process at call k, loses an answer, fails reads.

Wraps any adapter of the port. A stopped process makes no further call: once `Killed` was raised,
every later call raises it too, whichever coroutine makes it.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from gpustack_deploy.engine.cluster import Cluster, ClusterMarks, Event, Kind, Listing
from gpustack_deploy.model.errors import ClusterError, Unreachable
from gpustack_deploy.model.raw import Json, text_at

T = TypeVar("T")

READS = frozenset({"get", "list", "watch"})
WRITES = frozenset({"create", "replace", "patch", "delete"})


class Killed(BaseException):
    """The process ended here; not an error that anything may handle."""


@dataclass(frozen=True)
class Call:
    """One call of the port: what, on which kind, on which object or selector."""

    verb: str
    kind: str
    name: str
    is_dry_run: bool = False

    @property
    def is_write(self) -> bool:
        return self.verb in WRITES and not self.is_dry_run


@dataclass
class FaultyCluster:
    """The port in front of another one. Calls are numbered from 1, in the order they start.

    `counts` says which calls have a number; by default all but the watches.
    """

    inner: Cluster
    calls: list[Call] = field(default_factory=list)
    counts: Callable[[Call], bool] = lambda call: call.verb != "watch"
    numbered: int = 0
    is_stopped: bool = False
    _before: int = 0
    _after: int = 0
    _lost: set[int] = field(default_factory=set)
    _failing: Callable[[Call], bool] = lambda call: False

    # --- what to do ---

    def stop_before(self, number: int) -> None:
        """End the process before that call is sent."""
        self._before = number

    def stop_after_served(self, number: int) -> None:
        """End the process once that call was served, before its answer arrives."""
        self._after = number

    def lose_answer(self, *numbers: int) -> None:
        """Serve these calls and answer none of them."""
        self._lost.update(numbers)

    def fail_reads(self, matches: Callable[[Call], bool] = lambda call: True) -> None:
        """Fail every read that matches, until `heal`."""
        self._failing = lambda call: call.verb in READS and matches(call)

    def fail(self, matches: Callable[[Call], bool]) -> None:
        """Fail every call that matches before it is served, until `heal`."""
        self._failing = matches

    def heal(self) -> None:
        """Fail nothing any more; a stopped process stays stopped."""
        self._failing = lambda call: False
        self._lost.clear()

    @property
    def writes(self) -> list[Call]:
        """The writes so far, dry runs left out."""
        return [call for call in self.calls if call.is_write]

    # --- the port ---

    async def get(self, kind: Kind, namespace: str, name: str) -> Json:
        return await self._pass(Call("get", kind.name, name), self.inner.get(kind, namespace, name))

    async def list(
        self, kind: Kind, namespace: str, *, labels: str = "", name: str = ""
    ) -> Listing:
        return await self._pass(
            Call("list", kind.name, name or labels),
            self.inner.list(kind, namespace, labels=labels, name=name),
        )

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
        self._admit(Call("watch", kind.name, name or labels))
        async for event in self.inner.watch(
            kind,
            namespace,
            labels=labels,
            name=name,
            resource_version=resource_version,
            timeout_seconds=timeout_seconds,
        ):
            self._check_alive()
            yield event

    async def create(
        self, kind: Kind, namespace: str, body: Json, *, dry_run: bool = False
    ) -> Json:
        call = Call("create", kind.name, text_at(body, "metadata", "name"), is_dry_run=dry_run)
        return await self._pass(call, self.inner.create(kind, namespace, body, dry_run=dry_run))

    async def replace(self, kind: Kind, namespace: str, name: str, body: Json) -> Json:
        return await self._pass(
            Call("replace", kind.name, name), self.inner.replace(kind, namespace, name, body)
        )

    async def patch(self, kind: Kind, namespace: str, name: str, body: Json, *, uid: str) -> Json:
        return await self._pass(
            Call("patch", kind.name, name), self.inner.patch(kind, namespace, name, body, uid=uid)
        )

    async def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        *,
        uid: str,
        grace_period_seconds: int | None = None,
    ) -> None:
        await self._pass(
            Call("delete", kind.name, name),
            self.inner.delete(
                kind, namespace, name, uid=uid, grace_period_seconds=grace_period_seconds
            ),
        )

    async def serves(self, kind: Kind) -> bool:
        return await self._pass(Call("discover", kind.name, ""), self.inner.serves(kind))

    async def marks(self) -> ClusterMarks:
        return await self._pass(Call("marks", "", ""), self.inner.marks())

    async def close(self) -> None:
        await self.inner.close()

    # --- inside ---

    async def _pass(self, call: Call, served: Awaitable[T]) -> T:
        try:
            number = self._admit(call)
        except BaseException:
            # The call was never made: its coroutine is closed, not forgotten.
            served.close()  # type: ignore[attr-defined]
            raise
        # A refusal is an answer as well, and is lost like any other.
        answer: T | ClusterError
        try:
            answer = await served
        except ClusterError as error:
            answer = error
        self._check_alive()
        if number and number == self._after:
            self.is_stopped = True
            self._check_alive()
        if number in self._lost:
            raise Unreachable(f"the answer to call {number} ({call.verb} {call.name}) was lost")
        if isinstance(answer, ClusterError):
            raise answer
        return answer

    def _admit(self, call: Call) -> int:
        """Note the call; return its number, 0 when it has none."""
        self._check_alive()
        number = 0
        if self.counts(call):
            self.numbered += 1
            number = self.numbered
            if number == self._before:
                self.is_stopped = True
                self._check_alive()
        self.calls.append(call)
        if self._failing(call):
            raise Unreachable(f"{call.verb} {call.kind} {call.name} failed on purpose")
        return number

    def _check_alive(self) -> None:
        if self.is_stopped:
            raise Killed
