"""What the cluster must accept first: the judged member, and who must have taken charge of it."""

import pytest

from gpustack_deploy.engine.admission import check_managed, dry_run_member
from gpustack_deploy.engine.cluster import POD
from gpustack_deploy.model.errors import AdmissionRefused, KueueNotManaging
from gpustack_deploy.plan.render import Owner
from tests.builders import make_member
from tests.declarations import role
from tests.engine.driver import Stage
from tests.fakes.objects import Object, meta, name_of

pytestmark = pytest.mark.check

ANSWER: Object = {
    "metadata": {
        "labels": {"kueue.x-k8s.io/managed": "true"},
        "finalizers": ["kueue.x-k8s.io/managed"],
    },
    "spec": {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]},
}


def judged(stage: Stage, *, departing: int = 0, size: int = 1) -> None:
    declared = role(size=size)
    requests = {"pods": "1", "nvidia.com/gpu": "1"}
    members = [make_member().having(requests=requests).obj()] * departing
    stage.run(
        dry_run_member(
            stage.cluster,
            declared,
            token="0123456789abcdef0123",
            owner=Owner("chat-server", "record"),
            departing=members,
        )
    )


def test_a_member_is_judged_under_a_free_name_and_never_stored() -> None:
    stage = Stage()
    judged(stage)
    (call,) = stage.cluster.served
    assert ("create", "Pod", True) == (call.verb, call.kind, call.is_dry_run)
    assert call.name == "chat-server-probe-0123456789abcdef0123"
    assert [] == stage.cluster.names(POD)


def test_a_policys_own_sentence_is_told() -> None:
    stage = Stage()
    stage.cluster.refuse_pods("violates PodSecurity restricted")
    with pytest.raises(AdmissionRefused, match="violates PodSecurity restricted"):
        judged(stage, departing=3)


FULL = "exceeded quota: q, requested: pods=1, used: pods=4, limited: pods=4"


@pytest.mark.parametrize(
    ("departing", "is_accepted"),
    [
        pytest.param(0, False, id="nobody leaves"),
        pytest.param(1, True, id="one leaves for one"),
    ],
)
def test_a_full_quota_holds_unless_what_leaves_frees_it(departing: int, is_accepted: bool) -> None:
    stage = Stage()
    stage.cluster.refuse_pods(FULL)
    if is_accepted:
        judged(stage, departing=departing)
        return
    with pytest.raises(AdmissionRefused, match="exceeded quota"):
        judged(stage, departing=departing)


def test_an_answer_with_gate_finalizer_and_label_is_managed() -> None:
    check_managed(ANSWER, "ml")


@pytest.mark.parametrize(
    ("answer", "missing"),
    [
        pytest.param({**ANSWER, "spec": {}}, "scheduling gate", id="no gate"),
        pytest.param(
            {**ANSWER, "spec": {"schedulingGates": [{"name": "other"}]}},
            "scheduling gate",
            id="another gate",
        ),
        pytest.param(
            {**ANSWER, "metadata": {**meta(ANSWER), "finalizers": []}}, "finalizer", id="no hold"
        ),
        pytest.param(
            {**ANSWER, "metadata": {**meta(ANSWER), "labels": {}}}, "label", id="no label"
        ),
        pytest.param({}, "scheduling gate, finalizer, label", id="nothing"),
    ],
)
def test_an_answer_that_lacks_one_of_them_would_bypass_quota(answer: Object, missing: str) -> None:
    with pytest.raises(KueueNotManaging, match=f"lacks Kueue's {missing}"):
        check_managed(answer, "ml")


def test_a_probes_name_is_no_members() -> None:
    stage = Stage()
    stage.create(role())
    judged(stage)
    assert ["chat-server-r0-m0"] == [name_of(pod) for pod in stage.pods()]
