"""Reads that decide: what is kept from one to the next, and what a mirror may say."""

from collections.abc import Awaitable, Callable

import pytest

from gpustack_deploy.engine.cluster import NODE, POD, WORKLOAD
from gpustack_deploy.engine.observer import Observer
from gpustack_deploy.model.errors import Forbidden, ReplacementHeld, Unreachable
from tests.declarations import role
from tests.engine.driver import Stage, standing
from tests.fakes.faults import FaultyCluster

pytestmark = pytest.mark.check

Scenario = Callable[[Observer], Awaitable[None]]


def observed(stage: Stage, scenario: Scenario, *, through: FaultyCluster | None = None) -> None:
    async def whole() -> None:
        async with Observer(
            through or stage.cluster,
            namespace="ml",
            deployment="chat",
            role="server",
            run=stage.context(),
        ) as observer:
            await scenario(observer)

    stage.run(whole())


def test_one_look_is_two_lists_whatever_stands() -> None:
    stage, _ = standing(role(replicas=3, size=2))

    async def scenario(observer: Observer) -> None:
        await observer.read()
        snapshot = observer.snapshot("t")
        assert (6, 5, {}) == (len(snapshot.members), len(snapshot.services), snapshot.workloads)
        assert ("t", stage.clock.wall()) == (snapshot.token, snapshot.now)

    observed(stage, scenario)
    assert [("list", "Pod"), ("list", "Service")] == [
        (call.verb, call.kind) for call in stage.cluster.served
    ]


def test_a_workload_is_read_by_name_once_and_its_absence_is_stated() -> None:
    stage, _ = standing(role())
    (group,) = stage.cluster.names(WORKLOAD)

    async def scenario(observer: Observer) -> None:
        await observer.inspect([group, "none"])
        await observer.inspect([group, "none"])
        workloads = observer.snapshot("").workloads
        assert {group, "none"} == workloads.keys()
        assert workloads["none"] is None

    observed(stage, scenario)
    assert 2 == stage.cluster.count("get", "Workload")


def test_a_name_whose_token_was_just_drawn_is_absent_without_a_read() -> None:
    stage = Stage()

    async def scenario(observer: Observer) -> None:
        observer.expect_unused(["fresh"])
        await observer.inspect(["fresh"])
        assert {"fresh": None} == dict(observer.snapshot("").workloads)
        observer.forget(["fresh"])
        await observer.inspect(["fresh"])

    observed(stage, scenario)
    assert 1 == stage.cluster.count("get", "Workload")


@pytest.mark.parametrize(
    ("happens", "is_kept"),
    [
        pytest.param("nothing", True, id="an admitted group at rest"),
        pytest.param("a member leaves", False, id="a member is leaving"),
        pytest.param("a member is gone", False, id="a member is gone"),
    ],
)
def test_a_reading_is_kept_only_while_its_group_rests(happens: str, is_kept: bool) -> None:
    stage, _ = standing(role())
    (group,) = stage.cluster.names(WORKLOAD)

    async def scenario(observer: Observer) -> None:
        await observer.read()
        await observer.inspect([group])
        name = "chat-server-r0-m0"
        if happens == "a member leaves":
            stage.cluster.store.delete(POD, "ml", name, uid=stage.uids()[name])
        elif happens == "a member is gone":
            del stage.cluster.store.objects[POD]["ml", name]
        await observer.read()
        assert is_kept is (group in observer.snapshot("").workloads)

    observed(stage, scenario)


def test_a_reading_of_what_was_queued_is_never_kept() -> None:
    stage = Stage(gpus=0)
    with pytest.raises(ReplacementHeld):
        stage.create(role(rollout={"deadlineSeconds": 5}))
    (group,) = stage.cluster.names(WORKLOAD)

    async def scenario(observer: Observer) -> None:
        await observer.read()
        await observer.inspect([group])
        assert group in observer.snapshot("").workloads
        await observer.read()
        assert group not in observer.snapshot("").workloads

    observed(stage, scenario)


def test_a_failed_look_raises_and_leaves_what_was_known() -> None:
    stage, _ = standing(role())
    faulty = FaultyCluster(stage.cluster)

    async def scenario(observer: Observer) -> None:
        await observer.read()
        before = observer.snapshot("")
        faulty.fail_reads()
        with pytest.raises(ExceptionGroup) as failed:
            await observer.read()
        assert failed.group_contains(Unreachable)
        assert before == observer.snapshot("")

    observed(stage, scenario, through=faulty)


def test_a_mirror_says_nothing_before_it_is_complete() -> None:
    stage, _ = standing(role())

    async def scenario(observer: Observer) -> None:
        assert observer.mirrored("") is None
        await observer.wait(5.0)
        mirrored = observer.mirrored("")
        assert mirrored is None or 1 == len(mirrored.members)

    observed(stage, scenario)


def test_a_mirror_holds_of_workloads_only_what_was_read_as_admitted() -> None:
    """An absence was read before the members beside it: it must not be believed with them."""
    stage, _ = standing(role())
    (group,) = stage.cluster.names(WORKLOAD)

    async def scenario(observer: Observer) -> None:
        await observer.read()
        await observer.inspect([group, "absent"])
        mirrored = None
        while mirrored is None:
            await observer.wait(1.0)
            mirrored = observer.mirrored("")
        assert [group] == list(mirrored.workloads)

    observed(stage, scenario)


@pytest.mark.parametrize("is_forbidden", [False, True], ids=["gone", "not to be read"])
def test_a_node_that_cannot_be_read_is_unknown(
    is_forbidden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage()
    stage.cluster.add_node("there", {"nvidia.com/gpu": 8})

    async def forbid(*_: object) -> None:
        raise Forbidden("cannot get resource nodes")

    async def scenario(observer: Observer) -> None:
        await observer.inspect_nodes(["there"])
        assert observer.snapshot("").nodes["there"] is not None
        if is_forbidden:
            monkeypatch.setattr(stage.cluster, "get", forbid)
        await observer.inspect_nodes(["gone"])
        assert observer.snapshot("").nodes["gone"] is None
        await observer.read()
        assert {} == dict(observer.snapshot("").nodes)

    observed(stage, scenario)
    assert [("", "there")] == list(stage.cluster.store.objects[NODE])
