"""The drain hook: a departing managed member keeps serving until nothing is in flight.

The kubelet runs it before SIGTERM, on which both engines drop running requests. It is a program for
`python3`, which every image of a Python engine has; `curl` is not certain to be there.
"""

from typing import Final

from gpustack_deploy.model.listener import Listener
from gpustack_deploy.model.role import EngineName

DEFAULT_GRACE_PERIOD_SECONDS: Final = 30
SETTLE_SECONDS: Final = 5
EXIT_SECONDS: Final = 5

_GAUGES: Final[dict[EngineName, tuple[str, ...]]] = {
    EngineName.VLLM: ("vllm:num_requests_running", "vllm:num_requests_waiting"),
    EngineName.SGLANG: (
        "sglang:num_running_reqs",
        "sglang:num_queue_reqs",
        "sglang:num_prefill_bootstrap_queue_reqs",
        "sglang:num_prefill_inflight_queue_reqs",
        "sglang:num_decode_prealloc_queue_reqs",
        "sglang:num_decode_transfer_queue_reqs",
    ),
}

# Arguments: metrics URL, seconds to settle, seconds until it gives up, gauges. A listener that
# refuses, or answers with an error, shows nothing to wait for; one too slow to answer is busy, and
# so is a sample that spells no number. Two idle reads end it: a prefiller's gauges drop just before
# its peer starts to fetch the blocks.
DRAIN_SCRIPT: Final = """\
import socket, ssl, sys, time
from urllib import request

url, settle, deadline, gauges = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]
tls = ssl.create_default_context()
tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE


def sample(line):
    name = line.split(" ")[0].split("{")[0]
    if name not in gauges:
        return 0.0
    try:
        return float(line[len(name):].split("}")[-1].split()[0])
    except (IndexError, ValueError):
        return 1.0


def in_flight():
    try:
        with request.urlopen(url, timeout=1, context=tls) as answer:
            return sum(map(sample, answer.read().decode().splitlines()))
    except Exception as error:
        reason = getattr(error, "reason", error)
        return 1.0 if isinstance(reason, (TimeoutError, socket.timeout)) else None


begin = time.monotonic()
time.sleep(settle)
idle = 0
while time.monotonic() - begin < deadline:
    busy = in_flight()
    idle = 0 if busy else idle + 1
    if busy is None or idle == 2:
        break
    time.sleep(1)
"""


def drain_hook(
    engine: EngineName, *, listener: Listener, grace_period_seconds: int
) -> dict[str, object]:
    """Return the preStop hook of a managed member, in the time that its grace period leaves."""
    url = f"{listener.scheme.lower()}://127.0.0.1:{listener.port}/metrics"
    return {
        "exec": {
            "command": [
                *("python3", "-c", DRAIN_SCRIPT, url),
                *(str(SETTLE_SECONDS), str(grace_period_seconds - EXIT_SECONDS)),
                *_GAUGES[engine],
            ]
        }
    }
