"""What a run does when somebody undoes its writes, or an earlier one left its record behind."""

from typing import Any

import pytest

from gpustack_deploy.engine.cluster import SERVICE, Kind
from gpustack_deploy.model.errors import InvalidSpec, ReplacementHeld
from gpustack_deploy.model.raw import Json
from tests.declarations import role
from tests.engine.driver import on_queue, standing

pytestmark = pytest.mark.check

BRIEF = {"deadlineSeconds": 60}


def test_a_write_that_is_undone_again_and_again_ends_with_the_deadline() -> None:
    stage, state = standing(role())
    served = stage.cluster.patch

    async def without_annotations(
        kind: Kind, namespace: str, name: str, body: Json, *, uid: str
    ) -> Json:
        if kind == SERVICE:
            body = {**body, "metadata": {**body["metadata"], "annotations": {}}}
        return await served(kind, namespace, name, body, uid=uid)

    stage.cluster.patch = without_annotations  # type: ignore[method-assign]
    wanted: dict[str, Any] = {"service": {"annotations": {"a": "b"}}, "rollout": BRIEF}
    with pytest.raises(ReplacementHeld, match="look for who undoes it") as held:
        stage.update(role(**wanted), state)
    assert "NoEffect" == held.value.check
    assert stage.cluster.requests["patch", "services"] < 40
    assert "" == stage.record().lock.holder


def test_a_create_over_an_earlier_record_asks_for_the_queue_before_anything_else() -> None:
    stage, _ = standing(role(replicas=2))
    with stage.nothing_written(), pytest.raises(InvalidSpec, match="no LocalQueue a100"):
        stage.create(on_queue("a100", replicas=2))
