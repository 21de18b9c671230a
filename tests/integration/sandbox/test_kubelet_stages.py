"""What KWOK does in a kubelet's place, told by annotations of the Pod."""

import datetime as dt

import pytest

from gpustack_deploy.sandbox.api import Json
from gpustack_deploy.sandbox.waiting import wait_for
from tests.integration.sandbox.simulated_pods import Namespace, conditions, is_ready, pod

pytestmark = pytest.mark.core


def seconds_between(earlier: str, later: str) -> float:
    parse = dt.datetime.fromisoformat
    return (parse(later) - parse(earlier)).total_seconds()


def transition(seen: Json, kind: str) -> str:
    entry = next(entry for entry in seen["status"]["conditions"] if entry["type"] == kind)
    return str(entry["lastTransitionTime"])


def test_a_pod_runs_with_an_address_and_its_containers_like_a_kubelets(
    namespace: Namespace,
) -> None:
    body = pod("m0")
    body["spec"]["containers"].append({"name": "side", "image": "example.org/side"})
    body["spec"]["initContainers"] = [{"name": "init", "image": "example.org/init"}]
    body["spec"]["readinessGates"] = [{"conditionType": "example.org/gate"}]
    namespace.create(body)
    seen = namespace.wait_for_ready("m0")
    status = seen["status"]
    assert status["phase"] == "Running"
    assert status["podIP"].startswith("10.244.")
    node = namespace.api.get(f"/api/v1/nodes/{seen['spec']['nodeName']}")
    addresses = {entry["address"] for entry in node["status"]["addresses"]}
    assert status["hostIP"] in addresses
    for container in status["containerStatuses"]:
        assert (container["ready"], container["started"]) == (True, True)
        assert "startedAt" in container["state"]["running"]
    assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    want = {"PodScheduled", "Initialized", "ContainersReady", "Ready", "example.org/gate"}
    assert want <= {kind for kind, value in conditions(seen).items() if value == "True"}


def test_addresses_differ_between_pods(namespace: Namespace) -> None:
    names = [f"m{index}" for index in range(6)]
    for name in names:
        namespace.create(pod(name))
    addresses = {namespace.wait_for_ready(name)["status"]["podIP"] for name in names}
    assert len(addresses) == len(names)


def test_a_pod_is_ready_after_its_delay_and_not_before(namespace: Namespace) -> None:
    namespace.create(pod("slow", ready_after_ms="3000"))
    running = namespace.wait_for_phase("slow", "Running")
    assert not is_ready(running)
    ready = namespace.wait_for_ready("slow")
    assert 3 <= seconds_between(ready["status"]["startTime"], transition(ready, "Ready")) <= 15


def test_a_change_of_the_pod_does_not_begin_its_delay_anew(namespace: Namespace) -> None:
    namespace.create(pod("slow", ready_after_ms="4000"))
    namespace.wait_for_phase("slow", "Running")

    def touched_until_ready() -> Json | None:
        label = {"metadata": {"labels": {"touched": str(touches.pop())}}}
        seen = namespace.api.patch(f"{namespace.pods}/slow", label)
        return seen if is_ready(seen) else None

    touches = list(range(1000))
    wait_for(touched_until_ready, what="a Pod changed all the time to be Ready", interval=0.2)


def test_a_pod_that_is_never_to_be_ready_runs_on_unready(namespace: Namespace) -> None:
    namespace.create(pod("never", never_ready="true"))
    namespace.create(pod("later"))
    namespace.wait_for_phase("never", "Running")
    # Another Pod with the usual delay becomes Ready meanwhile, and a third one after it.
    namespace.wait_for_ready("later")
    namespace.create(pod("last"))
    namespace.wait_for_ready("last")
    seen = namespace.find("never")
    assert seen is not None
    assert (seen["status"]["phase"], is_ready(seen)) == ("Running", False)


@pytest.mark.parametrize("delay", ["50", "1000"], ids=["before ready", "after ready"])
def test_a_pod_fails_when_told_to(namespace: Namespace, delay: str) -> None:
    namespace.create(pod("bad", fail_after_ms=delay))
    failed = namespace.wait_for_phase("bad", "Failed")
    assert not is_ready(failed)
    state = failed["status"]["containerStatuses"][0]["state"]
    assert state["terminated"]["exitCode"] == 1


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_deleted_pod_ends_in_the_phase_it_was_told(namespace: Namespace, phase: str) -> None:
    body = pod("m0", delete_phase=phase)
    body["metadata"]["finalizers"] = ["example.org/held"]
    namespace.create(body)
    namespace.wait_for_ready("m0")
    namespace.delete("m0")
    ended = namespace.wait_for_phase("m0", phase)
    code = ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"]
    assert (code == 0) == (phase == "Succeeded")
    assert ended["metadata"]["finalizers"] == ["example.org/held"]
    # The kubelet's last DELETE has come as well, and the object still stands.
    held = wait_for(
        lambda: _with_grace(namespace.find("m0"), 0), what="the last DELETE of the kubelet"
    )
    assert held["metadata"]["finalizers"] == ["example.org/held"]
    namespace.api.patch(f"{namespace.pods}/m0", {"metadata": {"finalizers": None}})
    namespace.wait_for_absence("m0")


def test_a_pod_that_drains_is_there_until_it_has_drained(namespace: Namespace) -> None:
    namespace.create(pod("drains", delete_after_ms="3000"))
    uid = namespace.wait_for_ready("drains")["metadata"]["uid"]
    namespace.delete("drains")
    requested = namespace.find("drains")
    assert requested is not None
    assert requested["status"]["phase"] == "Running"
    namespace.wait_for_absence("drains")
    removed = _last_delete(namespace, "drains", "kwok")
    asked = _last_delete(namespace, "drains", "admin")
    assert 3 <= seconds_between(asked, removed) <= 15, uid


def test_a_drain_ends_with_the_grace(namespace: Namespace) -> None:
    namespace.create(pod("drains", delete_after_ms="600000", grace=1))
    namespace.wait_for_ready("drains")
    namespace.delete("drains")
    namespace.wait_for_absence("drains")


def test_a_pod_may_outlive_its_grace_for_a_while(namespace: Namespace) -> None:
    namespace.create(pod("stubborn", ignore_grace_ms="4000", grace=1))
    namespace.wait_for_ready("stubborn")
    namespace.delete("stubborn")
    namespace.wait_for_absence("stubborn")
    asked = _last_delete(namespace, "stubborn", "admin")
    assert seconds_between(asked, _last_delete(namespace, "stubborn", "kwok")) >= 4


def test_a_pod_may_outlive_its_grace_for_ever(namespace: Namespace) -> None:
    namespace.create(pod("hung", ignore_grace_ms="forever", grace=1))
    namespace.create(pod("stubborn", ignore_grace_ms="4000", grace=1))
    namespace.wait_for_ready("hung")
    namespace.wait_for_ready("stubborn")
    namespace.delete("hung")
    namespace.delete("stubborn")
    namespace.wait_for_absence("stubborn")
    hung = namespace.find("hung")
    assert hung is not None
    assert hung["status"]["phase"] == "Running"
    assert is_ready(hung)


def _with_grace(seen: Json | None, seconds: int) -> Json | None:
    assert seen is not None
    return seen if seen["metadata"].get("deletionGracePeriodSeconds") == seconds else None


def _last_delete(namespace: Namespace, name: str, user: str) -> str:
    events = [
        event
        for event in namespace.sandbox.audit_events()
        if event["verb"] == "delete"
        and event["user"]["username"] == user
        and event.get("objectRef", {}).get("name") == name
        and event["objectRef"].get("namespace") == namespace.name
    ]
    return str(events[-1]["requestReceivedTimestamp"])
