"""How many calls an edit costs, whatever else stands in the namespace (design, cost)."""

import pytest

from gpustack_deploy.engine.cluster import POD, WORKLOAD
from gpustack_deploy.model import identity
from gpustack_deploy.model.role import RoleDeclaration
from tests.declarations import role
from tests.engine.driver import Stage, standing

pytestmark = pytest.mark.check


def costed(stage: Stage) -> int:
    """The writes and dry runs of a run; lock renewals, peers and withdrawals are told apart."""
    return sum(
        (call.is_write or call.is_dry_run)
        and not call.is_lock_only
        and call.kind != "Service"
        and (call.verb, call.kind) != ("patch", "Pod")
        for call in stage.cluster.served
    )


def moved_selectors(stage: Stage) -> int:
    return sum((call.verb, call.kind) == ("patch", "Service") for call in stage.cluster.served)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(role(replicas=3), role(replicas=3, command=["x"]), id="one member"),
        pytest.param(
            role(replicas=2, size=2),
            role(replicas=2, size=2, env=[{"name": "A", "value": "b"}]),
            id="two members",
        ),
        pytest.param(role(replicas=2, size=1), role(replicas=2, size=3), id="size up"),
        pytest.param(role(replicas=2, size=3), role(replicas=2, size=1), id="size down"),
    ],
)
def test_replacing_a_replica_costs_two_writes_a_member_and_six_more(
    before: RoleDeclaration, after: RoleDeclaration
) -> None:
    stage, state = standing(before)
    stage.update(after, state)
    stage.assert_stands(after)
    assert costed(stage) <= after.replicas * (before.size + after.size + 6)
    assert moved_selectors(stage) <= 2 * 2


def test_reads_do_not_grow_with_what_else_stands_in_the_namespace() -> None:
    assert _reads(strangers=0) == _reads(strangers=200)


def test_creating_many_replicas_reads_each_workload_a_few_times_only() -> None:
    stage = Stage(gpus=40)
    stage.create(role(replicas=20))
    stage.assert_stands(role(replicas=20))
    assert stage.cluster.count("get", "Workload") <= 20 * 3


def _reads(*, strangers: int) -> dict[str, int]:
    stage, state = standing(role(replicas=1))
    stage.cluster.world.is_paused = True
    for number in range(strangers):
        stage.cluster.store.create(
            POD,
            "ml",
            {
                "metadata": {
                    "name": f"stranger-{number}",
                    "labels": {identity.LABEL_DEPLOYMENT: "else"},
                },
                "spec": {
                    "nodeName": "full",
                    "containers": [{"name": "x", "image": "x"}],
                },
            },
        )
        stage.cluster.store.create(
            WORKLOAD,
            "ml",
            {
                "metadata": {"name": f"stranger-{number}", "ownerReferences": []},
                "spec": {"queueName": "", "podSets": [{"name": "main", "count": 1}]},
            },
        )
    stage.cluster.world.is_paused = False
    stage.cluster.forget_calls()
    reading = stage.read(role(replicas=1, size=2), state)
    assert not reading.is_converged
    stage.update(role(replicas=1), state)
    kinds = ("Pod", "Service", "Workload", "ConfigMap")
    return {
        kind: stage.cluster.count("get", kind) + stage.cluster.count("list", kind) for kind in kinds
    }
