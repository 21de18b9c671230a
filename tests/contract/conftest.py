"""The two adapters under one suite: the cluster in memory (check) and the sandbox (core)."""

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from gpustack_deploy.engine.cluster import CONFIG_MAP, NAMESPACE, POD, WORKLOAD, Cluster, Kind
from gpustack_deploy.engine.kube import Connection, KubeCluster, open_cluster
from gpustack_deploy.model.errors import NotFound
from gpustack_deploy.model.raw import Json
from tests.fakes import FakeClock, MemoryCluster, Timing, run_virtual
from tests.fakes.objects import is_terminating, meta

_serial = itertools.count(1)

NEVER_READY = {"sandbox.gpustack.ai/never-ready": "true"}
IGNORES_GRACE = {"sandbox.gpustack.ai/ignore-grace-ms": "forever"}


@dataclass
class Subject:
    """One adapter, a namespace of this test's own, and how to wait for what happens by itself."""

    cluster: Cluster
    namespace: str
    forget_history: Callable[[], Awaitable[str]]
    enforce_pod_security: Callable[[], Awaitable[None]]
    add_plain_namespace: Callable[[], Awaitable[str]]
    silence_kueue: Callable[[bool], Awaitable[None]]

    async def create(self, kind: Kind, body: Json) -> Json:
        return await self.cluster.create(kind, self.namespace, body)

    async def get(self, kind: Kind, name: str) -> Json:
        return await self.cluster.get(kind, self.namespace, name)

    async def uid(self, kind: Kind, name: str) -> str:
        return str(meta(await self.get(kind, name))["uid"])

    async def delete(self, kind: Kind, name: str) -> None:
        await self.cluster.delete(kind, self.namespace, name, uid=await self.uid(kind, name))

    async def is_gone(self, kind: Kind, name: str) -> bool:
        try:
            await self.get(kind, name)
        except NotFound:
            return True
        return False

    async def until(
        self,
        kind: Kind,
        name: str,
        is_met: Callable[[Json], bool],
        *,
        timeout_seconds: float = 30,
    ) -> Json:
        """Return the object once it is as wanted."""
        seen: Json = {}
        try:
            async with asyncio.timeout(timeout_seconds):
                while True:
                    try:
                        seen = await self.get(kind, name)
                    except NotFound:
                        seen = {}
                    if seen and is_met(seen):
                        return seen
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"{kind.name} {name} never got there; last seen: {seen}") from None

    async def until_gone(self, kind: Kind, name: str, *, timeout_seconds: float = 30) -> None:
        try:
            async with asyncio.timeout(timeout_seconds):
                while True:
                    if await self.is_gone(kind, name):
                        return
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"{kind.name} {name} is still there") from None


Scenario = Callable[[Subject], Coroutine[Any, Any, None]]
Run = Callable[[Scenario], None]


@pytest.fixture(
    params=[
        pytest.param("memory", marks=pytest.mark.check),
        pytest.param("sandbox", marks=pytest.mark.core),
    ]
)
def run(request: pytest.FixtureRequest) -> Run:
    """Return what runs a scenario on the adapter."""
    if request.param == "memory":
        return _run_in_memory
    sandbox = request.getfixturevalue("sandbox")
    return lambda scenario: _run_on_sandbox(sandbox, scenario)


def _run_in_memory(scenario: Scenario) -> None:
    clock = FakeClock()

    async def whole() -> None:
        cluster = MemoryCluster(clock, is_auto=True)
        cluster.world.kubelet.timing = Timing(ready_seconds=0.2, stop_seconds=0.3)
        for name in ("h200", "l4"):
            cluster.add_queue(name, {"cpu": "256", "nvidia.com/gpu": 32})

        async def forget() -> str:
            cluster.store.compact()
            return "1"

        async def enforce() -> None:
            cluster.refuse_pods('violates PodSecurity "restricted:latest": runAsNonRoot != true')

        async def plain() -> str:
            cluster.add_namespace("plain", is_managed=False)
            return "plain"

        async def silence(is_silent: bool) -> None:
            cluster.kueue.is_down = is_silent

        try:
            await scenario(Subject(cluster, "ml", forget, enforce, plain, silence))
        finally:
            await cluster.close()

    run_virtual(whole(), clock)


def _run_on_sandbox(sandbox: Any, scenario: Scenario) -> None:
    name = f"contract-{os.getpid()}-{next(_serial)}"
    sandbox.add_namespace(name)

    async def whole() -> None:
        cluster = await open_cluster(Connection(kubeconfig=str(sandbox.kubeconfig)))

        async def forget() -> str:
            return "1"

        async def enforce() -> None:
            labels = {"pod-security.kubernetes.io/enforce": "restricted"}
            await _label(cluster, name, labels)

        async def plain() -> str:
            return "kube-system"

        async def silence(is_silent: bool) -> None:
            change = sandbox.stop_component if is_silent else sandbox.start_component
            await asyncio.to_thread(change, "kueue")

        subject = Subject(cluster, name, forget, enforce, plain, silence)
        try:
            await scenario(subject)
        finally:
            await _clear(cluster, name)
            await cluster.close()

    asyncio.run(whole())


async def _label(cluster: KubeCluster, namespace: str, labels: Mapping[str, str]) -> None:
    found = await cluster.get(NAMESPACE, "", namespace)
    await cluster.patch(
        NAMESPACE,
        "",
        namespace,
        {"metadata": {"labels": dict(labels)}},
        uid=str(meta(found)["uid"]),
    )


async def _clear(cluster: KubeCluster, namespace: str) -> None:
    """Delete the Workloads, so that the namespace's serving members can leave and free quota."""
    for kind in (POD, WORKLOAD, CONFIG_MAP):
        for obj in (await cluster.list(kind, namespace)).items:
            if not is_terminating(obj) and meta(obj)["name"] != "kube-root-ca.crt":
                await cluster.delete(
                    kind, namespace, str(meta(obj)["name"]), uid=str(meta(obj)["uid"])
                )
