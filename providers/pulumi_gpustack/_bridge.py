"""What the dynamic SDK does not pass on: request, call's end, partial state, a wider pool (D21).

All of it is found by looking at the running call and has a plain fallback, so that only comfort
depends on it. One contract test on the real engine pins what is found here.
"""

import asyncio
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import grpc  # type: ignore[import-untyped]
from google.protobuf import any_pb2  # type: ignore[import-untyped]
from google.protobuf.message import Message  # type: ignore[import-untyped]
from pulumi.runtime import rpc
from pulumi.runtime.proto import provider_pb2, status_pb2

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
        return self._ended.is_set() or _host_gone.is_set()

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
    for name, found in _frames():
        if name == "wrapper" and _is_servicer_call(found):
            call = Call(found["request"], found["context"], _widen_pool())
            if not call.context.add_callback(call._ended.set):  # noqa: SLF001 - its own event
                call._ended.set()  # noqa: SLF001
            _watch_host()
            return call
    return Call()


def _frames() -> Iterator[tuple[str, Mapping[str, Any]]]:
    frame = sys._getframe(2)  # noqa: SLF001 - there is no public way to the caller's locals
    while frame is not None:
        yield frame.f_code.co_name, frame.f_locals
        frame = frame.f_back  # type: ignore[assignment]


def _is_servicer_call(found: Mapping[str, Any]) -> bool:
    return hasattr(found.get("request"), "urn") and all(
        hasattr(found.get("context"), name) for name in ("set_trailing_metadata", "add_callback")
    )


def _widen_pool() -> bool:
    """Give the dynamic host more than its four workers, so that no role waits for another (D24)."""
    for name, found in _frames():
        pool = found.get("executor_reference") if name == "_worker" else None
        executor: Any = pool() if callable(pool) else None
        if isinstance(getattr(executor, "_max_workers", None), int):
            executor._max_workers = max(executor._max_workers, WORKERS)  # noqa: SLF001
            return True
    return False


_host_gone: Final = threading.Event()
_host_lock: Final = threading.Lock()
_host_watchers: Final[list[threading.Thread]] = []


def _watch_host(stdin: int = 0, ended: Callable[[], None] = _host_gone.set) -> None:
    """Notice a killed CLI: it holds the other end of this process's standard input."""

    def wait_for_end() -> None:
        try:
            while os.read(stdin, 1024):
                pass
        except OSError:
            return
        ended()

    with _host_lock:
        try:
            is_pipe = stat.S_ISFIFO(os.fstat(stdin).st_mode)
        except OSError:
            is_pipe = False
        if is_pipe and not _host_watchers:
            watcher = threading.Thread(target=wait_for_end, name="host-watcher", daemon=True)
            _host_watchers.append(watcher)
            watcher.start()
