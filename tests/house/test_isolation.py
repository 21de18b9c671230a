"""No target reads the clusters and logins of the person who runs it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.under_trap import TOUCHED, main
from tests.house.tree import ROOT

pytestmark = pytest.mark.check


def shown_by_make(recipe: str, **environment: str) -> str:
    """What a recipe of the Makefile prints."""
    done = subprocess.run(
        ["make", "--no-print-directory", f"--eval=shown: ; @{recipe}", "shown"],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_recipes_run_without_cluster_and_login() -> None:
    mine = {
        "KUBECONFIG": "mine",
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
        "PULUMI_ACCESS_TOKEN": "pul-mine",
        "PULUMI_BACKEND_URL": "https://mine",
    }
    shown = shown_by_make("$(ALONE) env", **mine)
    assert [] == [value for value in mine.values() if value in shown.splitlines()]
    kubeconfig = next(line for line in shown.splitlines() if line.startswith("KUBECONFIG="))
    assert not Path(kubeconfig.partition("=")[2]).exists()


def test_every_recipe_that_runs_the_product_runs_alone() -> None:
    recipes = [
        line
        for line in (ROOT / "Makefile").read_text().splitlines()
        if line.startswith("\t")
        and any(word in line for word in ("PYTEST", "demo.py", "-m ci", "nightly.py"))
    ]
    assert recipes
    assert [] == [line for line in recipes if "$(ALONE)" not in line]


def test_tests_run_without_cluster_and_login() -> None:
    assert not Path(os.environ["KUBECONFIG"]).exists()
    assert "PULUMI_ACCESS_TOKEN" not in os.environ


def test_the_trap_notices_a_request(capfd: pytest.CaptureFixture[str]) -> None:
    read = (
        "import json, os, pathlib, urllib.request\n"
        "config = json.loads(pathlib.Path(os.environ['KUBECONFIG']).read_text())\n"
        "urllib.request.urlopen(config['clusters'][0]['cluster']['server'])\n"
    )
    assert TOUCHED == main([sys.executable, "-c", read])
    assert "must ignore both" in capfd.readouterr().err


def test_the_trap_passes_the_exit_code_on() -> None:
    assert 7 == main([sys.executable, "-c", "raise SystemExit(7)"])
