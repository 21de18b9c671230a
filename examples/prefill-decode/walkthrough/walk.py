"""The walk: each edit is made, previewed, brought up, shown and verified."""

import time
from collections.abc import Callable, Sequence

from walkthrough.checks import Situation, left_over, verify
from walkthrough.edits import Edit, Settings, expected, settings_after
from walkthrough.facts import Facts, queue_usage, read_facts, summed_requests
from walkthrough.pulumi_cli import Stack
from walkthrough.table import table
from walkthrough.target import Target
from walkthrough.watch import Usage, Watch, Watched

DEPLOYMENT = "chat"
_SETTLE_SECONDS = 15.0

Say = Callable[[str], None]


class Mismatch(Exception):
    """What stands is not what was asked for."""


def walk(target: Target, namespace: str, edits: Sequence[Edit], *, keep: bool, say: Say) -> None:
    """Make the edits on the target, the first of which is the creation.

    Raises:
        Mismatch: a verification failed.
        PulumiFailed: a run of Pulumi did.
    """
    idle = queue_usage(target.api)
    if left_over(read_facts(target.api, namespace, DEPLOYMENT)):
        raise Mismatch(
            f"namespace {namespace} already holds a deployment {DEPLOYMENT!r}; the demo creates its"
            f" own: destroy that one (an earlier run's stack is in {target.folder}), or give"
            " another --namespace"
        )
    others = {"gpustack:context": target.context} if target.context else {}
    stack = Stack.create(target.folder, target.env, namespace, say)
    before: Facts | None = None
    settings: Settings = {}
    for count, edit in enumerate(edits, start=1):
        settings = settings_after(count)
        stack.configure(settings, **others)
        before = _step(target, stack, edit, settings, before, namespace, say)
    assert before is not None  # noqa: S101 - there is at least one edit
    _again(target, stack, before, namespace, say)
    if keep:
        say(f"\nThe deployment stands in namespace {namespace}; the stack is in {stack.folder}.")
        return
    _destroy(target, stack, idle, namespace, say)


def _step(
    target: Target,
    stack: Stack,
    edit: Edit,
    settings: Settings,
    before: Facts | None,
    namespace: str,
    say: Say,
) -> Facts:
    say(f"\n== {edit.number}. {edit.title}")
    started = time.monotonic()
    stack.preview(*(["--diff"] if before else []))
    with Watch(target.api, namespace, DEPLOYMENT) as watch:
        stack.up()
    after = read_facts(target.api, namespace, DEPLOYMENT)
    for line in table(before, after, DEPLOYMENT):
        say(f"    {line}")
    situation = Situation(
        before=before,
        after=after,
        watched=watch.watched,
        expected=expected(settings),
        deployment=DEPLOYMENT,
        replaced=edit.replaces,
        scaled=edit.scales,
    )
    _count_usage(target, watch.watched)
    held, wrong = verify(situation)
    looks = len(watch.watched.looks)
    say(f"  verified, with {looks} looks on the way ({time.monotonic() - started:.0f} s):")
    for title in held:
        say(f"    ok  {title}")
    if wrong:
        raise Mismatch("; ".join(wrong))
    return after


def _again(target: Target, stack: Stack, before: Facts, namespace: str, say: Say) -> None:
    say("\n== 7. up again: nothing changes")
    written = target.writes(namespace) if target.writes else 0
    stack.up("--expect-no-changes")
    after = read_facts(target.api, namespace, DEPLOYMENT)
    if after.versions != before.versions:
        raise Mismatch("an object was written although nothing changed")
    say("    ok  every object has the version that it had")
    if target.writes:
        if (more := target.writes(namespace) - written) != 0:
            raise Mismatch(f"the API server logged {more} writes although nothing changed")
        say("    ok  the API server's log has no write")


def _destroy(target: Target, stack: Stack, idle: Usage, namespace: str, say: Say) -> None:
    say("\n== 8. destroy")
    stack.destroy()
    left = left_over(read_facts(target.api, namespace, DEPLOYMENT))
    if left:
        raise Mismatch(f"left over: {', '.join(left)}")
    say("    ok  no Pod, Workload, Service or record is left")
    stack.remove()
    if not _settles(lambda: queue_usage(target.api) == idle):
        raise Mismatch(f"the ClusterQueues count {queue_usage(target.api)}, before it was {idle}")
    say("    ok  the ClusterQueues count what they counted before")


def _count_usage(target: Target, watched: Watched) -> None:
    """Read the queues until they count the sum of the Pods: Kueue writes it a little later."""

    def settled() -> bool:
        watched.summed, watched.usage = summed_requests(target.api), queue_usage(target.api)
        return watched.summed == watched.usage

    _settles(settled)


def _settles(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + _SETTLE_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True
