"""What only the fake has: its world, its time and its knobs. The port itself: tests/contract."""

import asyncio
import random

import pytest

from gpustack_deploy.engine.cluster import CONFIG_MAP, NAMESPACE, POD, WORKLOAD
from gpustack_deploy.model import identity
from gpustack_deploy.model.errors import NotFound, Refused, Unreachable
from tests.fakes import FakeClock, MemoryCluster, Timing, run_virtual
from tests.fakes.objects import condition_status, gates_of, is_terminating, meta, phase_of, uid_of
from tests.fakes.pods import config_map, controller_reference, pod

pytestmark = pytest.mark.check

GPU = {"nvidia.com/gpu": "4"}


def a_cluster(**settings: object) -> MemoryCluster:
    cluster = MemoryCluster(**settings)  # type: ignore[arg-type]
    cluster.add_queue("h200", {"nvidia.com/gpu": 8})
    return cluster


def make_group(cluster: MemoryCluster, group: str, names: list[str]) -> None:
    for name in names:
        cluster.store.create(POD, "ml", pod(name, group=group, total=len(names), requests=GPU))


def delete(cluster: MemoryCluster, kind: object, name: str) -> None:
    cluster.store.delete(kind, "ml", name, uid=cluster.uid(kind, "ml", name))  # type: ignore[arg-type]


def test_a_whole_group_is_composed_admitted_and_runs() -> None:
    cluster = a_cluster()
    make_group(cluster, "g1", ["a", "b"])
    cluster.world.settle()
    workload = cluster.peek(WORKLOAD, "g1")
    assert workload is not None
    assert condition_status(workload, "Admitted") == "True"
    assert {owner["name"] for owner in meta(workload)["ownerReferences"]} == {"a", "b"}
    assert workload["spec"]["podSets"][0]["name"] == "server"
    assert workload["spec"]["podSets"][0]["count"] == 2
    assert cluster.usage("h200") == {"nvidia.com/gpu": 8}
    for member in cluster.objects(POD):
        assert phase_of(member) == "Running"
        assert condition_status(member, "Ready") == "True"
        assert meta(member)["annotations"][identity.KUEUE_WORKLOAD] == "g1"


def test_half_a_group_gets_no_workload() -> None:
    cluster = a_cluster()
    cluster.store.create(POD, "ml", pod("a", group="g1", total=2, requests=GPU))
    cluster.world.settle()
    assert cluster.names(WORKLOAD) == []
    assert identity.KUEUE_ADMISSION_GATE in gates_of(cluster.objects(POD)[0])


def test_members_deleted_alone_stay_and_hold_their_quota() -> None:
    cluster = a_cluster()
    make_group(cluster, "g1", ["a", "b"])
    cluster.world.settle()
    delete(cluster, POD, "a")
    delete(cluster, POD, "b")
    cluster.world.settle()
    assert cluster.names(POD) == ["a", "b"]
    assert cluster.usage("h200") == {"nvidia.com/gpu": 8}
    delete(cluster, WORKLOAD, "g1")
    cluster.world.settle()
    assert cluster.names(POD) == []
    assert cluster.names(WORKLOAD) == []
    assert cluster.usage("h200") == {}


def test_deleting_the_workload_alone_removes_the_members() -> None:
    cluster = a_cluster()
    make_group(cluster, "g1", ["a"])
    cluster.world.settle()
    delete(cluster, WORKLOAD, "g1")
    cluster.world.settle()
    assert cluster.names(POD) == []
    assert cluster.usage("h200") == {}


def test_a_group_over_quota_waits_and_says_for_what() -> None:
    cluster = a_cluster()
    make_group(cluster, "g1", ["a", "b"])
    cluster.world.settle()
    make_group(cluster, "g2", ["c"])
    cluster.world.settle()
    waiting = cluster.peek(WORKLOAD, "g2")
    assert waiting is not None
    assert waiting["status"]["conditions"][0]["message"] == (
        "couldn't assign flavors to pod set server: insufficient unused quota for nvidia.com/gpu"
        " in flavor h200, 4 more needed"
    )
    delete(cluster, WORKLOAD, "g1")
    cluster.world.settle()
    assert cluster.usage("h200") == {"nvidia.com/gpu": 4}


def test_a_queue_that_does_not_exist_is_named() -> None:
    cluster = a_cluster()
    cluster.store.create(POD, "ml", pod("a", group="g1", queue="none", requests=GPU))
    cluster.world.settle()
    waiting = cluster.peek(WORKLOAD, "g1")
    assert waiting is not None
    assert waiting["status"]["conditions"][0]["message"] == "LocalQueue none doesn't exist"


def test_a_gated_member_of_a_composed_group_does_not_leave_by_itself() -> None:
    cluster = a_cluster()
    make_group(cluster, "g1", ["a", "b"])
    cluster.world.settle()
    make_group(cluster, "g2", ["c"])
    cluster.world.settle()
    delete(cluster, POD, "c")
    cluster.world.settle()
    assert "c" in cluster.names(POD)
    delete(cluster, WORKLOAD, "g2")
    cluster.world.settle()
    assert cluster.names(POD) == ["a", "b"]


def test_a_gated_member_without_workload_leaves_at_once() -> None:
    cluster = a_cluster()
    cluster.store.create(POD, "ml", pod("a", group="g1", total=2, requests=GPU))
    cluster.world.settle()
    delete(cluster, POD, "a")
    cluster.world.settle()
    assert cluster.names(POD) == []


def test_a_member_too_many_is_deleted() -> None:
    cluster = a_cluster()
    make_group(cluster, "g1", ["a"])
    cluster.world.settle()
    cluster.store.create(POD, "ml", pod("late", group="g1", total=1, requests=GPU))
    cluster.world.settle()
    assert cluster.names(POD) == ["a"]


def test_a_member_that_outlives_its_grace_is_composed_again_after_every_delete() -> None:
    cluster = a_cluster()
    cluster.add_node("n1", {"nvidia.com/gpu": 8})
    make_group(cluster, "g1", ["a"])
    cluster.world.settle()
    cluster.world.lose_node("n1")
    delete(cluster, POD, "a")
    first = cluster.uid(WORKLOAD, "ml", "g1")
    delete(cluster, WORKLOAD, "g1")
    cluster.world.settle()
    remnant = cluster.peek(WORKLOAD, "g1")
    assert remnant is not None
    assert uid_of(remnant) != first
    assert condition_status(remnant, "Admitted") == "True"
    delete(cluster, WORKLOAD, "g1")
    cluster.world.settle()
    assert cluster.names(WORKLOAD) == ["g1"]
    cluster.world.remove_node("n1")
    cluster.world.settle()
    assert (cluster.names(POD), cluster.names(WORKLOAD)) == ([], [])
    assert cluster.usage("h200") == {}


def test_a_lost_node_that_returns_lets_the_member_go() -> None:
    cluster = a_cluster()
    cluster.add_node("n1", {"nvidia.com/gpu": 8})
    make_group(cluster, "g1", ["a"])
    cluster.world.settle()
    cluster.world.lose_node("n1")
    delete(cluster, WORKLOAD, "g1")
    while cluster.step():
        pass
    assert cluster.names(POD) == ["a"]
    assert cluster.names(WORKLOAD) == []
    cluster.world.return_node("n1")
    cluster.world.settle()
    assert cluster.names(POD) == []


def test_an_evicted_group_loses_its_members_and_its_quota() -> None:
    cluster = a_cluster()
    make_group(cluster, "g1", ["a", "b"])
    cluster.world.settle()
    cluster.kueue.deactivate("ml", "g1")
    cluster.world.settle()
    assert all(is_terminating(member) for member in cluster.objects(POD))
    assert cluster.usage("h200") == {}
    workload = cluster.peek(WORKLOAD, "g1")
    assert workload is not None
    assert condition_status(workload, "WaitingForReplacementPods") == ""
    assert condition_status(workload, "Evicted") == "True"


def test_a_preempted_group_may_be_admitted_again_without_a_live_member() -> None:
    cluster = a_cluster()
    make_group(cluster, "g1", ["a"])
    cluster.world.settle()
    cluster.kueue.evict("ml", "g1")
    cluster.world.settle()
    assert cluster.usage("h200") == {"nvidia.com/gpu": 4}
    assert is_terminating(cluster.objects(POD)[0])


@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_events_ends_the_same(seed: int) -> None:
    cluster = a_cluster()
    choose = random.Random(seed).choice  # noqa: S311 - an order, not a secret
    make_group(cluster, "g1", ["a", "b"])
    cluster.world.settle(choose)
    delete(cluster, POD, "a")
    delete(cluster, POD, "b")
    for _ in range(seed):
        cluster.step(choose)
    delete(cluster, WORKLOAD, "g1")
    cluster.world.settle(choose)
    # Kueue may have composed a Workload of the dying members; the collector removed it.
    assert (cluster.names(POD), cluster.names(WORKLOAD)) == ([], [])
    assert cluster.usage("h200") == {}


def test_members_go_with_the_record_that_owns_them() -> None:
    cluster = a_cluster()
    record = cluster.store.create(CONFIG_MAP, "ml", config_map("record"))
    owned = pod("a", owner=record)
    cluster.store.create(POD, "ml", owned)
    cluster.world.settle()
    delete(cluster, CONFIG_MAP, "record")
    cluster.world.settle()
    assert cluster.names(POD) == []
    assert controller_reference(record)["controller"] is True


def test_an_unmanaged_namespace_gets_no_gate() -> None:
    cluster = MemoryCluster()
    cluster.add_namespace("free", is_managed=False)
    stored = cluster.store.create(POD, "free", pod("a", group="g1"))
    assert gates_of(stored) == []
    assert identity.KUEUE_MANAGED not in meta(stored)["labels"]


def test_a_silent_kueue_fails_creates_and_does_nothing() -> None:
    cluster = a_cluster()
    make_group(cluster, "g1", ["a"])
    cluster.kueue.is_down = True
    with pytest.raises(Unreachable, match="failed calling webhook"):
        cluster.store.create(POD, "ml", pod("b", group="g2"))
    cluster.world.settle()
    assert cluster.names(WORKLOAD) == []
    cluster.kueue.is_down = False
    cluster.world.settle()
    assert cluster.names(WORKLOAD) == ["g1"]


def test_a_cluster_without_kueue_serves_no_workload() -> None:
    async def scenario() -> None:
        cluster = MemoryCluster(has_kueue=False)
        assert not await cluster.serves(WORKLOAD)
        assert await cluster.serves(POD)
        with pytest.raises(NotFound, match="could not find the requested resource"):
            await cluster.get(WORKLOAD, "ml", "g1")

    asyncio.run(scenario())


def test_a_policy_refuses_by_its_own_sentence() -> None:
    cluster = a_cluster()
    cluster.refuse_pods('violates PodSecurity "restricted:latest": allowPrivilegeEscalation')
    with pytest.raises(Refused, match='pods "a" is forbidden: violates PodSecurity'):
        cluster.store.create(POD, "ml", pod("a"), dry_run=True)
    cluster.allow()
    cluster.store.create(POD, "ml", pod("a"))


def test_a_terminating_namespace_waits_for_serving_members_until_their_workload_goes() -> None:
    cluster = a_cluster()
    make_group(cluster, "g1", ["a"])
    cluster.world.settle()
    cluster.store.delete(NAMESPACE, "", "ml", uid=cluster.uid(NAMESPACE, "", "ml"))
    cluster.world.settle()
    assert cluster.names(POD) == ["a"]
    with pytest.raises(Refused, match="being terminated"):
        cluster.store.create(CONFIG_MAP, "ml", config_map("x"))
    delete(cluster, WORKLOAD, "g1")
    cluster.world.settle()
    assert cluster.peek(NAMESPACE, "ml", namespace="") is None


def test_the_world_runs_by_itself_in_virtual_time() -> None:
    clock = FakeClock()

    async def scenario() -> float:
        cluster = a_cluster(clock=clock, is_auto=True)
        cluster.world.kubelet.timing = Timing(start_seconds=5, ready_seconds=60)
        await cluster.create(POD, "ml", pod("a", group="g1", requests=GPU))
        listing = await cluster.list(POD, "ml")
        async for event in cluster.watch(
            POD, "ml", resource_version=listing.resource_version, timeout_seconds=300
        ):
            if condition_status(dict(event.obj), "Ready") == "True":
                break
        await cluster.close()
        return clock.seconds

    assert 64 <= run_virtual(scenario(), clock) < 67


def test_another_loop_finds_the_world_going_on() -> None:
    clock = FakeClock()
    cluster = a_cluster(clock=clock, is_auto=True)

    async def first() -> None:
        await cluster.create(POD, "ml", pod("a", group="g1", requests=GPU))

    async def second() -> None:
        listing = await cluster.list(POD, "ml")
        async for _ in cluster.watch(
            POD, "ml", resource_version=listing.resource_version, timeout_seconds=5
        ):
            pass

    run_virtual(first(), clock)
    run_virtual(second(), clock)
    run_virtual(second(), clock)
    assert phase_of(cluster.objects(POD)[0]) == "Running"


def test_waiting_for_nothing_is_an_error_and_not_a_hang() -> None:
    async def scenario() -> None:
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="would hang"):
        run_virtual(scenario(), FakeClock())
