"""Starting, running side by side, ending."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpustack_deploy.sandbox import ApiError, Sandbox, SandboxApi
from gpustack_deploy.sandbox.cache import sandboxes_dir
from gpustack_deploy.sandbox.ports import is_free
from gpustack_deploy.sandbox.processes import is_alive
from gpustack_deploy.sandbox.shape import Pool
from gpustack_deploy.sandbox.waiting import wait_for, wait_until
from tests.integration.sandbox.machine_time import Moment, seconds_for_ourselves
from tests.integration.sandbox.simulated_pods import KUEUE, conditions, pod

SHAPE = """
pools:
  - {name: tiny, nodes: 2, devices: {nvidia.com/gpu: 2}, cohort: all}
namespaces: [default, ml]
"""


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Sandbox, list[str], float]]:
    """A second sandbox with nodes of a file, beside the first one; what it said and took."""
    file = tmp_path_factory.mktemp("shape") / "nodes.yaml"
    file.write_text(SHAPE)
    said: list[str] = []
    name = f"second-{os.getpid()}"
    begun = Moment.now()
    with Sandbox.up(name, nodes=file, owned=True, say=said.append) as running:
        yield running, said, seconds_for_ourselves(begun, running.state.processes.values())


@pytest.mark.core
def test_what_a_sandbox_starts_with(sandbox: Sandbox) -> None:
    api = sandbox.api
    nodes = [node["metadata"]["labels"] for node in api.list("/api/v1/nodes")]
    pools = [labels["sandbox.gpustack.ai/pool"] for labels in nodes]
    assert {"h200": 4, "a100": 3, "l4": 4, "cpu": 2} == {name: pools.count(name) for name in pools}
    for kind in ("resourceflavors", "clusterqueues", "namespaces/default/localqueues"):
        names = {entry["metadata"]["name"] for entry in api.list(f"{KUEUE}/{kind}")}
        assert {"h200", "a100", "l4", "cpu"} == names
    assert all(sandbox.status().values())


@pytest.mark.core
def test_the_audit_log_tells_who_asked(sandbox: Sandbox) -> None:
    sandbox.api.get("/api/v1/namespaces/default")
    wait_until(lambda: _asked_by(sandbox, "admin"), what="the request to be recorded")
    assert _asked_by(sandbox, "kueue")
    assert _asked_by(sandbox, "kube-scheduler")
    position = sandbox.audit_position()
    sandbox.api.get("/api/v1/namespaces/kube-public")
    later = sandbox.audit_events(since=position)
    assert "/api/v1/namespaces/kube-public" in [event["requestURI"] for event in later]
    assert "/api/v1/namespaces/default" not in [
        event["requestURI"] for event in later if event["user"]["username"] == "admin"
    ]


@pytest.mark.core
def test_the_client_reports_refusals_and_pages(sandbox: Sandbox) -> None:
    api = SandboxApi(sandbox.kubeconfig)
    with pytest.raises(ApiError) as caught:
        api.get("/api/v1/namespaces/default/pods/absent")
    assert (404, "NotFound") == (caught.value.code, caught.value.reason)
    assert api.find("/api/v1/namespaces/default/pods/absent") is None
    path = "/api/v1/namespaces/default/configmaps"
    made = [
        api.create(path, {"metadata": {"name": f"page-{index}", "labels": {"page": "yes"}}})
        for index in range(3)
    ]
    listed = api.list(f"{path}?labelSelector=page%3Dyes&limit=1")
    assert [entry["metadata"]["uid"] for entry in made] == [
        entry["metadata"]["uid"] for entry in listed
    ]
    with pytest.raises(ApiError) as caught:
        api.delete(f"{path}/page-0", uid="00000000-0000-0000-0000-000000000000")
    assert caught.value.code == 409
    for entry in made:
        name, uid = entry["metadata"]["name"], entry["metadata"]["uid"]
        assert api.patch(f"{path}/{name}", {"data": {"a": "b"}})["data"] == {"a": "b"}
        api.delete(f"{path}/{name}", uid=uid)


@pytest.mark.ci
@pytest.mark.timeout(300)
def test_a_sandbox_starts_from_a_warm_cache_in_under_fifteen_seconds(
    second: tuple[Sandbox, list[str], float],
) -> None:
    _, said, seconds = second
    assert seconds < 15, said
    assert not any("Building" in line for line in said)


@pytest.mark.ci
@pytest.mark.timeout(300)
def test_two_sandboxes_run_side_by_side_and_share_nothing(
    sandbox: Sandbox, second: tuple[Sandbox, list[str], float]
) -> None:
    other = second[0]
    assert not set(sandbox.state.ports.values()) & set(other.state.ports.values())
    names = {node["metadata"]["name"] for node in other.api.list("/api/v1/nodes")}
    assert {"tiny-0", "tiny-1"} == names
    queue = other.api.get(f"{KUEUE}/clusterqueues/tiny")
    assert queue["spec"]["cohortName"] == "all"
    assert other.api.find(f"{KUEUE}/namespaces/ml/localqueues/tiny") is not None
    assert sandbox.api.find("/api/v1/namespaces/ml") is None
    both = [made.api.get("/api/v1/namespaces/kube-system") for made in (sandbox, other)]
    assert both[0]["metadata"]["uid"] != both[1]["metadata"]["uid"]


@pytest.mark.ci
@pytest.mark.timeout(300)
def test_a_running_sandbox_is_used_as_it_is(second: tuple[Sandbox, list[str], float]) -> None:
    running = second[0]
    said: list[str] = []
    again = Sandbox.up(running.name, say=said.append)
    assert again.state == running.state
    assert f"Sandbox '{running.name}' is running already; it is used as it is." in said


@pytest.mark.ci
@pytest.mark.timeout(300)
def test_a_forgotten_node_is_lost_with_its_pods_until_it_is_recalled(
    second: tuple[Sandbox, list[str], float],
) -> None:
    sandbox = second[0]
    api = sandbox.api
    pods = "/api/v1/namespaces/default/pods"
    api.create(pods, pod("stays", node="tiny-0", grace=1))
    wait_for(lambda: _ready(api, f"{pods}/stays"), what="the Pod to be Ready")
    sandbox.forget_node("tiny-0")
    wait_until(
        lambda: conditions(api.get("/api/v1/nodes/tiny-0"))["Ready"] == "Unknown",
        what="the node to be found lost",
        seconds=120,
    )
    api.delete(f"{pods}/stays")
    # A Pod of the other node is deleted later and is gone first.
    api.create(pods, pod("other", node="tiny-1", grace=1))
    wait_for(lambda: _ready(api, f"{pods}/other"), what="the other Pod to be Ready")
    api.delete(f"{pods}/other")
    wait_until(lambda: api.find(f"{pods}/other") is None, what="the other Pod to be gone")
    assert api.get(f"{pods}/stays")["status"]["phase"] == "Running"
    sandbox.recall_node("tiny-0")
    wait_until(lambda: api.find(f"{pods}/stays") is None, what="the lost Pod to be gone")


@pytest.mark.ci
@pytest.mark.timeout(300)
def test_a_node_without_a_kubelet_takes_pods_and_runs_none(
    second: tuple[Sandbox, list[str], float],
) -> None:
    sandbox = second[0]
    api = sandbox.api
    pods = "/api/v1/namespaces/default/pods"
    sandbox.add_lost_node("lost", Pool("tiny", 1, devices={"nvidia.com/gpu": "2"}))
    api.create(pods, pod("bound", node="lost"))
    wait_until(
        lambda: api.get(f"{pods}/bound")["spec"].get("nodeName") == "lost",
        what="the Pod to be bound",
    )
    wait_until(
        lambda: conditions(api.get("/api/v1/nodes/lost"))["Ready"] == "Unknown",
        what="the node to be found lost",
        seconds=120,
    )
    assert api.get(f"{pods}/bound")["status"]["phase"] == "Pending"
    api.delete(f"{pods}/bound", grace_seconds=0)
    api.delete("/api/v1/nodes/lost")


@pytest.mark.ci
@pytest.mark.timeout(300)
def test_a_component_that_ended_is_started_again_by_up(
    second: tuple[Sandbox, list[str], float],
) -> None:
    running = second[0]
    os.kill(running.state.processes["kwok"].pid, signal.SIGKILL)
    wait_until(lambda: not running.status()["kwok"], what="KWOK to be gone")
    said: list[str] = []
    Sandbox.up(running.name, say=said.append)
    assert "kwok had ended; it is started again." in said
    assert all(running.status().values())


@pytest.mark.ci
@pytest.mark.timeout(300)
def test_ending_a_sandbox_leaves_nothing_behind(tmp_path: Path) -> None:
    name = f"third-{os.getpid()}"
    running = Sandbox.up(name, owned=True, say=lambda _: None)
    state, folder, kubeconfig = running.state, running.folder, running.kubeconfig
    assert all(is_alive(process) for process in state.processes.values())
    running.down()
    assert not any(is_alive(process) for process in state.processes.values())
    assert all(is_free(port) for port in state.ports.values())
    assert not folder.exists()
    assert [] == [file for file in sandboxes_dir().iterdir() if name in file.name]
    assert _processes_naming(str(folder)) == []
    assert not kubeconfig.exists()
    assert Sandbox.find(name) is None
    running.down()


def _asked_by(sandbox: Sandbox, user: str) -> bool:
    return any(event["user"]["username"] == user for event in sandbox.audit_events())


def _ready(api: SandboxApi, path: str) -> bool | None:
    return conditions(api.get(path)).get("Ready") == "True" or None


def _processes_naming(text: str) -> list[str]:
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in command:
            found.append(command)
    return found
