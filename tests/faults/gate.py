"""A gate before the API server: it holds one request back, so that a run can be killed right there.

It listens without TLS and passes everything on with the administrator's certificate.
"""

import http.client
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from gpustack_deploy.sandbox import Sandbox

Matcher = Callable[[str, str], bool]

_PASSED_ON = frozenset({"accept", "content-type", "user-agent", "authorization"})
_HOP_SECONDS = 60.0


@dataclass
class Trap:
    """What the gate waits for: the n-th request that matches, kept until it is told what to do."""

    matches: Matcher
    count: int = 1
    is_sprung: threading.Event = field(default_factory=threading.Event)
    is_released: threading.Event = field(default_factory=threading.Event)
    is_dropped: bool = True

    def release(self, *, is_dropped: bool) -> None:
        """Let the request go: never to the server, or now, late."""
        self.is_dropped = is_dropped
        self.is_released.set()


class Gate:
    """A proxy on loopback, from `with` to its end."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._api = sandbox.api
        self._trap: Trap | None = None
        self._lock = threading.Lock()
        gate = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                gate._pass_on(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - the base's names

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release(is_dropped=True)
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def kubeconfig(self, folder: Path) -> Path:
        """A kubeconfig that leads here."""
        url = f"http://127.0.0.1:{self._server.server_port}"
        file = folder / "gate.kubeconfig"
        file.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "gate",
                    "clusters": [{"name": "gate", "cluster": {"server": url}}],
                    "users": [{"name": "gate", "user": {}}],
                    "contexts": [{"name": "gate", "context": {"cluster": "gate", "user": "gate"}}],
                }
            )
        )
        return file

    def set_trap(self, matches: Matcher, *, count: int = 1) -> Trap:
        """Hold the n-th request that matches from now on, and whatever matches after it."""
        self._trap = Trap(matches, count)
        return self._trap

    def release(self, *, is_dropped: bool) -> None:
        """Let what is held go, and hold nothing any more."""
        trap, self._trap = self._trap, None
        if trap is not None:
            trap.release(is_dropped=is_dropped)

    def _pass_on(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        if self._is_dropped(handler.command, handler.path):
            handler.close_connection = True
            return
        headers = {k: v for k, v in handler.headers.items() if k.lower() in _PASSED_ON}
        connection = http.client.HTTPSConnection(
            self._api._server, context=self._api._tls, timeout=_HOP_SECONDS
        )
        with closing(connection):
            connection.request(handler.command, handler.path, body=body or None, headers=headers)
            answer = connection.getresponse()
            handler.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                    handler.send_header(name, value)
            handler.send_header("Transfer-Encoding", "chunked")
            handler.end_headers()
            try:
                while piece := answer.read1(65536):
                    handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                    handler.wfile.flush()
                handler.wfile.write(b"0\r\n\r\n")
            except OSError:
                handler.close_connection = True

    def _is_dropped(self, method: str, path: str) -> bool:
        trap = self._trap
        if trap is None or not trap.matches(method, path):
            return False
        with self._lock:
            trap.count -= 1
            if trap.count > 0:
                return False
            trap.is_sprung.set()
        trap.is_released.wait()
        return trap.is_dropped
