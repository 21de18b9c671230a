"""Each missing tool is one sentence with a hint, before anything else happens."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpustack_deploy.sandbox.parts import part_key, parts_for
from tests.house.tree import ROOT

pytestmark = pytest.mark.check

MAKE = shutil.which("make") or "make"
PLAIN = ("sh", "env", "uname", "git", "make", "cat", "cksum", "rm")
PYTHON = str(Path(sys._base_executable))  # type: ignore[attr-defined]
Bin = Callable[..., Path]


@pytest.fixture
def bin_dir(tmp_path: Path) -> Bin:
    """Make a folder that is a whole PATH: all that is needed, less one, or with stand-ins."""

    def build(*, without: str = "", **stand_ins: str) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir()
        programs = {name: shutil.which(name) for name in PLAIN}
        programs |= {"python3": PYTHON, "go": shutil.which("go") or "/bin/false"}
        for name, target in programs.items():
            if name != without and name not in stand_ins and target is not None:
                (folder / name).symlink_to(target)
        for name, script in stand_ins.items():
            (folder / name).write_text(f"#!/bin/sh\n{script}\n")
            (folder / name).chmod(0o755)
        return folder

    return build


def environment(folder: Path) -> dict[str, str]:
    """Nothing but this PATH; an empty cache, so that the sandbox would have to be built."""
    return {
        "PATH": str(folder),
        "HOME": str(folder.parent),
        "GPUSTACK_CACHE_DIR": str(folder.parent / "cache"),
    }


def prerequisites(folder: Path) -> subprocess.CompletedProcess[str]:
    command = ["/bin/sh", str(ROOT / "scripts" / "prerequisites"), "--go"]
    return subprocess.run(
        command, env=environment(folder), capture_output=True, text=True, check=False
    )


GO = 'case "$1" in env) echo go1.26.1;; esac'


def test_prints_the_python_when_nothing_is_missing(bin_dir: Bin) -> None:
    done = prerequisites(bin_dir(go=GO))
    assert (0, "python3\n", "") == (done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    ("missing", "found", "hint"),
    [
        ("git", "git is not on PATH", "apt-get install git"),
        ("make", "make is not on PATH", "apt-get install make"),
        ("python3", "Python 3.11 or newer is not on PATH", "apt-get install python3 python3-venv"),
        ("go", "Go is not on PATH", "install Go 1.26 or newer"),
    ],
)
def test_names_a_missing_tool(bin_dir: Bin, missing: str, found: str, hint: str) -> None:
    folder = bin_dir(without=missing) if missing == "go" else bin_dir(without=missing, go=GO)
    done = prerequisites(folder)
    assert 1 == done.returncode
    assert "" == done.stdout
    assert 1 == len(done.stderr.splitlines())
    assert done.stderr.startswith(found)
    assert hint in done.stderr


@pytest.mark.parametrize(
    ("stand_in", "found"),
    [
        ({"uname": "echo Darwin"}, "This is Darwin and the control plane needs Linux"),
        ({"python3": "exit 1"}, "python3 is older than the Python 3.11 that is needed"),
        (
            {"python3": f'case "$2" in *venv*) exit 1;; esac; exec {PYTHON} "$@"'},
            "python3 has no venv module",
        ),
        ({"go": "echo go1.22.4"}, "go is go1.22.4, older than"),
    ],
)
def test_names_a_tool_that_will_not_do(bin_dir: Bin, stand_in: dict[str, str], found: str) -> None:
    done = prerequisites(bin_dir(**{"go": GO, **stand_in}))
    assert 1 == done.returncode
    assert found in done.stderr
    assert 1 == len(done.stderr.splitlines())


def test_names_everything_at_once(bin_dir: Bin) -> None:
    folder = bin_dir(go=GO)
    (folder / "git").unlink()
    (folder / "python3").unlink()
    done = prerequisites(folder)
    assert ["git", "Python"] == [line.split()[0] for line in done.stderr.splitlines()]


def test_go_is_not_asked_for_once_everything_is_built(bin_dir: Bin, tmp_path: Path) -> None:
    for part in parts_for(frozenset()):
        (tmp_path / "cache" / "parts" / part.name / part_key(part)).mkdir(parents=True)
    done = prerequisites(bin_dir(without="go"))
    assert (0, "") == (done.returncode, done.stderr)


@pytest.mark.parametrize("target", ["demo", "test"])
@pytest.mark.parametrize("missing", ["git", "make", "python3", "go"])
def test_make_says_it_before_anything_else(
    bin_dir: Bin, tmp_path: Path, target: str, missing: str
) -> None:
    folder = bin_dir(without=missing)
    venv = tmp_path / "venv"
    done = subprocess.run(
        [MAKE, "--no-print-directory", target, f"VENV={venv}"],
        cwd=ROOT,
        env=environment(folder),
        capture_output=True,
        text=True,
        check=False,
    )
    assert 2 == done.returncode, done.stderr
    assert "" == done.stdout
    sentences = [line for line in done.stderr.splitlines() if "***" not in line]
    assert 1 == len(sentences)
    assert "install" in sentences[0]
    assert not venv.exists()
    assert not (tmp_path / "cache").exists()


def test_the_scripts_need_no_more_than_the_shell(tmp_path: Path) -> None:
    """On an empty PATH every sentence still comes."""
    done = subprocess.run(
        ["/bin/sh", str(ROOT / "scripts" / "prerequisites"), "--go"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert 1 == done.returncode
    assert [
        "This", "git", "make", "Python", "Go",
    ] == [line.split()[0] for line in done.stderr.splitlines()]  # fmt: skip


def test_setup_passes_the_refusal_on(bin_dir: Bin, tmp_path: Path) -> None:
    done = subprocess.run(
        ["/bin/sh", str(ROOT / "scripts" / "setup")],
        env=environment(bin_dir(without="git")) | {"VENV": str(tmp_path / "venv")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert 1 == done.returncode
    assert done.stderr.startswith("git is not on PATH")
    assert not os.path.lexists(tmp_path / "venv")
