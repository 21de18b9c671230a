"""Runs that cannot end at once: what they wait for, what they say, and how the next one resumes."""

from collections.abc import Callable

import pytest

from gpustack_deploy.engine.cluster import POD, SERVICE, WORKLOAD
from gpustack_deploy.model.errors import ReplacementHeld
from gpustack_deploy.model.role import RoleDeclaration
from gpustack_deploy.model.state import RoleState
from tests.declarations import role
from tests.engine.driver import Stage, standing
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


def held_state(stage: Stage, declaration: RoleDeclaration, state: RoleState) -> RoleState:
    """What stands after a run that could not end."""
    with pytest.raises(ReplacementHeld) as held:
        stage.update(declaration, state)
    assert held.value.state is not None
    return held.value.state


# --- quota ---


def test_growth_past_the_quota_that_was_queued_earlier_still_lets_an_edit_through() -> None:
    stage, state = standing(TWO, gpus=4)
    four = declared(replicas=4)
    held = held_state(stage, four, state)
    edit = declared(replicas=4, resources={"count": 1})
    stage.update(edit, held)
    stage.assert_stands(edit)


# --- the gate ---


def never_ready(stage: Stage, image: str) -> None:
    """Members with that image start and never become Ready."""
    stage.cluster.world.kubelet.behaviour = lambda pod: (
        Timing(is_never_ready=True) if pod["spec"]["containers"][0]["image"] == image else None
    )


BROKEN_IMAGE = "vllm/vllm-openai:broken"


def test_a_replacement_that_never_gets_ready_holds_before_the_next_goes() -> None:
    stage, state = standing(TWO)
    survivor = stage.uids(POD)["chat-server-r0-m0"]
    never_ready(stage, BROKEN_IMAGE)
    began = stage.clock.seconds
    with pytest.raises(ReplacementHeld) as held:
        stage.update(declared(image=BROKEN_IMAGE), state)
    assert ("NotReady", 1) == (held.value.check, held.value.ordinal)
    assert "0 of 1 members are Ready; chat-server-r1-m0: started and not Ready" in str(held.value)
    assert 150 <= stage.clock.seconds - began < 200
    assert survivor == stage.uids(POD)["chat-server-r0-m0"]


def test_a_fixed_image_replaces_the_one_that_never_got_ready() -> None:
    stage, state = standing(TWO)
    never_ready(stage, BROKEN_IMAGE)
    held = held_state(stage, declared(image=BROKEN_IMAGE), state)
    fixed = declared(image="vllm/vllm-openai:v0.12.0")
    stage.update(fixed, held)
    stage.assert_stands(fixed)


def test_the_gate_admitted_does_not_wait_for_ready() -> None:
    stage, state = standing(TWO)
    never_ready(stage, BROKEN_IMAGE)
    edit = declared(image=BROKEN_IMAGE, rollout={"gate": "Admitted"})
    stage.update(edit, state)
    assert {BROKEN_IMAGE} == {pod["spec"]["containers"][0]["image"] for pod in stage.pods()}


# --- what happens to members ---


def test_a_member_deleted_by_hand_costs_its_own_replica_only() -> None:
    stage, state = standing(BIGGER)
    before = stage.uids(POD)
    stage.cluster.store.delete(
        POD, "ml", "chat-server-r1-m1", uid=before["chat-server-r1-m1"], grace_seconds=None
    )
    stage.update(BIGGER, state)
    stage.assert_stands(BIGGER)
    after = stage.uids(POD)
    for name, uid in before.items():
        assert (uid == after[name]) is ("-r0-" in name)
    assert "server r1: replacing: short of its members (1 of 2)" in stage.lines


def test_a_replica_that_kueue_evicted_is_made_anew() -> None:
    stage, state = standing(TWO)
    workload = next(
        each
        for each in stage.cluster.objects(WORKLOAD)
        if each["metadata"]["ownerReferences"][0]["name"] == "chat-server-r1-m0"
    )
    stage.cluster.kueue.evict("ml", name_of(workload))
    stage.settle()
    survivor = stage.uids(POD)["chat-server-r0-m0"]
    stage.update(TWO, state)
    stage.assert_stands(TWO)
    assert survivor == stage.uids(POD)["chat-server-r0-m0"]
    assert uid_of(workload) not in stage.uids(WORKLOAD).values()


def test_a_member_that_failed_is_made_anew() -> None:
    stage, state = standing(TWO)
    stage.cluster.world.kubelet.behaviour = lambda pod: (
        Timing(fails_after_seconds=60) if name_of(pod) == "chat-server-r0-m0" else None
    )
    stage.clock.advance(120)
    stage.settle()
    stage.cluster.world.kubelet.behaviour = lambda pod: None
    stage.update(TWO, state)
    stage.assert_stands(TWO)


def test_a_service_that_was_edited_by_hand_is_mended_in_place() -> None:
    stage, state = standing(TWO)
    service = stage.cluster.peek(SERVICE, "chat-server")
    assert service is not None
    service["spec"]["selector"] = {"app": "else"}
    stage.cluster.store.update(SERVICE, service)
    before = stage.uids(POD) | stage.uids(SERVICE)
    assert not stage.read(TWO, state).is_converged
    stage.update(TWO, state)
    stage.assert_stands(TWO)
    assert before == stage.uids(POD) | stage.uids(SERVICE)
    mended = stage.cluster.peek(SERVICE, "chat-server")
    assert mended is not None
    assert "app" not in mended["spec"]["selector"]


def test_a_service_that_was_deleted_by_hand_is_made_again() -> None:
    stage, state = standing(BIGGER)
    members = stage.uids(POD)
    uid = stage.uids(SERVICE)["chat-server-r1"]
    stage.cluster.store.delete(SERVICE, "ml", "chat-server-r1", uid=uid)
    stage.update(BIGGER, state)
    stage.assert_stands(BIGGER)
    assert members == stage.uids(POD)


# --- failing calls ---


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
    stage, state = standing(TWO)
    faulty = FaultyCluster(stage.cluster)
    began = stage.clock.seconds

    def fails(call: Call) -> bool:
        return matches(call) and 0.02 < stage.clock.seconds - began < 5

    faulty.fail(fails)
    stage.update(BIGGER, state, through=faulty)
    stage.assert_stands(BIGGER)
    assert stage.clock.seconds - began > 4


def test_a_workload_that_was_not_composed_yet_is_looked_for_again() -> None:
    """The first look finds none, and must not be believed once the members are let go."""
    stage, state = standing(TWO)
    stage.cluster.world.kubelet.timing = Timing(start_seconds=2, ready_seconds=2)
    began = stage.clock.seconds
    stage.update(declared(replicas=3), state)
    stage.assert_stands(declared(replicas=3))
    assert stage.clock.seconds - began < 10
