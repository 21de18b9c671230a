"""A cluster or a namespace without Kueue, in memory: Pods there would bypass quota."""

from collections.abc import Callable

import pytest

from gpustack_deploy.engine.cluster import POD
from gpustack_deploy.engine.replacement import create_role, update_role
from gpustack_deploy.engine.run import RunContext
from gpustack_deploy.model.errors import GpustackDeployError, InvalidSpec, KueueNotManaging
from tests.bad_input.sentence import assert_sentence, unwritten
from tests.declarations import role
from tests.fakes import FakeClock, MemoryCluster, run_virtual

pytestmark = pytest.mark.check

UNMANAGED = ("Kueue does not manage Pods in namespace ml", "would bypass quota", "install Kueue")
QUOTA: dict[str, str | int] = {
    "nvidia.com/gpu": 32,
    "cpu": 400,
    "memory": "4Ti",
    "ephemeral-storage": "4Ti",
}


def without_queue(cluster: MemoryCluster) -> None:
    """Nothing: no queue was made."""


def unmanaged(cluster: MemoryCluster) -> None:
    cluster.add_queue("h200", QUOTA)
    cluster.kueue.unmanaged.add("ml")


@pytest.mark.parametrize(
    ("has_kueue", "prepare", "error", "parts"),
    [
        pytest.param(
            False,
            without_queue,
            KueueNotManaging,
            ("does not serve kueue.x-k8s.io/v1beta2", "Kueue 0.15 or newer is needed", *UNMANAGED),
            id="no Kueue",
        ),
        pytest.param(
            True,
            unmanaged,
            KueueNotManaging,
            ("lacks Kueue's scheduling gate", "managedJobsNamespaceSelector", *UNMANAGED),
            id="not managed",
        ),
        pytest.param(
            True,
            without_queue,
            InvalidSpec,
            ("instanceType.localQueue: ", "has no LocalQueue h200", "create it, or name one"),
            id="no queue",
        ),
    ],
)
def test_a_create_writes_nothing(
    has_kueue: bool,
    prepare: Callable[[MemoryCluster], None],
    error: type[GpustackDeployError],
    parts: tuple[str, ...],
) -> None:
    clock = FakeClock()
    cluster = MemoryCluster(clock, is_auto=True, has_kueue=has_kueue)
    prepare(cluster)
    with unwritten(cluster), pytest.raises(error) as refused:
        run_virtual(create_role(cluster, role(), RunContext(clock=clock)), clock)
    assert_sentence(str(refused.value), *parts)


def test_an_edit_where_kueue_was_told_to_manage_no_longer_deletes_nothing() -> None:
    clock = FakeClock()
    cluster = MemoryCluster(clock, is_auto=True)
    cluster.add_queue("h200", QUOTA)
    state = run_virtual(create_role(cluster, role(replicas=2), RunContext(clock=clock)), clock)
    run_virtual(cluster.settle(), clock)
    cluster.kueue.unmanaged.add("ml")
    edited = role(replicas=2, resources={"count": 4})
    pods = {name: cluster.uid(POD, "ml", name) for name in cluster.names(POD)}
    with unwritten(cluster), pytest.raises(KueueNotManaging) as refused:
        run_virtual(update_role(cluster, edited, state, RunContext(clock=clock)), clock)
    assert_sentence(str(refused.value), "lacks Kueue's scheduling gate", *UNMANAGED)
    assert pods == {name: cluster.uid(POD, "ml", name) for name in cluster.names(POD)}
