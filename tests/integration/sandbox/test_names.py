"""Names inside the sandbox, resolved by a real name server."""

import os
from collections.abc import Iterator

import pytest

from gpustack_deploy.sandbox import Sandbox
from gpustack_deploy.sandbox.waiting import wait_until
from tests.integration.sandbox.simulated_pods import conditions, pod

pytestmark = [pytest.mark.ci, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def named() -> Iterator[Sandbox]:
    with Sandbox.up(f"names-{os.getpid()}", options=["dns"], owned=True) as running:
        yield running


def test_a_member_is_found_by_its_name_as_soon_as_it_has_an_address(named: Sandbox) -> None:
    api = named.api
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "peers"},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {"peers": "yes"},
            "ports": [{"name": "api", "port": 8000}],
        },
    }
    api.create("/api/v1/namespaces/default/services", service)
    body = pod("m0", never_ready="true")
    body["metadata"]["labels"]["peers"] = "yes"
    body["spec"] |= {"hostname": "m0", "subdomain": "peers"}
    api.create("/api/v1/namespaces/default/pods", body)

    def resolved() -> bool:
        address = api.get("/api/v1/namespaces/default/pods/m0")["status"].get("podIP")
        return bool(address) and named.resolve("m0.peers.default.svc.cluster.local") == [address]

    wait_until(resolved, what="the member's name to lead to its address")
    assert conditions(api.get("/api/v1/namespaces/default/pods/m0"))["Ready"] == "False"
    assert named.resolve("m1.peers.default.svc.cluster.local") == []
    api.delete("/api/v1/namespaces/default/pods/m0")
    wait_until(
        lambda: named.resolve("m0.peers.default.svc.cluster.local") == [],
        what="the name of a deleted member to be gone",
    )


def test_the_name_server_is_part_of_the_status(named: Sandbox) -> None:
    assert named.status()["coredns"] is True
