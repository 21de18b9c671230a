"""What a refusal must be: one sentence, in time, with nothing written."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from gpustack_deploy.sandbox.api import Json
from tests.fakes import MemoryCluster
from tests.integration.place import Place, writes

SECONDS: Final = 15.0


def assert_sentence(text: str, *parts: str) -> None:
    """One line that stands alone and says each part: found, needed, what to do next."""
    assert parts, "a test names what the sentence must say"
    assert "\n" not in text
    assert ". " not in text
    assert "Traceback" not in text
    for part in parts:
        assert part in text, text


@contextmanager
def in_time() -> Iterator[None]:
    """The block ends within the time in which every wrong input is told."""
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun < SECONDS


@contextmanager
def untouched(place: Place) -> Iterator[None]:
    """The block writes nothing to the API server, and every object of ours stays what it is."""
    since, before = place.mark(), standing(place)
    with in_time():
        yield
    assert [] == writes(place.requests(since=since))
    assert before == standing(place)


def standing(place: Place) -> dict[str, str]:
    """Everything in the namespace that a role is made of: UIDs, and the versions of what is ours.

    The status of a Pod or a Workload is others' to write at any time, so their versions are not.
    """
    kept = [*place.services().values(), *place.api.list(f"{place.core}/configmaps")]
    moving = [*place.pods(), *place.workloads().values()]
    versions = {_uid(each): str(each["metadata"]["resourceVersion"]) for each in kept}
    return versions | dict.fromkeys(map(_uid, moving), "")


@contextmanager
def unwritten(cluster: MemoryCluster) -> Iterator[None]:
    """The block stores nothing in the cluster in memory."""
    version = cluster.store.version
    yield
    assert version == cluster.store.version


def _uid(obj: Json) -> str:
    return str(obj["metadata"]["uid"])
