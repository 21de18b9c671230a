"""A user's program under mypy --strict and pyright: what is right passes, what is wrong shows."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.core

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("api.py")

WRONG = """
import pulumi_gpustack as gpustack

gpustack.Role(name="server", instance_type="h200", replicas="two")
gpustack.Role(name="server", instance_type="h200", sise=2)
gpustack.ModelDeployment("chat", model="m", engine={"nam": "vLLM"}, roles=[])
"""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "command",
    [("mypy", "--strict"), ("pyright", "--pythonpath", sys.executable)],
    ids=["mypy", "pyright"],
)
def test_the_program_passes_and_mistakes_do_not(tmp_path: Path, command: tuple[str, ...]) -> None:
    right = run(*command, str(PROGRAM))
    assert 0 == right.returncode, right.stdout + right.stderr

    mistakes = tmp_path / "mistakes.py"
    mistakes.write_text(WRONG)
    wrong = run(*command, str(mistakes))
    assert 1 == wrong.returncode
    for line in (4, 5, 6):
        assert f"mistakes.py:{line}:" in wrong.stdout, wrong.stdout
