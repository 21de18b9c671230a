"""What the dynamic SDK does not pass on: request, call's end, partial state, a wider pool (D21).

All of it is found by looking at the running call and has a plain fallback, so that only comfort
depends on it. One contract test on the real engine pins what is found here.
"""

import asyncio
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final

import grpc  # type: ignore[import-untyped]
from google.protobuf import any_pb2  # type: ignore[import-untyped]
from google.protobuf.message import Message  # type: ignore[import-untyped]
from pulumi.runtime import rpc
from pulumi.runtime.proto import provider_pb2, status_pb2

from pulumi_gpustack import _host

WORKERS: Final = 64
DETAILS_KEY: Final = "grpc-status-details-bin"

Properties = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """The provider call that runs in this thread; without an engine, nothing is known of it."""

    request: Any = None
    context: Any = None
    has_wide_pool: bool = False
    _ended: threading.Event = field(default_factory=threading.Event)

    @property
    def urn(self) -> str:
        """The resource's URN, or nothing."""
        return str(getattr(self.request, "urn", ""))

    @property
    def timeout_seconds(self) -> float:
        """The custom timeout of this operation; 0 means none."""
        return float(getattr(self.request, "timeout", 0.0))

    def properties(self, name: str) -> Properties | None:
        """Return the request's properties of that name, unknown values kept, or None."""
        sent = getattr(self.request, name, None)
        if sent is None or not sent.fields:
            return None
        return dict(rpc.deserialize_properties(sent, keep_unknowns=True))

    def is_ending(self) -> bool:
        """Whether nobody waits for this call any more: it stops at the next step (D23)."""
        return self._ended.is_set() or _host.is_gone()

    def keep_partial(self, id_: str, outputs: Mapping[str, Any], reason: str) -> None:
        """Let the engine store these outputs although the call is about to raise."""
        if self.context is not None:
            sent = asyncio.run(rpc.serialize_properties(dict(outputs), {}))
            detail = provider_pb2.ErrorResourceInitFailed(id=id_, properties=sent, reasons=[reason])
            self._answer(reason, detail)

    def keep_awaiting(self, reason: str) -> None:
        """Let the engine count this resource as awaiting (exit code 10) when the call raises."""
        detail_type = getattr(provider_pb2, "ErrorResourceAwaitFailed", None)
        if self.context is not None and detail_type is not None:
            self._answer(reason, detail_type())

    def keep_message(self, reason: str) -> None:
        """Let the engine show this sentence instead of the traceback when the call raises."""
        if self.context is not None:
            self._answer(reason)

    def _answer(self, reason: str, *details: Message) -> None:
        status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=reason)
        for detail in details:
            packed = any_pb2.Any()
            packed.Pack(detail)
            status.details.append(packed)
        self.context.set_trailing_metadata(((DETAILS_KEY, status.SerializeToString()),))


def current_call() -> Call:
    """Return the provider call that the caller runs in; the first one also widens the pool."""
    frame = sys._getframe(1)  # noqa: SLF001 - there is no public way to the caller's locals
    found = _host.servicer_call(frame)
    if found is None:
        return Call()
    call = Call(found["request"], found["context"], _widen_pool(frame))
    if not call.context.add_callback(call._ended.set):  # noqa: SLF001 - its own event
        call._ended.set()  # noqa: SLF001
    _host.watch()
    return call


def _widen_pool(frame: FrameType) -> bool:
    """Give the dynamic host more than its four workers, so that no role waits for another (D24)."""
    for name, found in _host.frames(frame):
        pool = found.get("executor_reference") if name == "_worker" else None
        executor: Any = pool() if callable(pool) else None
        if isinstance(getattr(executor, "_max_workers", None), int):
            executor._max_workers = max(executor._max_workers, WORKERS)  # noqa: SLF001
            return True
    return False
