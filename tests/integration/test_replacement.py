"""An edit of a role's shape replaces whole replicas, on a real API server and a real Kueue."""

from typing import Any

import pytest

from tests.integration.place import Place, instance_type

pytestmark = pytest.mark.core

TAKE_OVER = {
    "command": ["vllm", "serve", "openai/gpt-oss-20b", "--enforce-eager"],
    "readiness": {"http": {"path": "/health", "port": 8000}},
}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param({"size": 1}, {"size": 2}, id="size up"),
        pytest.param({"size": 3}, {"size": 1}, id="size down"),
        pytest.param({}, {"resources": {"count": 2}}, id="resources"),
        pytest.param({}, TAKE_OVER, id="take-over command"),
        pytest.param(TAKE_OVER, {}, id="back to the built command"),
        pytest.param({}, {"instanceType": instance_type("a100")}, id="instance type"),
        pytest.param({}, {"env": [{"name": "A", "value": "1"}]}, id="another rendered field"),
    ],
)
def test_an_edit_replaces_every_replica_under_a_fresh_admission(
    place: Place, before: dict[str, Any], after: dict[str, Any]
) -> None:
    old = place.declared(replicas=2, **before)
    state = place.create(old)
    identities, services = place.identities(), place.service_uids()

    new = place.declared(replicas=2, **after)
    later = place.update(new, state)

    replicas = place.replicas()
    assert [0, 1] == sorted(replicas)
    for ordinal, replica in replicas.items():
        assert new.size == len(replica.members)
        assert replica.is_served
        assert not set(identities[ordinal]) & set(replica.identity)
    assert {each.members[0].group for each in replicas.values()} == set(place.workloads())
    assert place.record()["slot"] is None
    assert place.record()["lock"]["holder"] == ""
    assert state.record_uid == later.record_uid
    kept = {"chat", "chat-server"}
    assert {name: services[name] for name in kept} == {
        name: uid for name, uid in place.service_uids().items() if name in kept
    }
    assert place.is_converged(new, later)


def test_the_admission_describes_the_new_shape(place: Place) -> None:
    state = place.create(place.declared(size=2))
    declared = place.declared(size=2, resources={"count": 3}, instanceType=instance_type("a100"))
    place.update(declared, state)
    (replica,) = place.replicas().values()
    assert replica.workload is not None
    assert "a100" == replica.workload["spec"]["queueName"]
    (pod_set,) = replica.workload["spec"]["podSets"]
    assert ("server", 2) == (pod_set["name"], pod_set["count"])
    (assigned,) = replica.workload["status"]["admission"]["podSetAssignments"]
    assert "6" == assigned["resourceUsage"]["nvidia.com/gpu"]
    assert ["3", "3"] == [member.gpus for member in replica.members]
    place.await_gpus_in_use("a100", 6)
    place.await_gpus_in_use("h200", 0)


def test_one_replica_at_a_time_highest_first(place: Place) -> None:
    state = place.create(place.declared(replicas=3, size=2))

    def serving() -> tuple[int, ...]:
        return tuple(
            ordinal
            for ordinal, replica in sorted(place.replicas().items())
            if len(replica.members) == 2 and all(each.is_ready for each in replica.members)
        )

    with place.looking(serving) as looks:
        place.update(place.declared(replicas=3, size=2, resources={"count": 2}), state)
    down = [set(range(3)) - set(each) for each in looks]
    assert all(len(each) <= 1 for each in down), looks
    order = list(dict.fromkeys(ordinal for each in down for ordinal in each))
    assert sorted(order, reverse=True) == order
    assert order


def test_a_peer_service_stays_while_an_old_member_stands_and_goes_before_the_update_returns(
    place: Place,
) -> None:
    slow: dict[str, Any] = {"pod": {"annotations": {"sandbox.gpustack.ai/delete-after-ms": "1500"}}}
    state = place.create(place.declared(size=2, **slow))
    peer = place.service_uids()["chat-server-r0"]

    def peer_of_standing_members() -> str | None:
        uids = place.service_uids()
        several = any(
            pod["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] == "2"
            for pod in place.pods()
        )
        return uids.get("chat-server-r0", "missing") if several else None

    with place.looking(peer_of_standing_members) as looks:
        place.update(place.declared(size=1, **slow), state)
    assert {peer} == {each for each in looks if each is not None}
    assert {"chat", "chat-server"} == set(place.services())


def test_peer_services_are_the_same_objects_through_an_edit(place: Place) -> None:
    state = place.create(place.declared(replicas=2, size=2))
    before = place.service_uids()
    with place.looking(place.service_uids) as looks:
        place.update(place.declared(replicas=2, size=3), state)
    assert {"chat", "chat-server", "chat-server-r0", "chat-server-r1"} == set(before)
    assert all(before == each for each in looks)
    assert before == place.service_uids()


def test_the_other_half_of_a_pair_is_not_touched(place: Place) -> None:
    prefill = place.create(place.pair("prefill", replicas=2, size=2))
    decode = place.create(place.pair("decode", replicas=2))
    before = place.identities("prefill")
    services = place.service_uids()
    with place.looking(lambda: place.identities("prefill")) as looks:
        place.update(place.pair("decode", replicas=2, resources={"count": 4}), decode)
    assert all(before == each for each in looks)
    assert services == place.service_uids()
    assert place.is_converged(place.pair("prefill", replicas=2, size=2), prefill)


def test_a_replica_keeps_its_place_when_nodes_are_full_of_others(place: Place) -> None:
    """The whole quota of a queue is in use: what leaves is what the replacement takes."""
    own = place.add_queue(4)
    state = place.create(place.declared(replicas=2, instanceType=own, resources={"count": 2}))
    place.update(place.declared(replicas=2, size=2, instanceType=own), state)
    assert all(each.is_served for each in place.replicas().values())
    place.await_gpus_in_use(f"own-{place.namespace}", 4)
