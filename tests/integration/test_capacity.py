"""More, smaller replicas at full quota, on real Kueue: no replica waits for another for ever."""

from typing import Any

import pytest

from gpustack_deploy.model.errors import AdmissionAwaited
from tests.integration.place import Place

pytestmark = pytest.mark.core

QUOTA = 8


def declared(place: Place, own: Any, replicas: int, gpus: int) -> Any:
    return place.declared(
        replicas=replicas,
        resources={"count": gpus},
        instanceType=own,
        rollout={"admissionWaitSeconds": 1},
    )


def stands(place: Place, replicas: int) -> None:
    standing = place.replicas()
    assert list(range(replicas)) == sorted(standing)
    assert all(each.is_served for each in standing.values())
    assert replicas == len(place.workloads())
    assert (None, [], replicas) == tuple(
        place.record()[key] for key in ("slot", "parked", "achieved")
    )
    place.await_gpus_in_use(f"own-{place.namespace}", QUOTA)


def test_half_the_cards_and_twice_the_replicas_in_one_edit(place: Place) -> None:
    own = place.add_queue(QUOTA)
    state = place.create(declared(place, own, 2, 4))
    place.update(declared(place, own, 4, 2), state)
    stands(place, 4)


def test_half_the_cards_with_the_growth_queued_by_an_earlier_run(place: Place) -> None:
    own = place.add_queue(QUOTA)
    state = place.create(declared(place, own, 2, 4))
    with pytest.raises(AdmissionAwaited) as queued:
        place.update(declared(place, own, 4, 4), state, bounds_admission_wait=True)
    assert queued.value.state is not None
    place.update(declared(place, own, 4, 2), queued.value.state)
    stands(place, 4)
