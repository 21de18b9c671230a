"""Repeated creates, deletes of an earlier claim, lost records, and reads (D1, D12, D20)."""

import pytest

from gpustack_deploy.engine.cluster import CONFIG_MAP, NAMESPACE, POD, SERVICE, WORKLOAD
from gpustack_deploy.model.errors import Unreachable
from tests.declarations import role
from tests.engine.driver import Stage, standing
from tests.fakes.faults import FaultyCluster

pytestmark = pytest.mark.check

SMALL = role(replicas=2, size=2)
EDITED = role(replicas=2, size=3)


def lose_record(stage: Stage) -> None:
    """Remove the record and keep what it owned, as a restored backup may."""
    uid = stage.cluster.uid(CONFIG_MAP, "ml", "chat-server")
    stage.cluster.store.delete(CONFIG_MAP, "ml", "chat-server", uid=uid)


# --- claims ---


def test_a_repeated_create_finds_its_own_objects_and_stamps_a_new_claim() -> None:
    stage, state = standing(SMALL)
    before = stage.uids()
    again = stage.create(SMALL)
    assert before == stage.uids()
    assert state.record_uid == again.record_uid
    assert state.claim != again.claim == stage.record().claim


def test_a_delete_of_an_earlier_claim_removes_nothing_and_succeeds() -> None:
    stage, state = standing(SMALL)
    stage.create(SMALL)
    with stage.nothing_written():
        (warning,) = stage.destroy(state)
    assert "created anew or adopted meanwhile" in warning
    stage.assert_stands(SMALL)


def test_a_forced_replacement_ends_with_the_role_serving() -> None:
    stage, state = standing(SMALL)
    assert () == stage.destroy(state)
    again = stage.create(SMALL)
    stage.assert_stands(SMALL)
    with stage.nothing_written():
        stage.destroy(state)
    assert () == stage.destroy(again)
    stage.assert_gone()


def test_a_role_that_is_gone_is_deleted_with_success() -> None:
    stage, state = standing(SMALL)
    stage.destroy(state)
    with stage.nothing_written():
        (warning,) = stage.destroy(state)
    assert "has no record any more" in warning


# --- records that were lost ---


def test_a_lost_record_is_written_anew_and_its_members_are_replaced() -> None:
    stage, state = standing(SMALL)
    before, workloads = stage.uids(), stage.uids(WORKLOAD)
    lose_record(stage)
    # The run finds the objects before the garbage collector does.
    reached = stage.update(SMALL, state)
    stage.assert_stands(SMALL)
    assert reached.record_uid != state.record_uid
    assert not set(before.values()) & set(stage.uids().values())
    assert not set(workloads.values()) & set(stage.uids(WORKLOAD).values())


def test_a_lost_record_without_its_objects_is_a_role_composed_anew() -> None:
    stage, state = standing(SMALL)
    uid = stage.cluster.uid(CONFIG_MAP, "ml", "chat-server")
    stage.cluster.store.delete(CONFIG_MAP, "ml", "chat-server", uid=uid)
    stage.settle()
    stage.update(EDITED, state)
    stage.assert_stands(EDITED)
    assert state.claim == stage.record().claim


@pytest.mark.parametrize("is_collected", [True, False], ids=["after", "before"])
def test_a_role_whose_record_was_lost_is_destroyed_by_what_its_state_remembers(
    is_collected: bool,
) -> None:
    stage, state = standing(SMALL)
    lose_record(stage)
    if is_collected:
        # The garbage collector deletes serving members, which then wait for their Workload.
        stage.settle()
        assert {} != stage.cluster.usage("h200")
    (warning,) = stage.destroy(state)
    assert "has no record any more" in warning
    stage.assert_gone()


def test_a_record_that_goes_during_a_destroy_takes_nothing_else_along() -> None:
    stage, state = standing(SMALL)

    def told(line: str) -> None:
        if "ends within its grace" in line and stage.cluster.names(CONFIG_MAP):
            lose_record(stage)

    stage.destroy(state, progress=told)
    stage.assert_gone()


# --- reads ---


def test_an_update_that_changes_nothing_writes_nothing_and_reads_four_times_at_most() -> None:
    stage, state = standing(SMALL)
    stage.update(SMALL, state)
    stage.cluster.forget_calls()
    with stage.nothing_written():
        stage.update(SMALL, state)
    of_role = [call for call in stage.cluster.served if call.kind != "Namespace"]
    assert len(of_role) <= 4, of_role


def test_the_rollouts_settings_alone_change_nothing() -> None:
    stage, state = standing(SMALL)
    with stage.nothing_written():
        stage.update(role(replicas=2, size=2, rollout={"deadlineSeconds": 77}), state)


def test_a_read_makes_three_reads_and_no_write() -> None:
    stage, state = standing(SMALL)
    stage.read(SMALL, state)
    stage.cluster.forget_calls()
    with stage.nothing_written():
        reading = stage.read(SMALL, state)
    assert reading.is_converged
    assert not reading.is_gone
    kinds = sorted(call.kind for call in stage.cluster.served if call.kind != "Namespace")
    assert ["ConfigMap", "Pod", "Service"] == kinds


def test_a_read_sees_what_a_run_would_do() -> None:
    stage, state = standing(SMALL)
    reading = stage.read(EDITED, state)
    assert not reading.is_converged
    assert reading.record is not None
    assert reading.step is not None


def test_a_read_of_a_role_without_record_says_that_it_is_gone() -> None:
    stage, state = standing(SMALL)
    stage.destroy(state)
    assert stage.read(SMALL, state).is_gone


@pytest.mark.parametrize("kind", ["ConfigMap", "Pod", "Service", "Namespace"])
def test_a_read_that_fails_is_never_an_absence(kind: str) -> None:
    stage, state = standing(SMALL)
    failing = FaultyCluster(stage.cluster)
    failing.fail_reads(lambda call: call.kind == kind)
    with stage.nothing_written(), pytest.raises(Unreachable):
        stage.read(SMALL, state, through=failing)


def test_a_destroy_works_in_a_namespace_that_is_ending() -> None:
    stage, state = standing(SMALL)
    uid = stage.cluster.uid(NAMESPACE, "", "ml")
    stage.cluster.store.delete(NAMESPACE, "", "ml", uid=uid)
    stage.destroy(state)
    for kind in (POD, WORKLOAD, SERVICE, CONFIG_MAP):
        assert [] == stage.cluster.names(kind)
