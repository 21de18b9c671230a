"""What a user reads: the sentence in the output of the real CLI, and no traceback."""

import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpustack_deploy.sandbox import Sandbox
from tests.bad_input.sentence import SECONDS, standing, untouched
from tests.integration.place import Place
from tests.pulumi.stack import Properties, Result, Stack

pytestmark = pytest.mark.timeout(300)

SERVER = {"name": "server", "replicas": 2}
OFFER = {"accelerator_group": "nvidia-b200", "unit_cpu": 4, "unit_memory": "32Gi"}


@pytest.fixture
def here(sandbox: Sandbox, stack: Stack) -> Place:
    """The stack's namespace, looked at without the product."""
    return Place(sandbox, stack.namespace)


def assert_told(done: Result, *parts: str) -> None:
    """The update failed, and one line of its output says each part."""
    assert 1 == done.code, done.text
    assert "Traceback" not in done.text, done.text
    lines = done.text.splitlines()
    assert any(all(part in line for part in parts) for line in lines), done.text


def exported(stack: Stack) -> list[str]:
    """The stack's state, line by line, without the time at which it was exported.

    The engine leaves out of a state that it has read again which properties depend on nothing.
    """
    found: Properties = json.loads(stack.run("stack", "export").text)
    del found["deployment"]["manifest"]
    for resource in found["deployment"]["resources"]:
        assert not any(resource.pop("propertyDependencies", {}).values())
    return json.dumps(found, indent=1, sort_keys=True).splitlines()


@pytest.mark.ci
def test_a_declaration_that_cannot_be(stack: Stack, here: Place) -> None:
    stack.declare([{"name": "server", "replica": 2, "size": "two", "kind": "Router"}])
    for command in (("preview",), ("up", "--yes", "--skip-preview")):
        with untouched(here):
            done = stack.run(*command)
        assert_told(done, "property replica ", "there is no such field", "did you mean replicas?")
        assert_told(done, "property size ", "found 'two'", "needed a whole number", "change it")
        kinds = "needed one of 'Server', 'Prefill' or 'Decode'"
        assert_told(done, "property kind ", "found 'Router'", kinds, "change it")
    assert {} == stack.resources()


@pytest.mark.ci
def test_two_roles_of_one_name_end_the_program(stack: Stack, here: Place) -> None:
    with untouched(here):
        done = stack.up([SERVER, SERVER])
    assert 1 == done.code
    said = "roles[1].name: there are two roles 'server', needed each name once; rename one"
    assert any(line.strip().endswith(said) for line in done.text.splitlines()), done.text
    assert {} == stack.resources()


@pytest.mark.ci
def test_what_the_cluster_refuses_at_a_create_and_at_an_edit(stack: Stack, here: Place) -> None:
    elsewhere = {"instance_type": {"name": "b200", "local_queue": "b200", **OFFER}}
    with untouched(here):
        done = stack.up([{**SERVER, **elsewhere}])
    assert_told(done, "instanceType.localQueue: ", "has no LocalQueue b200", "create it, or name")
    assert {} == stack.resources()

    assert 0 == stack.up([SERVER]).code
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    here.api.patch(here.core, {"metadata": {"labels": labels}})
    before = stack.outputs()
    with untouched(here):
        done = stack.up([{**SERVER, "resources": {"count": 4}}])
    assert_told(
        done,
        "role server: the cluster refuses the rendered Pod",
        'violates PodSecurity "restricted',
        "nothing was deleted or written: change the declaration or the policy",
    )
    achieved = ("fingerprint", "replicas", "size", "claim", "recordUid")
    after = stack.outputs()["chat-server"]
    assert {key: before["chat-server"][key] for key in achieved} == {
        key: after[key] for key in achieved
    }


@pytest.mark.ci
def test_a_name_that_is_taken(stack: Stack, here: Place) -> None:
    uid = here.api.create(
        f"{here.core}/services",
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "chat"},
            "spec": {"clusterIP": "None"},
        },
    )["metadata"]["uid"]
    with untouched(here):
        done = stack.up([SERVER])
    assert_told(done, f"Service chat (uid {uid})", "this name is needed", "nothing was changed")
    assert {} == stack.resources()


@pytest.mark.ci
def test_a_kubeconfig_that_is_missing(stack: Stack, here: Place) -> None:
    absent = str(stack.folder / "absent")
    stack.declare([SERVER])
    with untouched(here):
        done = stack.run("up", "--yes", "--skip-preview", KUBECONFIG=absent)
    assert_told(done, f"KUBECONFIG names {absent}, which does not exist", "set KUBECONFIG or")
    assert {} == stack.resources()


# --- a standing stack ---


@pytest.mark.ci
@pytest.mark.parametrize("is_silent", [False, True], ids=["dead", "silent"])
def test_a_server_that_does_not_answer_leaves_a_standing_stack_alone(
    stack: Stack, here: Place, is_silent: bool
) -> None:
    assert 0 == stack.up([SERVER]).code
    before, objects = exported(stack), standing(here)
    stack.declare([{**SERVER, "replicas": 3}])
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if is_silent:
            server.listen(64)
        address = f"https://127.0.0.1:{server.getsockname()[1]}"
        kubeconfig = stack.folder / "dead"
        config = yaml.safe_load(here.sandbox.kubeconfig.read_text())
        config["clusters"][0]["cluster"]["server"] = address
        kubeconfig.write_text(yaml.safe_dump(config))
        for command in ("up", "refresh", "destroy"):
            begun = time.monotonic()
            done = stack.run(command, "--yes", "--skip-preview", KUBECONFIG=str(kubeconfig))
            took = time.monotonic() - begun
            assert_told(done, address, "a reachable API server is needed", "check the address")
            assert took < SECONDS, (command, took)
            assert before == exported(stack)
    assert objects == standing(here)


@pytest.fixture
def other() -> Iterator[Sandbox]:
    """A second cluster."""
    with Sandbox.up(f"other-{os.getpid()}", audit_log=True, owned=True) as running:
        yield running


@pytest.mark.ci
def test_a_context_of_another_cluster(stack: Stack, here: Place, other: Sandbox) -> None:
    assert 0 == stack.up([SERVER]).code
    other.add_namespace(stack.namespace)
    there = Place(other, stack.namespace)
    kubeconfig = stack.folder / "both"
    both = merged(here=here.sandbox.kubeconfig, there=other.kubeconfig)
    kubeconfig.write_text(yaml.safe_dump({**both, "current-context": "here"}))
    leads = {"KUBECONFIG": str(kubeconfig)}
    assert 0 == stack.run("preview", "--expect-no-changes", **leads).code

    kubeconfig.write_text(yaml.safe_dump({**both, "current-context": "there"}))
    before = exported(stack)
    edit = [{**SERVER, "resources": {"count": 4}}]
    for command, roles in (("refresh", [SERVER]), ("up", [SERVER]), ("up", edit), ("destroy", [])):
        stack.declare(roles)
        with untouched(here), untouched(there):
            done = stack.run(command, "--yes", "--skip-preview", **leads)
        assert_told(
            done,
            f"the connection leads to cluster {cluster_uid(other)}",
            f"this role stands in cluster {cluster_uid(here.sandbox)}",
            "nothing was changed: set `gpustack:context` or KUBECONFIG to the right cluster",
        )
        assert before == exported(stack)
    assert [] == there.pods()


def cluster_uid(sandbox: Sandbox) -> str:
    return str(sandbox.api.get("/api/v1/namespaces/kube-system")["metadata"]["uid"])


def merged(**files: Path) -> dict[str, Any]:
    """One kubeconfig whose contexts have the names that are given."""
    config: dict[str, Any] = {"apiVersion": "v1", "kind": "Config"}
    for name, file in files.items():
        found = yaml.safe_load(file.read_text())
        for section, inner in (("clusters", "cluster"), ("users", "user")):
            entry = {"name": name, inner: found[section][0][inner]}
            config.setdefault(section, []).append(entry)
        context = {"cluster": name, "user": name}
        config.setdefault("contexts", []).append({"name": name, "context": context})
    return config
