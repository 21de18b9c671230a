"""What the API server's answers mean: the error ladder by status, reason and message.

Pure. A body that is no Status is dropped, so that a proxy's page or an echoed header can never
reach a message.
"""

import json
import os
import re
from typing import Any, Final

from gpustack_deploy.model.errors import (
    ClusterError,
    Conflict,
    Expired,
    Forbidden,
    NotFound,
    Refused,
    Throttled,
    Unreachable,
)
from gpustack_deploy.model.raw import Json, mapping_at, text_at

# RBAC says `User "x" cannot list resource "pods" in API group …`; every other 403 is a refusal.
_RBAC: Final = re.compile(r"cannot \S+ resource")
_MESSAGE_LIMIT: Final = 1500
_DEFAULT_RETRY_SECONDS: Final = 1.0


def error_of(
    code: int, body: bytes | Json, *, retry_after: str = "", target: str = "", server: str = ""
) -> ClusterError:
    """Return the error that an answer of that HTTP status means.

    `target` names what was asked for and is used where the server says nothing.
    """
    status = body if not isinstance(body, bytes) else _status_of(body)
    reason = text_at(status, "reason")
    message = _shortened(text_at(status, "message"))
    match code:
        case 404:
            return NotFound(message or f"{target} not found", reason=reason)
        case 409:
            return Conflict(message or f"{target}: conflict", reason=reason)
        case 410:
            return Expired(message or f"{target}: too old resource version", reason=reason)
        case 401:
            return Forbidden(
                f"{server} does not accept the credentials of this connection (401 Unauthorized):"
                " log in to that cluster again, then run again",
                reason=reason or "Unauthorized",
            )
        case 403 if _RBAC.search(message):
            return Forbidden(message, reason=reason)
        case 429:
            return _throttled(message or f"{server} asks to come back later", status, retry_after)
        # Without a Status of the API server's own, a proxy answered: nothing is known then.
        case 503 if mapping_at(status, "details").get("retryAfterSeconds"):
            return _throttled(message, status, retry_after)
        case _ if 400 <= code < 500 and code != 408:
            return Refused(message or f"{target} is refused (HTTP {code})", reason=reason)
        case _:
            return Unreachable(
                message or f"{server} failed on {target} (HTTP {code})", reason=reason
            )


def is_uid_mismatch(code: int, body: bytes) -> bool:
    """Whether a patch was refused because the object there has another UID.

    A patch that carries `metadata.uid` is the only way to bind it to one object; the server answers
    a mismatch as an attempt to change an immutable field.
    """
    if code != 422:
        return False
    causes = mapping_at(_status_of(body), "details").get("causes")
    return isinstance(causes, list) and any(
        isinstance(cause, dict) and cause.get("field") == "metadata.uid" for cause in causes
    )


def cause_of(error: BaseException) -> str:
    """Return in words why the transport failed; only names and system messages, never a header."""
    match type(error).__name__:
        case "ClientConnectorDNSError":
            return "its name does not resolve"
        case "ClientConnectorCertificateError":
            return "its certificate is not one that the configured authority signed"
        case "ConnectionTimeoutError":
            return "no connection in time"
        case "SocketTimeoutError" | "ServerTimeoutError" | "TimeoutError":
            return "it stayed silent"
        case "ServerDisconnectedError" | "ClientPayloadError" | "ClientConnectionResetError":
            return "the connection broke"
        case name:
            number = getattr(error, "errno", None)
            return os.strerror(number) if isinstance(number, int) else name


class Lines:
    """Splits a stream into lines, however the chunks fall and however long a line is."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that this chunk completes, empty ones left out."""
        *complete, rest = chunk.split(b"\n")
        lines = []
        for part in complete:
            line = b"".join((*self._parts, part))
            self._parts.clear()
            if line:
                lines.append(line)
        if rest:
            self._parts.append(rest)
        return lines


def _throttled(message: str, status: Json, retry_after: str) -> Throttled:
    asked: Any = mapping_at(status, "details").get("retryAfterSeconds") or retry_after
    try:
        seconds = float(asked)
    except (TypeError, ValueError):
        seconds = _DEFAULT_RETRY_SECONDS
    return Throttled(message, retry_after_seconds=max(seconds, 0.0))


def _status_of(body: bytes) -> Json:
    try:
        parsed = json.loads(body)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) and parsed.get("kind") == "Status" else {}


def _shortened(message: str) -> str:
    return message if len(message) <= _MESSAGE_LIMIT else message[:_MESSAGE_LIMIT] + "…"
