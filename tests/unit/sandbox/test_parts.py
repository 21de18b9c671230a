from dataclasses import replace
from pathlib import Path

import pytest

from gpustack_deploy.sandbox import parts
from gpustack_deploy.sandbox.parts import PARTS, Patch, is_built, part_dir, part_key, parts_for

pytestmark = pytest.mark.check


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One tools module of the test's own, and an empty cache."""
    module = tmp_path / "tools" / "module"
    module.mkdir(parents=True)
    (module / "go.mod").write_text("module m\n")
    (module / "go.sum").write_text("sum\n")
    monkeypatch.setattr(parts, "TOOLS_DIR", tmp_path / "tools")
    monkeypatch.setenv("GPUSTACK_CACHE_DIR", str(tmp_path / "cache"))
    return module


PART = parts.Part("etcd", "module", "v1", seconds=1, mib=1, package="example.org/etcd")


def test_the_key_is_the_same_for_the_same_inputs(tools: Path) -> None:
    assert part_key(PART) == part_key(replace(PART))


@pytest.mark.parametrize("file", ["go.mod", "go.sum"])
def test_the_key_changes_with_the_pinned_modules(tools: Path, file: str) -> None:
    before = part_key(PART)
    (tools / file).write_text("something else\n")
    assert before != part_key(PART)


@pytest.mark.parametrize(
    "changed",
    [
        replace(PART, ldflags=("-X a=b",)),
        replace(PART, package="example.org/other"),
        replace(PART, patch=Patch("m", "main.go", "old", "new")),
    ],
    ids=["ldflags", "package", "patch"],
)
def test_the_key_changes_with_how_the_part_is_built(tools: Path, changed: parts.Part) -> None:
    assert part_key(PART) != part_key(changed)


def test_announced_cost_and_version_do_not_change_the_key(tools: Path) -> None:
    assert part_key(PART) == part_key(replace(PART, seconds=99, mib=99))


def test_only_a_complete_part_counts_as_built(tools: Path) -> None:
    part_dir(PART).parent.mkdir(parents=True)
    assert not is_built(PART)
    part_dir(PART).mkdir()
    assert is_built(PART)


def test_every_part_has_its_pinned_module_and_a_way_to_be_made() -> None:
    for part in PARTS:
        assert (parts.TOOLS_DIR / part.tools / "go.mod").is_file()
        assert bool(part.package) != bool(part.copies), part.name


def test_optional_parts_are_built_on_request_only() -> None:
    always = {part.name for part in parts_for(frozenset())}
    asked = {part.name for part in parts_for(frozenset({"dns"}))}
    assert {"coredns"} == asked - always


def test_versions_are_those_of_the_pinned_modules() -> None:
    for part in PARTS:
        module = (parts.TOOLS_DIR / part.tools / "go.mod").read_text()
        assert part.tools == "certs" or f" {part.version}" in module, part.name
