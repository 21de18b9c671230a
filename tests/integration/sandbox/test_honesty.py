"""The sandbox shows what a cluster does, also where that is inconvenient."""

import pytest

from gpustack_deploy.sandbox.waiting import wait_for, wait_until
from tests.integration.sandbox.simulated_pods import Namespace, pod

pytestmark = pytest.mark.core

MANAGED = "kueue.x-k8s.io/managed"
GPUS = 16


@pytest.fixture
def group(namespace: Namespace) -> Namespace:
    """An admitted and Ready serving group `g` of two Pods with eight devices each."""
    for name in ("m0", "m1"):
        namespace.create(pod(name, group="g", total=2, gpus=8))
    for name in ("m0", "m1"):
        namespace.wait_for_ready(name)
    wait_until(lambda: namespace.gpus_in_use() == GPUS, what="the quota to be used")
    return namespace


def test_a_serving_group_whose_pods_alone_are_deleted_keeps_its_quota(group: Namespace) -> None:
    for name in ("m0", "m1"):
        group.delete(name)
    for name in ("m0", "m1"):
        ended = group.wait_for_phase(name, "Succeeded")
        assert ended["metadata"]["finalizers"] == [MANAGED]
    # A later group comes and goes while this one is still held: Kueue is at work all the time.
    group.create(pod("other", group="later"))
    group.wait_for_ready("other")
    group.api.delete(f"{group.workloads}/later")
    group.wait_for_absence("other")
    for name in ("m0", "m1"):
        held = group.find(name)
        assert held is not None
        assert held["metadata"]["finalizers"] == [MANAGED]
        assert held["metadata"]["deletionGracePeriodSeconds"] == 0
    wait_until(lambda: group.gpus_in_use() == GPUS, what="only the held quota to be used")

    group.api.delete(f"{group.workloads}/g")

    for name in ("m0", "m1"):
        group.wait_for_absence(name)
    wait_until(lambda: group.gpus_in_use() == 0, what="the quota to be free")


def test_a_group_waits_for_quota_and_gets_it(group: Namespace) -> None:
    body = [pod(f"n{index}", group="next", total=3, gpus=8) for index in range(3)]
    for entry in body:
        group.create(entry)
    waiting = wait_for(
        lambda: _reserved(group, "next", "False"), what="the group to be queued for quota"
    )
    assert "insufficient unused quota" in waiting
    seen = group.find("n0")
    assert seen is not None
    gates = [gate["name"] for gate in seen["spec"]["schedulingGates"]]
    assert "kueue.x-k8s.io/admission" in gates
    group.api.delete(f"{group.workloads}/g")
    for index in range(3):
        group.wait_for_ready(f"n{index}")


def test_without_kueue_no_pod_is_accepted_and_with_it_again_they_are(group: Namespace) -> None:
    sandbox = group.sandbox
    sandbox.stop_component("kueue")
    try:
        assert sandbox.status()["kueue"] is False
        code, text = group.api.raw("POST", group.pods, pod("late", group="late"))
        assert (code, b"failed calling webhook" in text) == (500, True)
    finally:
        sandbox.start_component("kueue")
    assert all(sandbox.status().values())
    wait_until(
        lambda: group.api.raw("POST", group.pods, pod("late", group="late"))[0] == 201,
        what="Kueue to accept Pods again",
    )
    group.wait_for_ready("late")


def _reserved(namespace: Namespace, group: str, status: str) -> str | None:
    workload = namespace.api.find(f"{namespace.workloads}/{group}") or {}
    for entry in workload.get("status", {}).get("conditions") or []:
        if entry["type"] == "QuotaReserved" and entry["status"] == status:
            return str(entry["message"])
    return None
