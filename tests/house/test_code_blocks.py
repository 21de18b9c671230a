"""Every program on a page runs and its roles are accepted; every declaration there is one."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from gpustack_deploy.model.spec import parse_deployment
from pulumi_gpustack import _connection, _siblings
from pulumi_gpustack._outputs import COMPUTED
from pulumi_gpustack.role_provider import RoleProvider
from tests.house.tree import ROOT, files
from tests.pulumi_program import Engine, mocked_engine, run

pytestmark = pytest.mark.check

FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SCHEMA = ROOT / "docs" / "reference" / "schema.json"


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block with its place, `page:line`."""

    place: str
    language: str
    text: str


def blocks(page: Path, *languages: str) -> list[Block]:
    """The page's blocks in one of these languages."""
    text = page.read_text()
    return [
        Block(f"{page.name}:{text.count(chr(10), 0, found.start(2)) + 1}", found[1], found[2])
        for found in FENCED.finditer(text)
        if found[1] in languages
    ]


def on_every_page(*languages: str) -> list[Any]:
    return [
        pytest.param(block, id=block.place)
        for page in files("*.md")
        for block in blocks(page, *languages)
    ]


PROGRAMS = on_every_page("python")
DATA = on_every_page("yaml", "json")


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    _connection.forget()
    _siblings.forget()
    with mocked_engine(monkeypatch) as made:
        yield made
    _connection.forget()
    _siblings.forget()


def refused(engine: Engine, block: Block) -> list[tuple[str, str, str]]:
    """Run the block; return what `check` refuses of its roles as (role, path, sentence)."""
    code = compile(block.text, block.place, "exec")
    run(lambda: exec(code, {"__name__": "__main__"}))  # noqa: S102 - a page of this repository
    return [
        (name, failure.property, failure.reason)
        for name in engine.roles
        for failure in RoleProvider().check({}, engine.inputs(name)).failures
    ]


@pytest.mark.parametrize("block", PROGRAMS)
def test_a_program_s_roles_are_accepted(
    engine: Engine, capsys: pytest.CaptureFixture[str], block: Block
) -> None:
    assert [] == refused(engine, block)
    if engine.roles:
        # Without a kubeconfig the cluster is not asked, which is said once and refuses nothing.
        assert 1 == capsys.readouterr().err.count("the cluster could not be asked")


def test_the_pages_show_a_server_and_a_pair(engine: Engine) -> None:
    for parameters in PROGRAMS:
        refused(engine, parameters.values[0])
    kinds = {engine.inputs(name).get("kind", "Server") for name in engine.roles}
    assert {"Server", "Prefill", "Decode"} == kinds


def test_what_check_refuses_in_a_program_is_found(engine: Engine) -> None:
    [readme] = blocks(ROOT / "README.md", "python")
    wrong = Block(readme.place, "python", readme.text.replace("replicas=2", "replicas=0"))
    assert [("chat-server", "replicas")] == [found[:2] for found in refused(engine, wrong)]


def test_check_adds_what_a_program_exports(engine: Engine) -> None:
    [readme] = blocks(ROOT / "README.md", "python")
    assert [] == refused(engine, readme)
    checked = RoleProvider().check({}, engine.inputs("chat-server")).inputs
    assert set(COMPUTED) <= checked.keys()
    assert "http://chat.ml.svc:8000" == checked["endpoint"]


@pytest.mark.parametrize("block", DATA)
def test_a_declaration_in_a_file_is_accepted_and_fits_the_schema(block: Block) -> None:
    data = json.loads(block.text) if block.language == "json" else yaml.safe_load(block.text)
    if not isinstance(data, dict) or "roles" not in data:
        return
    parse_deployment(data)
    schema = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
    assert [] == [error.message for error in schema.iter_errors(data)]


def test_the_pages_show_declarations_as_yaml_and_as_json() -> None:
    page = ROOT / "docs" / "reference" / "declaration.md"
    assert ["yaml", "json"] == [block.language for block in blocks(page, "yaml", "json")]


def test_a_block_is_found_with_its_place(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One\n```python\na = 1\n```\n```sh\nls\n```\n\n```python\nb = 2\n```\n")
    want = [Block("page.md:3", "python", "a = 1\n"), Block("page.md:10", "python", "b = 2\n")]
    assert want == blocks(page, "python")
