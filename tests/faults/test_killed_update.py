"""`pulumi up` killed with SIGKILL at exact points of a replacement, then resumed at once."""

import os
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

import pytest

from gpustack_deploy.sandbox import Sandbox
from gpustack_deploy.sandbox.waiting import wait_until
from tests.faults.gate import Gate, Matcher
from tests.integration.place import Place
from tests.pulumi.stack import Stack

pytestmark = [pytest.mark.ci, pytest.mark.timeout(400)]

LOCK_SECONDS = 15.0
SIZE = 2


def deletes_a_member(method: str, path: str) -> bool:
    return method == "DELETE" and "/pods/" in path


def creates_a_member(method: str, path: str) -> bool:
    return method == "POST" and "/pods" in path and "dryRun" not in path


POINTS = {
    "slot written": (deletes_a_member, 1),
    "members deleted": (creates_a_member, 1),
    "half of the new members created": (creates_a_member, SIZE),
}


@pytest.fixture
def gate(sandbox: Sandbox) -> Iterator[Gate]:
    with Gate(sandbox) as running:
        yield running


@pytest.fixture
def place(sandbox: Sandbox) -> Iterator[Place]:
    made = Place(sandbox, f"killed-{uuid.uuid4().hex[:8]}")
    sandbox.add_namespace(made.namespace)
    yield made
    made.clear()


class Killed(StrEnum):
    """What is killed, and what becomes of the request that was under way."""

    BOTH = "the command line and the provider; the request is lost"
    CLI = "the command line alone; the request arrives once the next run has the lock"


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("killed", Killed, ids=lambda each: each.name.lower())
def test_a_killed_up_is_resumed_within_one_lock_duration(
    sandbox: Sandbox, gate: Gate, place: Place, tmp_path: Path, point: str, killed: Killed
) -> None:
    stack = Stack(sandbox, tmp_path, place.namespace)
    direct, gated = stack.env["KUBECONFIG"], str(gate.kubeconfig(tmp_path))
    began = time.monotonic()
    assert 0 == stack.up(roles(gpus=1)).code
    usual = time.monotonic() - began
    before, record = place.identities(), stack.uids("configmaps")

    stack.env["KUBECONFIG"] = gated
    stack.declare(roles(gpus=2))
    matches, count = POINTS[point]
    left = kill_at(stack, gate, place, killed, matches, count)
    stack.env["KUBECONFIG"] = direct
    assert place.record()["slot"]["ordinal"] == 1
    assert before[0] == place.identities()[0]
    lock = place.record()["lock"]

    assert 0 == stack.run("cancel", "--yes").code
    began = time.monotonic()
    resumed = stack.start("up", "--yes", "--skip-preview")
    if killed is Killed.CLI:
        wait_until(
            lambda: place.record()["lock"]["generation"] > lock["generation"],
            what="the lock to be taken over",
            seconds=60,
        )
    gate.release(is_dropped=killed is Killed.BOTH)
    said, _ = resumed.communicate(timeout=200)
    took = time.monotonic() - began
    assert 0 == resumed.returncode, said
    assert took <= LOCK_SECONDS + 3 * usual + 10, said

    wait_until(lambda: not Path(f"/proc/{lock['pid']}").exists(), what="the orphan to end")
    end(left)
    after = place.replicas()
    assert [0, 1] == sorted(after)
    for ordinal, replica in after.items():
        assert replica.is_served
        assert SIZE == len(replica.members)
        assert ["2"] * SIZE == [member.gpus for member in replica.members]
        assert not set(before[ordinal]) & set(replica.identity)
    assert {each.members[0].group for each in after.values()} == set(place.workloads())
    assert record == stack.uids("configmaps")
    assert place.record()["slot"] is None
    place.await_gpus_in_use("h200", 2 * SIZE * 2)
    assert stack.is_unchanged()

    assert 0 == stack.destroy().code
    assert [] == place.pods()
    assert {} == place.workloads()
    place.await_gpus_in_use("h200", 0)


def roles(*, gpus: int) -> list[dict[str, object]]:
    return [{"name": "server", "replicas": 2, "size": SIZE, "resources": {"count": gpus}}]


def kill_at(
    stack: Stack, gate: Gate, place: Place, killed: Killed, matches: Matcher, count: int
) -> list[int]:
    """Run an update until it sends that request, and kill it there; return what it leaves."""
    trap = gate.set_trap(matches, count=count)
    running = stack.start("up", "--yes", "--skip-preview")
    wait_until(
        lambda: trap.is_sprung.is_set() or running.poll() is not None,
        what="the update to come that far",
        seconds=120,
    )
    assert trap.is_sprung.is_set(), running.communicate()[0]
    left = descendants(running.pid)
    if killed is Killed.BOTH:
        # The provider is in a process group of its own; the record says who holds the lock.
        os.kill(place.record()["lock"]["pid"], signal.SIGKILL)
    running.kill()
    running.wait()
    assert running.stdout is not None
    running.stdout.close()
    return left


def descendants(pid: int) -> list[int]:
    """The processes that this one started, and theirs."""
    direct = [
        int(child)
        for children in Path(f"/proc/{pid}/task").glob("*/children")
        for child in children.read_text().split()
    ]
    return [*direct, *(each for child in direct for each in descendants(child))]


def end(processes: list[int]) -> None:
    """End what outlives a killed command line: a language host ends minutes later."""
    for pid in processes:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
