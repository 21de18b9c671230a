"""What another hand does between a run's look and its call: the next look settles it."""

import pytest

from gpustack_deploy.engine.cluster import CONFIG_MAP, POD, SERVICE, Kind
from gpustack_deploy.engine.replacement import create_role, update_role
from gpustack_deploy.engine.run import RunContext
from gpustack_deploy.model.errors import (
    AdmissionRefused,
    Expired,
    ForeignObject,
    LockHeld,
    ReplacementHeld,
    Throttled,
    Unreachable,
)
from gpustack_deploy.model.raw import Json
from tests.declarations import role
from tests.engine.driver import Stage, standing
from tests.fakes.faults import FaultyCluster
from tests.fakes.objects import name_of

pytestmark = pytest.mark.check

TAKE_OVER = role(size=2, command=["serve"])


class Meddler:
    """Does something once, just before the first call that matches is served."""

    def __init__(self, stage: Stage, verb: str, kind: Kind) -> None:
        self.stage = stage
        self._verb, self._kind = verb, kind
        self._is_done = False
        self._inner = stage.cluster._arrive
        stage.cluster._arrive = self._arrive  # type: ignore[method-assign]

    async def _arrive(self, verb: str, kind: Kind) -> None:
        await self._inner(verb, kind)
        if (verb, kind) == (self._verb, self._kind) and not self._is_done:
            self._is_done = True
            self.act()

    def act(self) -> None:
        raise NotImplementedError


class RemovesPods(Meddler):
    def act(self) -> None:
        for pod in list(self.stage.cluster.store.objects[POD]):
            del self.stage.cluster.store.objects[POD][pod]


class RemovesServices(Meddler):
    def act(self) -> None:
        for key in list(self.stage.cluster.store.objects[SERVICE]):
            del self.stage.cluster.store.objects[SERVICE][key]


class TakesThePodsName(Meddler):
    def act(self) -> None:
        body = {
            "metadata": {"name": "chat-server-r0-m0"},
            "spec": {"containers": [{"name": "x", "image": "x"}]},
        }
        self.stage.cluster.store.create(POD, "ml", body)


class TakesTheServicesName(Meddler):
    def act(self) -> None:
        body = {"metadata": {"name": "chat-server"}, "spec": {"ports": [{"port": 80}]}}
        self.stage.cluster.store.create(SERVICE, "ml", body)


class CreatesTheRecord(Meddler):
    def __init__(self, stage: Stage, record: Json) -> None:
        super().__init__(stage, "create", CONFIG_MAP)
        self._record = record

    def act(self) -> None:
        self.stage.cluster.store.create(CONFIG_MAP, "ml", self._record)


def test_members_that_went_before_their_label_was_withdrawn_are_no_failure() -> None:
    stage, state = standing(role(size=2))
    RemovesPods(stage, "patch", POD)
    stage.update(TAKE_OVER, state)
    stage.assert_stands(TAKE_OVER)


def test_members_that_went_before_they_were_deleted_are_no_failure() -> None:
    stage, state = standing(role(size=2))
    RemovesPods(stage, "delete", POD)
    stage.update(TAKE_OVER, state)
    stage.assert_stands(TAKE_OVER)


def test_services_that_went_before_they_were_aligned_are_made_anew() -> None:
    stage, state = standing(role())
    RemovesServices(stage, "patch", SERVICE)
    edited = role(service={"annotations": {"a": "b"}})
    stage.update(edited, state)
    stage.assert_stands(edited)


def test_a_stranger_that_takes_a_members_name_first_is_named() -> None:
    stage = Stage()
    TakesThePodsName(stage, "create", SERVICE)
    with pytest.raises((ForeignObject, ReplacementHeld), match="chat-server-r0-m0"):
        stage.create(role())
    assert "chat-server-r0-m0" in stage.cluster.names(POD)


def test_a_stranger_that_takes_a_services_name_first_is_named() -> None:
    stage = Stage()
    TakesTheServicesName(stage, "create", SERVICE)
    with pytest.raises(ForeignObject, match="Service chat-server "):
        stage.create(role())


def test_another_run_that_creates_the_record_first_keeps_it() -> None:
    other, _ = standing(role())
    stage = Stage()
    CreatesTheRecord(stage, other.cluster.objects(CONFIG_MAP)[0])
    with pytest.raises(LockHeld):
        stage.create(role())
    assert [] == stage.cluster.names(POD)


def test_a_record_that_never_arrived_leaves_nothing() -> None:
    stage = Stage()
    dropping = FaultyCluster(stage.cluster)
    dropping.fail(lambda call: ("create", "ConfigMap") == (call.verb, call.kind))
    with stage.nothing_written(), pytest.raises(Unreachable):
        stage.create(role(), through=dropping)


def test_a_member_that_a_policy_refuses_although_its_trial_was_accepted_is_said_to_be_refused() -> (
    None
):
    stage = Stage()

    def policy(kind: Kind, body: Json) -> str:
        return "not m1" if kind == POD and name_of(body).endswith("-m1") else ""

    stage.cluster.refuse("later members", policy)
    with pytest.raises(AdmissionRefused, match="not m1") as refusal:
        stage.create(role(size=2))
    assert refusal.value.state is not None
    stage.cluster.allow("later members")
    stage.create(role(size=2))
    stage.assert_stands(role(size=2))


@pytest.mark.parametrize(
    "answer",
    [
        Throttled("too many requests", retry_after_seconds=7),
        Expired("too old resource version"),
        Unreachable("no answer"),
    ],
    ids=["throttled", "expired", "unreachable"],
)
def test_answers_that_only_mean_later_are_tried_again(answer: Exception) -> None:
    stage, state = standing(role())
    inner, left = stage.cluster.list, [answer, answer]

    async def later(*args: object, **kwargs: object) -> object:
        if left:
            raise left.pop()
        return await inner(*args, **kwargs)  # type: ignore[arg-type]

    stage.cluster.list = later  # type: ignore[assignment,method-assign]
    began = stage.clock.seconds
    stage.update(role(), state)
    if isinstance(answer, Throttled):
        assert stage.clock.seconds - began >= 7


def test_a_bug_is_never_taken_for_an_answer_of_the_cluster() -> None:
    stage, state = standing(role())

    async def broken(*args: object, **kwargs: object) -> object:
        raise ZeroDivisionError

    stage.cluster.list = broken  # type: ignore[assignment,method-assign]
    with pytest.raises(ZeroDivisionError):
        stage.update(role(size=2), state)


def test_a_run_without_a_progress_line_runs_as_well() -> None:
    stage = Stage()
    state = stage.run(create_role(stage.cluster, role(), RunContext(clock=stage.clock)))
    stage.run(update_role(stage.cluster, role(size=2), state, RunContext(clock=stage.clock)))
    stage.assert_stands(role(size=2))
