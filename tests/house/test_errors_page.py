"""The page of errors leaves nothing out: each error and each code has its cause and remedy."""

from types import ModuleType

import pytest

from gpustack_deploy.model import errors
from gpustack_deploy.plan.checks import WaitCode
from scripts.generators import errors as page
from tests.house.tree import ROOT

pytestmark = pytest.mark.check

TEXT = (ROOT / page.PAGE).read_text()


@pytest.mark.parametrize("name", sorted(page.error_names(errors)))
def test_every_error_is_on_the_page(name: str) -> None:
    assert f"\n| `{name}` | " in TEXT


@pytest.mark.parametrize("code", WaitCode)
def test_every_code_is_on_the_page(code: WaitCode) -> None:
    assert f"\n| `{code}` | " in TEXT


def test_every_row_has_a_cause_and_a_remedy() -> None:
    rows = (*page.ERRORS.values(), *page.WAITING.values())
    assert [] == [
        row for row in rows if not row.cause.endswith(".") or not row.remedy.endswith(".")
    ]


def test_errors_are_found_in_the_module_that_defines_them() -> None:
    module = ModuleType("mine")
    mine = type("Mine", (errors.Refused,), {"__module__": "mine"})
    vars(module).update(Mine=mine, Refused=errors.Refused, text="x")
    assert {"Mine"} == page.error_names(module)


@pytest.mark.parametrize(
    ("table", "name", "what"),
    [("ERRORS", "LockHeld", "errors"), ("WAITING", WaitCode.NOT_READY, "codes of WaitCode")],
)
def test_a_missing_row_is_named(
    monkeypatch: pytest.MonkeyPatch, table: str, name: str, what: str
) -> None:
    rows = getattr(page, table)
    monkeypatch.setattr(page, table, {each: rows[each] for each in rows if each != name})
    with pytest.raises(SystemExit, match=f"{name}: {what} and rows of"):
        page.generate()
