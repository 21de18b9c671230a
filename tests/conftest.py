"""What holds for every test: one tier each, no real cluster or login, coroutines in debug mode."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

TIERS = ("check", "core", "ci", "nightly")

# The plugin starts a control plane when a test asks for one.
pytest_plugins = (
    ["tests.sandbox_fixture"] if Path(__file__).with_name("sandbox_fixture.py").exists() else []
)

# Every event loop reads this when it is made, and then reports coroutines never awaited.
os.environ["PYTHONASYNCIODEBUG"] = "1"

# Nothing of the person who runs the tests: no cluster, no login. A named file that does not exist
# also keeps a client from falling back to the one in the home folder.
for _name in ("PULUMI_ACCESS_TOKEN", "PULUMI_BACKEND_URL", "KUBERNETES_SERVICE_HOST"):
    os.environ.pop(_name, None)
os.environ["KUBECONFIG"] = str(Path(__file__).with_name("no-such-kubeconfig"))

settings.register_profile("quick", max_examples=60, deadline=None, print_blob=True)
settings.register_profile("thorough", max_examples=2000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a test that is in no tier or in two: it would run never or twice."""
    wrong = []
    for item in items:
        tiers = [marker.name for marker in item.iter_markers() if marker.name in TIERS]
        if len(tiers) != 1:
            wrong.append(f"{item.nodeid}: {', '.join(tiers) or 'none'}")
    if wrong:
        raise pytest.UsageError(
            f"each test carries exactly one of {', '.join(TIERS)}; these do not:\n  "
            + "\n  ".join(wrong)
        )
