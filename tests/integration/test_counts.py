"""Scale, destroy, and runs that have nothing to do."""

from typing import Any

import pytest

from gpustack_deploy.model.errors import AdmissionAwaited
from gpustack_deploy.sandbox.waiting import wait_until
from tests.integration.place import KUEUE, Place, is_true, writes

pytestmark = pytest.mark.core


def test_scaling_up_adds_ordinals_and_restarts_nobody(place: Place) -> None:
    state = place.create(place.declared(replicas=1, size=2))
    before = place.identities()
    place.update(place.declared(replicas=3, size=2), state)
    after = place.replicas()
    assert [0, 1, 2] == sorted(after)
    assert all(replica.is_served for replica in after.values())
    assert before[0] == after[0].identity
    assert 3 == place.record()["achieved"]


def test_scaling_down_takes_the_highest_away_and_restarts_nobody(place: Place) -> None:
    state = place.create(place.declared(replicas=3, size=2))
    before = place.identities()
    state = place.update(place.declared(replicas=1, size=2), state)
    assert {0: before[0]} == place.identities()
    assert 1 == len(place.workloads())
    assert {"chat", "chat-server", "chat-server-r0"} == set(place.services())
    assert place.is_converged(place.declared(replicas=1, size=2), state)
    place.await_gpus_in_use("h200", 2)


def test_a_count_edit_beside_a_shape_edit_shrinks_first_and_ends_in_both(place: Place) -> None:
    state = place.create(place.declared(replicas=2))
    before = place.identities()
    place.update(place.declared(replicas=1, size=2), state)
    (replica,) = place.replicas().values()
    assert replica.is_served
    assert not set(before[0]) & set(replica.identity)


def test_a_second_edit_takes_the_slot_of_one_that_is_queued(place: Place) -> None:
    own = place.add_queue(4)
    shape: dict[str, Any] = {"instanceType": own, "rollout": {"admissionWaitSeconds": 1}}
    state = place.create(place.declared(replicas=2, resources={"count": 1}, **shape))
    before = place.identities()
    with pytest.raises(AdmissionAwaited) as queued:
        place.update(
            place.declared(replicas=2, resources={"count": 4}, **shape),
            state,
            bounds_admission_wait=True,
        )
    assert queued.value.state is not None
    assert (1, "WaitingForAdmission") == (
        place.record()["slot"]["ordinal"],
        place.record()["slot"]["phase"],
    )
    waiting = place.replicas()
    assert before[0] == waiting[0].identity
    assert waiting[1].workload is not None
    assert not is_true(waiting[1].workload, "Admitted")

    second = place.declared(replicas=2, resources={"count": 2}, **shape)
    state = place.update(second, queued.value.state)
    after = place.replicas()
    assert all(replica.is_served for replica in after.values())
    assert ["2", "2"] == [replica.members[0].gpus for replica in after.values()]
    assert waiting[1].members[0].group not in place.workloads()
    assert 2 == len(place.workloads())
    assert place.is_converged(second, state)


def test_an_edit_taken_back_while_it_is_queued_ends_where_it_began(place: Place) -> None:
    own = place.add_queue(2)
    shape: dict[str, Any] = {"instanceType": own, "rollout": {"admissionWaitSeconds": 1}}
    first = place.declared(replicas=2, **shape)
    state = place.create(first)
    before = place.identities()
    with pytest.raises(AdmissionAwaited) as queued:
        place.update(
            place.declared(replicas=2, resources={"count": 2}, **shape),
            state,
            bounds_admission_wait=True,
        )
    assert queued.value.state is not None
    state = place.update(first, queued.value.state)
    after = place.replicas()
    assert before[0] == after[0].identity
    assert after[1].is_served
    assert place.is_converged(first, state)


def test_a_run_without_a_change_writes_nothing_and_reads_little(place: Place) -> None:
    declared = place.declared(replicas=3, size=2)
    state = place.create(declared)
    versions = [each["metadata"]["resourceVersion"] for each in place.pods()]
    since = place.mark()
    again = place.update(declared, state)
    asked = place.requests(since=since)
    assert [] == writes(asked)
    assert state == again
    reads = [each["requestURI"] for each in asked if each["verb"] in ("get", "list")]
    assert len(reads) <= 7, reads
    assert versions == [each["metadata"]["resourceVersion"] for each in place.pods()]


def test_the_cost_of_replacing_one_replica(place: Place) -> None:
    """At most 2S + 6 writes, S the mean of the old and the new size, and 2 for each Service."""
    size = 2
    state = place.create(place.declared(size=size))
    since = place.mark()
    place.update(place.declared(size=size, resources={"count": 2}), state)
    written = writes(place.requests(since=since))
    assert len(written) <= 2 * size + 6 - 1, written  # the dry run is not among them


def test_destroy_leaves_nothing(place: Place) -> None:
    prefill, decode = place.pair("prefill", replicas=2), place.pair("decode", size=2)
    states = place.create(prefill), place.create(decode)
    assert () == place.destroy(decode, states[1])
    assert [] == [each for each in place.services() if each.startswith("chat-decode")]
    assert {0, 1} == set(place.replicas("prefill"))
    assert () == place.destroy(prefill, states[0])
    assert [] == place.pods()
    assert {} == place.workloads()
    assert {} == place.services()
    assert [] == place.api.list(f"{place.core}/configmaps?labelSelector=app.kubernetes.io/instance")
    place.await_gpus_in_use("h200", 0)


def test_destroy_ends_in_a_namespace_that_is_being_deleted_and_in_none(place: Place) -> None:
    declared = place.declared(replicas=2, size=2)
    state = place.create(declared)
    place.api.delete(place.core)
    place.destroy(declared, state)
    wait_until(lambda: place.api.find(place.core) is None, what="the namespace to be gone")
    (warning,) = place.destroy(declared, state)
    assert f"namespace {place.namespace} is gone" in warning
    place.await_gpus_in_use("h200", 0)


def test_a_role_whose_record_was_deleted_is_composed_anew(place: Place) -> None:
    declared = place.declared(replicas=2)
    state = place.create(declared)
    before = place.identities()
    place.api.delete(f"{place.core}/configmaps/chat-server")
    later = place.update(declared, state)
    assert state.record_uid != later.record_uid
    after = place.replicas()
    assert [0, 1] == sorted(after)
    for ordinal, replica in after.items():
        assert replica.is_served
        assert not set(before[ordinal]) & set(replica.identity)
    assert place.is_converged(declared, later)


def test_a_lost_replica_is_back_after_the_next_run(place: Place) -> None:
    declared = place.declared(replicas=2)
    state = place.create(declared)
    before = place.identities()
    workload = place.replicas()[0].workload
    assert workload is not None
    # Kueue deletes the members of a Workload that is deleted.
    place.api.delete(
        f"{KUEUE}/namespaces/{place.namespace}/workloads/{workload['metadata']['name']}"
    )
    wait_until(lambda: 0 not in place.replicas(), what="the replica to be lost")
    state = place.update(declared, state)
    after = place.replicas()
    assert before[1] == after[1].identity
    assert after[0].is_served
    assert place.is_converged(declared, state)
