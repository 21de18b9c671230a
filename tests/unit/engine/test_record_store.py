"""The record in the cluster: who may write it, and what a lost or refused answer means."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from gpustack_deploy import __version__
from gpustack_deploy.engine.cluster import CONFIG_MAP
from gpustack_deploy.engine.record_store import RecordStore, parse_record
from gpustack_deploy.engine.run import RunContext
from gpustack_deploy.model.errors import (
    ForeignObject,
    LockHeld,
    RecordUnreadable,
    Throttled,
    Unreachable,
)
from gpustack_deploy.model.record import RoleRecord
from tests.fakes import FakeClock, MemoryCluster, run_virtual
from tests.fakes.faults import FaultyCluster
from tests.fakes.objects import labels_of, meta
from tests.fakes.pods import config_map

pytestmark = pytest.mark.check

NEW = RoleRecord("chat", "server", {"server": "Server"}, "server", claim="c1")


class Drawer:
    """A cluster with room for one record, and stores of as many runs as a test needs."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.cluster = MemoryCluster(self.clock)
        self.faulty = FaultyCluster(self.cluster)

    def store(self) -> RecordStore:
        return RecordStore(
            self.faulty,
            namespace="ml",
            deployment="chat",
            role="server",
            run=RunContext(clock=self.clock),
        )

    def run(self, scenario: Callable[[RecordStore], Awaitable[None]]) -> None:
        async def whole() -> None:
            await scenario(self.store())

        run_virtual(whole(), self.clock)

    def stored(self) -> RoleRecord:
        found = self.cluster.peek(CONFIG_MAP, "chat-server")
        assert found is not None
        return parse_record(found, deployment="chat", role="server")

    def removed(self) -> None:
        uid = self.cluster.uid(CONFIG_MAP, "ml", "chat-server")
        self.cluster.store.delete(CONFIG_MAP, "ml", "chat-server", uid=uid)

    @property
    def writes(self) -> int:
        return len(self.faulty.writes)


# --- reading ---


def test_there_is_no_record_before_one_was_read() -> None:
    with pytest.raises(LookupError, match="chat-server"):
        _ = Drawer().store().record


def test_an_absence_is_what_the_server_states() -> None:
    async def scenario(store: RecordStore) -> None:
        assert await store.read() is None

    Drawer().run(scenario)


def test_a_failed_read_is_never_an_absence() -> None:
    drawer = Drawer()
    drawer.faulty.fail_reads()

    async def scenario(store: RecordStore) -> None:
        with pytest.raises(Unreachable):
            await store.read()

    drawer.run(scenario)


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param({}, id="no label"),
        pytest.param(
            {
                "app.kubernetes.io/name": "model-deployment",
                "app.kubernetes.io/instance": "chat",
                "app.kubernetes.io/component": "else",
                "modeldeployment.gpustack.ai/record": "true",
            },
            id="the record of another role",
        ),
    ],
)
def test_a_config_map_of_that_name_that_is_no_record_of_the_role_is_foreign(
    labels: dict[str, str],
) -> None:
    drawer = Drawer()
    drawer.cluster.store.create(CONFIG_MAP, "ml", config_map("chat-server", labels=labels))

    async def scenario(store: RecordStore) -> None:
        with pytest.raises(ForeignObject, match="ConfigMap chat-server"):
            await store.read()

    drawer.run(scenario)


def test_a_record_without_its_text_is_refused() -> None:
    drawer = Drawer()

    async def scenario(store: RecordStore) -> None:
        await store.create(NEW)
        found = drawer.cluster.store.get(CONFIG_MAP, "ml", "chat-server")
        found["data"] = {}
        drawer.cluster.store.update(CONFIG_MAP, found)
        with pytest.raises(RecordUnreadable):
            await drawer.store().read()

    drawer.run(scenario)


# --- creating ---


def test_a_new_record_is_ours_from_its_first_moment() -> None:
    drawer = Drawer()

    async def scenario(store: RecordStore) -> None:
        made = await store.create(NEW)
        assert made == store.record == drawer.stored()
        assert ("c1", 1, __version__) == (made.claim, made.lock.generation, made.written_by)
        assert made.lock.holder
        assert made.uid

    drawer.run(scenario)
    found = drawer.cluster.peek(CONFIG_MAP, "chat-server")
    assert found is not None
    assert "true" == labels_of(found)["modeldeployment.gpustack.ai/record"]
    assert "ownerReferences" not in meta(found)
    assert "finalizers" not in meta(found)


def test_a_create_whose_answer_was_lost_is_found_again() -> None:
    drawer = Drawer()
    drawer.faulty.lose_answer(1)

    async def scenario(store: RecordStore) -> None:
        made = await store.create(NEW)
        await store.write(replace(made, achieved=1))

    drawer.run(scenario)
    assert 1 == drawer.stored().achieved


def test_a_create_that_never_arrived_is_an_error() -> None:
    drawer = Drawer()
    drawer.faulty.fail(lambda call: call.verb == "create")

    async def scenario(store: RecordStore) -> None:
        with pytest.raises(Unreachable):
            await store.create(NEW)

    drawer.run(scenario)


def test_a_record_that_another_run_created_first_is_its_own() -> None:
    drawer = Drawer()

    async def scenario(store: RecordStore) -> None:
        first = drawer.store()
        made = await first.create(NEW)
        with pytest.raises(LockHeld, match=made.lock.holder.split(",")[0]):
            await store.create(replace(NEW, claim="c2"))

    drawer.run(scenario)
    assert "c1" == drawer.stored().claim


# --- writing under the lock ---


def test_taking_a_free_lock_writes_nothing_until_there_is_something_to_write() -> None:
    drawer = Drawer()

    async def scenario(store: RecordStore) -> None:
        await store.create(NEW)
        await store.release()
        second = drawer.store()
        await second.read()
        before = drawer.writes
        await second.acquire()
        await second.release()
        assert before == drawer.writes
        third = drawer.store()
        await third.read()
        await third.acquire()
        await third.write(replace(third.record, achieved=2))
        assert before + 1 == drawer.writes
        assert 2 == drawer.stored().lock.generation

    drawer.run(scenario)


def test_every_write_carries_the_lock_one_renewal_on() -> None:
    drawer = Drawer()

    async def scenario(store: RecordStore) -> None:
        made = await store.create(NEW)
        for achieved in (1, 2):
            await store.write(replace(store.record, achieved=achieved))
        stored = drawer.stored()
        assert (2, made.lock.renewals + 2) == (stored.achieved, stored.lock.renewals)
        assert made.lock.holder == stored.lock.holder

    drawer.run(scenario)


def test_nothing_goes_out_before_the_lock_is_written_or_after_a_silence() -> None:
    drawer = Drawer()

    async def scenario(store: RecordStore) -> None:
        await store.create(NEW)
        await store.ensure_held()
        drawer.clock.advance(9)
        await store.ensure_held()
        assert 1 == drawer.writes
        drawer.clock.advance(2)
        await store.ensure_held()
        assert 2 == drawer.writes

    drawer.run(scenario)


def test_a_write_whose_answer_was_lost_is_made_again() -> None:
    drawer = Drawer()

    async def scenario(store: RecordStore) -> None:
        made = await store.create(NEW)
        drawer.faulty.lose_answer(2)
        with pytest.raises(Unreachable):
            await store.write(replace(made, achieved=1))
        await store.write(replace(store.record, achieved=2))
        assert 2 == drawer.stored().achieved

    drawer.run(scenario)


def test_another_runs_write_fences_this_one_for_good() -> None:
    drawer = Drawer()

    async def scenario(store: RecordStore) -> None:
        made = await store.create(NEW)
        other = drawer.store()
        await other.read()
        drawer.clock.advance(60)
        await other.acquire()
        await other.write(replace(other.record, achieved=7))
        for _ in range(2):
            with pytest.raises(LockHeld, match="another run"):
                await store.write(replace(made, achieved=1))
        with pytest.raises(LockHeld):
            store.require_unfenced()
        assert 7 == drawer.stored().achieved

    drawer.run(scenario)


def test_a_record_that_somebody_removed_stops_its_run() -> None:
    drawer = Drawer()

    async def scenario(store: RecordStore) -> None:
        made = await store.create(NEW)
        drawer.removed()
        with pytest.raises(LockHeld, match="removed the record"):
            await store.write(replace(made, achieved=1))

    drawer.run(scenario)


# --- giving it up ---


def test_the_lock_is_given_up_in_one_write_with_the_change() -> None:
    drawer = Drawer()

    async def scenario(store: RecordStore) -> None:
        await store.create(NEW)
        await store.release(lambda known: replace(known, achieved=3))
        assert 2 == drawer.writes
        stored = drawer.stored()
        assert (3, "", 1) == (stored.achieved, stored.lock.holder, stored.lock.generation)
        await store.release()
        assert 2 == drawer.writes

    drawer.run(scenario)


def test_a_deleted_record_is_gone_and_its_absence_is_success() -> None:
    drawer = Drawer()

    async def scenario(store: RecordStore) -> None:
        await store.create(NEW)
        await store.delete()
        assert [] == drawer.cluster.names(CONFIG_MAP)
        await store.delete()

    drawer.run(scenario)


def test_a_record_of_another_uid_is_not_deleted() -> None:
    drawer = Drawer()

    async def scenario(store: RecordStore) -> None:
        await store.create(NEW)
        drawer.removed()
        await drawer.store().create(NEW)
        await store.delete()
        assert ["chat-server"] == drawer.cluster.names(CONFIG_MAP)

    drawer.run(scenario)


def test_a_delete_whose_answer_was_lost_is_success() -> None:
    drawer = Drawer()

    async def scenario(store: RecordStore) -> None:
        await store.create(NEW)
        drawer.faulty.lose_answer(2)
        await store.delete()
        assert [] == drawer.cluster.names(CONFIG_MAP)

    drawer.run(scenario)


@pytest.mark.parametrize("error", [Unreachable, Throttled])
def test_a_delete_that_was_not_served_is_an_error(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawer = Drawer()

    async def refuse(*_: object, **__: object) -> None:
        raise error("not served")

    async def scenario(store: RecordStore) -> None:
        await store.create(NEW)
        monkeypatch.setattr(drawer.cluster, "delete", refuse)
        with pytest.raises(error):
            await store.delete()

    drawer.run(scenario)
    assert ["chat-server"] == drawer.cluster.names(CONFIG_MAP)
