"""The mirror: follows, survives what breaks a watch, and wakes whoever waits. In virtual time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from gpustack_deploy.engine import reflector as reflectors
from gpustack_deploy.engine.cluster import CONFIG_MAP, POD, Cluster, Event
from gpustack_deploy.engine.reflector import Reflector, Wakeup
from gpustack_deploy.model.errors import Unreachable
from tests.fakes import FakeClock, MemoryCluster, run_virtual
from tests.fakes.faults import FaultyCluster
from tests.fakes.pods import config_map

pytestmark = pytest.mark.check

Scenario = Callable[[MemoryCluster, FaultyCluster], Awaitable[None]]


def run(scenario: Scenario) -> float:
    """Run the scenario and return how many virtual seconds it took."""
    clock = FakeClock()

    async def whole() -> None:
        cluster = MemoryCluster(clock)
        await scenario(cluster, FaultyCluster(cluster))

    run_virtual(whole(), clock)
    return clock.seconds


def put(cluster: MemoryCluster, name: str, value: str = "") -> None:
    body = config_map(name, {"value": value}, labels={"app": "a"})
    stored = cluster.peek(CONFIG_MAP, name)
    if stored is None:
        cluster.store.create(CONFIG_MAP, "ml", body)
    else:
        cluster.store.update(CONFIG_MAP, {**stored, "data": {"value": value}})


def remove(cluster: MemoryCluster, name: str) -> None:
    cluster.store.delete(CONFIG_MAP, "ml", name, uid=cluster.uid(CONFIG_MAP, "ml", name))


async def until(reflector: Reflector, is_met: Callable[[], bool]) -> None:
    async with asyncio.timeout(1000):
        while not is_met():
            await reflector.wait(reflector.version, 1000)


def values(reflector: Reflector) -> dict[str, str]:
    return {name: obj["data"]["value"] for name, obj in reflector.objects.items()}


def test_it_lists_and_then_follows_additions_changes_and_removals() -> None:
    async def scenario(cluster: MemoryCluster, faulty: FaultyCluster) -> None:
        put(cluster, "a", "1")
        async with Reflector(faulty, CONFIG_MAP, "ml", labels="app=a") as mirror:
            await until(mirror, lambda: values(mirror) == {"a": "1"})
            put(cluster, "b", "2")
            await until(mirror, lambda: values(mirror) == {"a": "1", "b": "2"})
            put(cluster, "a", "3")
            await until(mirror, lambda: values(mirror) == {"a": "3", "b": "2"})
            remove(cluster, "b")
            await until(mirror, lambda: values(mirror) == {"a": "3"})
        assert [call.verb for call in faulty.calls] == ["list", "watch"]

    run(scenario)


def test_it_mirrors_one_name_only() -> None:
    async def scenario(cluster: MemoryCluster, faulty: FaultyCluster) -> None:
        put(cluster, "a", "1")
        async with Reflector(faulty, CONFIG_MAP, "ml", name="b") as mirror:
            put(cluster, "b", "2")
            await until(mirror, lambda: values(mirror) == {"b": "2"})

    run(scenario)


def test_an_expired_watch_lists_again_and_misses_nothing() -> None:
    async def scenario(cluster: MemoryCluster, faulty: FaultyCluster) -> None:
        put(cluster, "a", "1")
        async with Reflector(faulty, CONFIG_MAP, "ml") as mirror:
            await until(mirror, lambda: values(mirror) == {"a": "1"})
            put(cluster, "b", "2")
            remove(cluster, "a")
            cluster.store.compact()
            await until(mirror, lambda: values(mirror) == {"b": "2"})
            assert mirror.error is None
        assert [call.verb for call in faulty.calls] == ["list", "watch", "list", "watch"]

    run(scenario)


def test_failures_are_kept_retried_with_delay_and_forgotten() -> None:
    async def scenario(cluster: MemoryCluster, faulty: FaultyCluster) -> None:
        put(cluster, "a", "1")
        faulty.fail_reads()
        async with Reflector(faulty, CONFIG_MAP, "ml") as mirror:
            await asyncio.sleep(60)
            assert isinstance(mirror.error, Unreachable)
            assert 3 <= len(faulty.calls) <= 12
            faulty.heal()
            await until(mirror, lambda: values(mirror) == {"a": "1"})
            assert mirror.error is None

    run(scenario)


def test_a_watch_that_breaks_is_followed_by_a_list() -> None:
    async def scenario(cluster: MemoryCluster, faulty: FaultyCluster) -> None:
        async with Reflector(faulty, CONFIG_MAP, "ml") as mirror:
            await mirror.wait(0, 10)
            faulty.fail(lambda call: call.verb == "watch")
            put(cluster, "a", "1")
            await until(mirror, lambda: "a" in mirror.objects)
            # The stream ends by itself, and the next one fails.
            await asyncio.sleep(reflectors.WATCH_SECONDS + 5)
            assert isinstance(mirror.error, Unreachable)
            faulty.heal()
            put(cluster, "b", "2")
            await until(mirror, lambda: "b" in mirror.objects)

    run(scenario)


def test_streams_that_end_resume_and_a_list_follows_every_few_minutes() -> None:
    async def scenario(cluster: MemoryCluster, faulty: FaultyCluster) -> None:
        async with Reflector(faulty, CONFIG_MAP, "ml") as mirror:
            await asyncio.sleep(reflectors.RELIST_SECONDS + reflectors.WATCH_SECONDS + 1)
            put(cluster, "a", "1")
            await until(mirror, lambda: "a" in mirror.objects)
        verbs = [call.verb for call in faulty.calls]
        assert verbs == ["list", "watch", "watch", "watch", "list", "watch"]

    run(scenario)


class Silent:
    """A watch that never says anything and never ends, as behind a dead connection."""

    def __init__(self, inner: MemoryCluster) -> None:
        self.inner = inner
        self.watches = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    async def watch(self, *scope: object, **settings: object) -> AsyncIterator[Event]:
        self.watches += 1
        await asyncio.Event().wait()
        yield Event  # type: ignore[misc]


def test_a_silent_watch_is_cut_off() -> None:
    async def scenario(cluster: MemoryCluster, faulty: FaultyCluster) -> None:
        silent = Silent(cluster)
        adapter: Cluster = silent  # type: ignore[assignment]
        async with Reflector(adapter, CONFIG_MAP, "ml") as mirror:
            await mirror.wait(0, 10)
            put(cluster, "a", "1")
            # Only the next list can show it.
            await until(mirror, lambda: "a" in mirror.objects)
        assert silent.watches == 2

    assert run(scenario) >= reflectors.INACTIVITY_SECONDS


class Ending(Silent):
    """A proxy that ends each stream at once."""

    async def watch(self, *scope: object, **settings: object) -> AsyncIterator[Event]:
        self.watches += 1
        return
        yield  # type: ignore[unreachable]


def test_streams_that_end_at_once_make_no_tight_loop() -> None:
    async def scenario(cluster: MemoryCluster, faulty: FaultyCluster) -> None:
        ending = Ending(cluster)
        adapter: Cluster = ending  # type: ignore[assignment]
        async with Reflector(adapter, CONFIG_MAP, "ml"):
            await asyncio.sleep(60)
        assert ending.watches <= 60 / (reflectors.BACKOFF_SECONDS[0] / 2)

    run(scenario)


def test_several_mirrors_share_one_wake_up_that_is_not_lost() -> None:
    async def scenario(cluster: MemoryCluster, faulty: FaultyCluster) -> None:
        wakeup = Wakeup()
        async with (
            Reflector(faulty, CONFIG_MAP, "ml", wakeup=wakeup) as first,
            Reflector(faulty, POD, "ml", wakeup=wakeup) as second,
        ):
            assert await wakeup.wait(10)
            await first.wait(0, 10)
            await second.wait(0, 10)
            await wakeup.wait(1)
            assert not await wakeup.wait(5)
            # Raised while nobody waits: the next wait returns at once.
            put(cluster, "a", "1")
            await first.wait(first.version, 10)
            before = cluster.clock.seconds
            assert await wakeup.wait(100)
            assert cluster.clock.seconds == pytest.approx(before, abs=0.01)

    run(scenario)


def test_an_error_that_no_retry_mends_comes_out_at_the_end() -> None:
    class Broken(Silent):
        async def list(self, *scope: object, **settings: object) -> object:
            raise LookupError("a mistake in the adapter")

    async def scenario(cluster: MemoryCluster, faulty: FaultyCluster) -> None:
        adapter: Cluster = Broken(cluster)  # type: ignore[assignment]
        with pytest.raises(LookupError, match="a mistake"):
            async with Reflector(adapter, CONFIG_MAP, "ml"):
                await asyncio.sleep(1)

    run(scenario)


def test_waiting_for_a_change_ends_with_the_time() -> None:
    async def scenario(cluster: MemoryCluster, faulty: FaultyCluster) -> None:
        mirror = Reflector(faulty, CONFIG_MAP, "ml")
        assert not await mirror.wait(0, 5)
        await mirror.__aexit__(None, None, None)

    assert run(scenario) == pytest.approx(5)
