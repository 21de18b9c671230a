"""A provider whose cluster is in memory and whose time is virtual."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gpustack_deploy.engine.clock import SystemClock
from pulumi_gpustack import _connection, _siblings
from pulumi_gpustack.role_provider import RoleProvider
from tests.fakes import FakeClock, MemoryCluster, run_virtual

Properties = dict[str, Any]


@pytest.fixture(autouse=True)
def _fresh_run() -> Iterator[None]:
    """What one engine run remembers is nothing to the next test."""
    _connection.forget()
    _siblings.forget()
    _connection.configure("", "")
    yield
    _connection.forget()
    _siblings.forget()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> MemoryCluster:
    """The cluster that every call of the provider reaches."""
    clock = FakeClock()
    memory = MemoryCluster(clock, is_auto=True)
    memory.add_queue(
        "h200", {"nvidia.com/gpu": 32, "cpu": 400, "memory": "4Ti", "ephemeral-storage": "4Ti"}
    )

    async def open_connection(_kubeconfig: str, _context: str) -> MemoryCluster:
        return memory

    monkeypatch.setattr(_connection, "open_connection", open_connection)
    monkeypatch.setattr(_connection, "run_loop", lambda main: run_virtual(main, clock))
    monkeypatch.setattr(SystemClock, "monotonic", lambda _self: clock.monotonic())
    monkeypatch.setattr(SystemClock, "wall", lambda _self: clock.wall())
    return memory


@pytest.fixture
def provider() -> RoleProvider:
    return RoleProvider()


@pytest.fixture
def checked(provider: RoleProvider) -> Callable[..., Properties]:
    """Check inputs that must pass, and return them as they go into state."""

    def check(news: Properties, olds: Properties | None = None) -> Properties:
        result = provider.check(olds or {}, news)
        assert [] == [(failure.property, failure.reason) for failure in result.failures]
        return {**result.inputs, "__provider": "pickled"}

    return check


@pytest.fixture
def refusals(provider: RoleProvider) -> Callable[..., list[tuple[str, str]]]:
    """Check inputs and return what is refused."""

    def check(news: Properties, olds: Properties | None = None) -> list[tuple[str, str]]:
        result = provider.check(olds or {}, news)
        return [(failure.property, failure.reason) for failure in result.failures]

    return check
