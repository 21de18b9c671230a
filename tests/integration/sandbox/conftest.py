"""A namespace of each test's own."""

import uuid
from collections.abc import Iterator

import pytest

from gpustack_deploy.sandbox import Sandbox
from tests.integration.sandbox.simulated_pods import Namespace


@pytest.fixture
def namespace(sandbox: Sandbox) -> Iterator[Namespace]:
    name = f"sandbox-{uuid.uuid4().hex[:8]}"
    sandbox.add_namespace(name)
    made = Namespace(sandbox, name)
    yield made
    made.clear()
