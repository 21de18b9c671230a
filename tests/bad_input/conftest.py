"""A provider on a cluster in memory, a namespace on the sandbox, and a stack of the real CLI."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpustack_deploy.sandbox import Sandbox
from tests.integration.conftest import place
from tests.pulumi.conftest import _fresh_run, checked, cluster, provider
from tests.pulumi.stack import Stack

__all__ = ["_fresh_run", "checked", "cluster", "place", "provider"]


@pytest.fixture
def stack(sandbox: Sandbox, tmp_path: Path) -> Iterator[Stack]:
    namespace = f"bad-{uuid.uuid4().hex[:8]}"
    sandbox.add_namespace(namespace)
    made = Stack(sandbox, tmp_path, namespace)
    yield made
    made.destroy()
