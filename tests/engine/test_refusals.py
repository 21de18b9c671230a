"""What a run refuses, before it deletes or writes anything: one sentence, and all as it was."""

from dataclasses import replace

import pytest

from gpustack_deploy.engine.cluster import (
    CONFIG_MAP,
    LOCAL_QUEUE,
    NAMESPACE,
    POD,
    SERVICE,
    ClusterMarks,
    Kind,
)
from gpustack_deploy.engine.replacement import create_role
from gpustack_deploy.model import identity
from gpustack_deploy.model.errors import (
    AdmissionRefused,
    Forbidden,
    ForeignObject,
    InvalidSpec,
    KueueNotManaging,
    OtherWriter,
    RecordUnreadable,
    ReplacementHeld,
    WrongCluster,
)
from gpustack_deploy.model.raw import Json
from tests.declarations import role
from tests.engine.driver import OTHERS, OURS, Stage, on_queue, standing
from tests.engine.guarded_cluster import GuardedCluster
from tests.fakes import FakeClock
from tests.fakes.objects import meta, uid_of

pytestmark = pytest.mark.check

SMALL = role(replicas=2)
EDITED = role(replicas=2, size=2)


# --- where the connection leads ---


@pytest.mark.parametrize("is_by_uid", [True, False], ids=["kube-system", "authority"])
def test_another_cluster_is_refused_in_update_read_and_delete(is_by_uid: bool) -> None:
    stage, state = standing(SMALL)
    other = "of-another-cluster"
    elsewhere = replace(state, cluster_uid=other) if is_by_uid else replace(state, cluster_ca=other)
    with stage.nothing_written():
        with pytest.raises(WrongCluster, match="of-another-cluster"):
            stage.update(EDITED, elsewhere)
        with pytest.raises(WrongCluster):
            stage.read(EDITED, elsewhere)
        with pytest.raises(WrongCluster):
            stage.destroy(elsewhere)


def test_a_mark_that_is_unknown_is_not_another_cluster() -> None:
    stage, state = standing(SMALL)
    stage.update(EDITED, replace(state, cluster_ca=""))
    stage.assert_stands(EDITED)


def test_a_destroy_on_a_cluster_without_readable_marks_needs_to_be_forced() -> None:
    stage, state = standing(SMALL)
    stage.cluster._marks = ClusterMarks(uid="", ca="")
    with stage.nothing_written(), pytest.raises(WrongCluster, match="GPUSTACK_FORCE_CLUSTER=1"):
        stage.destroy(state)
    stage.destroy(state, force_cluster=True)
    stage.assert_gone()


# --- what the cluster lacks ---


def test_a_namespace_that_does_not_exist_is_named() -> None:
    stage = Stage()
    absent = role(namespace="nowhere")
    with stage.nothing_written(), pytest.raises(InvalidSpec, match="namespace nowhere") as refusal:
        stage.create(absent)
    assert "namespace" == refusal.value.path


def test_a_role_in_a_namespace_that_is_gone_is_gone() -> None:
    stage, state = standing(SMALL)
    former = replace(state, namespace_uid="uid-of-a-former-namespace")
    assert stage.read(SMALL, former).is_gone
    with stage.nothing_written():
        (warning,) = stage.destroy(former)
    assert "namespace ml is gone" in warning


def test_a_queue_that_does_not_exist_is_named_on_create_and_on_an_edit() -> None:
    stage, state = standing(SMALL)
    with stage.nothing_written(), pytest.raises(InvalidSpec, match="no LocalQueue a100"):
        stage.update(on_queue("a100", replicas=2), state)
    with pytest.raises(InvalidSpec, match=r"instanceType\.localQueue"):
        Stage().create(on_queue("a100"))


def test_a_cluster_without_kueue_is_told_which_version_is_needed() -> None:
    cluster = GuardedCluster(FakeClock(), has_kueue=False)
    stage = Stage(cluster=cluster)
    with stage.nothing_written(), pytest.raises(KueueNotManaging, match=r"Kueue 0\.15 or newer"):
        stage.create(SMALL)


def test_a_namespace_that_kueue_leaves_alone_is_refused_and_nothing_is_left_behind() -> None:
    stage = Stage()
    stage.cluster.kueue.unmanaged.add("ml")
    with stage.nothing_written(), pytest.raises(KueueNotManaging, match="scheduling gate"):
        stage.create(SMALL)


def test_a_namespace_that_kueue_leaves_alone_since_is_refused_before_anything_is_deleted() -> None:
    stage, state = standing(SMALL)
    stage.cluster.kueue.unmanaged.add("ml")
    before = stage.uids()
    with pytest.raises(KueueNotManaging):
        stage.update(EDITED, state)
    assert before == stage.uids()


def test_a_pod_that_would_bypass_quota_is_removed_at_once() -> None:
    stage = Stage()

    def first_line(line: str) -> None:
        stage.cluster.kueue.unmanaged.add("ml")

    async def create() -> None:
        try:
            await create_role(stage.cluster, SMALL, stage.context(progress=first_line))
        finally:
            # What is removed there was never captured, and never could be.
            stage.cluster.violations.clear()

    with pytest.raises(KueueNotManaging):
        stage.run(create())
    assert [] == stage.cluster.names(POD)


# --- what the cluster refuses ---


def test_a_pod_that_a_policy_refuses_is_refused_before_anything_is_written() -> None:
    stage = Stage()
    stage.cluster.refuse_pods('violates PodSecurity "restricted:latest"')
    with stage.nothing_written(), pytest.raises(AdmissionRefused, match="PodSecurity"):
        stage.create(SMALL)


def test_an_edit_that_a_policy_refuses_leaves_every_replica() -> None:
    stage, state = standing(SMALL)
    stage.cluster.refuse_pods("exceeds the LimitRange")
    before = stage.uids()
    with pytest.raises(AdmissionRefused, match="nothing was deleted or written"):
        stage.update(EDITED, state)
    with stage.nothing_written(), pytest.raises(AdmissionRefused):
        stage.update(EDITED, state)
    assert before == stage.uids()
    assert stage.record().slot is None


def test_growth_that_a_policy_refuses_writes_nothing() -> None:
    stage, state = standing(SMALL)
    stage.cluster.refuse_pods("exceeds the LimitRange")
    with stage.nothing_written(), pytest.raises(AdmissionRefused):
        stage.update(role(replicas=3), state)


def test_a_policy_does_not_keep_a_role_from_shrinking() -> None:
    stage, state = standing(SMALL)
    stage.cluster.refuse_pods("exceeds the LimitRange")
    stage.update(role(replicas=1), state)
    stage.assert_stands(role(replicas=1))


def test_a_policy_that_appears_between_two_replicas_is_met_before_the_second_leaves() -> None:
    stage, state = standing(SMALL)

    def told(line: str) -> None:
        if "server r1: replaced" in line:
            stage.cluster.refuse_pods("exceeds the LimitRange")

    kept = stage.uids()["chat-server-r0-m0"]
    with pytest.raises(AdmissionRefused):
        stage.update(EDITED, state, progress=told)
    assert kept == stage.uids()["chat-server-r0-m0"]


def test_a_resource_quota_that_frees_later_is_waited_for() -> None:
    stage, state = standing(role(replicas=1))
    refused: list[str] = []

    def full(kind: Kind, body: Json) -> str:
        is_real = kind == POD and meta(body)["name"].endswith(("-m0", "-m1"))
        if is_real and len(refused) < 3:
            refused.append(meta(body)["name"])
            return "exceeded quota: compute, requested: pods=1, used: pods=2, limited: pods=2"
        return ""

    stage.cluster.refuse("quota", full)
    stage.update(role(replicas=1, size=2), state)
    stage.assert_stands(role(replicas=1, size=2))
    assert 3 == len(refused)


def test_a_service_that_the_cluster_refuses_is_named() -> None:
    stage = Stage()
    stage.cluster.refuse("svc", lambda kind, body: "no Services here" if kind == SERVICE else "")
    with pytest.raises(InvalidSpec, match="no Services here"):
        stage.create(SMALL)


def test_missing_rights_end_the_run_at_once() -> None:
    stage, state = standing(SMALL)

    async def forbidden(*args: object, **kwargs: object) -> None:
        raise Forbidden('User "x" cannot list resource "pods"')

    stage.cluster.list = forbidden  # type: ignore[assignment,method-assign]
    began = stage.clock.seconds
    with stage.nothing_written(), pytest.raises(Forbidden):
        stage.update(EDITED, state)
    assert stage.clock.seconds - began < 5


# --- what stands on our names ---


@pytest.mark.parametrize("name", ["chat", "chat-server", "chat-server-r1"])
def test_a_strangers_service_of_our_name_is_named_and_left(name: str) -> None:
    stage = Stage()
    body = {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}}
    made = stage.cluster.store.create(SERVICE, "ml", body)
    with stage.nothing_written(), pytest.raises(ForeignObject, match=f"Service {name} ") as found:
        stage.create(EDITED)
    assert uid_of(made) == found.value.uid


def test_a_strangers_service_that_an_edit_would_need_is_left() -> None:
    stage, state = standing(SMALL)
    body = {"metadata": {"name": "chat-server-r1"}, "spec": {"ports": [{"port": 80}]}}
    made = stage.cluster.store.create(SERVICE, "ml", body)
    before = stage.uids()
    with pytest.raises((ForeignObject, ReplacementHeld), match="chat-server-r1"):
        stage.update(EDITED, state)
    assert before == stage.uids()
    assert uid_of(made) == stage.uids(SERVICE)["chat-server-r1"]


def test_a_strangers_config_map_of_the_records_name_is_named_and_left() -> None:
    stage = Stage()
    stage.cluster.store.create(CONFIG_MAP, "ml", {"metadata": {"name": "chat-server"}, "data": {}})
    with stage.nothing_written(), pytest.raises(ForeignObject, match="ConfigMap chat-server"):
        stage.create(SMALL)


def test_a_strangers_pod_of_our_name_is_named_and_left() -> None:
    stage = Stage()
    body = {
        "metadata": {"name": "chat-server-r0-m0"},
        "spec": {"containers": [{"name": "x", "image": "x"}]},
    }
    made = stage.cluster.store.create(POD, "ml", body)
    with pytest.raises((ForeignObject, ReplacementHeld), match="chat-server-r0-m0") as found:
        stage.create(SMALL)
    assert uid_of(made) == stage.uids()["chat-server-r0-m0"]
    assert "uid" in str(found.value)


def test_a_strangers_pod_under_our_labels_is_named_and_left() -> None:
    stage, state = standing(role(replicas=1))
    (ours,) = stage.pods()
    labels = {identity.LABEL_ORDINAL: "1", identity.KUEUE_GROUP_NAME: "theirs"}
    metadata = {
        "name": "chat-server-r1-m0",
        "labels": {**meta(ours)["labels"], **labels},
        "annotations": meta(ours)["annotations"],
    }
    body = {"metadata": metadata, "spec": ours["spec"]}
    made = stage.cluster.store.create(POD, "ml", body)
    with pytest.raises((ForeignObject, ReplacementHeld), match="chat-server-r1-m0"):
        stage.update(SMALL, state)
    assert uid_of(made) == stage.uids()["chat-server-r1-m0"]


# --- the record ---


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("{", "it is no JSON", id="no JSON"),
        pytest.param('{"schemaVersion": 99, "writtenBy": "9.9"}', "9.9", id="newer"),
        pytest.param('{"schemaVersion": 1}', "KeyError", id="short"),
    ],
)
def test_a_record_that_cannot_be_understood_is_never_read_as_an_empty_one(
    text: str, said: str
) -> None:
    stage, state = standing(SMALL)
    found = stage.cluster.store.get(CONFIG_MAP, "ml", "chat-server")
    found["data"][identity.RECORD_KEY] = text
    stage.cluster.store.update(CONFIG_MAP, found)
    before = stage.everything()
    for attempt in (
        lambda: stage.create(SMALL),
        lambda: stage.update(EDITED, state),
        lambda: stage.read(SMALL, state),
        lambda: stage.destroy(state),
    ):
        with pytest.raises(RecordUnreadable, match=said):
            attempt()
    assert before == stage.everything()


def test_a_role_that_another_stack_writes_is_left_to_it() -> None:
    stage, state = standing(SMALL)
    with stage.nothing_written():
        with pytest.raises(OtherWriter, match="acme/serving/prod"):
            stage.create(SMALL, writer=OTHERS)
        with pytest.raises(OtherWriter):
            stage.update(EDITED, state, writer=OTHERS)


def test_a_role_of_another_stack_can_be_adopted() -> None:
    stage, state = standing(SMALL)
    before = stage.uids()
    adopted = stage.create(SMALL, writer=OTHERS, adopt=True)
    assert before == stage.uids()
    assert adopted.claim != state.claim
    assert str(OTHERS) == str(stage.record().writer)
    with pytest.raises(OtherWriter):
        stage.update(EDITED, state, writer=OURS)


def test_an_error_before_the_record_stands_carries_no_state() -> None:
    stage = Stage()
    queue = stage.cluster.store.get(LOCAL_QUEUE, "ml", "h200")
    stage.cluster.store.delete(LOCAL_QUEUE, "ml", "h200", uid=uid_of(queue))
    with pytest.raises(InvalidSpec) as refusal:
        stage.create(SMALL)
    assert refusal.value.state is None


def test_a_namespace_that_ends_during_a_run_is_said_to_be_missing() -> None:
    stage, state = standing(SMALL)

    def told(line: str) -> None:
        if "creating anew" in line:
            del stage.cluster.store.objects[NAMESPACE]["", "ml"]

    with pytest.raises(InvalidSpec, match="create it first") as refusal:
        stage.update(EDITED, state, progress=told)
    assert "namespace" == refusal.value.path
