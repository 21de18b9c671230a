"""What is dumped is read back as the same declaration, whatever it says."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpustack_deploy.model.spec import dump_role, parse_role, role_problems
from gpustack_deploy.plan.fingerprint import role_fingerprint
from tests.declarations import CPU, H200, PARTITIONED, SLICED, raw_role

pytestmark = pytest.mark.check


def _named(entries: list[tuple[str, Any]]) -> list[dict[str, Any]]:
    return [{"name": name, **source} for name, source in entries]


def _mounted(entries: list[tuple[str, Any]]) -> list[dict[str, Any]]:
    return [{"mountPath": path, **source} for path, source in entries]


NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,10}[a-z0-9])?", fullmatch=True)
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12)
LABELS = st.dictionaries(
    st.from_regex(r"example\.com/[a-z]{1,8}", fullmatch=True),
    st.from_regex(r"[A-Za-z0-9]{0,8}", fullmatch=True),
    max_size=3,
)
KEYS = st.fixed_dictionaries({"name": NAMES, "key": NAMES})
SOURCES = st.one_of(
    st.fixed_dictionaries({"value": WORDS}),
    st.fixed_dictionaries({"secretRef": KEYS}),
    st.fixed_dictionaries({"configMapRef": KEYS}),
    st.fixed_dictionaries({"fieldRef": st.just("status.podIP")}),
)
ENV = st.lists(
    st.tuples(st.from_regex(r"[A-Z][A-Z_]{0,6}", fullmatch=True), SOURCES),
    max_size=4,
    unique_by=lambda each: each[0],
).map(_named)
VOLUMES = st.lists(
    st.tuples(
        st.from_regex(r"/mnt/[a-z]{1,6}", fullmatch=True),
        st.sampled_from(
            [
                {},
                {"emptyDir": {}},
                {"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
                {"configMap": {"name": "c"}, "readOnly": True},
                {"secret": {"name": "s"}, "subPath": "a/b"},
                {"hostPath": {"path": "/data", "type": "Directory"}},
                {"persistentVolumeClaim": {"claimName": "weights"}},
            ]
        ),
    ),
    max_size=3,
    unique_by=lambda each: each[0],
).map(_mounted)
HARDWARE = st.sampled_from(
    [
        {"instanceType": H200},
        {"instanceType": H200, "resources": {"count": 8}},
        {"instanceType": {**H200, "overcommit": False}, "resources": {"count": 0}},
        {"instanceType": SLICED, "resources": {"memoryPercentage": 25, "coresPercentage": 10}},
        {"instanceType": PARTITIONED, "resources": {"profile": "1g.18gb"}},
        {"instanceType": CPU},
    ]
)
POD = st.fixed_dictionaries(
    {},
    optional={
        "labels": LABELS,
        "annotations": LABELS,
        "serviceAccountName": NAMES,
        "workloadPriorityClass": NAMES,
        "nodeSelector": LABELS,
        "tolerations": st.just([{"key": "gpu", "operator": "Exists", "tolerationSeconds": 5}]),
        "securityContext": st.just({"runAsUser": 1, "seccompProfile": {}, "x": [None, 1.5]}),
        "dnsPolicy": st.just("Default"),
    },
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "replicas": st.integers(1, 1024),
        "size": st.integers(1, 64),
        "command": st.lists(WORDS, min_size=1, max_size=3).map(lambda args: ["serve", *args]),
        "startupTimeoutSeconds": st.integers(1, 604_800),
        "imagePullPolicy": st.sampled_from(["Always", "IfNotPresent", "Never"]),
        "imagePullSecrets": st.lists(NAMES, max_size=2),
        "privileged": st.booleans(),
        "ports": st.just([{"port": 8080}, {"port": 9090, "protocol": "UDP"}]),
        "volumes": VOLUMES,
        "shmSize": st.sampled_from(["1Gi", 5]),
        "terminationGracePeriodSeconds": st.integers(15, 3600),
        "env": ENV,
        "topology": st.sampled_from([{}, {"requiredLevel": "example.com/rack"}]),
        "pod": POD,
        "service": st.fixed_dictionaries({}, optional={"labels": LABELS, "annotations": LABELS}),
        "rollout": st.fixed_dictionaries(
            {},
            optional={
                "gate": st.sampled_from(["Ready", "Admitted"]),
                "deadlineSeconds": st.integers(1, 604_800),
                "lostNode": st.just("Wait"),
            },
        ),
    },
)


@settings(max_examples=settings().max_examples // 2)
@given(fields=FIELDS, hardware=HARDWARE)
def test_a_dumped_role_is_read_back_as_the_same(
    fields: dict[str, Any], hardware: dict[str, Any]
) -> None:
    declaration = parse_role(raw_role(**fields, **hardware))
    again = parse_role(dump_role(declaration))
    assert declaration == again
    assert dump_role(declaration) == dump_role(again)
    assert role_fingerprint(declaration) == role_fingerprint(again)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=5,
)


@given(
    field=st.sampled_from([*raw_role(), "env", "pod", "ports", "volumes", "rollout", "resources"]),
    value=JUNK,
)
def test_refusing_is_total(field: str, value: Any) -> None:
    raw = {**raw_role(), field: value}
    for problem in role_problems(raw, frozenset()):
        assert problem.path
    assert () == tuple(
        problem for problem in role_problems(raw, frozenset({field})) if problem.path == field
    )
