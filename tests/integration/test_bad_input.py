"""Every wrong input: one sentence with what was found, what was needed and what to do next.

It comes within 15 seconds, nothing is deleted and nothing is written.
"""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gpustack_deploy.engine.connection import Connection
from gpustack_deploy.engine.replacement import create_role, update_role
from gpustack_deploy.model.errors import (
    AdmissionRefused,
    ForeignObject,
    GpustackDeployError,
    InvalidSpec,
    KueueNotManaging,
    RecordUnreadable,
    Unreachable,
)
from gpustack_deploy.model.role import RoleDeclaration
from gpustack_deploy.model.spec import parse_deployment
from gpustack_deploy.model.state import RoleState
from gpustack_deploy.sandbox.api import Json
from gpustack_deploy.sandbox.ports import free_ports
from tests.faults.gate import Gate
from tests.integration.place import KUEUE, Place, instance_type, writes

SECONDS = 15.0


# --- what no cluster is needed for ----------------------------------------------------------


def deployment(**changes: Any) -> Json:
    role = {
        "name": "server",
        "instanceType": instance_type("h200"),
        "image": "vllm/vllm-openai:v0.19.1",
    }
    raw: Json = {
        "name": "chat",
        "model": "openai/gpt-oss-20b",
        "engine": {"name": "vLLM", "version": "0.19.1"},
        "roles": [role | changes.pop("role", {})],
        **changes,
    }
    return raw


def pair(*kinds: str) -> Json:
    raw = deployment()
    raw["roles"] = [
        {**raw["roles"][0], "name": f"role-{position}", "kind": kind}
        for position, kind in enumerate(kinds)
    ]
    return raw


@pytest.mark.check
@pytest.mark.parametrize(
    ("raw", "path", "found", "next_step"),
    [
        pytest.param(
            deployment(role={"replcas": 2}),
            "roles[0].replcas",
            "there is no such field",
            "did you mean replicas",
            id="unknown field",
        ),
        pytest.param(
            deployment(role={"replicas": "two"}),
            "roles[0].replicas",
            "found 'two', needed a whole number",
            "change it",
            id="wrong type",
        ),
        pytest.param(
            deployment(role={"kind": "Router"}),
            "roles[0].kind",
            "found 'Router', needed one of 'Server', 'Prefill' or 'Decode'",
            "change it",
            id="unknown role kind",
        ),
        pytest.param(
            pair("Server", "Prefill", "Decode"),
            "roles[1].kind",
            "found kind Prefill beside a Server",
            "declare two deployments",
            id="Server mixed with Prefill",
        ),
        pytest.param(
            deployment(roles=[*deployment()["roles"] * 2]),
            "roles[0].name",
            "found 'server' 2 times, needed each name once",
            "rename one",
            id="two roles of one name",
        ),
        pytest.param(
            deployment(name="c" * 60),
            "roles[0].name",
            "(67",
            "shorten or rename the deployment or the role",
            id="Service name too long for DNS",
        ),
        pytest.param(
            deployment(name="c" * 51, role={"size": 12, "replicas": 12}),
            "roles[0].name",
            "needed a hostname of at most 63",
            "shorten the role's name, shorten the deployment's name, or declare fewer replicas",
            id="member name too long for DNS",
        ),
    ],
)
def test_a_declaration_that_cannot_be(raw: Json, path: str, found: str, next_step: str) -> None:
    with pytest.raises(InvalidSpec) as refusal:
        parse_deployment(raw)
    assert refusal.value.path.startswith(path)
    sentence = str(refusal.value)
    assert_one_sentence(sentence)
    assert found in sentence
    assert next_step in sentence


# --- the way to the cluster -----------------------------------------------------------------


@pytest.mark.core
def test_a_kubeconfig_that_is_missing(place: Place, tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    sentence = refused(place, Unreachable, place.declared(), kubeconfig=str(absent))
    assert f"{absent}, which does not exist" in sentence
    assert "set KUBECONFIG" in sentence


@pytest.mark.core
def test_a_kubeconfig_that_leads_to_a_dead_server(place: Place, tmp_path: Path) -> None:
    (port,) = free_ports(1, taken=frozenset())
    text = place.sandbox.kubeconfig.read_text()
    dead = tmp_path / "dead"
    dead.write_text(re.sub(r"server: .*", f"server: https://127.0.0.1:{port}", text))
    sentence = refused(place, Unreachable, place.declared(), kubeconfig=str(dead))
    assert f"127.0.0.1:{port}" in sentence
    assert "check the address" in sentence


@pytest.mark.core
def test_a_context_that_the_kubeconfig_does_not_have(place: Place) -> None:
    sentence = refused(place, Unreachable, place.declared(), context="elsewhere")
    assert "'elsewhere' is not in" in sentence
    assert "set `gpustack:context`" in sentence


@pytest.mark.core
def test_a_cluster_without_kueue(place: Place, tmp_path: Path) -> None:
    with Gate(place.sandbox) as gate:
        gate.hide("/apis/kueue.x-k8s.io")
        kubeconfig = str(gate.kubeconfig(tmp_path))
        sentence = refused(place, KueueNotManaging, place.declared(), kubeconfig=kubeconfig)
    assert "does not serve kueue.x-k8s.io/v1beta2" in sentence
    assert "install Kueue" in sentence


# --- the namespace --------------------------------------------------------------------------


@pytest.mark.core
def test_a_namespace_that_does_not_exist(place: Place) -> None:
    sentence = refused(place, InvalidSpec, place.declared(namespace="nowhere"))
    assert "namespace nowhere does not exist" in sentence
    assert "create it first" in sentence


@pytest.mark.core
def test_a_namespace_that_kueue_does_not_manage(place: Place) -> None:
    queues = f"{KUEUE}/namespaces/kube-system/localqueues"
    place.api.create(
        queues,
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "LocalQueue",
            "metadata": {"name": "h200"},
            "spec": {"clusterQueue": "h200"},
        },
    )
    try:
        declared = place.declared(namespace="kube-system")
        sentence = refused(place, KueueNotManaging, declared)
    finally:
        place.api.delete(f"{queues}/h200")
    assert "Kueue does not manage Pods in namespace kube-system" in sentence
    assert "managedJobsNamespaceSelector" in sentence


@pytest.mark.core
def test_a_local_queue_that_does_not_exist(place: Place) -> None:
    declared = place.declared(instanceType=instance_type("b200"))
    sentence = refused(place, InvalidSpec, declared)
    assert "has no LocalQueue b200" in sentence
    assert "create it, or name one" in sentence
    state = place.create(place.declared())
    assert sentence == refused(place, InvalidSpec, declared, state=state)


# --- what the cluster refuses ---------------------------------------------------------------


@contextmanager
def pod_security(place: Place) -> Iterator[None]:
    enforced = {"pod-security.kubernetes.io/enforce": "baseline"}
    place.api.patch(place.core, {"metadata": {"labels": enforced}})
    yield


@contextmanager
def limit_range(place: Place) -> Iterator[None]:
    limits = [{"type": "Container", "max": {"cpu": "2"}}]
    place.api.create(
        f"{place.core}/limitranges",
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "small"},
            "spec": {"limits": limits},
        },
    )
    yield


@pytest.mark.core
@pytest.mark.parametrize(
    ("policy", "changes", "found"),
    [
        pytest.param(pod_security, {"privileged": True}, "violates PodSecurity", id="PodSecurity"),
        pytest.param(
            limit_range, {"resources": {"count": 4}}, "maximum cpu usage", id="LimitRange"
        ),
    ],
)
def test_a_pod_that_the_cluster_refuses(
    place: Place, policy: Callable[[Place], Any], changes: dict[str, Any], found: str
) -> None:
    small: dict[str, Any] = {"instanceType": instance_type("h200", unitCpu=1)}
    state = place.create(place.declared(replicas=2, **small))
    before = place.identities()
    with policy(place):
        edited = place.declared(replicas=2, **small, **changes)
        sentence = refused(place, AdmissionRefused, edited, state=state)
        assert found in sentence
        assert "change the declaration or the policy" in sentence
        assert before == place.identities()
        assert place.record()["slot"] is None
        other = place.declared(deployment="other", **small, **changes)
        assert found in refused(place, AdmissionRefused, other)
    assert before == place.identities()


# --- names that are taken -------------------------------------------------------------------


@pytest.mark.core
@pytest.mark.parametrize("name", ["chat", "chat-server", "chat-server-r1"])
def test_a_service_of_our_name_that_someone_else_owns(place: Place, name: str) -> None:
    uid = place.api.create(
        f"{place.core}/services",
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name},
            "spec": {"clusterIP": "None", "selector": {"app": "theirs"}},
        },
    )["metadata"]["uid"]
    sentence = refused(place, ForeignObject, place.declared(replicas=2, size=2))
    assert f"Service {name} (uid {uid})" in sentence
    assert "rename" in sentence
    assert uid == place.service_uids()[name]


@pytest.mark.core
def test_a_peer_service_of_our_name_stops_an_edit_before_its_first_delete(place: Place) -> None:
    state = place.create(place.declared(replicas=2))
    before = place.identities()
    place.api.create(
        f"{place.core}/services",
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "chat-server-r0"},
            "spec": {"clusterIP": "None"},
        },
    )
    edited = place.declared(replicas=2, size=2)
    sentence = refused(place, ForeignObject, edited, state=state)
    assert "Service chat-server-r0" in sentence
    assert before == place.identities()


@pytest.mark.core
@pytest.mark.parametrize(
    ("error", "labels", "data", "found"),
    [
        pytest.param(ForeignObject, {}, {"theirs": "1"}, "ConfigMap chat-server", id="foreign"),
        pytest.param(
            RecordUnreadable,
            {
                "app.kubernetes.io/name": "model-deployment",
                "app.kubernetes.io/instance": "chat",
                "app.kubernetes.io/component": "server",
                "modeldeployment.gpustack.ai/record": "true",
            },
            {"record": '{"schemaVersion": 99, "writtenBy": "9.0"}'},
            "written by gpustack-deploy 9.0",
            id="of a newer version",
        ),
    ],
)
def test_a_record_of_our_name_that_is_not_ours_to_read(
    place: Place,
    error: type[GpustackDeployError],
    labels: dict[str, str],
    data: dict[str, str],
    found: str,
) -> None:
    place.api.create(
        f"{place.core}/configmaps",
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "chat-server", "labels": labels},
            "data": data,
        },
    )
    sentence = refused(place, error, place.declared())
    assert found in sentence
    assert "nothing was changed" in sentence


# --- how it is measured ---------------------------------------------------------------------


def refused(
    place: Place,
    error: type[GpustackDeployError],
    declared: RoleDeclaration,
    *,
    state: RoleState | None = None,
    kubeconfig: str = "",
    context: str = "",
) -> str:
    """The sentence of the refusal, in time and without a write."""
    since, pods = place.mark(), [each["metadata"]["uid"] for each in place.pods()]
    began = time.monotonic()
    with pytest.raises(error) as refusal:
        place.run(
            lambda it: (
                update_role(it, declared, state, place.context())
                if state
                else create_role(it, declared, place.context())
            ),
            connection=Connection(kubeconfig or str(place.sandbox.kubeconfig), context),
        )
    assert time.monotonic() - began < SECONDS
    assert [] == writes(place.requests(since=since))
    assert pods == [each["metadata"]["uid"] for each in place.pods()]
    sentence = str(refusal.value)
    assert_one_sentence(sentence)
    return sentence


def assert_one_sentence(text: str) -> None:
    assert "\n" not in text
    assert "Traceback" not in text
    assert ". " not in text
    assert len(text) < 600
