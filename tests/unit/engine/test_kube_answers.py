"""The corners of the error ladder that no server of a test has reason to show."""

import pytest

from gpustack_deploy.engine.answers import Lines, cause_of, error_of, is_uid_mismatch
from gpustack_deploy.model.errors import Conflict, Expired, NotFound, Throttled, Unreachable

pytestmark = pytest.mark.check


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        (404, NotFound, "get /x not found"),
        (409, Conflict, "get /x: conflict"),
        (410, Expired, "get /x: too old resource version"),
        (429, Throttled, "https://s asks to come back later"),
        (408, Unreachable, r"https://s failed on get /x \(HTTP 408\)"),
    ],
)
def test_a_status_without_a_body_is_told_by_what_was_asked(
    code: int, kind: type[Exception], message: str
) -> None:
    error = error_of(code, b"", target="get /x", server="https://s")
    assert type(error) is kind
    with pytest.raises(kind, match=message):
        raise error


def test_a_retry_that_is_no_number_is_one_second() -> None:
    error = error_of(429, b"", retry_after="Wed, 21 Oct 2026 07:28:00 GMT")
    assert isinstance(error, Throttled)
    assert error.retry_after_seconds == 1.0


def test_a_long_message_is_cut() -> None:
    error = error_of(422, {"kind": "Status", "message": "x" * 5000})
    assert len(str(error)) < 2000


def test_only_a_refused_uid_is_a_mismatch() -> None:
    body = b'{"kind":"Status","details":{"causes":[{"field":"spec.replicas"}]}}'
    assert not is_uid_mismatch(422, body)
    assert not is_uid_mismatch(409, body.replace(b"spec.replicas", b"metadata.uid"))
    assert is_uid_mismatch(422, body.replace(b"spec.replicas", b"metadata.uid"))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ClientConnectorDNSError", "its name does not resolve"),
        ("ClientConnectorCertificateError", "its certificate is not one that"),
        ("ConnectionTimeoutError", "no connection in time"),
        ("ServerDisconnectedError", "the connection broke"),
        ("SomethingNew", "SomethingNew"),
    ],
)
def test_each_failure_of_the_transport_has_words(name: str, words: str) -> None:
    error = type(name, (Exception,), {})("a header, a token")
    assert cause_of(error).startswith(words)


def test_a_system_error_is_told_by_the_system() -> None:
    assert cause_of(OSError(111, "Connect call failed ('127.0.0.1', 1)")) == "Connection refused"


def test_lines_are_whole_however_chunks_fall() -> None:
    lines = Lines()
    got = [line for chunk in (b"a", b"b\n\nc", b"", b"\nd") for line in lines.feed(chunk)]
    assert got == [b"ab", b"c"]
