"""The whole path on the real CLI, engine and control plane; Pods are simulated."""

import json
import signal
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpustack_deploy.sandbox import Sandbox
from tests.pulumi.stack import Properties, Stack

pytestmark = pytest.mark.timeout(300)

SERVER = [{"name": "server", "replicas": 2}]
PAIR = [{"name": "prefill", "kind": "Prefill"}, {"name": "decode", "kind": "Decode"}]
EXTRA = {"name": "extra"}
DECODER = {"name": "decoder", "kind": "Decode"}


@pytest.fixture
def stack(sandbox: Sandbox, tmp_path: Path) -> Iterator[Stack]:
    namespace = f"cli-{uuid.uuid4().hex[:8]}"
    sandbox.add_namespace(namespace)
    made = Stack(sandbox, tmp_path, namespace)
    yield made
    made.run("cancel", "--yes")
    made.destroy()


def ok(stack: Stack, roles: list[Properties], *flags: str, **more: Any) -> None:
    done = stack.up(roles, *flags, **more)
    assert 0 == done.code, done.text


@pytest.mark.core
def test_a_deployment_from_its_first_preview_to_its_end(sandbox: Sandbox, stack: Stack) -> None:
    step = stack.preview(SERVER)["chat-server"]
    assert "create" == step["op"]
    assert f"http://chat.{stack.namespace}.svc:8000" == step["newState"]["inputs"]["endpoint"]
    assert {} == stack.uids()

    ok(stack, SERVER)
    pods = stack.uids()
    assert {"chat-server-r0-m0", "chat-server-r1-m0"} == set(pods)
    assert 2 == len(stack.uids("workloads"))

    before = sandbox.audit_position()
    assert stack.is_unchanged()
    asked = _asked(sandbox, before)
    assert {"get", "list"} == {verb for verb, _ in asked}
    assert len(asked) <= 4 + 3, asked

    assert 0 == stack.run("refresh", "--yes").code
    assert stack.is_unchanged()
    ok(stack, SERVER)
    assert pods == stack.uids()

    edited = [{**SERVER[0], "resources": {"count": 4}}]
    step = stack.preview(edited)["chat-server"]
    assert "update" == step["op"]
    assert {"fingerprint", "resources.count"} == set(step["detailedDiff"])
    ok(stack, edited)
    assert set(pods) == set(stack.uids())
    assert not set(pods.values()) & set(stack.uids().values())
    assert stack.is_unchanged()

    assert 0 == stack.destroy().code
    left = [stack.uids(plural) for plural in ("pods", "workloads", "services", "configmaps")]
    assert [{}, {}, {}, {}] == left


def _asked(sandbox: Sandbox, since: int) -> list[tuple[str, str]]:
    """Return verb and path of what this project's provider asked the API server."""
    return [
        (event["verb"], event["requestURI"])
        for event in sandbox.audit_events(since=since)
        if event.get("userAgent", "").startswith("gpustack-deploy")
    ]


@pytest.mark.core
def test_values_of_other_resources_are_unknown_in_preview_and_known_in_up(stack: Stack) -> None:
    step = stack.preview(SERVER, source="v0.11.0")["chat-server"]
    assert "create" == step["op"]
    assert "chat-server" == step["newState"]["inputs"]["serviceName"]
    ok(stack, SERVER, source="v0.11.0")
    image = stack.resources()["chat-server"]["inputs"]["image"]
    assert "vllm/vllm-openai:v0.11.0" == image

    step = stack.preview(SERVER, source="v0.12.0")["chat-server"]
    assert "update" == step["op"]
    assert {"env[0].value", "fingerprint", "image"} == set(step["detailedDiff"])


@pytest.mark.ci
def test_a_create_that_is_cut_short_keeps_its_objects_tracked(stack: Stack) -> None:
    too_much = [{"name": "server", "replicas": 5, "resources": {"count": 8}}]
    done = stack.up(too_much, rollout={"deadline_seconds": 4})
    assert 1 == done.code
    assert "waiting for quota in LocalQueue h200" in done.text
    assert "Traceback" not in done.text
    found = stack.resources()["chat-server"]
    assert found["initErrors"]
    assert not found["outputs"]["isFinished"]
    assert 0 == found["outputs"]["replicas"]

    standing = stack.uids()
    fits = [{"name": "server", "replicas": 2, "resources": {"count": 8}}]
    ok(stack, fits)
    assert {name: standing[name] for name in stack.uids()} == stack.uids()
    assert 2 == stack.resources()["chat-server"]["outputs"]["replicas"]
    assert stack.is_unchanged()


@pytest.mark.core
def test_waiting_for_admission_alone_ends_with_exit_code_10(stack: Stack) -> None:
    ok(stack, PAIR)
    before = stack.resources()["chat-prefill"]
    done = stack.up(
        [{**PAIR[0], "resources": {"count": 8}, "replicas": 5}, PAIR[1]],
        "--parallel=1",
        rollout={"admission_wait_seconds": 3},
    )
    assert 10 == done.code, done.text
    assert "run `pulumi up` again to resume" in done.text
    assert before["outputs"] == stack.resources()["chat-prefill"]["outputs"]
    ok(stack, PAIR)
    assert stack.is_unchanged()


@pytest.mark.ci
@pytest.mark.parametrize(
    ("before", "edits"),
    [
        (SERVER, {"rename the only role": [{"name": "serving"}], "add one": [*SERVER, EXTRA]}),
        (PAIR, {"rename one of two": [PAIR[0], DECODER], "drop one of two": [PAIR[0]]}),
    ],
    ids=["one role", "two roles"],
)
def test_the_set_of_roles_is_fixed(
    stack: Stack, before: list[Properties], edits: dict[str, list[Properties]]
) -> None:
    ok(stack, before)
    standing = [stack.uids(plural) for plural in ("pods", "workloads", "services", "configmaps")]
    for edit, after in edits.items():
        for flags in ((), ("--continue-on-error",)):
            done = stack.up(after, *flags)
            assert 1 == done.code, (edit, flags, done.text)
            assert "the set of roles is fixed" in done.text, (edit, flags, done.text)
            assert standing == [
                stack.uids(plural) for plural in ("pods", "workloads", "services", "configmaps")
            ]
    ok(stack, before)
    assert standing[0] == stack.uids()


@pytest.mark.ci
def test_an_error_elsewhere_deletes_no_role_that_left(stack: Stack) -> None:
    ok(stack, PAIR, source="v0.11.0")
    pods = stack.uids()
    done = stack.up([PAIR[0]], "--continue-on-error", source="bad")
    assert 1 == done.code
    assert "without `--continue-on-error`" in done.text
    assert pods == stack.uids()

    ok(stack, [], source="v0.11.0")
    assert {} == stack.uids()


@pytest.mark.ci
def test_a_role_can_be_destroyed_alone_and_declared_again(stack: Stack) -> None:
    ok(stack, PAIR)
    prefill = stack.uids()["chat-prefill-r0-m0"]
    done = stack.run("destroy", "--yes", "--skip-preview", "--target", stack.urn("chat-decode"))
    assert 0 == done.code, done.text
    assert {"chat-prefill-r0-m0": prefill} == stack.uids()
    ok(stack, PAIR)
    assert prefill == stack.uids()["chat-prefill-r0-m0"]


@pytest.mark.ci
def test_a_forced_replacement_ends_with_the_role_serving(stack: Stack) -> None:
    ok(stack, PAIR)
    pods = stack.uids()
    ok(stack, PAIR, "--replace", stack.urn("chat-decode"))
    after = stack.uids()
    assert pods["chat-prefill-r0-m0"] == after["chat-prefill-r0-m0"]
    assert pods["chat-decode-r0-m0"] != after["chat-decode-r0-m0"]
    assert stack.is_unchanged()


@pytest.mark.ci
def test_another_cluster_is_refused_everywhere_and_state_stays(stack: Stack) -> None:
    ok(stack, SERVER)
    exported = json.loads(stack.run("stack", "export").text)
    for resource in exported["deployment"]["resources"]:
        if "clusterUid" in resource.get("outputs", {}):
            resource["outputs"]["clusterUid"] = "another"
    (stack.folder / "moved.json").write_text(json.dumps(exported))
    assert 0 == stack.run("stack", "import", "--file", "moved.json").code
    pods, before = stack.uids(), stack.outputs()
    for command in (
        ("refresh", "--yes", "--skip-preview"),
        ("up", "--yes", "--skip-preview"),
        ("destroy", "--yes", "--skip-preview"),
    ):
        done = stack.run(*command)
        assert 1 == done.code, done.text
        assert "stands in cluster another" in done.text
        assert (pods, before) == (stack.uids(), stack.outputs())

    exported = (stack.folder / "moved.json").read_text().replace('"another"', '""')
    (stack.folder / "moved.json").write_text(exported)
    assert 0 == stack.run("stack", "import", "--file", "moved.json").code


@pytest.mark.ci
def test_a_cluster_out_of_reach_is_a_note_in_preview_and_an_error_in_up(stack: Stack) -> None:
    ok(stack, SERVER)
    dead = stack.folder / "dead.kubeconfig"
    lines = Path(stack.env["KUBECONFIG"]).read_text().splitlines()
    dead.write_text(
        "\n".join(
            f"{line.partition('server:')[0]}server: https://127.0.0.1:1"
            if "server:" in line
            else line
            for line in lines
        )
    )
    done = stack.run("preview", "--expect-no-changes", KUBECONFIG=str(dead))
    assert 0 == done.code, done.text
    assert "the cluster could not be asked" in done.text

    stack.declare([{**SERVER[0], "replicas": 3}])
    done = stack.run("up", "--yes", "--skip-preview", KUBECONFIG=str(dead))
    assert 1 == done.code
    assert "gave no answer" in done.text
    assert 2 == len(stack.uids())


@pytest.mark.ci
def test_the_second_interrupt_stops_at_a_step_and_up_resumes(stack: Stack) -> None:
    ok(stack, SERVER)
    stack.declare([{**SERVER[0], "replicas": 17}])
    running = stack.start("up", "--yes", "--skip-preview")
    deadline = time.monotonic() + 60
    while len(stack.uids()) < 17 and time.monotonic() < deadline:
        time.sleep(0.3)
    for _ in range(2):
        running.send_signal(signal.SIGINT)
        time.sleep(1)
    running.communicate(timeout=60)
    assert 0 != running.returncode
    assert 17 == len(stack.uids())

    ok(stack, [{**SERVER[0], "replicas": 3}])
    assert 3 == len(stack.uids())
    assert stack.is_unchanged()


@pytest.mark.ci
def test_more_than_four_roles_are_worked_on_at_once(stack: Stack) -> None:
    waiting = {
        "startup_timeout_seconds": 15,
        "pod": {"annotations": {"sandbox.gpustack.ai/never-ready": "true"}},
    }
    roles = [{"name": f"server-{number}", **waiting} for number in range(6)]
    stack.declare(roles, rollout={"deadline_seconds": 15})
    running = stack.start("up", "--yes", "--skip-preview", "--parallel=16")
    deadline = time.monotonic() + 25
    while len(stack.uids()) < 6 and time.monotonic() < deadline:
        time.sleep(0.3)
    assert 6 == len(stack.uids())
    said, _ = running.communicate(timeout=120)
    assert "NotReady" in said
    assert 1 == running.returncode
