"""Runs that cannot end at once: what they wait for, what they say, and how the next one resumes."""

from collections.abc import Callable

import pytest

from gpustack_deploy.engine.cluster import CONFIG_MAP, POD, SERVICE, WORKLOAD
from gpustack_deploy.model.errors import (
    AdmissionAwaited,
    AdmissionRefused,
    Forbidden,
    InvalidSpec,
    KueueNotManaging,
    NotFound,
    Unreachable,
)
from gpustack_deploy.model.role import RoleDeclaration
from gpustack_deploy.model.state import RoleState
from tests.declarations import role
from tests.engine_stage import Stage, raised, tokens
from tests.fakes import Timing
from tests.fakes.faults import Call, FaultyCluster
from tests.fakes.objects import name_of, uid_of

pytestmark = pytest.mark.check


def declared(**fields: object) -> RoleDeclaration:
    """Two replicas of one member with two cards each; a minute's patience, two for Ready."""
    return role(
        **{
            "replicas": 2,
            "resources": {"count": 2},
            "startupTimeoutSeconds": 90,
            "rollout": {"deadlineSeconds": 60, "admissionWaitSeconds": 20},
            **fields,
        }
    )


TWO = declared()
BIGGER = declared(size=2)


def standing(declaration: RoleDeclaration = TWO, *, gpus: int = 16) -> tuple[Stage, RoleState]:
    stage = Stage(gpus=gpus)
    return stage, stage.create(declaration)


# --- quota ---


def test_a_replacement_that_does_not_fit_waits_and_says_for_what() -> None:
    stage, state = standing(gpus=4)
    began = stage.clock.seconds
    error = stage.held(lambda: stage.update(BIGGER, state))
    assert ("NotAdmitted", "server", 1) == (error.check, error.role, error.ordinal)
    assert not isinstance(error, AdmissionAwaited)
    assert "waiting for quota in LocalQueue h200: couldn't assign flavors" in str(error)
    assert "run `pulumi up` again to resume" in str(error)
    assert 60 <= stage.clock.seconds - began < 70
    assert "chat-server-r0-m0" in stage.cluster.names(POD)


def test_a_held_replacement_is_resumed_once_its_quota_is_free() -> None:
    stage, state = standing(gpus=4)
    held = stage.held(lambda: stage.update(BIGGER, state)).state
    assert held is not None
    queued = tokens(stage.members(TWO))
    stage.cluster.kueue.quota.set_quota("h200", "nvidia.com/gpu", 16)
    stage.update(BIGGER, held)
    stage.stands(BIGGER)
    assert queued & tokens(stage.members(BIGGER))


def test_a_role_that_only_waits_for_admission_gives_up_early_where_that_is_bounded() -> None:
    stage, state = standing(gpus=4)
    began = stage.clock.seconds
    error = stage.held(lambda: stage.update(BIGGER, state, bounds_admission_wait=True))
    assert isinstance(error, AdmissionAwaited)
    assert 20 <= stage.clock.seconds - began < 30
    slot = stage.record(TWO)["slot"]
    assert ("WaitingForAdmission", 1) == (slot["phase"], slot["ordinal"])


def test_a_second_edit_takes_the_queued_replacements_place() -> None:
    stage, state = standing(gpus=4)
    held = stage.held(lambda: stage.update(BIGGER, state)).state
    assert held is not None
    stage.lines.clear()
    edit = declared(image="vllm/vllm-openai:v0.12.0")
    stage.update(edit, held)
    stage.stands(edit)
    stage.uses_what_stands()
    assert "server r1: starting over: a newer declaration renders other members" in stage.lines


def test_a_shrink_past_the_queued_replacement_cancels_it() -> None:
    stage, state = standing(gpus=4)
    survivor = stage.uids(POD)["chat-server-r0-m0"]
    held = stage.held(lambda: stage.update(BIGGER, state)).state
    assert held is not None
    fewer = declared(replicas=1)
    stage.update(fewer, held)
    stage.stands(fewer)
    stage.uses_what_stands()
    assert {"chat-server-r0-m0": survivor} == stage.uids(POD)


def test_growth_past_the_quota_that_was_queued_earlier_still_lets_an_edit_through() -> None:
    stage, state = standing(gpus=4)
    four = declared(replicas=4)
    held = stage.held(lambda: stage.update(four, state)).state
    assert held is not None
    edit = declared(replicas=4, resources={"count": 1})
    stage.update(edit, held)
    stage.stands(edit)


# --- the gate ---


def never_ready(stage: Stage, image: str) -> None:
    """Members with that image start and never become Ready."""
    stage.cluster.world.kubelet.behaviour = lambda pod: (
        Timing(is_never_ready=True) if pod["spec"]["containers"][0]["image"] == image else None
    )


BROKEN_IMAGE = "vllm/vllm-openai:broken"


def test_a_replacement_that_never_gets_ready_holds_before_the_next_goes() -> None:
    stage, state = standing()
    survivor = stage.uids(POD)["chat-server-r0-m0"]
    never_ready(stage, BROKEN_IMAGE)
    began = stage.clock.seconds
    error = stage.held(lambda: stage.update(declared(image=BROKEN_IMAGE), state))
    assert ("NotReady", 1) == (error.check, error.ordinal)
    assert "0 of 1 members are Ready; chat-server-r1-m0: started and not Ready" in str(error)
    assert 150 <= stage.clock.seconds - began < 160
    assert survivor == stage.uids(POD)["chat-server-r0-m0"]


def test_a_fixed_image_replaces_the_one_that_never_got_ready() -> None:
    stage, state = standing()
    never_ready(stage, BROKEN_IMAGE)
    held = stage.held(lambda: stage.update(declared(image=BROKEN_IMAGE), state)).state
    assert held is not None
    fixed = declared(image="vllm/vllm-openai:v0.12.0")
    stage.update(fixed, held)
    stage.stands(fixed)


def test_the_gate_admitted_does_not_wait_for_ready() -> None:
    stage, state = standing()
    never_ready(stage, BROKEN_IMAGE)
    edit = declared(image=BROKEN_IMAGE, rollout={"gate": "Admitted"})
    stage.update(edit, state)
    assert {BROKEN_IMAGE} == {pod["spec"]["containers"][0]["image"] for pod in stage.members(edit)}


def test_why_a_container_waits_is_told() -> None:
    stage, state = standing()
    stage.cluster.world.kubelet.timing = Timing(waiting_reason="ImagePullBackOff")
    error = stage.held(lambda: stage.update(BIGGER, state))
    assert "chat-server-r1-m0: ImagePullBackOff" in str(error)


def test_a_replacement_that_fails_is_tried_three_times_a_run() -> None:
    stage, state = standing()
    stage.cluster.world.kubelet.behaviour = lambda pod: (
        Timing(is_never_ready=True, fails_after_seconds=1)
        if pod["spec"]["containers"][0]["image"] == BROKEN_IMAGE
        else None
    )
    began = stage.clock.seconds
    error = stage.held(lambda: stage.update(declared(image=BROKEN_IMAGE), state))
    assert "3 attempts of this declaration failed" in str(error)
    assert 3 == len([line for line in stage.lines if "r1: creating anew" in line])
    assert 40 <= stage.clock.seconds - began < 120
    assert "chat-server-r0-m0" in stage.cluster.names(POD)


# --- stopping ---


def test_a_run_that_is_asked_to_stop_gives_the_lock_up_and_can_be_resumed() -> None:
    stage, state = standing()
    began = len(stage.lines)

    def is_asked() -> bool:
        return any("replaced:" in line for line in stage.lines[began:])

    error = stage.held(lambda: stage.update(BIGGER, state, should_stop=is_asked))
    assert "Stopped" == error.check
    assert "" == stage.record(TWO)["lock"]["holder"]
    before = stage.clock.seconds
    stage.update(BIGGER, state)
    stage.stands(BIGGER)
    assert stage.clock.seconds - before < 15


# --- what the cluster refuses ---

EVERYTHING = (POD, WORKLOAD, SERVICE, CONFIG_MAP)


def test_a_pod_that_a_policy_refuses_deletes_and_writes_nothing() -> None:
    stage, state = standing()
    before = {kind: stage.uids(kind) for kind in EVERYTHING}
    record = stage.record(TWO)
    stage.cluster.refuse_pods("violates PodSecurity restricted")
    error = raised(AdmissionRefused, lambda: stage.update(BIGGER, state))
    assert "violates PodSecurity restricted" in str(error)
    assert before == {kind: stage.uids(kind) for kind in EVERYTHING}
    assert record == stage.record(TWO)


def test_a_first_create_that_a_policy_refuses_leaves_nothing_behind() -> None:
    stage = Stage()
    stage.cluster.refuse_pods("violates PodSecurity restricted")
    error = raised(AdmissionRefused, lambda: stage.create(TWO))
    assert error.state is None
    stage.is_empty()


def test_more_replicas_that_a_policy_refuses_write_nothing() -> None:
    stage, state = standing()
    record = stage.record(TWO)
    stage.cluster.refuse_pods("violates PodSecurity restricted")
    raised(AdmissionRefused, lambda: stage.update(declared(replicas=3), state))
    assert record == stage.record(TWO)
    assert 2 == len(stage.members(TWO))


def test_a_namespace_that_kueue_does_not_manage_gets_nothing() -> None:
    stage = Stage()
    stage.cluster.kueue.unmanaged.add("ml")
    error = raised(KueueNotManaging, lambda: stage.create(TWO))
    assert "namespace ml" in str(error)
    stage.is_empty()


def test_a_namespace_that_kueue_no_longer_manages_keeps_what_stands() -> None:
    stage, state = standing()
    before = {kind: stage.uids(kind) for kind in EVERYTHING}
    stage.cluster.kueue.unmanaged.add("ml")
    raised(KueueNotManaging, lambda: stage.update(BIGGER, state))
    assert before == {kind: stage.uids(kind) for kind in EVERYTHING}


def test_a_pod_that_would_bypass_quota_is_not_left_behind() -> None:
    """The dry run was answered by Kueue, and the create no more."""
    stage = Stage()

    def is_asked() -> bool:
        stage.cluster.kueue.unmanaged.add("ml")
        return False

    error = raised(KueueNotManaging, lambda: stage.create(TWO, should_stop=is_asked))
    assert error.state is not None
    assert [] == stage.cluster.names(POD)


# --- what happens to members ---


def test_a_member_deleted_by_hand_costs_its_own_replica_only() -> None:
    stage, state = standing(BIGGER)
    before = stage.uids(POD)
    stage.cluster.store.delete(
        POD, "ml", "chat-server-r1-m1", uid=before["chat-server-r1-m1"], grace_seconds=None
    )
    stage.lines.clear()
    stage.update(BIGGER, state)
    stage.stands(BIGGER)
    after = stage.uids(POD)
    for name, uid in before.items():
        assert (uid == after[name]) is ("-r0-" in name)
    assert "server r1: replacing: short of its members (1 of 2)" in stage.lines


def test_a_replica_that_kueue_evicted_is_made_anew() -> None:
    stage, state = standing()
    workload = next(
        each
        for each in stage.cluster.objects(WORKLOAD)
        if each["metadata"]["ownerReferences"][0]["name"] == "chat-server-r1-m0"
    )
    stage.cluster.kueue.evict("ml", name_of(workload))
    stage.settle()
    survivor = stage.uids(POD)["chat-server-r0-m0"]
    stage.update(TWO, state)
    stage.stands(TWO)
    stage.uses_what_stands()
    assert survivor == stage.uids(POD)["chat-server-r0-m0"]
    assert uid_of(workload) not in stage.uids(WORKLOAD).values()


def test_a_member_that_failed_is_made_anew() -> None:
    stage, state = standing()
    stage.cluster.world.kubelet.behaviour = lambda pod: (
        Timing(fails_after_seconds=60) if name_of(pod) == "chat-server-r0-m0" else None
    )
    stage.clock.advance(120)
    stage.settle()
    stage.cluster.world.kubelet.behaviour = lambda pod: None
    stage.update(TWO, state)
    stage.stands(TWO)


def test_a_service_that_was_edited_by_hand_is_mended_in_place() -> None:
    stage, state = standing()
    service = stage.cluster.peek(SERVICE, "chat-server")
    assert service is not None
    service["spec"]["selector"] = {"app": "else"}
    stage.cluster.store.update(SERVICE, service)
    before = {kind: stage.uids(kind) for kind in EVERYTHING}
    assert not stage.read(TWO, state).is_converged
    stage.update(TWO, state)
    stage.stands(TWO)
    assert before == {kind: stage.uids(kind) for kind in EVERYTHING}
    mended = stage.cluster.peek(SERVICE, "chat-server")
    assert mended is not None
    assert "app" not in mended["spec"]["selector"]


def test_a_service_that_was_deleted_by_hand_is_made_again() -> None:
    stage, state = standing(BIGGER)
    members = stage.uids(POD)
    uid = stage.uids(SERVICE)["chat-server-r1"]
    stage.cluster.store.delete(SERVICE, "ml", "chat-server-r1", uid=uid)
    stage.update(BIGGER, state)
    stage.stands(BIGGER)
    assert members == stage.uids(POD)


# --- failing calls ---


@pytest.mark.parametrize("verb", ["list", "get"])
def test_reads_that_fail_change_nothing_until_the_deadline(verb: str) -> None:
    stage, state = standing()
    before = {kind: stage.uids(kind) for kind in EVERYTHING}
    faulty = FaultyCluster(stage.cluster)
    kinds = ("Pod", "Service", "Workload")
    faulty.fail_reads(lambda call: call.verb == verb and call.kind in kinds)
    began = stage.clock.seconds
    error = raised(Unreachable, lambda: stage.update(BIGGER, state, through=faulty))
    assert error.state is not None
    assert 60 <= stage.clock.seconds - began < 70
    assert before == {kind: stage.uids(kind) for kind in EVERYTHING}
    assert any("trying again" in line for line in stage.lines)


@pytest.mark.parametrize(
    "matches",
    [
        pytest.param(lambda call: call.kind == "Workload", id="Workloads"),
        pytest.param(lambda call: call.verb == "list", id="lists"),
        pytest.param(lambda call: call.verb in ("create", "delete"), id="creates and deletes"),
        pytest.param(lambda call: call.verb == "replace", id="the record"),
    ],
)
def test_calls_that_fail_for_a_while_are_survived(matches: Callable[[Call], bool]) -> None:
    stage, state = standing()
    faulty = FaultyCluster(stage.cluster)
    began = stage.clock.seconds

    def fails(call: Call) -> bool:
        return matches(call) and 0.02 < stage.clock.seconds - began < 5

    faulty.fail(fails)
    stage.update(BIGGER, state, through=faulty)
    stage.stands(BIGGER)
    stage.uses_what_stands()
    assert stage.clock.seconds - began > 4


@pytest.mark.parametrize(
    ("error", "want"),
    [
        pytest.param(Forbidden("cannot delete resource"), Forbidden, id="RBAC"),
        pytest.param(
            NotFound('namespaces "ml" not found'), InvalidSpec, id="the namespace is gone"
        ),
    ],
)
def test_what_waiting_cannot_mend_is_raised_at_once(
    error: Exception, want: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage, state = standing()

    async def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(stage.cluster, "patch", refuse)
    monkeypatch.setattr(stage.cluster, "create", refuse)
    began = stage.clock.seconds
    raised(want, lambda: stage.update(BIGGER, state))
    assert stage.clock.seconds - began < 5


def test_a_full_resource_quota_is_waited_for() -> None:
    stage, state = standing()
    message = "exceeded quota: compute, requested: pods=1, used: pods=2, limited: pods=2"
    began = stage.clock.seconds
    stage.cluster.refuse(
        "quota",
        lambda kind, body: (
            message
            if kind == POD and "probe" not in name_of(body) and stage.clock.seconds - began < 30
            else ""
        ),
    )
    stage.update(declared(replicas=3), state)
    stage.stands(declared(replicas=3))
    assert 30 <= stage.clock.seconds - began < 33


def test_a_workload_that_was_not_composed_yet_is_looked_for_again() -> None:
    """The first look finds none, and must not be believed once the members are let go."""
    stage, state = standing()
    stage.cluster.world.kubelet.timing = Timing(start_seconds=2, ready_seconds=2)
    began = stage.clock.seconds
    stage.update(declared(replicas=3), state)
    stage.stands(declared(replicas=3))
    assert stage.clock.seconds - began < 10


def test_a_service_that_the_cluster_refuses_is_told_by_name() -> None:
    stage, state = standing()
    stage.cluster.refuse(
        "services", lambda kind, body: "spec.ports: Required value" if kind == SERVICE else ""
    )
    error = raised(InvalidSpec, lambda: stage.update(BIGGER, state))
    assert error.path.startswith("Service chat-server-r")
    assert 2 == len(stage.members(TWO))
