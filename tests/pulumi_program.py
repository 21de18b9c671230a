"""Pulumi programs under the SDK's mocks: run one, and see what it registered."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pulumi
import pytest
from pulumi.runtime import mocks, stack, sync_await

ROLE_TYPE = "pulumi-python:dynamic/gpustack:ModelDeploymentRole"


class Engine(mocks.Mocks):
    """Answers registrations as a preview does: inputs come back as outputs."""

    def __init__(self) -> None:
        self.made: dict[str, mocks.MockResourceArgs] = {}
        self.requests: dict[str, Any] = {}

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        self.made[args.name] = args
        front, role = args.inputs.get("frontRole"), args.inputs.get("role")
        host = "chat" if front == role else f"chat-{role}"
        return f"{args.name}-id", {**args.inputs, "endpoint": f"http://{host}.ml.svc:8000"}

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[str, Any], None]:
        return {}, None

    def inputs(self, name: str) -> dict[str, Any]:
        return dict(self.made[name].inputs)

    @property
    def roles(self) -> list[str]:
        """The names of the roles' resources, in order of registration."""
        return [name for name, made in self.made.items() if made.typ == ROLE_TYPE]


@contextmanager
def mocked_engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """An engine for one program; every loop that the mocks make is closed in the end."""
    loops: list[asyncio.AbstractEventLoop] = []
    make = asyncio.new_event_loop

    def remember() -> asyncio.AbstractEventLoop:
        loops.append(make())
        return loops[-1]

    # The mocks make a loop in each thread they answer from, and leave it open.
    monkeypatch.setattr(asyncio, "new_event_loop", remember)
    asyncio.set_event_loop(asyncio.new_event_loop())
    made = Engine()
    pulumi.runtime.set_mocks(made, "shop", "dev", preview=False)
    yield made
    loops[0].run_until_complete(loops[0].shutdown_default_executor())
    asyncio.set_event_loop(None)
    for loop in loops:
        loop.close()


def run(program: Callable[[], Any]) -> None:
    """Run the program to its end, as `pulumi` does."""

    async def main() -> None:
        program()

    sync_await._sync_await(stack.run_pulumi_func(main))
