"""Switch each rule of the planner off, one at a time, and show the test that goes red.

A mutation is a named edit of one place in the source, in a copy of the tree. A rule whose mutation
leaves every test green is a rule without a test: the run then fails.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("gpustack_deploy", "providers", "tests", "pyproject.toml", "README.md")
PLAN = "gpustack_deploy/plan"


@dataclass(frozen=True)
class Mutation:
    """One rule switched off: where, what stands there, what it becomes, and which tests look."""

    name: str
    file: str
    old: str
    new: str
    tests: str = "tests/unit/plan"


MUTATIONS = (
    Mutation(
        "broken replicas wait behind healthy ones",
        f"{PLAN}/order.py",
        "    if broken:\n",
        "    if broken and not _next_healthy(role):\n",
    ),
    Mutation(
        "the lowest ordinal goes first",
        f"{PLAN}/order.py",
        "sorted(role.replicas.items(), reverse=True)",
        "sorted(role.replicas.items())",
    ),
    Mutation(
        "a Ready replica goes before one that is not",
        f"{PLAN}/order.py",
        "key=lambda each: (each.is_ready, -each.ordinal)",
        "key=lambda each: (not each.is_ready, -each.ordinal)",
    ),
    Mutation(
        "a healthy replica goes while an established one is not admitted",
        f"{PLAN}/order.py",
        "if replica is None or replica.is_admitted or _is_excused(role, replica):",
        "if True:",
    ),
    Mutation(
        "every queued replacement is parked",
        f"{PLAN}/order.py",
        "released[key] >= 2 * wanted[key] * role.desired.size",
        "released[key] >= 0",
    ),
    Mutation(
        "no queued replacement is parked",
        f"{PLAN}/order.py",
        "released[key] >= 2 * wanted[key] * role.desired.size",
        "released[key] < 0",
    ),
    Mutation(
        "a group that was just composed is parked",
        f"{PLAN}/replacement.py",
        "    if reserved.status is not ConditionStatus.FALSE:\n        return None\n",
        "",
    ),
    Mutation(
        "an administrator's hold is answered with a new attempt",
        f"{PLAN}/checks.py",
        "    if not evicted.is_true:\n        return None\n    if evicted.reason in",
        "    if True:\n        return None\n    if evicted.reason in",
    ),
    *(
        Mutation(
            f"never admitted although: {what}",
            f"{PLAN}/checks.py",
            old,
            new,
        )
        for what, old, new in (
            (
                "gate removed",
                "        and member.is_gated\n        for member",
                "        for member",
            ),
            ("node assigned", "        not member.node_name\n        and not", "        not"),
            (
                "container status",
                "        and not member.has_container_status\n        and not",
                "        and not",
            ),
            ("admission history", "        and not workload.has_admission_history\n", ""),
            (
                "it was admitted",
                '        and workload.condition("Admitted").status in ("Absent", "False")\n',
                "",
            ),
            ("evicted", '("Evicted", "Preempted", "Requeued", "Finished")', '("Preempted",)'),
            ("preempted", '("Evicted", "Preempted", "Requeued", "Finished")', '("Evicted",)'),
            ("was ready", '        and pods_ready.status in ("Absent", "False")\n', ""),
            ("waits for recovery", '        and pods_ready.reason != "WaitForRecovery"\n', ""),
            ("a member owns it not", "        and uids <= workload.owner_uids\n", ""),
        )
    ),
    Mutation(
        "a superseded replacement is kept",
        f"{PLAN}/replacement.py",
        "    if slot.fingerprints != desired.member_fingerprints(slot.ordinal):",
        "    if not slot.fingerprints:",
    ),
    Mutation(
        "a cancelled ordinal is created again",
        f"{PLAN}/replacement.py",
        "    if slot.ordinal >= role.desired.replicas:\n",
        "    if slot.ordinal > role.desired.replicas + 99:\n",
    ),
    Mutation(
        "a composed group is topped up",
        f"{PLAN}/replacement.py",
        "    if len(standing) < desired.size:\n        return Transition.REBUILD",
        "    if len(standing) < 0:\n        return Transition.REBUILD",
    ),
    Mutation(
        "a late create is taken for the replacement",
        f"{PLAN}/replacement.py",
        "        if each.token != slot.token:",
        "        if not each.token:",
    ),
    Mutation(
        "any Workload on the name is ours (too wide)",
        f"{PLAN}/departure.py",
        "        return not workload.owner_uids.isdisjoint(captured)\n",
        "        return True\n",
    ),
    Mutation(
        "only the captured Workload is ours (too narrow)",
        f"{PLAN}/departure.py",
        "        return not workload.owner_uids.isdisjoint(captured)\n",
        "        return False\n",
    ),
    Mutation(
        "a Workload goes before its members ended",
        f"{PLAN}/departure.py",
        "    if running and role.snapshot.now < ends_at:\n"
        "        return Await(_leaving(ordinal, running), wake_at=ends_at)\n"
        "    if running and workload.uid",
        "    if running and workload.uid",
    ),
    Mutation(
        "a remnant is deleted in a loop",
        f"{PLAN}/departure.py",
        "    if running and workload.uid != departure.workload_uid:\n",
        "    if running and not workload.uid:\n",
    ),
    Mutation(
        "a member is forced out at once",
        f"{PLAN}/departure.py",
        "    return node.since + FORCE_AFTER_SECONDS\n",
        "    return 0.0\n",
    ),
    Mutation(
        "an answering label stays while a member leaves",
        f"{PLAN}/departure.py",
        "    if answering and selects_on_answering(role.snapshot.services):",
        "    if not leaving:",
    ),
    Mutation(
        "peer Services stand for declared ordinals alone",
        f"{PLAN}/services.py",
        "        if member.ordinal is not None and (member.group_total or 0) > 1\n",
        "        if member.ordinal is None\n",
    ),
    Mutation(
        "the leader term is dropped while old pairs stand",
        f"{PLAN}/services.py",
        "desired.size > 1 or any((member.group_total or 0) > 1 for member in role.members)",
        "desired.size > 1",
    ),
    Mutation(
        "routing follows the declaration at once",
        f"{PLAN}/services.py",
        "    return any(_answers_otherwise(role.desired, member) for member in role.members)",
        "    return False",
    ),
    Mutation(
        "a foreign Service is taken over",
        f"{PLAN}/planner.py",
        "        if service.owner_uid not in role.owner_uids:\n            reason",
        "        if not service.name:\n            reason",
    ),
    Mutation(
        "an unreadable replica holds nothing",
        f"{PLAN}/planner.py",
        "if replica.shape is Shape.UNREADABLE and not",
        "if not replica.members and not",
    ),
    Mutation(
        "new ordinals come before outdated ones",
        f"{PLAN}/batch.py",
        "    if not any(each.is_outdated for each in role.replicas.values()):\n",
        "    if True:\n",
    ),
    Mutation(
        "an admission inherited from other members is fresh",
        f"{PLAN}/checks.py",
        "    if uids != workload.owner_uids:\n",
        "    if uids.isdisjoint(workload.owner_uids):\n",
    ),
)


def run(mutation: Mutation, copy: Path) -> str:
    """Return the first test that goes red, nothing when all stay green."""
    target = copy / mutation.file
    source = (ROOT / mutation.file).read_text(encoding="utf-8")
    target.write_text(source.replace(mutation.old, mutation.new, 1), encoding="utf-8")
    try:
        ran = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"),
                *("--no-header", "--tb=no", "-m", "check", mutation.tests),
            ],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": f"{copy}:{copy / 'providers'}"},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        target.write_text(source, encoding="utf-8")
    if ran.returncode not in (0, 1):
        raise RuntimeError(f"{mutation.name}: the tests could not run:\n{ran.stdout}{ran.stderr}")
    lines = ran.stdout.splitlines()
    red = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return red[0].split(" - ")[0].removeprefix("FAILED ") if red else ""


def main() -> int:
    """Run every mutation whose name holds one of the arguments (default: all)."""
    wanted = sys.argv[1:]
    chosen = [each for each in MUTATIONS if not wanted or any(w in each.name for w in wanted)]
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in COPIED:
            source = ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, copy / name)
        for mutation in chosen:
            red = run(mutation, copy)
            print(f"{'red  ' if red else 'GREEN'}  {mutation.name}\n         {red}", flush=True)
            survivors += [] if red else [mutation.name]
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutations turn a test red")
    return 1 if survivors else 0


if __name__ == "__main__":
    raise SystemExit(main())
