"""What must not stand in any file of the tree, and what must."""

import json
import re
import tomllib

import pytest

from gpustack_deploy import __version__
from tests.house.tree import ROOT, files, lines

pytestmark = pytest.mark.check

# Written in pieces, so that this file is not its own finding.
MACHINE_PATH = re.compile(r"(^|[^A-Za-z0-9_.])/(root|work|farm|home|Users)/")
REGISTRY_HOSTS = tuple(
    ".".join(pieces)
    for pieces in (
        ("pypi", "org"),
        ("files", "pythonhosted", "org"),
        ("registry", "npmjs", "org"),
        ("proxy", "golang", "org"),
        ("sum", "golang", "org"),
        ("repo1", "maven", "org"),
    )
)


def test_no_path_of_one_machine() -> None:
    found = [place for place, line in lines() if MACHINE_PATH.search(line)]
    assert [] == found


def test_no_page_that_is_not_here_is_cited() -> None:
    """A reader of the tree can look up everything that is named in it."""
    cited = re.compile(r"\b(behaviour|design|style) §|\b(design|style|behaviour)\.md\b")
    found = [place for place, line in lines(":!tests/house/*") if cited.search(line)]
    assert [] == found


def test_no_registry_host() -> None:
    found = [place for place, line in lines() if any(host in line for host in REGISTRY_HOSTS)]
    assert [] == found


@pytest.mark.parametrize(
    "name",
    [
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "LICENSE",
        "Makefile",
        "Pulumi.yaml",
        "README.md",
        ".ci/run",
        "requirements.lock",
        "gpustack_deploy/py.typed",
        "providers/pulumi_gpustack/py.typed",
    ],
)
def test_the_house_has(name: str) -> None:
    assert (ROOT / name).is_file()


@pytest.mark.parametrize("package", ["gpustack_deploy", "providers/pulumi_gpustack"])
def test_no_plugin_is_looked_for(package: str) -> None:
    plugin = json.loads((ROOT / package / "pulumi-plugin.json").read_text())
    assert {"resource": False} == plugin


def test_the_version_is_written_once() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert ["version"] == project["project"]["dynamic"]
    literal = re.compile(rf"version.*[\"'=]{re.escape(__version__)}\b", re.IGNORECASE)
    places = [
        place.partition(":")[0]
        for place, line in lines("*.py", "*.toml", "*.yaml", "*.json", ":!*/tools/*")
        if literal.search(line) and "__version__ =" not in line
    ]
    assert [] == places


def test_pulumi_kubernetes_is_only_in_its_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    holding = [
        name
        for name, listed in {"": project["dependencies"], **extras}.items()
        if any(entry.startswith("pulumi-kubernetes") for entry in listed)
    ]
    assert ["kubernetes"] == holding
    assert "pulumi-kubernetes" not in (ROOT / "requirements.lock").read_text()


def test_the_lock_is_names_and_pins() -> None:
    pins = [
        line
        for line in (ROOT / "requirements.lock").read_text().splitlines()
        if not line.startswith("#")
    ]
    assert [] == [line for line in pins if not re.fullmatch(r"[\w.-]+==[\w.]+", line)]
    names = [pin.partition("==")[0].lower() for pin in pins]
    assert sorted(names) == names


def test_modules_are_named_for_what_they_are() -> None:
    empty_words = {"utils", "util", "helpers", "common", "manager", "handler", "base", "misc"}
    named = [
        path.relative_to(ROOT)
        for path in files("gpustack_deploy/*.py", "providers/*.py")
        if empty_words & set(path.stem.split("_"))
    ]
    assert [] == named
