"""Typed reads of raw objects: a foreign shape is an absence, never an exception."""

from typing import Any

import pytest

from gpustack_deploy.model.raw import count_text, list_at, mapping_at, text_at

pytestmark = pytest.mark.check

POD = {"metadata": {"name": "m0", "labels": {"a": "b"}, "generation": 3}, "items": [{"x": 1}, 2]}


@pytest.mark.parametrize(
    ("path", "want"),
    [
        pytest.param(("metadata", "labels"), {"a": "b"}, id="there"),
        pytest.param((), POD, id="the object itself"),
        pytest.param(("metadata", "annotations"), {}, id="absent"),
        pytest.param(("metadata", "name"), {}, id="a text"),
        pytest.param(("metadata", "name", "deeper"), {}, id="below a text"),
        pytest.param(("items",), {}, id="a list"),
    ],
)
def test_a_mapping_or_an_empty_one(path: tuple[str, ...], want: Any) -> None:
    assert want == mapping_at(POD, *path)


@pytest.mark.parametrize(
    ("path", "want"),
    [
        pytest.param(("metadata", "name"), "m0", id="there"),
        pytest.param(("metadata", "uid"), "", id="absent"),
        pytest.param(("metadata", "generation"), "", id="a number"),
        pytest.param(("spec", "nodeName"), "", id="below an absence"),
    ],
)
def test_a_text_or_an_empty_one(path: tuple[str, ...], want: str) -> None:
    assert want == text_at(POD, *path)


@pytest.mark.parametrize(
    ("raw", "want"),
    [
        pytest.param([{"x": 1}, 2, None, "t"], ({"x": 1},), id="only the mappings count"),
        pytest.param("text", (), id="a text is no list"),
        pytest.param({"x": 1}, (), id="a mapping is no list"),
        pytest.param(None, (), id="nothing"),
    ],
)
def test_the_mappings_of_a_list_or_nothing(raw: Any, want: Any) -> None:
    assert want == list_at({"items": raw}, "items")


@pytest.mark.parametrize(
    ("text", "want"),
    [("0", 0), ("12", 12), ("", None), ("-1", None), ("01", None), ("1.0", None), ("²", None)],
)
def test_only_plain_digits_spell_a_count(text: str, want: int | None) -> None:
    assert want == count_text(text)
