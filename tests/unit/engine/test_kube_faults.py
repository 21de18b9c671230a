"""The fault layer: what it stops, loses and fails, and what it counts."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gpustack_deploy.engine.cluster import CONFIG_MAP, POD
from gpustack_deploy.model.errors import NotFound, Unreachable
from tests.fakes import MemoryCluster
from tests.fakes.faults import Call, FaultyCluster, Killed
from tests.fakes.objects import meta
from tests.fakes.pods import config_map

pytestmark = pytest.mark.check


def run(scenario: Callable[[MemoryCluster, FaultyCluster], Awaitable[None]]) -> None:
    async def whole() -> None:
        cluster = MemoryCluster()
        await scenario(cluster, FaultyCluster(cluster))

    asyncio.run(whole())


def test_a_process_stopped_before_a_call_sends_neither_it_nor_any_other() -> None:
    async def scenario(cluster: MemoryCluster, faulty: FaultyCluster) -> None:
        faulty.stop_before(2)
        await faulty.create(CONFIG_MAP, "ml", config_map("a"))
        for name in ("b", "c"):
            with pytest.raises(Killed):
                await faulty.create(CONFIG_MAP, "ml", config_map(name))
        assert cluster.names(CONFIG_MAP) == ["a"]
        assert faulty.writes == [Call("create", "ConfigMap", "a")]

    run(scenario)


def test_a_process_stopped_after_a_call_was_served_never_sees_its_answer() -> None:
    async def scenario(cluster: MemoryCluster, faulty: FaultyCluster) -> None:
        faulty.stop_after_served(1)
        with pytest.raises(Killed):
            await faulty.create(CONFIG_MAP, "ml", config_map("a"))
        with pytest.raises(Killed):
            await faulty.get(CONFIG_MAP, "ml", "a")
        assert cluster.names(CONFIG_MAP) == ["a"]

    run(scenario)


def test_what_handles_errors_does_not_handle_the_end_of_the_process() -> None:
    assert not issubclass(Killed, Exception)


def test_a_lost_answer_is_unknown_whether_it_was_served_or_refused() -> None:
    async def scenario(cluster: MemoryCluster, faulty: FaultyCluster) -> None:
        faulty.lose_answer(1, 2)
        with pytest.raises(Unreachable, match="the answer to call 1"):
            await faulty.create(CONFIG_MAP, "ml", config_map("a"))
        with pytest.raises(Unreachable, match="the answer to call 2"):
            await faulty.delete(CONFIG_MAP, "ml", "none", uid="u")
        made = await faulty.get(CONFIG_MAP, "ml", "a")
        await faulty.delete(CONFIG_MAP, "ml", "a", uid=str(meta(made)["uid"]))
        with pytest.raises(NotFound):
            await faulty.get(CONFIG_MAP, "ml", "a")

    run(scenario)


def test_reads_fail_until_they_are_healed_and_writes_go_on() -> None:
    async def scenario(cluster: MemoryCluster, faulty: FaultyCluster) -> None:
        faulty.fail_reads(lambda call: call.kind == "Pod")
        with pytest.raises(Unreachable):
            await faulty.list(POD, "ml")
        assert (await faulty.list(CONFIG_MAP, "ml")).items == ()
        await faulty.create(CONFIG_MAP, "ml", config_map("a"))
        faulty.heal()
        assert (await faulty.list(POD, "ml")).items == ()

    run(scenario)


def test_only_the_calls_that_count_have_numbers() -> None:
    async def scenario(cluster: MemoryCluster, faulty: FaultyCluster) -> None:
        faulty.counts = lambda call: call.is_write
        await faulty.create(CONFIG_MAP, "ml", config_map("a"), dry_run=True)
        await faulty.list(POD, "ml")
        assert faulty.numbered == 0
        await faulty.create(CONFIG_MAP, "ml", config_map("a"))
        assert faulty.numbered == 1
        assert [call.verb for call in faulty.calls] == ["create", "list", "create"]

    run(scenario)
