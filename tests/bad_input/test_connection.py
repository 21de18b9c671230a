"""A cluster that cannot be reached: told in time by every call that would change something."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpustack_deploy.model.errors import Unreachable
from pulumi_gpustack import _connection
from pulumi_gpustack.role_provider import RoleProvider
from tests.bad_input.sentence import assert_sentence, in_time, unwritten
from tests.fakes import MemoryCluster
from tests.pulumi.declarations import role

Properties = dict[str, Any]
Check = Callable[..., Properties]


@contextmanager
def missing(folder: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """A kubeconfig that does not exist."""
    file = folder / "no-kubeconfig"
    yield str(file), (f"{file}, which does not exist", "a kubeconfig is needed", "set KUBECONFIG")


@contextmanager
def dead(folder: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """A server's address at which nothing listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        address = f"https://127.0.0.1:{held.getsockname()[1]}"
        # Bound and not listening: refused, and given to nobody else meanwhile.
        yield leading_to(folder, address), (address, "Connection refused", *_REACHABLE)


@contextmanager
def silent(folder: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """A server that takes connections and never says anything."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        yield leading_to(folder, address), (address, "gave no answer within", *_REACHABLE)


_REACHABLE = ("a reachable API server is needed", "check the address")


def leading_to(folder: Path, server: str) -> str:
    file = folder / "kubeconfig"
    file.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "there",
                "clusters": [{"name": "there", "cluster": {"server": server}}],
                "users": [{"name": "there", "user": {}}],
                "contexts": [{"name": "there", "context": {"cluster": "there", "user": "there"}}],
            }
        )
    )
    return str(file)


@pytest.mark.parametrize(
    "way",
    [
        pytest.param(missing, marks=pytest.mark.check),
        pytest.param(dead, marks=pytest.mark.core),
        pytest.param(silent, marks=pytest.mark.ci),
    ],
)
def test_no_way_to_the_cluster(
    way: Callable[[Path], Any],
    cluster: MemoryCluster,
    provider: RoleProvider,
    checked: Check,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    inputs = checked(role())
    state = provider.create(inputs).outs or {}
    edited = {**inputs, "replicas": 3}
    monkeypatch.undo()  # from now on with the real client and clock
    _connection.forget()

    calls: dict[str, Callable[[], object]] = {
        "create": lambda: provider.create(inputs),
        "update": lambda: provider.update("ml/chat/server", state, edited),
        "delete": lambda: provider.delete("ml/chat/server", state),
    }
    with way(tmp_path) as (kubeconfig, parts), unwritten(cluster):
        _connection.configure(kubeconfig, "")
        for call in calls.values():
            # As the engine calls them in one run: what checks and compares only notes it.
            _connection.forget()
            with in_time():
                assert [] == provider.check(inputs, edited).failures
                assert False is not provider.diff("ml/chat/server", state, edited).changes
                with pytest.raises(Unreachable) as told:
                    call()
            assert_sentence(str(told.value), *parts)


@pytest.mark.check
def test_a_context_that_the_kubeconfig_does_not_have(tmp_path: Path) -> None:
    _connection.configure(leading_to(tmp_path, "https://127.0.0.1:1"), "elsewhere")
    with in_time(), pytest.raises(Unreachable) as told:
        RoleProvider().create(role())
    assert_sentence(
        str(told.value), "'elsewhere' is not in", "(it has: there)", "set `gpustack:context`"
    )
