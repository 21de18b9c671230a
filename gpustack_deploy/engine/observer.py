"""Reads that decide, sent to the API server: one role's Pods, Services and the Workloads by name.

Between reads the observer watches, and a watch only wakes the loop (D4).
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from gpustack_deploy.engine.cluster import NODE, POD, SERVICE, WORKLOAD, Cluster
from gpustack_deploy.engine.reflector import Reflector, Wakeup
from gpustack_deploy.engine.run import RunContext
from gpustack_deploy.model import identity
from gpustack_deploy.model.errors import Forbidden, NotFound
from gpustack_deploy.model.observed import (
    ObservedMember,
    ObservedNode,
    ObservedService,
    ObservedWorkload,
    observe_member,
    observe_node,
    observe_service,
    observe_workload,
)
from gpustack_deploy.model.raw import Json, text_at
from gpustack_deploy.plan.snapshot import Snapshot


class Observer:
    """Observes one role. Reading raises a `ClusterError`, which is never an absence."""

    def __init__(
        self, cluster: Cluster, *, namespace: str, deployment: str, role: str, run: RunContext
    ) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._labels = identity.selector_text(identity.role_selector(deployment, role))
        self._run = run
        self._members: tuple[ObservedMember, ...] = ()
        self._services: tuple[ObservedService, ...] = ()
        self._workloads: dict[str, ObservedWorkload | None] = {}
        self._nodes: dict[str, ObservedNode | None] = {}
        self._unused: set[str] = set()
        self._wakeup = Wakeup()
        self._mirrors: tuple[Reflector, Reflector] | None = None
        self._observed: dict[str, tuple[str, ObservedMember]] = {}
        self._watched: dict[str, AsyncExitStack] = {}

    async def __aenter__(self) -> Self:
        """Start nothing yet: watches begin with the first wait."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End every watch."""
        for stack in self._watched.values():
            await stack.aclose()

    async def read(self) -> None:
        """Read the role's Pods and Services; what was read of Workloads is forgotten."""
        async with asyncio.TaskGroup() as group:
            pods = group.create_task(self._cluster.list(POD, self._namespace, labels=self._labels))
            services = group.create_task(
                self._cluster.list(SERVICE, self._namespace, labels=self._labels)
            )
        before = {member.uid: member for member in self._members}
        self._members = self._observed_members(pods.result().items)
        self._services = tuple(observe_service(each) for each in services.result().items)
        self._nodes.clear()
        self._forget_moved(before)

    async def inspect_nodes(self, names: Iterable[str]) -> None:
        """Read these Nodes; one that is gone, or that this account may not read, is `None`."""
        for name in names:
            try:
                self._nodes[name] = observe_node(await self._cluster.get(NODE, "", name))
            except (NotFound, Forbidden):
                self._nodes[name] = None

    async def inspect(self, names: Iterable[str]) -> None:
        """Read these Workloads by name; an absence is what the server stated."""
        wanted = [name for name in names if name not in self._workloads]
        async with asyncio.TaskGroup() as group:
            reads = {name: group.create_task(self._workload(name)) for name in wanted}
        self._workloads |= {name: read.result() for name, read in reads.items()}

    def snapshot(self, token: str) -> Snapshot:
        """Return what is known now; `token` is the next attempt's."""
        return Snapshot(
            members=self._members,
            services=self._services,
            workloads=dict(self._workloads),
            nodes=dict(self._nodes),
            now=self._run.clock.wall(),
            token=token,
        )

    def mirrored(self, token: str) -> Snapshot | None:
        """Return what the watches mirror, or nothing while they mirror nothing.

        It may lag: it can only say that the role is worth reading anew. Of Workloads it holds what
        was read as admitted; any other reading is older than the members beside it.
        """
        pods, services = self._mirrors or (None, None)
        if pods is None or services is None or not (pods.version and services.version):
            return None
        return Snapshot(
            members=self._observed_members(tuple(pods.objects.values())),
            services=tuple(observe_service(each) for each in services.objects.values()),
            workloads={
                name: workload
                for name, workload in self._workloads.items()
                if workload is not None and workload.is_admitted
            },
            nodes=dict(self._nodes),
            now=self._run.clock.wall(),
            token=token,
        )

    def expect_unused(self, names: Iterable[str]) -> None:
        """Take these group names for absent until they are composed: their token was just drawn."""
        self._unused |= set(names)

    def forget(self, names: Iterable[str]) -> None:
        """Read these Workloads anew when a decision needs them."""
        for name in names:
            self._workloads.pop(name, None)
            self._unused.discard(name)

    async def wait(self, timeout_seconds: float, *, workloads: Iterable[str] = ()) -> bool:
        """Return True once the role moved, False after the time; the first wait starts the watches.

        Only the slot's Workloads are watched, each by name.
        """
        await self._watch(set(workloads))
        return await self._wakeup.wait(timeout_seconds)

    async def _watch(self, workloads: set[str]) -> None:
        if "" not in self._watched:
            stack = self._watched[""] = AsyncExitStack()
            pods, services = (
                Reflector(
                    self._cluster, kind, self._namespace, labels=self._labels, wakeup=self._wakeup
                )
                for kind in (POD, SERVICE)
            )
            await stack.enter_async_context(pods)
            await stack.enter_async_context(services)
            self._mirrors = (pods, services)
        for name in set(self._watched) - workloads - {""}:
            await self._watched.pop(name).aclose()
        for name in workloads - set(self._watched):
            stack = self._watched[name] = AsyncExitStack()
            await stack.enter_async_context(
                Reflector(self._cluster, WORKLOAD, self._namespace, name=name, wakeup=self._wakeup)
            )

    async def _workload(self, name: str) -> ObservedWorkload | None:
        if name in self._unused:
            return None
        try:
            return observe_workload(await self._cluster.get(WORKLOAD, self._namespace, name))
        except NotFound:
            return None

    def _observed_members(self, pods: Sequence[Json]) -> tuple[ObservedMember, ...]:
        """Return the members, each parsed once a version of its Pod."""
        seen: dict[str, tuple[str, ObservedMember]] = {}
        for pod in pods:
            uid = text_at(pod, "metadata", "uid")
            version = text_at(pod, "metadata", "resourceVersion")
            known = self._observed.get(uid)
            seen[uid] = (
                known
                if known is not None and known[0] == version
                else (version, observe_member(pod))
            )
        self._observed = seen
        return tuple(member for _version, member in seen.values())

    def _forget_moved(self, before: dict[str, ObservedMember]) -> None:
        """Forget the readings of groups whose members moved; an admitted Workload at rest stays.

        Only admitted Workloads of members that all stand as they stood are kept: creating many
        replicas then reads each Workload once, not once a pass.
        """
        standing: dict[str, list[ObservedMember]] = {}
        for member in self._members:
            standing.setdefault(member.group_name, []).append(member)
        kept: dict[str, ObservedWorkload | None] = {}
        for name, workload in self._workloads.items():
            members = standing.get(name, [])
            if (
                workload is not None
                and workload.is_admitted
                and members
                and all(
                    member.uid in before and before[member.uid].is_admitted and member.is_live
                    for member in members
                )
            ):
                kept[name] = workload
        self._workloads = kept
