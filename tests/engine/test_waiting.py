"""What a run waits for, how long, what it says when it gives up, and how the next one resumes."""

import random

import pytest

from gpustack_deploy.engine.cluster import POD, WORKLOAD
from gpustack_deploy.model.errors import AdmissionAwaited, ReplacementHeld, Unreachable
from gpustack_deploy.model.role import RoleDeclaration
from tests.declarations import role
from tests.engine.driver import Stage, standing
from tests.engine.guarded_cluster import GPU
from tests.fakes import Timing
from tests.fakes.faults import FaultyCluster
from tests.fakes.objects import name_of

pytestmark = pytest.mark.check

BRIEF = {"deadlineSeconds": 60}
SMALL = role(replicas=2, resources={"count": 2})


def big(**fields: object) -> RoleDeclaration:
    """More than the four cards of the queue."""
    return role(replicas=2, resources={"count": 8}, **{"rollout": BRIEF, **fields})


def test_a_run_that_waits_too_long_names_check_role_ordinal_and_the_next_command() -> None:
    stage, state = standing(SMALL, gpus=4)
    with pytest.raises(ReplacementHeld) as held:
        stage.update(big(), state)
    assert ("NotAdmitted", "server", 1) == (held.value.check, held.value.role, held.value.ordinal)
    assert str(held.value).startswith("server r1: NotAdmitted: waiting for quota")
    assert "run `pulumi up` again" in str(held.value)
    assert not isinstance(held.value, AdmissionAwaited)
    assert "" == stage.record().lock.holder


def test_a_run_that_gave_up_says_what_stands() -> None:
    stage, state = standing(SMALL, gpus=4)
    with pytest.raises(ReplacementHeld) as held:
        stage.update(big(), state)
    assert held.value.state is not None
    assert not held.value.state.is_finished
    assert state.record_uid == held.value.state.record_uid


def test_the_next_run_resumes_from_the_record_and_converges() -> None:
    stage, state = standing(SMALL, gpus=4)
    with pytest.raises(ReplacementHeld):
        stage.update(big(), state)
    queued = stage.uids()["chat-server-r1-m0"]
    stage.cluster.kueue.quota.set_quota("h200", GPU, 16)
    stage.update(big(), state)
    stage.assert_stands(big())
    assert queued == stage.uids()["chat-server-r1-m0"]


def test_the_reason_is_kueues_own() -> None:
    stage, state = standing(SMALL, gpus=4)
    with pytest.raises(ReplacementHeld, match="insufficient quota for nvidia"):
        stage.update(big(), state)


def test_a_bounded_wait_for_admission_ends_early_and_keeps_the_slot() -> None:
    stage, state = standing(SMALL, gpus=4)
    began = stage.clock.seconds
    rollout = {"deadlineSeconds": 1800, "admissionWaitSeconds": 90}
    with pytest.raises(AdmissionAwaited, match="run `pulumi up` again"):
        stage.update(big(rollout=rollout), state, bounds_admission_wait=True)
    assert 90 <= stage.clock.seconds - began < 150
    slot = stage.record().slot
    assert slot is not None
    assert 1 == slot.ordinal


def test_without_that_bound_only_the_deadline_ends_it() -> None:
    stage, state = standing(SMALL, gpus=4)
    began = stage.clock.seconds
    rollout = {"deadlineSeconds": 600, "admissionWaitSeconds": 90}
    with pytest.raises(ReplacementHeld) as held:
        stage.update(big(rollout=rollout), state)
    assert ReplacementHeld is type(held.value)
    assert 600 <= stage.clock.seconds - began


def test_a_bounded_wait_does_not_end_what_waits_for_readiness() -> None:
    stage, state = standing(SMALL)
    stage.cluster.world.kubelet.timing = Timing(ready_seconds=400)
    rollout = {"deadlineSeconds": 600, "admissionWaitSeconds": 30}
    edited = role(replicas=2, resources={"count": 1}, rollout=rollout)
    stage.update(edited, state, bounds_admission_wait=True)
    stage.assert_stands(edited)


def test_a_create_that_is_never_admitted_keeps_its_objects_and_says_so() -> None:
    stage = Stage(gpus=4)
    with pytest.raises(ReplacementHeld) as held:
        stage.create(big())
    assert held.value.state is not None
    assert stage.record().uid == held.value.state.record_uid
    assert 2 == len(stage.pods())
    stage.cluster.kueue.quota.set_quota("h200", GPU, 16)
    stage.create(big())
    stage.assert_stands(big())


def test_a_replica_that_never_gets_ready_is_named_with_the_containers_reason() -> None:
    stage, state = standing(role())
    stage.cluster.world.kubelet.timing = Timing(waiting_reason="ImagePullBackOff")
    edited = role(image="nowhere/at-all:1", rollout=BRIEF, startupTimeoutSeconds=60)
    with pytest.raises(ReplacementHeld, match="ImagePullBackOff") as held:
        stage.update(edited, state)
    assert "NotReady" == held.value.check


def test_waiting_for_ready_is_given_the_start_up_time_as_well() -> None:
    stage, state = standing(role())
    stage.cluster.world.kubelet.timing = Timing(is_never_ready=True)
    began = stage.clock.seconds
    with pytest.raises(ReplacementHeld):
        stage.update(role(rollout=BRIEF, startupTimeoutSeconds=300, size=2), state)
    assert 360 <= stage.clock.seconds - began < 460


def test_three_attempts_of_one_declaration_are_made_and_no_fourth() -> None:
    stage, state = standing(role())
    stage.cluster.world.kubelet.timing = Timing(ready_seconds=60, fails_after_seconds=20)
    stage.cluster.forget_calls()
    with pytest.raises(ReplacementHeld, match="3 attempts of this declaration failed") as held:
        stage.update(role(env=[{"name": "A", "value": "b"}]), state)
    assert 0 == held.value.ordinal
    made = [call for call in stage.cluster.writes if ("create", "Pod") == (call.verb, call.kind)]
    assert 3 == len(made)


def test_the_next_run_has_three_attempts_of_its_own() -> None:
    stage, state = standing(role())
    edited = role(env=[{"name": "A", "value": "b"}])
    stage.cluster.world.kubelet.timing = Timing(ready_seconds=60, fails_after_seconds=20)
    with pytest.raises(ReplacementHeld):
        stage.update(edited, state)
    stage.cluster.world.kubelet.timing = Timing(ready_seconds=5)
    stage.update(edited, state)
    stage.assert_stands(edited)


def test_an_evicted_replacement_is_made_anew_in_the_same_slot() -> None:
    stage, state = standing(role(), gpus=4)
    evicted: list[str] = []

    def told(line: str) -> None:
        stage.lines.append(line)
        if "NotReady" in line and not evicted:
            (name,) = stage.cluster.names(WORKLOAD)
            evicted.append(name)
            stage.cluster.kueue.evict("ml", name)

    edited = role(env=[{"name": "A", "value": "b"}])
    stage.update(edited, state, progress=told)
    stage.assert_stands(edited)
    assert evicted[0] not in stage.cluster.names(WORKLOAD)
    assert any("starting over" in line for line in stage.lines)


def test_a_deactivated_workload_is_an_administrators_hold() -> None:
    stage, state = standing(SMALL, gpus=4)
    with pytest.raises(ReplacementHeld):
        stage.update(big(), state)
    slot = stage.record().slot
    assert slot is not None
    (queued,) = [n for n in stage.cluster.names(WORKLOAD) if n.endswith(slot.token)]
    stage.cluster.kueue.deactivate("ml", queued)
    with pytest.raises(ReplacementHeld, match="was deactivated; set its spec") as held:
        stage.update(big(), state)
    assert "AdministratorsHold" == held.value.check


def test_a_run_that_is_asked_to_stop_ends_before_its_first_step() -> None:
    stage, state = standing(SMALL)
    with stage.nothing_written(), pytest.raises(ReplacementHeld, match="asked to stop"):
        stage.update(big(), state, should_stop=lambda: True)


def test_a_run_that_is_asked_to_stop_while_it_waits_gives_the_lock_up() -> None:
    stage, state = standing(SMALL, gpus=4)
    ends = stage.clock.seconds + 45
    with pytest.raises(ReplacementHeld) as stopped:
        stage.update(big(), state, should_stop=lambda: stage.clock.seconds > ends)
    assert "Stopped" == stopped.value.check
    assert stage.clock.seconds - ends < 15
    assert "" == stage.record().lock.holder
    stage.update(SMALL, state)
    stage.assert_stands(SMALL)


@pytest.mark.parametrize("steps", [3, 8, 15])
def test_a_run_stopped_at_any_step_boundary_is_resumed(steps: int) -> None:
    stage, state = standing(role(replicas=2))
    asked: list[None] = []

    def should_stop() -> bool:
        asked.append(None)
        return len(asked) > steps

    with pytest.raises(ReplacementHeld, match="asked to stop"):
        stage.update(role(replicas=2, size=2), state, should_stop=should_stop)
    assert "" == stage.record().lock.holder
    stage.update(role(replicas=2, size=2), state)
    stage.assert_stands(role(replicas=2, size=2))


def test_a_server_that_stays_silent_ends_the_run_at_its_deadline_and_changes_nothing() -> None:
    stage, state = standing(SMALL)
    silent = FaultyCluster(stage.cluster)
    silent.fail_reads(lambda call: "list" == call.verb)
    with stage.nothing_written(), pytest.raises(Unreachable):
        stage.update(big(), state, through=silent)


def test_reads_that_fail_for_a_while_are_tried_again_and_delete_nothing() -> None:
    stage, state = standing(SMALL, gpus=4)
    flaky = FaultyCluster(stage.cluster)
    chance = random.Random(7)  # noqa: S311 - a repeatable order
    flaky.fail_reads(
        lambda call: call.kind in ("Pod", "Service", "Workload") and chance.random() < 0.2
    )
    shrunk = role(replicas=2, resources={"count": 1}, size=2)
    stage.update(shrunk, state, through=flaky)
    stage.assert_stands(shrunk)
    assert any("trying again" in line for line in stage.lines)


def test_a_member_on_a_lost_node_is_named_and_no_other_healthy_replica_is_touched() -> None:
    stage = Stage(gpus=16)
    for name in ("node-1", "node-2"):
        stage.cluster.add_node(
            name, {GPU: 2, "cpu": 64, "memory": "4Ti", "ephemeral-storage": "9Ti", "pods": 99}
        )
    state = stage.create(SMALL)
    stage.assert_stands(SMALL)
    lost = next(p for p in stage.pods() if name_of(p) == "chat-server-r1-m0")["spec"]["nodeName"]
    stage.cluster.world.lose_node(lost)
    before = stage.uids()
    edited = role(replicas=2, resources={"count": 1}, rollout=BRIEF)
    with pytest.raises(ReplacementHeld, match="MemberOnLostNode") as held:
        stage.update(edited, state)
    assert lost in str(held.value)
    assert before == stage.uids(POD)
    stage.cluster.world.return_node(lost)
    stage.update(edited, state)
    stage.assert_stands(edited)


def test_a_destroy_does_not_wait_for_a_member_on_a_lost_node() -> None:
    stage = Stage()
    stage.cluster.add_node(
        "node-1", {GPU: 8, "cpu": 64, "memory": "4Ti", "ephemeral-storage": "9Ti", "pods": 99}
    )
    state = stage.create(SMALL)
    stage.cluster.world.lose_node("node-1")
    warnings = stage.destroy(state)
    assert "node-1" in warnings[0]
    assert "was not waited for" in warnings[0]
    assert [] == stage.cluster.records()
