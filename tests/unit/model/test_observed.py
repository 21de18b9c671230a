"""Raw objects as values: what each field is read from, and that no shape makes reading fail."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack_deploy.model.observed import (
    ABSENT_CONDITION,
    ConditionStatus,
    ObservedMember,
    observe_member,
    observe_service,
    observe_workload,
)

pytestmark = pytest.mark.check

CONTAINER = {"name": "main", "image": "x:1", "resources": {"requests": {"nvidia.com/gpu": "2"}}}
POD: dict[str, Any] = {
    "metadata": {
        "name": "chat-decode-r1-m0",
        "uid": "u1",
        "deletionTimestamp": "2026-01-01T00:00:30Z",
        "labels": {
            "modeldeployment.gpustack.ai/pod-ordinal": "1",
            "modeldeployment.gpustack.ai/member-index": "0",
            "modeldeployment.gpustack.ai/api-answering": "true",
            "kueue.x-k8s.io/pod-group-name": "g1",
            "kueue.x-k8s.io/queue-name": "h200",
            "kueue.x-k8s.io/managed": "true",
        },
        "annotations": {
            "kueue.x-k8s.io/pod-group-total-count": "2",
            "kueue.x-k8s.io/workload": "g1",
            "modeldeployment.gpustack.ai/pod-spec-hash": "f0",
            "modeldeployment.gpustack.ai/attempt-token": "t1",
            "modeldeployment.gpustack.ai/renderer-version": "1",
            "prometheus.io/port": "8000",
        },
        "ownerReferences": [
            {"kind": "Other", "uid": "not-the-controller"},
            {"kind": "ConfigMap", "uid": "record", "controller": True},
        ],
    },
    "spec": {"nodeName": "n1", "containers": [CONTAINER]},
    "status": {
        "phase": "Running",
        "conditions": [
            {"type": "Ready", "status": "True"},
            {"type": "PodScheduled", "status": "True"},
        ],
        "containerStatuses": [{"name": "main", "state": {"running": {}}}],
    },
}


def pod(**metadata: Any) -> dict[str, Any]:
    return {**POD, "metadata": {**POD["metadata"], **metadata}}


def with_status(**status: Any) -> dict[str, Any]:
    return {**POD, "status": status}


def test_a_member_is_read_whole() -> None:
    member = observe_member(POD)
    assert ("chat-decode-r1-m0", "u1", "record") == (member.name, member.uid, member.owner_uid)
    assert (1, 0, "g1", 2) == (
        member.ordinal,
        member.member_index,
        member.group_name,
        member.group_total,
    )
    assert ("f0", "t1", 1) == (member.fingerprint, member.token, member.renderer_version)
    assert ("h200", "n1", "g1") == (member.local_queue, member.node_name, member.workload_name)
    assert member.is_ready
    assert member.is_managed
    assert member.is_managed_by_kueue
    assert member.answers_api
    assert member.has_container_status
    assert member.is_terminating
    assert not member.is_gated
    assert 1767225630.0 == member.deletion_time


@pytest.mark.parametrize(
    ("text", "want"), [("0", 0), ("17", 17), ("", None), ("x", None), ("-1", None), ("01", None)]
)
def test_an_ordinal_that_spells_no_number_is_unknown(text: str, want: int | None) -> None:
    labels = {"modeldeployment.gpustack.ai/pod-ordinal": text}
    assert want == observe_member(pod(labels=labels)).ordinal


@pytest.mark.parametrize(("text", "want"), [("2", 2), ("0", None), ("", None), ("two", None)])
def test_a_total_is_positive_or_unknown(text: str, want: int | None) -> None:
    annotations = {"kueue.x-k8s.io/pod-group-total-count": text}
    assert want == observe_member(pod(annotations=annotations)).group_total


@pytest.mark.parametrize(
    ("owners", "want"),
    [
        pytest.param([], "", id="nobody"),
        pytest.param([{"uid": "u"}], "", id="an owner that is no controller"),
        pytest.param([{"uid": "u", "controller": "true"}], "", id="a text instead of true"),
        pytest.param([{"uid": "u", "controller": True}], "u", id="the controller"),
    ],
)
def test_only_the_controller_owns(owners: list[Any], want: str) -> None:
    assert want == observe_member(pod(ownerReferences=owners)).owner_uid


@pytest.mark.parametrize(
    ("gates", "workload", "want"),
    [
        pytest.param([], "g1", True, id="gate gone and Workload named"),
        pytest.param(["kueue.x-k8s.io/admission"], "g1", False, id="still gated"),
        pytest.param([], "", False, id="gate gone, no Workload: bypassed"),
        pytest.param(["kueue.x-k8s.io/topology"], "g1", True, id="another gate is not admission's"),
    ],
)
def test_admission_is_read_off_the_pod(gates: list[str], workload: str, want: bool) -> None:
    raw = pod(annotations={"kueue.x-k8s.io/workload": workload})
    raw["spec"] = {"schedulingGates": [{"name": gate} for gate in gates]}
    assert want is observe_member(raw).is_admitted


@pytest.mark.parametrize(
    "kind", ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"]
)
def test_a_status_of_any_kind_of_container_counts(kind: str) -> None:
    assert observe_member(with_status(**{kind: [{"name": "c"}]})).has_container_status
    assert not observe_member(with_status(**{kind: []})).has_container_status


@pytest.mark.parametrize(
    ("waiting", "want"),
    [
        (
            {"reason": "ImagePullBackOff", "message": "no such image"},
            "ImagePullBackOff: no such image",
        ),
        ({"reason": "CreateContainerError"}, "CreateContainerError"),
        ({}, ""),
    ],
)
def test_why_a_container_waits_is_kept(waiting: dict[str, str], want: str) -> None:
    statuses = [{"state": {"running": {}}}, {"state": {"waiting": waiting}}]
    assert want == observe_member(with_status(containerStatuses=statuses)).waiting_reason


def test_why_a_pod_is_not_scheduled_is_kept_until_it_is() -> None:
    condition = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes"}
    assert "0/3 nodes" == observe_member(with_status(conditions=[condition])).unscheduled_message
    scheduled = {**condition, "status": "True"}
    assert "" == observe_member(with_status(conditions=[scheduled])).unscheduled_message


def ends(*, phase: str, node: str, deleted: bool) -> ObservedMember:
    raw = pod(deletionTimestamp="2026-01-01T00:00:00Z" if deleted else "")
    return observe_member({**raw, "spec": {"nodeName": node}, "status": {"phase": phase}})


@pytest.mark.parametrize(
    ("phase", "node", "deleted", "want"),
    [
        pytest.param("Running", "n", True, False, id="deleted and running"),
        pytest.param("Running", "n", False, False, id="running"),
        pytest.param("Succeeded", "n", True, True, id="succeeded"),
        pytest.param("Failed", "n", False, True, id="failed"),
        pytest.param("Pending", "", True, True, id="deleted and never bound"),
        pytest.param("Pending", "", False, False, id="waiting"),
        pytest.param("Pending", "n", True, False, id="deleted and bound"),
    ],
)
def test_when_nothing_of_a_member_runs_any_more(
    phase: str, node: str, deleted: bool, want: bool
) -> None:
    assert want is ends(phase=phase, node=node, deleted=deleted).has_ended


def test_live_means_neither_leaving_nor_ended() -> None:
    assert ends(phase="Running", node="n", deleted=False).is_live
    assert not ends(phase="Running", node="n", deleted=True).is_live
    assert not ends(phase="Failed", node="n", deleted=False).is_live


# --- what admission changes is not compared ---


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        pytest.param({"env": [{"name": "A"}]}, True, id="environment"),
        pytest.param({"imagePullPolicy": "Always"}, True, id="pull policy"),
        pytest.param({"terminationMessagePath": "/dev/log"}, True, id="termination message"),
        pytest.param({"args": []}, True, id="an empty list is no value"),
        pytest.param({"image": "x:2"}, False, id="image"),
        pytest.param({"command": ["run"]}, False, id="command"),
        pytest.param({"resources": {"requests": {"nvidia.com/gpu": "4"}}}, False, id="requests"),
        pytest.param({"ports": [{"containerPort": 1}]}, False, id="ports"),
    ],
)
def test_a_template_is_compared_by_what_runs_and_what_it_costs(
    change: dict[str, Any], is_same: bool
) -> None:
    other = {**POD, "spec": {"containers": [{**CONTAINER, **change}], "nodeSelector": {"a": "b"}}}
    digests = observe_member(POD).template_digest, observe_member(other).template_digest
    assert is_same is (digests[0] == digests[1])


WORKLOAD: dict[str, Any] = {
    "metadata": {
        "name": "g1",
        "uid": "w1",
        "ownerReferences": [
            {"kind": "Pod", "uid": "u1"},
            {"kind": "Pod", "uid": "u2"},
            {"kind": "Job", "uid": "j"},
        ],
    },
    "spec": {
        "queueName": "h200",
        "podSets": [
            {"name": "decode", "count": 2, "template": {"spec": {"containers": [CONTAINER]}}}
        ],
    },
    "status": {
        "admission": {
            "podSetAssignments": [{"name": "decode", "flavors": {"nvidia.com/gpu": "f"}}]
        },
        "conditions": [
            {"type": "Admitted", "status": "True", "reason": "Admitted", "message": "yes"},
            {"type": "Odd", "status": "Perhaps"},
        ],
    },
}


def test_a_workload_is_read_whole() -> None:
    workload = observe_workload(WORKLOAD)
    assert ("g1", "w1", "h200") == (workload.name, workload.uid, workload.local_queue)
    assert {"u1", "u2"} == workload.owner_uids
    (pod_set,) = workload.pod_sets
    assert ("decode", 2) == (pod_set.name, pod_set.count)
    assert observe_member(POD).template_digest == pod_set.template_digest
    assert {"nvidia.com/gpu": "f"} == workload.flavors
    assert workload.is_admitted
    assert workload.is_active
    assert not workload.is_terminating
    assert not workload.has_admission_history


def test_a_condition_is_absent_unknown_or_what_it_says() -> None:
    workload = observe_workload(WORKLOAD)
    assert ABSENT_CONDITION == workload.condition("Evicted")
    assert ConditionStatus.UNKNOWN is workload.condition("Odd").status
    assert ("Admitted", "yes") == (
        workload.condition("Admitted").reason,
        workload.condition("Admitted").message,
    )


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param({}, False, id="nothing"),
        pytest.param({"conditions": WORKLOAD["status"]["conditions"]}, False, id="no admission"),
        pytest.param({"admission": {"clusterQueue": "q"}}, False, id="reserved only"),
        pytest.param(WORKLOAD["status"], True, id="both"),
    ],
)
def test_quota_reserved_is_not_admission(status: dict[str, Any], want: bool) -> None:
    assert want is observe_workload({**WORKLOAD, "status": status}).is_admitted


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param({"accumulatedPastExecutionTimeSeconds": 0}, True, id="zero seconds count"),
        pytest.param({"accumulatedPastExecutionTimeSeconds": 9}, True, id="past execution"),
        pytest.param({"requeueState": {"count": 1}}, True, id="requeue state"),
        pytest.param({"reclaimablePods": []}, True, id="reclaimable Pods"),
        pytest.param({"schedulingStats": {"evictions": [{}]}}, True, id="eviction statistics"),
        pytest.param({"schedulingStats": {"evictions": []}}, False, id="no evictions"),
        pytest.param({}, False, id="nothing"),
    ],
)
def test_what_says_that_a_workload_ran(status: dict[str, Any], want: bool) -> None:
    assert want is observe_workload({**WORKLOAD, "status": status}).has_admission_history


def test_a_deactivated_workload_is_told_from_one_that_says_nothing() -> None:
    assert observe_workload({"spec": {}}).is_active
    assert not observe_workload({"spec": {"active": False}}).is_active


def test_evicted_and_finished_are_read_off_their_conditions() -> None:
    conditions = [{"type": "Evicted", "status": "False"}, {"type": "Finished", "status": "True"}]
    workload = observe_workload({"status": {"conditions": conditions}})
    assert not workload.is_evicted
    assert workload.is_finished


def test_a_service_is_read_whole() -> None:
    service = observe_service(
        {
            "metadata": {
                "name": "chat",
                "uid": "s1",
                "labels": {"a": "b"},
                "annotations": {"c": "d"},
                "ownerReferences": [{"uid": "record", "controller": True}],
                "deletionTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {
                "clusterIP": "10.0.0.1",
                "selector": {"e": "f"},
                "publishNotReadyAddresses": True,
                "ports": [
                    {"name": "http", "port": 80, "targetPort": 8000, "protocol": "UDP"},
                    {"port": 81, "targetPort": "named"},
                ],
            },
        }
    )
    assert ("chat", "s1", "record", "10.0.0.1") == (
        service.name,
        service.uid,
        service.owner_uid,
        service.cluster_ip,
    )
    assert (("http", 80, "8000", "UDP"), ("", 81, "named", "TCP")) == service.ports
    assert ({"a": "b"}, {"c": "d"}, {"e": "f"}) == (
        service.labels,
        service.annotations,
        service.selector,
    )
    assert service.publishes_not_ready
    assert service.is_terminating


# --- any shape ---

SERVICE: dict[str, Any] = {
    "metadata": {"name": "chat", "labels": {"a": "b"}, "ownerReferences": [{"controller": True}]},
    "spec": {"selector": {"e": "f"}, "ports": [{"name": "http", "port": 80, "targetPort": 8000}]},
}
leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
shapes = leaves | st.lists(leaves, max_size=2) | st.dictionaries(st.text(max_size=3), leaves)


def damaged(data: st.DataObject, value: Any) -> Any:
    """Return the value with something else in one place."""
    if not isinstance(value, dict | list) or not value or data.draw(st.integers(0, 5)) == 0:
        return data.draw(shapes)
    if isinstance(value, list):
        return [damaged(data, value[0]), *value[1:]]
    key = data.draw(st.sampled_from(sorted(value)))
    return {**value, key: damaged(data, value[key])}


@pytest.mark.parametrize(
    ("observe", "raw"),
    [(observe_member, POD), (observe_workload, WORKLOAD), (observe_service, SERVICE)],
    ids=["Pod", "Workload", "Service"],
)
@given(data=st.data())
def test_no_damage_makes_reading_fail(
    observe: Callable[[dict[str, Any]], object], raw: dict[str, Any], data: st.DataObject
) -> None:
    for _ in range(3):
        raw = damaged(data, raw)
        if isinstance(raw, dict):
            observe(raw)


@pytest.mark.parametrize(
    ("observe", "raw"),
    [
        pytest.param(
            observe_workload, {"spec": {"podSets": [{"count": None}]}}, id="a count of nothing"
        ),
        pytest.param(observe_service, {"spec": {"ports": [{"port": "http"}]}}, id="a named port"),
    ],
)
def test_a_value_of_another_kind_does_not_make_reading_fail(
    observe: Callable[[dict[str, Any]], object], raw: dict[str, Any]
) -> None:
    observe(raw)


def test_a_deletion_whose_moment_cannot_be_read_is_one_that_never_ends() -> None:
    member = observe_member(pod(deletionTimestamp="soon"))
    assert member.is_terminating
    assert float("inf") == member.deletion_time
