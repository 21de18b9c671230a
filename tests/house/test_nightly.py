"""The night runs every tier with one seed, and its page says what came of it."""

import subprocess
from pathlib import Path

import pytest

from scripts import nightly
from scripts.nightly import Night, Outcome, commit, main, outcome, page, tier_command
from tests.conftest import TIERS

pytestmark = pytest.mark.check

SUITE = (
    '<testsuites><testsuite tests="4" failures="1" errors="1" skipped="1">'
    '<testcase classname="tests.a" name="test_good"/>'
    '<testcase classname="tests.a" name="test_bad[x`y]"><failure message="at a path"/></testcase>'
    '<testcase classname="tests.b" name="test_set_up"><error/></testcase>'
    '<testcase classname="tests.b" name="test_idle"><skipped/></testcase>'
    "</testsuite></testsuites>"
)
CLEAN = '<testsuites><testsuite tests="9" failures="0" errors="0" skipped="0"/></testsuites>'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with one commit."""
    me = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    (tmp_path / "file").write_text("one")
    for arguments in (["init", "-q"], ["add", "file"], [*me, "commit", "-q", "-m", "one"]):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)
    return tmp_path


def test_every_tier_is_run() -> None:
    assert TIERS == nightly.TIERS


def test_one_seed_decides_order_and_examples() -> None:
    for tier in TIERS:
        command = tier_command(tier, 7, Path("report.xml"))
        assert ["-m", tier] == command[3:5]
        assert {"--randomly-seed=7", "--hypothesis-seed=7", "--junitxml=report.xml"} < set(command)


def test_a_report_is_counted_and_its_failures_are_named(tmp_path: Path) -> None:
    report = tmp_path / "core.xml"
    report.write_text(SUITE)
    got = outcome("core", report, code=1, seconds=90)
    failures = ("tests.a::test_bad[x`y]", "tests.b::test_set_up")
    assert Outcome("core", 90, 1, 2, 1, failures) == got
    assert not got.is_good


@pytest.mark.parametrize(
    ("text", "code", "want"),
    [
        (CLEAN, 0, ""),
        (CLEAN, 5, ""),
        (CLEAN, 2, "pytest ended with code 2"),
        (None, -9, "pytest ended with code -9"),
        (None, 0, "it left no report"),
        ("<testsuites>", 1, "it left no report"),
    ],
)
def test_a_tier_that_broke_off_is_no_success(
    tmp_path: Path, text: str | None, code: int, want: str
) -> None:
    report = tmp_path / "ci.xml"
    if text is not None:
        report.write_text(text)
    got = outcome("ci", report, code=code, seconds=0)
    assert want == got.broke_off
    assert got.is_good is not bool(want)


def test_the_page_says_when_on_what_and_what_came_of_it() -> None:
    night = Night(
        date="2026-01-02 03:04 UTC",
        commit="abc",
        seed=7,
        outcomes=(
            Outcome("check", 90, passed=3),
            Outcome("core", 60, 1, 2, 1, ("tests.a::test_bad[x`y\nz]",)),
            Outcome("ci", 6, broke_off="pytest ended with code 2"),
        ),
    )
    text = page(night)
    for line in (
        "| Date | 2026-01-02 03:04 UTC |",
        "| Commit | abc |",
        "| Seed | 7, of the tests' order, of `random` and of Hypothesis |",
        "| Result | 2 failed; ci broke off; 4 passed |",
        "| `check` | 3 | 0 | 0 | 1.5 |",
        "| `core` | 1 | 2 | 1 | 1.0 |",
        "- `tests.a::test_bad[x'y z]`",
        "- tier `ci`: pytest ended with code 2",
    ):
        assert line in text.splitlines()
    assert "--seed 7" in text
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


def test_a_good_night_has_no_failures() -> None:
    text = page(Night("2026-01-02 03:04 UTC", "abc", 7, (Outcome("check", 1, passed=3),)))
    assert "| Result | all 3 passed |" in text
    assert text.endswith("## Failures\n\nNone.\n")


@pytest.mark.parametrize(("bad", "code"), [("", 0), ("ci", 1)])
def test_a_night_runs_to_its_end_and_writes_its_page(
    project: Path, capsys: pytest.CaptureFixture[str], bad: str, code: int
) -> None:
    ran = []

    def runner(tier: str, seed: int, report: Path) -> int:
        ran.append((tier, seed))
        report.write_text(SUITE if tier == bad else CLEAN)
        return int(tier == bad)

    assert code == main(["--seed", "7"], root=project, runner=runner)
    assert [(tier, 7) for tier in TIERS] == ran
    text = (project / nightly.PAGE).read_text()
    assert ("- `tests.b::test_set_up`" in text) is bool(bad)
    assert "wrote docs/reference/nightly.md: " in capsys.readouterr().out


def test_the_commit_says_whether_the_tree_differs_from_it(project: Path) -> None:
    head = commit(project)
    assert 40 == len(head)
    (project / nightly.PAGE).parent.mkdir(parents=True)
    (project / nightly.PAGE).write_text("the last page")
    assert head == commit(project)
    (project / "file").write_text("two")
    assert f"{head}, with changes that are not committed" == commit(project)
