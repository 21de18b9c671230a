from typing import Any

import pytest

from gpustack_deploy.model import identity
from gpustack_deploy.model.desired import member_fingerprint
from gpustack_deploy.model.observed import observe_member
from gpustack_deploy.model.role import RoleDeclaration
from gpustack_deploy.plan.fingerprint import role_fingerprint
from gpustack_deploy.plan.render import RENDERER_VERSION, Owner, answers_api, render_member
from tests.declarations import CPU, H200, role

pytestmark = pytest.mark.check

OWNER = Owner(name="chat-server", uid="0f")
PAIR = {"prefill": "Prefill", "decode": "Decode"}


def member(declaration: RoleDeclaration, ordinal: int = 0, index: int = 0) -> dict[str, Any]:
    return render_member(
        declaration, ordinal, index, group_name="chat-server-t1", token="t1", owner=OWNER
    )


def container(declaration: RoleDeclaration) -> dict[str, Any]:
    containers: list[dict[str, Any]] = member(declaration)["spec"]["containers"]
    assert 1 == len(containers)
    return containers[0]


def test_a_managed_server_on_one_card_is_rendered_like_this() -> None:
    pod = member(role(), ordinal=2)
    hook = pod["spec"]["containers"][0].pop("lifecycle")
    assert ["python3", "-c"] == hook["preStop"]["exec"]["command"][:2]
    health = {"httpGet": {"path": "/health", "port": 8000, "scheme": "HTTP"}}
    pace = {"periodSeconds": 10, "timeoutSeconds": 5, "successThreshold": 1}
    assert {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "chat-server-r2-m0",
            "namespace": "ml",
            "labels": {
                "app.kubernetes.io/name": "model-deployment",
                "app.kubernetes.io/instance": "chat",
                "app.kubernetes.io/component": "server",
                "app.kubernetes.io/part-of": "gpustack-operator-worker",
                "kueue.x-k8s.io/queue-name": "h200",
                "kueue.x-k8s.io/pod-group-name": "chat-server-t1",
                "modeldeployment.gpustack.ai/pod-ordinal": "2",
                "modeldeployment.gpustack.ai/member-index": "0",
                "modeldeployment.gpustack.ai/role-kind": "server",
                "modeldeployment.gpustack.ai/api-answering": "true",
            },
            "annotations": {
                "kueue.x-k8s.io/pod-group-total-count": "1",
                "kueue.x-k8s.io/role-hash": "server",
                "kueue.x-k8s.io/pod-group-serving": "true",
                "modeldeployment.gpustack.ai/pod-spec-hash": member_fingerprint(
                    role_fingerprint(role()), 2, 0
                ),
                "modeldeployment.gpustack.ai/attempt-token": "t1",
                "modeldeployment.gpustack.ai/renderer-version": "1",
                "prometheus.io/scrape": "true",
                "prometheus.io/path": "/metrics",
                "prometheus.io/port": "8000",
                "prometheus.io/scheme": "http",
            },
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "name": "chat-server",
                    "uid": "0f",
                    "controller": True,
                }
            ],
        },
        "spec": {
            "restartPolicy": "Always",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 30,
            "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}],
            "containers": [
                {
                    "name": "main",
                    "image": "vllm/vllm-openai:v0.11.0",
                    "command": [
                        *("vllm", "serve", "Qwen/Qwen3-32B"),
                        *("--host", "0.0.0.0", "--port", "8000"),
                    ],
                    "ports": [{"name": "http", "containerPort": 8000, "protocol": "TCP"}],
                    "resources": {
                        "limits": {
                            "cpu": "16",
                            "memory": "192Gi",
                            "ephemeral-storage": "15Gi",
                            "nvidia.com/gpu": "1",
                        },
                        "requests": {
                            "cpu": "1600m",
                            "memory": "24Gi",
                            "ephemeral-storage": "1920Mi",
                            "nvidia.com/gpu": "1",
                        },
                    },
                    "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
                    "startupProbe": {**health, **pace, "failureThreshold": 360},
                    "readinessProbe": {**health, **pace, "failureThreshold": 3},
                    "livenessProbe": {**health, **pace, "failureThreshold": 6},
                }
            ],
        },
    } == pod


def test_a_member_of_two_has_a_hostname_and_knows_its_seat() -> None:
    pod = member(role(size=2), ordinal=3, index=1)
    assert "chat-server-r3-m1" == pod["metadata"]["name"]
    assert ("chat-server-r3-m1", "chat-server-r3") == (
        pod["spec"]["hostname"],
        pod["spec"]["subdomain"],
    )
    assert "2" == pod["metadata"]["annotations"][identity.KUEUE_GROUP_TOTAL]
    label = "metadata.labels['modeldeployment.gpustack.ai/member-index']"
    assert [
        {
            "name": "GPUSTACK_REPLICA_LEADER_ADDRESS",
            "value": "chat-server-r3-m0.chat-server-r3",
        },
        {"name": "GPUSTACK_REPLICA_SIZE", "value": "2"},
        {"name": "GPUSTACK_MEMBER_INDEX", "valueFrom": {"fieldRef": {"fieldPath": label}}},
    ] == pod["spec"]["containers"][0]["env"]


def test_members_of_one_replica_share_their_container() -> None:
    first, second = (member(role(size=2), index=index) for index in (0, 1))
    assert first["spec"]["containers"] == second["spec"]["containers"]


def test_a_member_of_one_has_neither_hostname_nor_seat() -> None:
    pod = member(role())
    assert set() == {"hostname", "subdomain"} & set(pod["spec"])
    assert "env" not in pod["spec"]["containers"][0]


def test_a_take_over_member_gets_its_own_line_and_nothing_of_ours() -> None:
    pod = member(
        role(
            command=["serve", "x"], extraArgs=["--inert"], size=2, env=[{"name": "A", "value": ""}]
        )
    )
    (main,) = pod["spec"]["containers"]
    assert ["serve", "x"] == main["command"]
    assert set() == {"lifecycle", "startupProbe", "readinessProbe", "livenessProbe"} & set(main)
    assert "terminationGracePeriodSeconds" not in pod["spec"]
    annotations = pod["metadata"]["annotations"]
    assert not [key for key in annotations if key.startswith("prometheus.io/")]
    seat = ["GPUSTACK_REPLICA_LEADER_ADDRESS", "GPUSTACK_REPLICA_SIZE", "GPUSTACK_MEMBER_INDEX"]
    assert [*seat, "A"] == [entry["name"] for entry in main["env"]]
    assert not observe_member(pod).is_managed
    assert observe_member(member(role())).is_managed


def test_without_an_owner_there_is_no_owner_reference() -> None:
    pod = render_member(role(), 0, 0, group_name="g", token="t", owner=None)
    assert "ownerReferences" not in pod["metadata"]


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({"size": 1}, [True]),
        ({"size": 3}, [True, False, False]),
        ({"size": 2, "extraArgs": ["--data-parallel-external-lb"]}, [True, True]),
        ({"size": 2, "command": ["x"]}, [True, False]),
    ],
)
def test_who_answers_the_api_follows_the_shape(fields: dict[str, Any], want: list[bool]) -> None:
    declaration = role(**fields)
    members = range(declaration.size)
    assert want == [answers_api(declaration, index) for index in members]
    labels = [member(declaration, index=index)["metadata"]["labels"] for index in members]
    assert want == [each.get(identity.LABEL_API_ANSWERING) == "true" for each in labels]


def test_what_the_engine_observes_is_what_was_rendered() -> None:
    declaration = role(size=2, replicas=2)
    got = observe_member(member(declaration, ordinal=1, index=1))
    want = member_fingerprint(role_fingerprint(declaration), 1, 1)
    assert (1, 1, 2, want, RENDERER_VERSION, "t1", "h200", "0f") == (
        got.ordinal,
        got.member_index,
        got.group_total,
        got.fingerprint,
        got.renderer_version,
        got.token,
        got.local_queue,
        got.owner_uid,
    )


def test_every_field_of_the_pod_block_is_rendered() -> None:
    pod = member(
        role(
            privileged=True,
            imagePullPolicy="Always",
            imagePullSecrets=["pull"],
            terminationGracePeriodSeconds=120,
            topology={"requiredLevel": "topology.kubernetes.io/zone"},
            pod={
                "labels": {"team": "a"},
                "annotations": {"example.com/note": "b"},
                "serviceAccountName": "sa",
                "priorityClassName": "high",
                "workloadPriorityClass": "urgent",
                "runtimeClassName": "nvidia",
                "nodeSelector": {"disk": "ssd"},
                "tolerations": [{"key": "gpu", "operator": "Exists", "tolerationSeconds": 5}],
                "securityContext": {"runAsNonRoot": True},
                "containerSecurityContext": {"capabilities": {"drop": ["ALL"]}},
                "dnsPolicy": "Default",
            },
        )
    )
    metadata, spec = pod["metadata"], pod["spec"]
    assert ("a", "urgent") == (
        metadata["labels"]["team"],
        metadata["labels"]["kueue.x-k8s.io/priority-class"],
    )
    assert ("b", "topology.kubernetes.io/zone") == (
        metadata["annotations"]["example.com/note"],
        metadata["annotations"]["kueue.x-k8s.io/podset-required-topology"],
    )
    assert {
        "terminationGracePeriodSeconds": 120,
        "serviceAccountName": "sa",
        "priorityClassName": "high",
        "runtimeClassName": "nvidia",
        "dnsPolicy": "Default",
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "gpu", "operator": "Exists", "tolerationSeconds": 5}],
        "securityContext": {"runAsNonRoot": True},
        "imagePullSecrets": [{"name": "pull"}],
    }.items() <= spec.items()
    (main,) = spec["containers"]
    assert "Always" == main["imagePullPolicy"]
    assert {"capabilities": {"drop": ["ALL"]}, "privileged": True} == main["securityContext"]


@pytest.mark.parametrize(
    ("env", "want"),
    [
        ({"value": "x"}, {"value": "x"}),
        ({"value": ""}, {"value": ""}),
        (
            {"secretRef": {"name": "hf", "key": "token"}},
            {"valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}},
        ),
        (
            {"configMapRef": {"name": "c", "key": "k"}},
            {"valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
        ),
        ({"fieldRef": "status.podIP"}, {"valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}),
    ],
)
def test_a_variable_is_rendered_from_its_source(env: dict[str, Any], want: dict[str, Any]) -> None:
    assert [{"name": "A", **want}] == container(role(env=[{"name": "A", **env}]))["env"]


def test_volumes_are_rendered_in_order_and_empty_entries_left_out() -> None:
    declaration = role(
        volumes=[
            {"mountPath": "/none"},
            {"mountPath": "/config", "configMap": {"name": "c"}, "readOnly": True},
            {"mountPath": "/secret", "secret": {"name": "s"}, "subPath": "a/b"},
            {"mountPath": "/host", "hostPath": {"path": "/data", "type": "Directory"}},
            {"mountPath": "/claim", "persistentVolumeClaim": {"claimName": "p"}},
            {"mountPath": "/scratch", "emptyDir": {"sizeLimit": "1024Mi"}},
        ],
        shmSize="2048Mi",
    )
    assert [
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "2Gi"}},
        {"name": "volume-1", "configMap": {"name": "c"}},
        {"name": "volume-2", "secret": {"secretName": "s"}},
        {"name": "volume-3", "hostPath": {"path": "/data", "type": "Directory"}},
        {"name": "volume-4", "persistentVolumeClaim": {"claimName": "p"}},
        {"name": "volume-5", "emptyDir": {"sizeLimit": "1Gi"}},
    ] == member(declaration)["spec"]["volumes"]
    assert [
        {"name": "shm", "mountPath": "/dev/shm"},
        {"name": "volume-1", "mountPath": "/config", "readOnly": True},
        {"name": "volume-2", "mountPath": "/secret", "subPath": "a/b"},
        {"name": "volume-3", "mountPath": "/host"},
        {"name": "volume-4", "mountPath": "/claim"},
        {"name": "volume-5", "mountPath": "/scratch"},
    ] == container(declaration)["volumeMounts"]


def test_a_mount_at_shared_memory_replaces_the_default_one() -> None:
    declaration = role(volumes=[{"mountPath": "/dev/shm", "emptyDir": {"medium": "Memory"}}])
    assert [{"name": "volume-0", "mountPath": "/dev/shm"}] == container(declaration)["volumeMounts"]


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({"extraArgs": ["--port", "9000"]}, [("http", 9000, "TCP")]),
        (
            {"ports": [{"port": 9000}, {"port": 9001, "protocol": "UDP"}]},
            [("tcp-9000", 9000, "TCP"), ("udp-9001", 9001, "UDP")],
        ),
        (
            {"role": "prefill", "kind": "Prefill", "roleKinds": PAIR},
            [("http", 8000, "TCP"), ("bootstrap", 8998, "TCP")],
        ),
        ({"role": "decode", "kind": "Decode", "roleKinds": PAIR}, [("http", 8000, "TCP")]),
        (
            {"role": "prefill", "kind": "Prefill", "roleKinds": PAIR, "command": ["x"]},
            [("http", 8000, "TCP")],
        ),
    ],
)
def test_ports_have_derived_names(fields: dict[str, Any], want: list[tuple[str, int, str]]) -> None:
    ports = container(role(**fields))["ports"]
    assert want == [(each["name"], each["containerPort"], each["protocol"]) for each in ports]


def test_the_pairs_fabric_names_the_interface_key() -> None:
    half = {"role": "decode", "kind": "Decode", "roleKinds": PAIR, "interface": 2}
    for protocol, key in (("RDMA", identity.RDMA), ("EFA", identity.EFA)):
        limits = container(role(**half, kvTransfer={"protocol": protocol}))["resources"]["limits"]
        assert "2" == limits[key]
    limits = container(role(size=2, interface=1, instanceType=CPU))["resources"]["limits"]
    assert "1" == limits[identity.RDMA_SHARED]


def test_kueues_fast_admission_is_never_asked_for() -> None:
    for fields in ({}, {"size": 4}, {"command": ["x"]}, {"instanceType": H200}):
        text = str(member(role(**fields)))
        assert "pod-group-fast-admission" not in text
