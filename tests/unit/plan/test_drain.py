"""The drain hook's program, run with its clock and its listener replaced."""

import io
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable

import pytest

from gpustack_deploy.model.listener import listener_of
from gpustack_deploy.model.role import EngineName
from gpustack_deploy.plan.drain import DRAIN_SCRIPT, drain_hook
from tests.declarations import role

pytestmark = pytest.mark.check

URL = "http://127.0.0.1:1/metrics"
RUNNING = "vllm:num_requests_running"

Answer = str | Exception


@pytest.fixture
def drain(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[float, int]]:
    """Run the program against those answers; return the seconds it took and the reads it made."""

    def run(*answers: Answer, deadline: int = 25) -> tuple[float, int]:
        now, reads = [0.0], [0]

        def sleep(seconds: float) -> None:
            now[0] += seconds

        def urlopen(url: str, **_: object) -> io.BytesIO:
            assert URL == url
            answer = answers[min(reads[0], len(answers) - 1)]
            reads[0] += 1
            if isinstance(answer, Exception):
                raise answer
            return io.BytesIO(answer.encode())

        monkeypatch.setattr(time, "sleep", sleep)
        monkeypatch.setattr(time, "monotonic", lambda: now[0])
        monkeypatch.setattr(urllib.request, "urlopen", urlopen)
        gauges = [RUNNING, "vllm:num_requests_waiting"]
        monkeypatch.setattr(sys, "argv", ["-c", URL, "5", str(deadline), *gauges])
        exec(compile(DRAIN_SCRIPT, "drain", "exec"), {})  # noqa: S102 - the program under test
        return now[0], reads[0]

    return run


BUSY = f'# HELP {RUNNING} x\n{RUNNING}{{engine="0",model_name="a {{b}} c"}} 2.0 170000\n'
IDLE = f"{RUNNING} 0.0\nvllm:num_requests_waiting{{}} 0\nvllm:other 9\n"


def test_an_idle_member_leaves_after_the_settling_time_and_two_reads(
    drain: Callable[..., tuple[float, int]],
) -> None:
    assert (6.0, 2) == drain(IDLE)


def test_a_busy_member_is_waited_for_until_the_second_idle_read(
    drain: Callable[..., tuple[float, int]],
) -> None:
    assert (9.0, 5) == drain(BUSY, IDLE, BUSY, IDLE, IDLE)


def test_a_member_that_stays_busy_is_given_up_at_the_deadline(
    drain: Callable[..., tuple[float, int]],
) -> None:
    assert (25.0, 20) == drain(BUSY)


@pytest.mark.parametrize(
    "answer",
    [TimeoutError(), urllib.error.URLError(TimeoutError()), f"{RUNNING} many\n", f"{RUNNING}\n"],
)
def test_what_cannot_be_measured_counts_as_busy(
    drain: Callable[..., tuple[float, int]], answer: Answer
) -> None:
    assert (8.0, 4) == drain(answer, answer, IDLE)


@pytest.mark.parametrize(
    "answer",
    [
        ConnectionRefusedError(),
        urllib.error.URLError(ConnectionRefusedError()),
        urllib.error.HTTPError(URL, 404, "absent", {}, None),  # type: ignore[arg-type]
    ],
)
def test_a_listener_that_refuses_ends_it_at_once(
    drain: Callable[..., tuple[float, int]], answer: Answer
) -> None:
    assert (5.0, 1) == drain(answer)


def test_the_program_runs_under_a_plain_interpreter() -> None:
    done = subprocess.run(
        [sys.executable, "-c", DRAIN_SCRIPT, URL, "0", "5", RUNNING],
        check=False,
        capture_output=True,
        timeout=30,
    )
    assert (0, b"") == (done.returncode, done.stderr)


def test_the_hook_asks_the_engines_own_listener_within_the_grace_period() -> None:
    listener = listener_of(role(extraArgs=["--port", "9000", "--ssl-keyfile", "/k"]))
    hook = drain_hook(EngineName.SGLANG, listener=listener, grace_period_seconds=45)
    command = [
        *("python3", "-c", DRAIN_SCRIPT, "https://127.0.0.1:9000/metrics", "5", "40"),
        "sglang:num_running_reqs",
        "sglang:num_queue_reqs",
        "sglang:num_prefill_bootstrap_queue_reqs",
        "sglang:num_prefill_inflight_queue_reqs",
        "sglang:num_decode_prealloc_queue_reqs",
        "sglang:num_decode_transfer_queue_reqs",
    ]
    assert {"exec": {"command": command}} == hook
