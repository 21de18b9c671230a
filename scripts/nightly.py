"""Run every tier of tests and write what came of it to docs/reference/nightly.md.

One seed decides the order of the tests, `random` and Hypothesis alike, so that a night can be
repeated: `python scripts/nightly.py --seed SEED`. Exit code 1 when a tier failed.
"""

import argparse
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.count_tests import count_report  # noqa: E402 - found from the root

PAGE = "docs/reference/nightly.md"
TIERS = ("check", "core", "ci", "nightly")
# What only the last tier gets: more examples of each property, and time for soaks.
DEEP = "nightly"
PROFILE = "thorough"
SOAK_SECONDS = 4 * 3600
# Passed, failed, and no test carries the marker; any other code is a run that broke off.
_ENDED = (0, 1, 5)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one tier; `broke_off` says why it did not run to its end."""

    tier: str
    seconds: float
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: tuple[str, ...] = ()
    broke_off: str = ""

    @property
    def is_good(self) -> bool:
        """Whether every test of the tier passed."""
        return not self.failed and not self.broke_off


@dataclass(frozen=True, slots=True)
class Night:
    """When, on what, with which seed, and what came of it."""

    date: str
    commit: str
    seed: int
    outcomes: tuple[Outcome, ...]


Runner = Callable[[str, int, Path], int]


def main(arguments: list[str], *, root: Path = ROOT, runner: Runner | None = None) -> int:
    """Run the night and write its page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**32))
    seed: int = parser.parse_args(arguments).seed
    night = Night(
        date=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        commit=commit(root),
        seed=seed,
        outcomes=tuple(outcomes(seed, runner or run_tier)),
    )
    path = root / PAGE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(night))
    print(f"wrote {PAGE}: {result(night)}")
    return 0 if all(each.is_good for each in night.outcomes) else 1


def outcomes(seed: int, runner: Runner) -> list[Outcome]:
    """Run the tiers one after another, each to its end whatever the others did."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for tier in TIERS:
            report = Path(folder) / f"{tier}.xml"
            began = time.monotonic()
            code = runner(tier, seed, report)
            found.append(outcome(tier, report, code=code, seconds=time.monotonic() - began))
    return found


def run_tier(tier: str, seed: int, report: Path) -> int:
    """Run one tier's tests; return pytest's exit code."""
    deep = {"HYPOTHESIS_PROFILE": PROFILE} if tier == DEEP else {}
    return subprocess.run(
        tier_command(tier, seed, report), cwd=ROOT, env={**os.environ, **deep}, check=False
    ).returncode


def tier_command(tier: str, seed: int, report: Path) -> list[str]:
    """The command line of one tier."""
    seeds = [f"--randomly-seed={seed}", f"--hypothesis-seed={seed}"]
    patience = [f"--timeout={SOAK_SECONDS}"] if tier == DEEP else []
    return [sys.executable, "-m", "pytest", "-m", tier, *seeds, *patience, f"--junitxml={report}"]


def outcome(tier: str, report: Path, *, code: int, seconds: float) -> Outcome:
    """What the tier's report and exit code say."""
    broke_off = "" if code in _ENDED else f"pytest ended with code {code}"
    try:
        root = ET.parse(report).getroot()  # noqa: S314 - our own file
    except (OSError, ET.ParseError):
        return Outcome(tier, seconds, broke_off=broke_off or "it left no report")
    passed, failed, skipped = count_report(root)
    failures = tuple(
        f"{case.get('classname')}::{case.get('name')}"
        for case in root.iter("testcase")
        if case.find("failure") is not None or case.find("error") is not None
    )
    return Outcome(tier, seconds, passed, failed, skipped, failures, broke_off)


def commit(root: Path) -> str:
    """The commit that is tested, and whether the tree differs from it (the page itself aside)."""

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=root, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--", ".", f":!{PAGE}")
    return git("rev-parse", "HEAD") + (", with changes that are not committed" if changed else "")


def result(night: Night) -> str:
    """One line: everything passed, or how much did not."""
    failed = sum(each.failed for each in night.outcomes)
    broken = [each.tier for each in night.outcomes if each.broke_off]
    parts = [f"{failed} failed"] if failed else []
    parts += [f"{', '.join(broken)} broke off"] if broken else []
    passed = sum(each.passed for each in night.outcomes)
    return "; ".join([*parts, f"{passed} passed"]) if parts else f"all {passed} passed"


def page(night: Night) -> str:
    """The page's text; of a failure the test's name only, since messages hold a machine's paths."""
    lines = [
        "# The last night",
        "",
        "<!-- Written by `make nightly`. -->",
        "",
        "Every tier of the tests, and the longest ones, on one commit.",
        "",
        "| | |",
        "|---|---|",
        f"| Date | {night.date} |",
        f"| Commit | {night.commit} |",
        f"| Seed | {night.seed}, of the tests' order, of `random` and of Hypothesis |",
        f"| Hypothesis | profile `{PROFILE}` in the tier `{DEEP}` |",
        f"| Result | {result(night)} |",
        "",
        f"`.venv/bin/python scripts/nightly.py --seed {night.seed}` on that commit repeats it.",
        "",
        "| Tier | Passed | Failed | Skipped | Minutes |",
        "|---|---|---|---|---|",
        *(
            f"| `{each.tier}` | {each.passed} | {each.failed} | {each.skipped}"
            f" | {each.seconds / 60:.1f} |"
            for each in night.outcomes
        ),
        "",
        "## Failures",
        "",
        *(_failure_lines(night) or ["None."]),
        "",
    ]
    return "\n".join(lines)


def _failure_lines(night: Night) -> list[str]:
    lines = []
    for each in night.outcomes:
        if each.broke_off:
            lines.append(f"- tier `{each.tier}`: {each.broke_off}")
        lines += [f"- `{_in_code(name)}`" for name in each.failures]
    return lines


def _in_code(name: str) -> str:
    """The name as it can stand in a line of code: parameters may hold anything."""
    return " ".join(name.replace("`", "'").split())[:200]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
