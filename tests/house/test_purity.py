"""model and plan are functions of their arguments: what the import contracts cannot see."""

import ast
from collections.abc import Iterator

import pytest

from tests.house.tree import ROOT, files

pytestmark = pytest.mark.check

# Calls that read a clock, the disk, the network, the environment or chance.
IMPURE = {
    "date.today",
    "datetime.now",
    "datetime.today",
    "datetime.utcnow",
    "input",
    "open",
    "print",
    "uuid.uuid1",
    "uuid.uuid4",
    "uuid1",
    "uuid4",
}


def calls(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield node.lineno, ".".join(ast.unparse(node.func).split(".")[-2:])


def impure(source: str) -> list[str]:
    return [f"{line}: {name}" for line, name in calls(ast.parse(source)) if name in IMPURE]


def test_finds_an_impure_call() -> None:
    source = "import datetime\nnow = datetime.datetime.now(datetime.UTC)\ntext = open('f').read()\n"
    assert ["2: datetime.now", "3: open"] == impure(source)


def test_model_and_plan_call_nothing_impure() -> None:
    found = {
        str(path.relative_to(ROOT)): calls_found
        for path in files("gpustack_deploy/model/*.py", "gpustack_deploy/plan/*.py")
        if (calls_found := impure(path.read_text()))
    }
    assert {} == found
