"""The pages say what they should, in the project's words, and their links lead somewhere."""

import re
from collections import Counter
from pathlib import Path

import pytest

from scripts.generate import generated, outdated
from tests.house.tree import ROOT, files, lines

pytestmark = pytest.mark.check

DECISIONS = ROOT / "docs" / "explanation" / "decisions.md"
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
# Synonyms that have one word here already; whole words, whatever their case.
SAY_INSTEAD = {
    "gang": "pod group",
    "lane": "LocalQueue",
    "neighbour": "sibling",
    "podset group": "PodSet",
    "re-admission": "fresh admission",
    "readmission": "fresh admission",
    "sku": "flavor",
    "spec hash": "fingerprint",
    "vgpu": "slice or partition",
    "victim": "departing",
}


def without_code(text: str) -> str:
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


def anchor(heading: str) -> str:
    """The anchor that a Markdown page gives a heading."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")


def anchors(page: Path) -> set[str]:
    text = without_code(page.read_text())
    return {anchor(heading) for heading in re.findall(r"^#+ +(.+)$", text, re.MULTILINE)}


def broken_links(page: Path) -> list[str]:
    broken = []
    for target in LINK.findall(without_code(page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, fragment = target.partition("#")
        leads_to = (page.parent / name).resolve() if name else page
        if not leads_to.exists() or (
            fragment and leads_to.suffix == ".md" and fragment not in anchors(leads_to)
        ):
            broken.append(target)
    return broken


def test_links_lead_somewhere() -> None:
    broken = {
        str(page.relative_to(ROOT)): found
        for page in files("*.md")
        if (found := broken_links(page))
    }
    assert {} == broken


def test_finds_a_broken_link(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One two\n[a](#one-two) [b](#three) [c](absent.md) ![d](https://x.y)\n")
    assert ["#three", "absent.md"] == broken_links(page)


def test_the_readme_names_files_that_exist() -> None:
    text = without_code((ROOT / "README.md").read_text())
    named = re.findall(
        r"`((?:gpustack_deploy|providers|scripts|examples|stacks|docs)/[\w./-]*)", text
    )
    assert named
    assert [] == [name for name in named if not (ROOT / name).exists()]


def test_pages_name_targets_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named = {
        target
        for page in files("*.md")
        for target in re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text(), re.MULTILINE)
    }
    assert set() == named - targets


def test_the_decisions_are_all_there_in_order() -> None:
    headings = re.findall(r"^## (D\d+) \S.*$", DECISIONS.read_text(), re.MULTILINE)
    assert [f"D{number}" for number in range(1, 30)] == headings


def test_no_decision_is_empty() -> None:
    sections = re.split(r"^## D\d+ .*$", DECISIONS.read_text(), flags=re.MULTILINE)[1:]
    assert [] == [number for number, text in enumerate(sections, 1) if len(text.split()) < 20]


def test_every_decision_that_is_named_exists() -> None:
    named = Counter(
        int(number)
        for path in files("gpustack_deploy/*.py", "providers/*.py", "*.md")
        for number in re.findall(r"\bD(\d+)\b", path.read_text())
    )
    assert [] == [number for number in named if number not in range(1, 30)]


def test_generated_files_are_what_the_generators_write() -> None:
    assert [] == outdated()


def test_generators_write_the_same_twice() -> None:
    assert generated() == generated()


@pytest.mark.parametrize(("word", "instead"), SAY_INSTEAD.items())
def test_one_word_for_one_thing(word: str, instead: str) -> None:
    pattern = re.compile(rf"\b{re.escape(word)}s?\b", re.IGNORECASE)
    found = [
        place
        for place, line in lines("*.md", "gpustack_deploy/*.py", "providers/*.py")
        if pattern.search(line)
    ]
    assert [] == found, f"say {instead!r}"
