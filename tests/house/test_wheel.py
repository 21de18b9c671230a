"""The wheel holds both packages with their data, and works in a clean environment elsewhere."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from gpustack_deploy import __version__
from tests.house.tree import ROOT, files

pytestmark = [pytest.mark.ci, pytest.mark.timeout(600)]


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    run(*build, "--wheel-dir", folder, ROOT, cwd=folder)
    (made,) = folder.glob("*.whl")
    return made


def test_the_wheel_holds_every_file_of_both_packages(wheel: Path) -> None:
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    tracked = {
        str(path.relative_to(ROOT)).removeprefix("providers/")
        for path in files("gpustack_deploy", "providers")
    }
    assert tracked == packed


def test_the_wheel_works_in_a_clean_environment_elsewhere(wheel: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    pins = ROOT / "requirements.lock"
    run(python, "-m", "pip", "install", "--quiet", "--constraint", pins, wheel, cwd=tmp_path)
    shown = run(
        python,
        "-c",
        "import pulumi_gpustack, gpustack_deploy.sandbox.parts as parts\n"
        "print(pulumi_gpustack.ModelDeployment.__name__, pulumi_gpustack.__file__)\n"
        "print(all((parts.TOOLS_DIR / part.tools / 'go.mod').exists() for part in parts.PARTS))\n",
        cwd=tmp_path,
    )
    assert shown.startswith("ModelDeployment ")
    assert str(tmp_path) in shown
    assert shown.endswith("True\n")
    command = tmp_path / "venv" / "bin" / "gpustack-deploy"
    assert f"gpustack-deploy {__version__}\n" == run(command, "--version", cwd=tmp_path)
    assert "sandbox" in run(command, "--help", cwd=tmp_path)
