"""Edits of a role that stands: which replicas are replaced, in which order, and what stays."""

import pytest

from gpustack_deploy.engine.cluster import POD, SERVICE, WORKLOAD
from gpustack_deploy.model import identity
from tests.declarations import role
from tests.engine.driver import Stage, decode, on_queue, sibling, standing
from tests.engine.guarded_cluster import GPU, ROOM
from tests.fakes.objects import labels_of, meta, uid_of

pytestmark = pytest.mark.check


def assert_all_fresh(before: dict[str, str], after: dict[str, str]) -> None:
    assert not set(before.values()) & set(after.values())


def test_a_created_role_stands_under_its_record() -> None:
    stage = Stage()
    state = stage.create(role(replicas=2, size=2))
    stage.assert_stands(role(replicas=2, size=2))
    assert state.is_finished
    assert (2, 2) == (state.replicas, state.size)
    assert state.record_uid == stage.record().uid
    assert state.claim == stage.record().claim != ""


def test_the_record_is_the_first_thing_a_create_writes() -> None:
    stage = Stage()
    stage.create(role())
    first, *_ = stage.cluster.writes
    assert ("create", "ConfigMap", "chat-server") == (first.verb, first.kind, first.name)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param({"size": 1}, {"size": 3}, id="size up"),
        pytest.param({"size": 3}, {"size": 1}, id="size down"),
        pytest.param({"resources": {"count": 2}}, {"resources": {"count": 4}}, id="resources"),
        pytest.param({}, {"command": ["python", "-m", "mine"]}, id="command"),
        pytest.param({}, {"env": [{"name": "A", "value": "b"}]}, id="environment"),
    ],
)
def test_an_edit_of_what_is_rendered_replaces_every_replica_whole(
    before: dict[str, object], after: dict[str, object]
) -> None:
    stage, state = standing(role(replicas=2, **before))
    record, services = stage.record(), stage.uids(SERVICE)
    pods, workloads = stage.uids(), stage.uids(WORKLOAD)
    reached = stage.update(role(replicas=2, **{**before, **after}), state)
    stage.assert_stands(role(replicas=2, **{**before, **after}))
    assert reached.fingerprint != state.fingerprint
    assert record.uid == stage.record().uid
    assert_all_fresh(pods, stage.uids())
    assert_all_fresh(workloads, stage.uids(WORKLOAD))
    for name in ("chat", "chat-server"):
        assert services[name] == stage.uids(SERVICE)[name]


def test_replicas_go_one_at_a_time_and_the_highest_goes_first() -> None:
    stage, state = standing(role(replicas=3))
    stage.update(role(replicas=3, size=2), state)
    opened = [line for line in stage.lines if ": replacing: " in line]
    closed = [line for line in stage.lines if ": replaced: " in line]
    assert ["server r2", "server r1", "server r0"] == [line.split(":")[0] for line in opened]
    assert ["server r2", "server r1", "server r0"] == [line.split(":")[0] for line in closed]
    order = [stage.lines.index(line) for pair in zip(opened, closed, strict=True) for line in pair]
    assert sorted(order) == order


def test_an_edited_instance_type_leads_to_its_own_queue() -> None:
    stage, state = standing(role(replicas=2))
    stage.cluster.add_queue("a100", {**ROOM, GPU: 2})
    stage.update(on_queue("a100", replicas=2), state)
    stage.assert_stands(on_queue("a100", replicas=2))
    assert {} == stage.cluster.usage("h200")
    assert 2 == stage.cluster.usage("a100")[GPU]


def test_a_size_edit_at_full_quota_needs_no_spare_card() -> None:
    stage, state = standing(role(replicas=2, resources={"count": 2}), gpus=4)
    stage.update(role(replicas=2, size=2), state)
    stage.assert_stands(role(replicas=2, size=2))
    assert 4 == stage.cluster.usage("h200")[GPU]


def test_one_edit_that_rolls_and_grows_ends_with_both() -> None:
    stage, state = standing(role(replicas=2, resources={"count": 4}), gpus=8)
    stage.update(role(replicas=4, resources={"count": 2}), state)
    stage.assert_stands(role(replicas=4, resources={"count": 2}))


def test_one_edit_that_rolls_and_shrinks_removes_before_it_replaces() -> None:
    stage, state = standing(role(replicas=3), gpus=3)
    stage.update(role(replicas=1, resources={"count": 3}), state)
    stage.assert_stands(role(replicas=1, resources={"count": 3}))
    removed = next(i for i, line in enumerate(stage.lines) if "r2: removing" in line)
    replaced = next(i for i, line in enumerate(stage.lines) if "r0: replacing" in line)
    assert removed < replaced


def test_growth_restarts_nobody() -> None:
    stage, state = standing(role(replicas=1, size=2))
    before = stage.uids()
    stage.update(role(replicas=3, size=2), state)
    stage.assert_stands(role(replicas=3, size=2))
    assert before.items() <= stage.uids().items()


def test_shrinking_removes_the_highest_and_keeps_the_rest() -> None:
    stage, state = standing(role(replicas=3, size=2))
    before = stage.uids()
    stage.update(role(replicas=1, size=2), state)
    stage.assert_stands(role(replicas=1, size=2))
    assert stage.uids().items() <= before.items()


def test_a_routing_label_that_a_service_selects_on_is_withdrawn_before_its_member_leaves() -> None:
    stage, state = standing(role(replicas=1, size=2))
    stage.update(role(replicas=1, size=2, command=["serve"]), state)
    calls = [(call.verb, call.name) for call in stage.cluster.writes if call.kind == "Pod"]
    withdrawn = calls.index(("patch", "chat-server-r0-m0"))
    assert withdrawn < calls.index(("delete", "chat-server-r0-m0"))
    assert ("patch", "chat-server-r0-m1") not in calls


def test_the_peer_service_of_an_ordinal_stays_the_same_object_through_a_replacement() -> None:
    stage, state = standing(role(replicas=1, size=2))
    before = stage.uids(SERVICE)
    stage.update(role(replicas=1, size=3), state)
    assert before == stage.uids(SERVICE)


def test_a_service_that_moves_is_aligned_in_place_and_keeps_its_address() -> None:
    stage, state = standing(role(service={"annotations": {"a": "1"}}))
    before = {
        meta(each)["name"]: each["spec"]["clusterIP"] for each in stage.cluster.objects(SERVICE)
    }
    stage.update(role(service={"annotations": {"a": "2"}}, size=2), state)
    for each in stage.cluster.objects(SERVICE):
        if meta(each)["name"] in before:
            assert before[meta(each)["name"]] == each["spec"]["clusterIP"]
            assert "2" == meta(each)["annotations"]["a"]


def test_the_sibling_role_is_not_touched() -> None:
    stage = Stage()
    stage.create(sibling(replicas=2))
    state = stage.create(decode(replicas=2))
    stage.settle()
    prefill = {
        (kind.name, meta(each)["name"]): each
        for kind in (POD, SERVICE)
        for each in stage.cluster.objects(kind)
        if labels_of(each).get(identity.LABEL_ROLE) == "prefill"
    }
    stage.update(decode(replicas=1, size=2), state)
    stage.assert_stands(decode(replicas=1, size=2))
    stage.assert_stands(sibling(replicas=2))
    for (kind, name), each in prefill.items():
        found = stage.cluster.peek(POD if kind == "Pod" else SERVICE, name)
        assert each == found


def test_a_second_edit_while_the_first_is_queued_takes_its_slot_over() -> None:
    stage, state = standing(role(replicas=2, resources={"count": 2}), gpus=4)
    with pytest.raises(Exception, match="NotAdmitted"):
        stage.update(role(replicas=2, resources={"count": 8}, rollout=BRIEF), state)
    queued = stage.record().slot
    assert queued is not None
    assert 1 == queued.ordinal
    untouched = uid_of(stage.cluster.peek(POD, "chat-server-r0-m0") or {})
    stage.lines.clear()
    stage.update(role(replicas=2, resources={"count": 2}, size=1), state)
    stage.assert_stands(role(replicas=2, resources={"count": 2}))
    assert any("server r1: starting over: a newer declaration" in line for line in stage.lines)
    # Declared again as it was before the first edit, so the other replica never left.
    assert untouched == stage.uids()["chat-server-r0-m0"]


def test_shrinking_below_a_queued_replacement_cancels_it() -> None:
    stage, state = standing(role(replicas=2, resources={"count": 2}), gpus=4)
    with pytest.raises(Exception, match="NotAdmitted"):
        stage.update(role(replicas=2, resources={"count": 8}, rollout=BRIEF), state)
    stage.update(role(replicas=1, resources={"count": 2}), state)
    stage.assert_stands(role(replicas=1, resources={"count": 2}))


def test_a_count_edit_during_a_replacement_rebuilds_nothing() -> None:
    stage, state = standing(role(replicas=2), gpus=2)
    with pytest.raises(Exception, match="NotAdmitted"):
        stage.update(role(replicas=2, resources={"count": 2}, rollout=BRIEF), state)
    queued = stage.uids()["chat-server-r1-m0"]
    stage.cluster.kueue.quota.set_quota("h200", GPU, 6)
    stage.update(role(replicas=3, resources={"count": 2}), state)
    stage.assert_stands(role(replicas=3, resources={"count": 2}))
    assert queued == stage.uids()["chat-server-r1-m0"]


def test_a_destroyed_role_leaves_nothing_and_its_quota() -> None:
    stage, state = standing(role(replicas=2, size=2))
    assert () == stage.destroy(state)
    stage.assert_gone()


def test_the_record_is_the_last_thing_a_destroy_removes() -> None:
    stage, state = standing(role(replicas=2, size=2))
    stage.destroy(state)
    assert ("delete", "ConfigMap") == (stage.cluster.writes[-1].verb, stage.cluster.writes[-1].kind)


def test_a_destroy_in_the_middle_of_a_replacement_leaves_nothing() -> None:
    stage, state = standing(role(replicas=2, size=2), gpus=4)
    with pytest.raises(Exception, match="NotAdmitted"):
        stage.update(role(replicas=2, size=2, resources={"count": 3}, rollout=BRIEF), state)
    stage.destroy(state)
    stage.assert_gone()


def test_a_destroyed_role_leaves_its_sibling() -> None:
    stage = Stage()
    stage.create(sibling())
    state = stage.create(decode())
    before = stage.uids()
    stage.destroy(state, name="decode")
    stage.assert_stands(sibling())
    assert stage.uids().items() < before.items()


BRIEF = {"deadlineSeconds": 60}
