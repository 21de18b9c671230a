"""Who may write a role, and what an earlier claim may delete."""

import asyncio
import json

import pytest

from gpustack_deploy.engine.cluster import Cluster
from gpustack_deploy.engine.replacement import create_role, update_role
from gpustack_deploy.model.errors import LockHeld, OtherWriter
from gpustack_deploy.model.record import Writer
from gpustack_deploy.sandbox.waiting import wait_for, wait_until
from tests.integration.place import Place, writes

pytestmark = pytest.mark.core

NEVER_READY = {"annotations": {"sandbox.gpustack.ai/never-ready": "true"}}


def test_a_delete_of_an_earlier_claim_removes_nothing(place: Place) -> None:
    declared = place.declared(replicas=2)
    earlier = place.create(declared)
    before = place.identities()
    later = place.create(declared)
    assert earlier.claim != later.claim
    since = place.mark()
    (warning,) = place.destroy(declared, earlier)
    assert "earlier claim" in warning
    assert [] == writes(place.requests(since=since))
    assert before == place.identities()
    assert () == place.destroy(declared, later)
    assert [] == place.pods()


def test_a_second_create_finds_and_finishes_what_an_earlier_one_made(place: Place) -> None:
    declared = place.declared(replicas=3, size=2)
    place.create(declared)
    before = place.identities()
    (lost,) = [pod for pod in place.pods() if pod["metadata"]["name"] == "chat-server-r1-m1"]
    workload = place.replicas()[1].workload
    assert workload is not None
    place.api.delete(f"{place.workloads_path}/{workload['metadata']['name']}")
    wait_for(
        lambda: lost["metadata"]["uid"] not in [each["metadata"]["uid"] for each in place.pods()],
        what="the replica to be lost",
    )
    place.create(declared)
    after = place.replicas()
    assert all(replica.is_served for replica in after.values())
    assert {0: before[0], 2: before[2]} == {ordinal: after[ordinal].identity for ordinal in (0, 2)}


def test_another_stack_is_refused(place: Place) -> None:
    state = place.create(place.declared())
    other = Place(place.sandbox, place.namespace, Writer("", "others", "prod"))
    since = place.mark()
    with pytest.raises(OtherWriter, match="tests/integration"):
        other.create(place.declared(size=2))
    with pytest.raises(OtherWriter, match="tests/integration"):
        other.update(place.declared(size=2), state)
    assert [] == writes(place.requests(since=since))


def test_a_second_run_does_not_touch_what_a_living_one_changes(place: Place) -> None:
    state = place.create(place.declared(replicas=2))
    before = place.identities()

    async def both(cluster: Cluster) -> None:
        stuck = place.declared(replicas=2, pod=NEVER_READY)
        first = asyncio.create_task(update_role(cluster, stuck, state, place.context()))
        await asyncio.to_thread(wait_for_slot, place)
        try:
            with pytest.raises(LockHeld, match="keeps renewing"):
                await update_role(cluster, place.declared(size=2), state, place.context())
            assert before[0] == (await asyncio.to_thread(place.identities))[0]
        finally:
            first.cancel()
            await asyncio.wait([first])

    place.run(both)


def test_a_lock_without_a_living_holder_is_taken_over(place: Place) -> None:
    """The holder is a process of this machine that has ended."""
    state = place.create(place.declared())
    path = f"{place.core}/configmaps/chat-server"

    async def killed(cluster: Cluster) -> None:
        stuck = place.declared(pod=NEVER_READY)
        run = asyncio.create_task(create_role(cluster, stuck, place.context()))
        await asyncio.to_thread(wait_for_slot, place)
        record = await asyncio.to_thread(place.record)
        run.cancel()
        await asyncio.wait([run])
        # As if nothing had given the lock up, and its holder were a process that has ended.
        record["lock"]["pid"] = 4194303
        text = json.dumps(record)
        await asyncio.to_thread(place.api.patch, path, {"data": {"record": text}})

    place.run(killed)
    generation = place.record()["lock"]["generation"]
    assert place.record()["lock"]["holder"]
    place.update(place.declared(), state)
    assert place.record()["lock"]["generation"] == generation + 1
    assert place.replicas()[0].is_served


def wait_for_slot(place: Place) -> None:
    wait_until(lambda: place.record()["slot"] is not None, what="a slot to be open")
