"""The test configuration does what CONTRIBUTING says: tiers, warnings as errors, debug mode."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.tree import ROOT

pytestmark = pytest.mark.core


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An empty project with this one's configuration."""
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path / "tests")
    return tmp_path


def run(project: Path, test: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (project / "tests" / "test_it.py").write_text(test)
    environment = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_refuses_a_test_in_no_tier_and_one_in_two(project: Path) -> None:
    done = run(
        project,
        "import pytest\n"
        "def test_none(): pass\n"
        "@pytest.mark.check\n@pytest.mark.core\n"
        "def test_both(): pass\n"
        "@pytest.mark.ci\n"
        "def test_one(): pass\n",
        "-m",
        "ci",
    )
    said = done.stdout + done.stderr
    assert pytest.ExitCode.USAGE_ERROR == done.returncode
    assert "test_it.py::test_none: none" in said
    assert "test_it.py::test_both: core, check" in said
    assert "test_one:" not in said


def test_refuses_a_marker_nobody_declared(project: Path) -> None:
    done = run(project, "import pytest\n@pytest.mark.chekc\ndef test_it(): pass\n")
    assert done.returncode != 0
    assert "'chekc' not found in `markers`" in done.stdout + done.stderr


def test_prints_the_seed_and_runs_coroutines_in_debug_mode(project: Path) -> None:
    done = run(
        project,
        "import asyncio, pytest\n"
        "@pytest.mark.check\n"
        "def test_it():\n"
        "    async def main(): return asyncio.get_running_loop().get_debug()\n"
        "    assert asyncio.run(main())\n",
    )
    assert 0 == done.returncode, done.stdout
    assert "Using --randomly-seed=" in done.stdout


def test_a_warning_fails_the_test(project: Path) -> None:
    done = run(
        project,
        "import pytest, socket, warnings\n"
        "pytestmark = pytest.mark.check\n"
        "def test_coroutine():\n"
        "    async def never(): pass\n"
        "    never()\n"
        "def test_socket(): socket.socket()\n"
        "def test_file(): open(__file__)\n"
        "def test_warning(): warnings.warn('old', DeprecationWarning)\n",
    )
    assert pytest.ExitCode.TESTS_FAILED == done.returncode, done.stdout
    assert "4 failed" in done.stdout
    for word in ("was never awaited", "unclosed <socket", "unclosed file", "old"):
        assert word in done.stdout
