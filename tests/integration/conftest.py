"""A namespace of each test's own, with a LocalQueue for every queue of the sandbox."""

import uuid
from collections.abc import Iterator

import pytest

from gpustack_deploy.sandbox import Sandbox
from tests.integration.place import Place


@pytest.fixture
def place(sandbox: Sandbox) -> Iterator[Place]:
    name = f"role-{uuid.uuid4().hex[:8]}"
    sandbox.add_namespace(name)
    made = Place(sandbox, name)
    yield made
    made.clear()
