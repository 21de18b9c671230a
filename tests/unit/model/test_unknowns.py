"""A preview judges what is known; what touches an unknown value waits until it is known."""

from typing import Any

import pytest

from gpustack_deploy.model.paths import has_step, steps_of
from gpustack_deploy.model.spec import role_problems
from tests.declarations import H200, raw_role

pytestmark = pytest.mark.check

LEAVES = [
    *("deployment", "namespace", "role", "kind", "frontRole", "model", "engine.name"),
    *("engine.version", "kvTransfer.protocol", "replicas", "size", "interface", "image"),
    *("instanceType.name", "instanceType.localQueue", "instanceType.unitCpu"),
    *("instanceType.accelerator_group", "resources.count", "startupTimeoutSeconds", "privileged"),
    *("imagePullPolicy", "imagePullSecrets[0]", "shmSize", "terminationGracePeriodSeconds"),
    *("command[0]", "extraArgs[0]", "env[0].name", "env[0].value", "env[1].secretRef.name"),
    *("ports[0].port", "ports[0].protocol", "volumes[0].mountPath", "volumes[0].configMap.name"),
    *("topology.requiredLevel", "pod.labels.team", 'pod.labels["example.com/team"]'),
    *("pod.tolerations[0].effect", "pod.tolerations[0].operator", "pod.dnsPolicy"),
    *("rollout.gate", "rollout.lostNode", "readiness.http.path", "readiness.http.port"),
    *("volumes[1].emptyDir.medium", 'roleKinds["server"]'),
]


def everything() -> dict[str, Any]:
    return raw_role(
        command=["serve"],
        extraArgs=["--x"],
        kvTransfer={"protocol": "TCP"},
        resources={"count": 1},
        imagePullSecrets=["pull"],
        env=[
            {"name": "A", "value": "x"},
            {"name": "B", "secretRef": {"name": "s", "key": "k"}},
        ],
        ports=[{"port": 80, "protocol": "TCP"}],
        volumes=[
            {"mountPath": "/a", "configMap": {"name": "c"}},
            {"mountPath": "/b", "emptyDir": {"medium": "Memory"}},
        ],
        topology={"requiredLevel": "topology.kubernetes.io/zone"},
        pod={
            "labels": {"team": "a", "example.com/team": "a"},
            "tolerations": [{"effect": "NoSchedule", "operator": "Exists"}],
            "dnsPolicy": "Default",
        },
        readiness={"http": {"path": "/up", "port": 80}},
    )


class Unknown:
    """Stands where a preview has no value yet."""


def with_unknown(raw: dict[str, Any], *paths: str) -> dict[str, Any]:
    for path in paths:
        target: Any = raw
        *above, last = steps_of(path)
        for step in above:
            if not has_step(target, step):
                target[step] = {}
            target = target[step]
        target[last] = Unknown()
    return raw


def test_the_whole_is_accepted_when_it_is_known() -> None:
    assert () == role_problems(everything(), frozenset())


@pytest.mark.parametrize("leaf", LEAVES)
def test_any_single_leaf_may_be_unknown(leaf: str) -> None:
    assert () == role_problems(with_unknown(everything(), leaf), frozenset({leaf}))


def test_all_leaves_may_be_unknown_at_once() -> None:
    assert () == role_problems(with_unknown(everything(), *LEAVES), frozenset(LEAVES))


@pytest.mark.parametrize("leaf", LEAVES)
def test_another_field_is_still_judged(leaf: str) -> None:
    raw = with_unknown(everything(), leaf)
    raw["pod"]["annotations"] = {"kueue.x-k8s.io/x": "1"}
    problems = role_problems(raw, frozenset({leaf}))
    assert ['pod.annotations["kueue.x-k8s.io/x"]'] == [problem.path for problem in problems]


@pytest.mark.parametrize(
    ("fields", "unknown"),
    [
        ({"instanceType": Unknown()}, "instanceType"),
        ({"env": Unknown()}, "env"),
        ({"engine": Unknown()}, "engine"),
        ({"pod": Unknown()}, "pod"),
        ({"resources": Unknown(), "instanceType": {**H200, "acceleratorCapacity": 1}}, "resources"),
        ({"size": Unknown(), "interface": 1}, "size"),
        ({"image": Unknown()}, "image"),
        ({"engine": {"name": "vLLM", "version": Unknown()}, "image": None}, "engine.version"),
        ({"env": [{"name": "A", "value": Unknown()}]}, "env[0].value"),
        ({"env": [{"name": Unknown(), "value": "1"}, {"name": "A", "value": "2"}]}, "env[0].name"),
        ({"ports": [{"port": Unknown()}], "extraArgs": ["--port", "80"]}, "ports[0].port"),
        ({"extraArgs": ["-tp", Unknown()]}, "extraArgs[1]"),
        ({"roleKinds": Unknown()}, "roleKinds"),
    ],
)
def test_a_rule_that_reads_it_is_deferred(fields: dict[str, Any], unknown: str) -> None:
    assert () == role_problems(raw_role(**fields), frozenset({unknown}))


def test_a_wrong_type_beside_an_unknown_value_is_refused() -> None:
    raw = raw_role(size="2", image=Unknown())
    assert ["size"] == [problem.path for problem in role_problems(raw, frozenset({"image"}))]


def test_an_unknown_path_that_does_not_exist_changes_nothing() -> None:
    unknown = frozenset({"env[3].value", "topology.requiredLevel", "extraArgs[5]"})
    assert () == role_problems(raw_role(extraArgs=["--x"]), unknown)
