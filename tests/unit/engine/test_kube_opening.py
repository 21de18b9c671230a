"""Opening a connection: credentials, plugins, dead servers, and what importing costs."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from gpustack_deploy.engine import kube
from gpustack_deploy.engine.cluster import POD
from gpustack_deploy.engine.kube import Connection, KubeCluster, open_cluster
from gpustack_deploy.model.errors import Forbidden, Unreachable
from tests.fakes.stub_server import (
    HANG_UP,
    TOKEN,
    Reply,
    StubServer,
    always,
    run_on_stub,
    stub_server,
)

pytestmark = pytest.mark.check

STORED = {"metadata": {"name": "a", "uid": "u1", "resourceVersion": "7"}}


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube, "_pause", lambda attempt, error: 0.01)


def test_a_dead_server_is_one_sentence_with_its_address() -> None:
    async def scenario() -> None:
        async with stub_server(always(HANG_UP)) as stub:
            content = stub.kubeconfig()
        cluster = await open_cluster(Connection(kubeconfig=content))
        try:
            with pytest.raises(Unreachable) as caught:
                await cluster.get(POD, "ml", "a")
        finally:
            await cluster.close()
        assert str(caught.value).startswith(
            f"{stub.address} (context 'stub') gave no answer to get /api/v1/namespaces/ml/pods/a:"
            " Connection refused; a reachable API server is needed:"
        )

    asyncio.run(scenario())


def test_writes_are_bounded() -> None:
    async def scenario() -> None:
        async with stub_server(always(Reply(json=STORED)), delay_seconds=0.02) as stub:
            cluster = await open_cluster(Connection(kubeconfig=stub.kubeconfig()))
            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(64):
                        group.create_task(cluster.create(POD, "ml", STORED))
            finally:
                await cluster.close()
            assert stub.most_at_once == kube.WRITES_AT_ONCE
            assert len(stub.sent) == 64

    asyncio.run(scenario())


def test_a_credential_plugin_is_run_and_a_failing_one_is_named(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    plugin.write_text(
        f"#!{sys.executable}\nprint({json.dumps({**answer, 'status': {'token': TOKEN}})!r})\n"
    )
    plugin.chmod(0o755)
    section = {"apiVersion": answer["apiVersion"], "command": str(plugin)}

    async def scenario() -> None:
        async with stub_server(always(Reply(json=STORED))) as stub:
            content = stub.kubeconfig(user={"exec": section})
            cluster = await open_cluster(Connection(kubeconfig=content))
            try:
                await cluster.get(POD, "ml", "a")
            finally:
                await cluster.close()
            assert stub.sent[0].headers["authorization"] == f"Bearer {TOKEN}"
            plugin.write_text("#!/bin/sh\nexit 1\n")
            with pytest.raises(Forbidden, match="gave no credentials: log in to that cluster"):
                await open_cluster(Connection(kubeconfig=content))

    asyncio.run(scenario())


def test_importing_the_engine_imports_no_client() -> None:
    code = (
        "import sys, gpustack_deploy.engine.kube\n"
        "print([name for name in ('kubernetes', 'aiohttp') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_plugin_that_hangs_is_named_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(access: object, configuration: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(kube, "_load", hang)
    monkeypatch.setattr(kube, "OPEN_SECONDS", 0.01)

    async def scenario() -> None:
        with pytest.raises(Unreachable, match="the credential plugin of context 'stub' gave no"):
            await open_cluster(Connection(kubeconfig=StubServer("https://s").kubeconfig()))

    asyncio.run(scenario())


def test_credentials_that_cannot_be_used_are_told_without_showing_them() -> None:
    async def scenario() -> None:
        content = StubServer("https://s").kubeconfig(
            user={"client-certificate-data": "bm8=", "client-key-data": "bm8=", "token": TOKEN}
        )
        with pytest.raises(Unreachable, match=r"context 'stub' cannot be used \(\w+\)") as caught:
            await open_cluster(Connection(kubeconfig=content))
        assert TOKEN not in str(caught.value)
        assert caught.value.__suppress_context__

    asyncio.run(scenario())


def test_a_pods_own_account_that_is_incomplete_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube, "find_access", lambda connection: None)

    async def scenario() -> None:
        with pytest.raises(Unreachable, match="the Pod's service account cannot be used"):
            await open_cluster(Connection())

    asyncio.run(scenario())


def test_credentials_about_to_expire_are_renewed_before_a_request(tmp_path: Path) -> None:
    """The plugin counts its runs; what it gives expires within minutes, so each request asks."""
    counter, plugin = tmp_path / "runs", tmp_path / "plugin"
    counter.write_text("0")
    plugin.write_text(
        f"#!{sys.executable}\n"
        "import json, pathlib\n"
        f"counter = pathlib.Path({str(counter)!r})\n"
        "runs = int(counter.read_text()) + 1\n"
        "counter.write_text(str(runs))\n"
        "print(json.dumps({'apiVersion': 'v', 'kind': 'ExecCredential', 'status': {\n"
        "    'token': f'token-{runs}', 'expirationTimestamp': '2020-01-01T00:00:00Z'}}))\n"
    )
    plugin.chmod(0o755)

    async def scenario() -> None:
        async with stub_server(always(Reply(json=STORED))) as stub:
            content = stub.kubeconfig(user={"exec": {"apiVersion": "v", "command": str(plugin)}})
            cluster = await open_cluster(Connection(kubeconfig=content))
            try:
                await cluster.get(POD, "ml", "a")
                await cluster.get(POD, "ml", "a")
            finally:
                await cluster.close()
            tokens = [sent.headers["authorization"] for sent in stub.sent]
            assert tokens == ["Bearer token-2", "Bearer token-3"]

    asyncio.run(scenario())


def test_a_server_on_this_machine_is_reached_without_a_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")

    async def use(cluster: KubeCluster, stub: StubServer) -> None:
        assert await cluster.get(POD, "ml", "a") == STORED

    run_on_stub(always(Reply(json=STORED)), use)
