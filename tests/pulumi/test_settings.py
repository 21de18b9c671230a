"""Where the cluster is: stack configuration, kept in memory, and the deployment's own context."""

from typing import Any

import pytest
from pulumi.dynamic import Config, ConfigureRequest

from gpustack_deploy.engine.cluster import CONFIG_MAP, NAMESPACE, WORKLOAD, ClusterMarks
from gpustack_deploy.model.errors import Unreachable
from pulumi_gpustack import _connection
from pulumi_gpustack.role_provider import RoleProvider
from tests.fakes import MemoryCluster, run_virtual
from tests.pulumi.declarations import role

pytestmark = pytest.mark.check


@pytest.fixture
def opened(cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    seen: list[tuple[str, str]] = []

    async def open_connection(kubeconfig: str, context: str) -> MemoryCluster:
        seen.append((kubeconfig, context))
        return cluster

    monkeypatch.setattr(_connection, "open_connection", open_connection)
    return seen


def configured(**values: str) -> RoleProvider:
    provider = RoleProvider()
    raw = {f"gpustack:{key}": value for key, value in values.items()}
    provider.configure(ConfigureRequest(Config(raw, "shop")))
    return provider


def test_the_stack_s_settings_are_used(opened: list[tuple[str, str]]) -> None:
    configured(kubeconfig="/etc/kubeconfig", context="east").check({}, role())
    assert [("/etc/kubeconfig", "east")] == opened


def test_without_settings_the_environment_decides(opened: list[tuple[str, str]]) -> None:
    configured().check({}, role())
    assert [("", "")] == opened


def test_a_deployment_s_own_context_wins(opened: list[tuple[str, str]]) -> None:
    provider = configured(kubeconfig="/etc/kubeconfig", context="east")
    inputs = provider.check({}, role(connection={"context": "west"})).inputs
    outputs = provider.create({**inputs, "__provider": "pickled"}).outs or {}
    provider.delete("ml/chat/server", outputs)
    assert {("/etc/kubeconfig", "west")} == set(opened)
    assert {"context": "west"} == outputs["connection"]


def test_settings_are_nowhere_in_what_goes_into_state(opened: list[tuple[str, str]]) -> None:
    provider = configured(kubeconfig="apiVersion: v1\nsecret")
    inputs = provider.check({}, role()).inputs
    outputs = provider.create({**inputs, "__provider": "pickled"}).outs or {}
    assert "secret" not in f"{inputs}{outputs}{vars(provider)}"


def test_what_holds_for_a_run_is_asked_once(cluster: MemoryCluster) -> None:
    async def look(seen: Any) -> ClusterMarks:
        await seen.serves(WORKLOAD)
        await seen.get(NAMESPACE, "", "ml")
        found: ClusterMarks = await seen.marks()
        return found

    for _ in range(3):
        _connection.on_cluster(look, is_reading=True)
    assert 1 == cluster.requests["discover", "workloads"]
    assert 2 == cluster.requests["get", "namespaces"]
    _connection.on_cluster(look)
    assert 3 == cluster.requests["get", "namespaces"]


def test_marks_that_cannot_be_read_are_asked_for_again(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [ClusterMarks("", ""), ClusterMarks("uid", "ca")]

    async def marks(_cluster: object) -> ClusterMarks:
        return answers.pop(0)

    async def look(seen: Any) -> ClusterMarks:
        found: ClusterMarks = await seen.marks()
        return found

    monkeypatch.setattr(MemoryCluster, "marks", marks)
    assert ClusterMarks("", "") == _connection.on_cluster(look)
    assert ClusterMarks("uid", "ca") == _connection.on_cluster(look)
    assert ClusterMarks("uid", "ca") == _connection.on_cluster(look)


def test_a_failure_is_not_remembered(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(_cluster: object) -> ClusterMarks:
        raise Unreachable("no answer")

    async def look(seen: Any) -> ClusterMarks:
        found: ClusterMarks = await seen.marks()
        return found

    with monkeypatch.context() as broken:
        broken.setattr(MemoryCluster, "marks", fails)
        with pytest.raises(Unreachable):
            _connection.on_cluster(look)
    assert _connection.on_cluster(look).uid


def test_every_call_of_the_port_reaches_the_cluster(cluster: MemoryCluster) -> None:
    remembering = _connection.RememberingCluster(cluster, _connection.Memory(), is_reading=False)
    body = {"metadata": {"name": "notes"}, "data": {"a": "b"}}

    async def use() -> None:
        made = await remembering.create(CONFIG_MAP, "ml", body)
        uid = made["metadata"]["uid"]
        await remembering.patch(CONFIG_MAP, "ml", "notes", {"data": {"a": "c"}}, uid=uid)
        found = await remembering.get(CONFIG_MAP, "ml", "notes")
        await remembering.replace(CONFIG_MAP, "ml", "notes", {**found, "data": {"a": "d"}})
        listing = await remembering.list(CONFIG_MAP, "ml", name="notes")
        assert {"a": "d"} == listing.items[0]["data"]
        await remembering.delete(CONFIG_MAP, "ml", "notes", uid=uid)
        await remembering.close()

    run_virtual(use(), cluster.clock)
    assert [] == cluster.names(CONFIG_MAP)
