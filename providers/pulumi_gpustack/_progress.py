"""What a running call tells the person who waits, on the resource's own line or stderr (D22)."""

import re
import sys
import threading
import time
from typing import Any, Final

import grpc  # type: ignore[import-untyped]
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc

HOW_TO_STOP: Final = "Ctrl-C twice stops here; `pulumi up` resumes"

_LOG_SECONDS: Final = 5.0
_LONG_SECONDS: Final = 10.0
_lock: Final = threading.Lock()
_stubs: Final[dict[str, Any]] = {}


class Voice:
    """Speaks for one resource; a channel that fails is silent, and the work goes on."""

    def __init__(self, urn: str) -> None:
        self._urn = urn
        self._last = ""
        self._began = time.monotonic()

    def progress(self, text: str) -> None:
        """Show what the call does or waits for; the next one takes its place."""
        if text != self._last:
            self._last = text
            takes_long = time.monotonic() - self._began >= _LONG_SECONDS
            self._say("progress", f"{text} · {HOW_TO_STOP}" if takes_long else text)

    def tell(self, text: str) -> None:
        """Leave a sentence that stays readable after the run."""
        self._say("info", text)

    def note(self, text: str) -> None:
        """Leave a warning that stays readable after the run."""
        self._say("note", text)

    def _say(self, event: str, text: str) -> None:
        if not self._logged(event, text):
            line = f'event={event} urn={self._urn or "-"} message="{text}"\n'
            try:
                sys.stderr.write(line)
                sys.stderr.flush()
            except (OSError, ValueError):
                return

    def _logged(self, event: str, text: str) -> bool:
        severities = engine_pb2.LogSeverity
        request = engine_pb2.LogRequest(
            severity=severities.WARNING if event == "note" else severities.INFO,
            message=text,
            urn=self._urn,
            ephemeral=event == "progress",
        )
        stub = _engine()
        try:
            if stub is not None:
                stub.Log(request, timeout=_LOG_SECONDS)
        except (grpc.RpcError, ValueError):
            return False
        return stub is not None


def engine_address() -> str:
    """Return the engine's address when this process is its dynamic provider host, else nothing."""
    is_host = sys.argv[0].replace("\\", "/").endswith("pulumi/dynamic/__main__.py")
    address = sys.argv[1] if is_host and len(sys.argv) > 1 else ""
    return address if re.fullmatch(r"[\w.:\[\]-]+:\d+", address) else ""


def _engine() -> Any:
    address = engine_address()
    with _lock:
        if address and address not in _stubs:
            channel = grpc.insecure_channel(address)
            _stubs[address] = engine_pb2_grpc.EngineStub(channel)
        return _stubs.get(address)
