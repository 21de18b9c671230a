"""The closing line of the CI script counts what the reports say."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.tree import ROOT

pytestmark = pytest.mark.core

SUITE = '<testsuites><testsuite tests="{}" failures="{}" errors="{}" skipped="{}"/></testsuites>'


def closing_line(folder: Path) -> str:
    command = [sys.executable, str(ROOT / "scripts" / "count_tests.py"), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_adds_the_reports_up(tmp_path: Path) -> None:
    (tmp_path / "check.xml").write_text(SUITE.format(10, 1, 1, 2))
    (tmp_path / "ci.xml").write_text(SUITE.format(5, 0, 0, 0))
    assert "11 passed, 2 failed, 2 skipped\n" == closing_line(tmp_path)


def test_counts_nothing_where_nothing_ran(tmp_path: Path) -> None:
    assert "0 passed, 0 failed, 0 skipped\n" == closing_line(tmp_path)


@pytest.mark.parametrize(("marker", "code"), [("ci", 0), ("check", 1)])
def test_no_test_of_a_tier_is_no_failure(tmp_path: Path, marker: str, code: int) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n@pytest.mark.check\ndef test_it(): assert False\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  check: quick\n  ci: longer\n")
    done = subprocess.run(
        [ROOT / "scripts" / "pytest_allowing_none", sys.executable, "-m", marker],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert code == done.returncode, done.stdout
