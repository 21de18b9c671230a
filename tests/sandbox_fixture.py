"""One control plane for a whole test run; a test that asks for it fails when it cannot start."""

import os
from collections.abc import Iterator

import pytest

from gpustack_deploy.sandbox import Sandbox


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    """A sandbox of this run's own, with an audit log; ended with the run."""
    with Sandbox.up(f"test-{os.getpid()}", audit_log=True, owned=True) as running:
        yield running
