"""Two runs over one role: the second leaves alone, takes over, or fences the first (D11)."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from gpustack_deploy.engine import lock as locks
from gpustack_deploy.engine.cluster import CONFIG_MAP
from gpustack_deploy.engine.record_store import RecordStore
from gpustack_deploy.engine.replacement import create_role, update_role
from gpustack_deploy.model import identity
from gpustack_deploy.model.errors import LockHeld, ReplacementHeld
from gpustack_deploy.model.record import LockState, dump_record
from gpustack_deploy.model.state import RoleState
from tests.declarations import role
from tests.engine.driver import Stage, standing
from tests.engine.guarded_cluster import GPU
from tests.fakes.faults import FaultyCluster

pytestmark = pytest.mark.check

SMALL = role(replicas=2, resources={"count": 2})
# More than the queue has: a run with it waits, and renews its lock meanwhile.
BIG = role(replicas=2, resources={"count": 8})
EDITED = role(replicas=2, resources={"count": 2}, env=[{"name": "A", "value": "b"}])


def hold(stage: Stage, lock: LockState) -> None:
    """Put that lock into the record, as a run that ended without a word leaves it."""
    found = stage.cluster.store.get(CONFIG_MAP, "ml", "chat-server")
    record = replace(stage.record(), lock=lock)
    found["data"][identity.RECORD_KEY] = dump_record(record)
    stage.cluster.store.update(CONFIG_MAP, found)


def test_a_second_run_leaves_the_first_alone_while_it_renews() -> None:
    stage, state = standing(SMALL, gpus=4)

    async def both() -> LockHeld:
        first = asyncio.create_task(update_role(stage.cluster, BIG, state, stage.context()))
        await asyncio.sleep(100)
        before = stage.everything()
        with pytest.raises(LockHeld) as held:
            await update_role(stage.cluster, EDITED, state, stage.context())
        after = stage.everything()
        first.cancel()
        with suppress(asyncio.CancelledError):
            await first
        del before["ConfigMap", "chat-server"], after["ConfigMap", "chat-server"]
        assert before == after
        return held.value

    refusal = stage.run(both())
    assert stage.record().lock.holder in str(refusal)
    assert f"process {os.getpid()}" in str(refusal)


def test_the_lock_of_a_run_that_ended_without_a_word_is_taken_over_once_it_expired() -> None:
    stage, state = standing(SMALL)
    left = LockState(holder="gone", host="elsewhere", boot_id="b", pid=7, generation=5)
    hold(stage, left)
    began = stage.clock.seconds
    stage.update(EDITED, state)
    assert locks.DURATION_SECONDS <= stage.clock.seconds - began
    assert 6 == stage.record().lock.generation
    assert any("waiting for the lock of gone" in line for line in stage.lines)
    stage.assert_stands(EDITED)


def test_the_lock_of_a_dead_process_of_this_machine_is_taken_over_at_once() -> None:
    stage, state = standing(SMALL)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    hold(stage, replace(locks.this_process(), pid=ended.pid, generation=3))
    stage.update(EDITED, state)
    assert not any("waiting for the lock" in line for line in stage.lines)
    assert 4 == stage.record().lock.generation
    stage.assert_stands(EDITED)


def test_a_lock_whose_record_disappears_meanwhile_is_not_taken() -> None:
    stage, state = standing(SMALL)
    hold(stage, LockState(holder="gone", host="elsewhere", generation=1))

    async def watched() -> None:
        second = asyncio.create_task(update_role(stage.cluster, EDITED, state, stage.context()))
        await asyncio.sleep(5)
        uid = stage.cluster.uid(CONFIG_MAP, "ml", "chat-server")
        stage.cluster.store.delete(CONFIG_MAP, "ml", "chat-server", uid=uid)
        with pytest.raises(LockHeld, match="removed the record"):
            await second

    stage.run(watched())


def fenced(meanwhile: Callable[[Stage, RoleState], Awaitable[None]]) -> tuple[Stage, LockHeld]:
    """Lead a run into silence, let another take over, and let the first speak again."""
    stage, state = standing(SMALL, gpus=4)
    silenced = FaultyCluster(stage.cluster)

    async def both() -> LockHeld:
        first = asyncio.create_task(update_role(silenced, BIG, state, stage.context()))
        await asyncio.sleep(60)
        silenced.fail(lambda call: True)
        await meanwhile(stage, state)
        silenced.heal()
        first_said = len(silenced.calls)
        with pytest.raises(LockHeld) as stopped:
            await asyncio.wait_for(first, 120)
        assert not [
            call
            for call in silenced.calls[first_said:]
            if call.kind != "ConfigMap" and call.is_write
        ]
        return stopped.value

    return stage, stage.run(both())


def test_a_holder_that_was_fenced_while_silent_stops_and_changes_nothing() -> None:
    async def another_ends(stage: Stage, state: RoleState) -> None:
        await update_role(stage.cluster, SMALL, state, stage.context())

    stage, _ = fenced(another_ends)
    stage.assert_stands(SMALL)


def test_a_fenced_holder_leaves_the_lock_of_the_run_that_took_over() -> None:
    seen: list[LockState] = []
    runs: list[asyncio.Task[RoleState]] = []

    async def another_waits(stage: Stage, state: RoleState) -> None:
        big = role(replicas=2, resources={"count": 7})
        runs.append(asyncio.create_task(update_role(stage.cluster, big, state, stage.context())))
        await asyncio.sleep(60)
        seen.append(stage.record().lock)

    stage, stopped = fenced(another_waits)
    assert seen[0].holder in str(stopped)
    assert seen[0].holder == stage.record().lock.holder
    assert seen[0].generation == stage.record().lock.generation


def test_renewals_move_the_counter_and_nothing_else() -> None:
    stage, state = standing(SMALL, gpus=4)
    with pytest.raises(ReplacementHeld):
        stage.update(
            role(replicas=2, resources={"count": 8}, rollout={"deadlineSeconds": 60}), state
        )
    renewals = [call for call in stage.cluster.writes if call.is_lock_only]
    assert 10 <= len(renewals) <= 14


def test_a_renewal_that_fails_is_made_up_for_before_the_next_change() -> None:
    stage, state = standing(SMALL, gpus=4)
    unheard = FaultyCluster(stage.cluster)

    async def both() -> None:
        first = asyncio.create_task(update_role(unheard, BIG, state, stage.context()))
        await asyncio.sleep(60)
        unheard.fail(lambda call: call.verb == "replace")
        await asyncio.sleep(14)
        unheard.heal()
        stage.cluster.kueue.quota.set_quota("h200", GPU, 16)
        await first

    stage.run(both())
    stage.assert_stands(BIG)


def test_a_run_whose_record_was_removed_stops() -> None:
    stage, _ = standing(SMALL)
    store = RecordStore(
        stage.cluster, namespace="ml", deployment="chat", role="server", run=stage.context()
    )

    async def removed() -> None:
        await store.read()
        await store.acquire()
        uid = stage.cluster.uid(CONFIG_MAP, "ml", "chat-server")
        stage.cluster.store.delete(CONFIG_MAP, "ml", "chat-server", uid=uid)
        with pytest.raises(LookupError):
            _ = RecordStore(
                stage.cluster, namespace="ml", deployment="x", role="y", run=stage.context()
            ).record
        await store.ensure_held()

    with pytest.raises(LockHeld, match="removed the record"):
        stage.run(removed())


def test_of_two_creates_at_once_one_stops_or_both_end_in_one_role() -> None:
    stage = Stage()

    async def both() -> list[object]:
        return await asyncio.gather(
            *(create_role(stage.cluster, SMALL, stage.context()) for _ in range(2)),
            return_exceptions=True,
        )

    answers = stage.run(both())
    assert [LockHeld] == [type(each) for each in answers if isinstance(each, Exception)]
    stage.assert_stands(SMALL)


def test_a_run_that_another_one_came_before_and_has_ended_leaves_what_that_one_wrote() -> None:
    stage, state = standing(SMALL)
    late = RecordStore(
        stage.cluster, namespace="ml", deployment="chat", role="server", run=stage.context()
    )

    async def overtaken() -> None:
        await late.read()
        await late.acquire()
        await update_role(stage.cluster, EDITED, state, stage.context())
        await late.write(replace(late.record, achieved=1))

    with pytest.raises(LockHeld):
        stage.run(overtaken())
    stage.assert_stands(EDITED)
