"""The bridge, on frames shaped like the SDK's; the real engine pins the shape elsewhere."""

import os
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
from google.protobuf import struct_pb2  # type: ignore[import-untyped]
from pulumi.runtime.proto import provider_pb2, status_pb2

from gpustack_deploy.model.errors import AdmissionAwaited, ReplacementHeld
from gpustack_deploy.model.state import RoleState
from pulumi_gpustack import _bridge, _host, _operations
from pulumi_gpustack.role_provider import RoleProvider
from tests.pulumi.declarations import role

pytestmark = pytest.mark.check

URN = "urn:pulumi:dev::shop::gpustack:index:ModelDeployment$x::chat-server"


class Context:
    """What the servicer's context offers to a call."""

    def __init__(self, *, is_over: bool = False) -> None:
        self.trailing: tuple[tuple[str, bytes], ...] = ()
        self.callbacks: list[Callable[[], None]] = []
        self._is_over = is_over

    def set_trailing_metadata(self, metadata: tuple[tuple[str, bytes], ...]) -> None:
        self.trailing = metadata

    def add_callback(self, callback: Callable[[], None]) -> bool:
        self.callbacks.append(callback)
        return not self._is_over

    def status(self) -> Any:
        [(key, value)] = self.trailing
        assert "grpc-status-details-bin" == key
        return status_pb2.Status.FromString(value)


def served(work: Callable[[], Any], request: Any, context: Context) -> Any:
    """Run the work as the SDK's servicer does: below a frame named `wrapper`."""

    def wrapper(self: object, request: Any, context: Context) -> Any:
        return work()

    return wrapper(None, request, context)


def test_without_an_engine_everything_is_plain() -> None:
    call = _bridge.current_call()
    assert "" == call.urn
    assert 0 == call.timeout_seconds
    assert None is call.properties("old_inputs")
    assert not call.is_ending()
    assert not call.has_wide_pool
    call.keep_partial("id", {"a": 1}, "why")
    call.keep_awaiting("why")
    call.keep_message("why")


def test_the_request_is_found_above_the_provider() -> None:
    sent = struct_pb2.Struct()
    sent.update({"replicas": 2, "image": "04da6b54-80e4-46f7-96ec-b56ff0331ba9"})
    request = provider_pb2.UpdateRequest(urn=URN, timeout=90.0, old_inputs=sent)
    call = served(_bridge.current_call, request, Context())
    assert URN == call.urn
    assert 90.0 == call.timeout_seconds
    old_inputs = call.properties("old_inputs")
    assert 2 == old_inputs["replicas"]
    assert "Unknown" == type(old_inputs["image"]).__name__
    assert None is call.properties("no_such_field")


def test_the_call_notices_its_end() -> None:
    context = Context()
    call = served(_bridge.current_call, provider_pb2.CreateRequest(urn=URN), context)
    assert not call.is_ending()
    for callback in context.callbacks:
        callback()
    assert call.is_ending()


def test_a_call_that_ended_before_it_was_looked_at_is_ending() -> None:
    context = Context(is_over=True)
    call = served(_bridge.current_call, provider_pb2.CreateRequest(urn=URN), context)
    assert call.is_ending()


def test_partial_state_goes_out_with_the_error() -> None:
    context = Context()
    call = served(_bridge.current_call, provider_pb2.CreateRequest(urn=URN), context)
    call.keep_partial("ml/chat/server", {"replicas": 1, "none": None}, "no quota")
    status = context.status()
    detail = provider_pb2.ErrorResourceInitFailed()
    assert status.details[0].Unpack(detail)
    assert "ml/chat/server" == detail.id
    assert 1 == detail.properties["replicas"]
    assert ["no quota"] == list(detail.reasons)
    assert grpc.StatusCode.UNKNOWN.value[0] == status.code


def test_awaiting_goes_out_with_the_error() -> None:
    context = Context()
    call = served(_bridge.current_call, provider_pb2.UpdateRequest(urn=URN), context)
    call.keep_awaiting("waits for quota")
    assert context.status().details[0].Is(provider_pb2.ErrorResourceAwaitFailed.DESCRIPTOR)


def test_an_engine_that_knows_no_awaiting_gets_the_plain_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(provider_pb2, "ErrorResourceAwaitFailed")
    context = Context()
    call = served(_bridge.current_call, provider_pb2.UpdateRequest(urn=URN), context)
    call.keep_awaiting("waits for quota")
    assert () == context.trailing


def test_the_pool_is_widened_once() -> None:
    with ThreadPoolExecutor(max_workers=4) as pool:
        request = provider_pb2.CreateRequest(urn=URN)
        for _ in range(2):
            call = pool.submit(served, _bridge.current_call, request, Context()).result()
            assert call.has_wide_pool
        assert 64 == pool._max_workers
        gate = threading.Barrier(9, timeout=10)
        for _ in range(8):
            pool.submit(gate.wait)
        gate.wait()


class TestEngineGone:
    @pytest.fixture(autouse=True)
    def _no_watcher_yet(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_host, "_watchers", [])

    def closes(self, *, ended: threading.Event) -> None:
        reading, writing = os.pipe()
        try:
            _host.watch(reading, ended.set)
            assert not ended.wait(0.05)
            os.close(writing)
            _host._watchers[0].join(5)
        finally:
            os.close(reading)

    def test_a_killed_engine_closes_standard_input(self) -> None:
        ended = threading.Event()
        self.closes(ended=ended)
        assert ended.is_set()

    def test_a_closed_pipe_means_nothing_while_the_engine_listens(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with socket.create_server(("127.0.0.1", 0)) as engine:
            address = f"127.0.0.1:{engine.getsockname()[1]}"
            monkeypatch.setattr(_host, "engine_address", lambda: address)
            ended = threading.Event()
            reading, writing = os.pipe()
            _host.watch(reading, ended.set)
            os.close(writing)
            assert not ended.wait(0.3)
        assert ended.wait(5)
        _host._watchers[0].join(5)
        os.close(reading)

    def test_a_file_as_standard_input_means_nothing(self) -> None:
        with open(os.devnull) as nothing:  # noqa: PTH123 - a descriptor is what is asked for
            _host.watch(nothing.fileno(), lambda: None)
        assert [] == _host._watchers

    def test_the_host_ends_when_its_last_call_has(self, monkeypatch: pytest.MonkeyPatch) -> None:
        exits: list[int] = []
        monkeypatch.setattr(os, "_exit", exits.append)
        monkeypatch.setattr(_host, "_gone", threading.Event())
        go_on, runs = threading.Event(), threading.Event()

        def work() -> None:
            runs.set()
            go_on.wait(10)

        request = provider_pb2.CreateRequest(urn=URN)
        with ThreadPoolExecutor(max_workers=2) as pool:
            pool.submit(served, work, request, Context())
            assert runs.wait(5)
            ending = pool.submit(_host._end)
            time.sleep(0.05)
            assert [] == exits
            assert _host.is_gone()
            go_on.set()
            ending.result(5)
        assert [0] == exits


class TestFailures:
    """What a failed call tells the engine."""

    state = RoleState("record", "claim", "uid", "ca", "ns", fingerprint="f", replicas=3, size=1)

    def fail(
        self, monkeypatch: pytest.MonkeyPatch, operation: str, error: ReplacementHeld
    ) -> Context:
        def raises(*_: object) -> None:
            raise error

        monkeypatch.setattr(_operations, operation, raises)
        context = Context()
        provider = RoleProvider()
        calls: dict[str, Callable[[], object]] = {
            "create": lambda: provider.create(role()),
            "update": lambda: provider.update("ml/chat/server", role(), role()),
            "delete": lambda: provider.delete("ml/chat/server", role()),
        }
        with pytest.raises(ReplacementHeld):
            served(calls[operation], provider_pb2.CreateRequest(urn=URN), context)
        return context

    def test_an_update_that_waits_for_admission_awaits(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        error = AdmissionAwaited("NotAdmitted", "server", 0, "no quota")
        error.state = self.state
        context = self.fail(monkeypatch, "update", error)
        assert context.status().details[0].Is(provider_pb2.ErrorResourceAwaitFailed.DESCRIPTOR)

    def test_a_create_that_waits_for_admission_keeps_its_objects_tracked(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        error = AdmissionAwaited("NotAdmitted", "server", 0, "no quota")
        error.state = self.state
        context = self.fail(monkeypatch, "create", error)
        assert context.status().details[0].Is(provider_pb2.ErrorResourceInitFailed.DESCRIPTOR)

    @pytest.mark.parametrize("operation", ["create", "update", "delete"])
    def test_without_state_the_sentence_stands_alone(
        self, monkeypatch: pytest.MonkeyPatch, operation: str
    ) -> None:
        error = ReplacementHeld("NotAdmitted", "server", 0, "no quota")
        status = self.fail(monkeypatch, operation, error).status()
        assert "server r0: NotAdmitted: no quota" == status.message
        assert [] == list(status.details)
