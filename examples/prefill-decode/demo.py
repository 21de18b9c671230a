"""What `make demo` runs: a prefill/decode deployment is created, edited, verified and destroyed.

Every change goes through the real `pulumi preview` and `pulumi up`; after each, what stands is read
from the API server and compared with what was asked. Any mismatch ends with exit code 1.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager

from walkthrough.edits import EDITS
from walkthrough.plan import planned_lines
from walkthrough.pulumi_cli import PulumiFailed
from walkthrough.target import CLUSTER_VARIABLE, Target, cluster_target, sandbox_target
from walkthrough.walk import Mismatch, walk

from gpustack_deploy.sandbox.errors import SandboxError
from gpustack_deploy.sandbox.shape import load_shape

SIMULATED = (
    "Pods here are simulated: no container ran, nothing was inferred, and no continuity of serving"
    " is claimed. Admission, ownership, names and routing objects are real."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the walk-through and return the exit code."""
    arguments = _parser().parse_args(argv)
    context = os.environ.get(CLUSTER_VARIABLE, "")
    started = time.monotonic()
    _say(_disclaimer(context))
    code = 1
    try:
        _say("The plan of all edits, from the planner that every run asks:")
        for line in planned_lines({} if context else _quotas()):
            _say(f"  {line}")
        with _target(context, arguments) as target:
            edits = EDITS[: arguments.edits]
            walk(target, arguments.namespace, edits, keep=arguments.keep, say=_say)
        code = 0
    except (Mismatch, PulumiFailed, SandboxError) as error:
        _say(f"demo: {error}")
    except KeyboardInterrupt:
        _say("demo: interrupted")
        code = 130
    _say(f"The demo {'succeeded' if code == 0 else 'FAILED'} after {_seconds(started)} s.")
    _say(_disclaimer(context))
    return code


def _target(context: str, arguments: argparse.Namespace) -> AbstractContextManager[Target]:
    if context:
        return cluster_target(context, keep=arguments.keep, say=_say)
    return sandbox_target(arguments.sandbox, arguments.namespace, keep=arguments.keep, say=_say)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="demo.py",
        description="Create, edit, verify and destroy a prefill/decode deployment, on a sandbox"
        f" or, with {CLUSTER_VARIABLE}=<context>, on that cluster.",
    )
    parser.add_argument("--sandbox", default="demo", metavar="NAME", help="which sandbox to use")
    parser.add_argument(
        "--namespace",
        default="prefill-decode",
        help="where to deploy; on a cluster of your own it must exist and have the LocalQueues",
    )
    parser.add_argument(
        "--edits",
        type=int,
        choices=range(1, len(EDITS) + 1),
        default=len(EDITS),
        metavar="N",
        help="make only the first N edits",
    )
    parser.add_argument(
        "--keep", action="store_true", help="leave the last deployment and the sandbox standing"
    )
    return parser


def _disclaimer(context: str) -> str:
    if context:
        return f"This runs on your cluster, context {context!r} of your kubeconfig."
    return SIMULATED


def _quotas() -> dict[str, int]:
    """The cards that each queue of the sandbox offers."""
    shape = load_shape(None)
    return {
        pool.name: int(pool.quotas(shape.unmetered).get("nvidia.com/gpu", 0))
        for pool in shape.pools
    }


def _seconds(started: float) -> str:
    return f"{time.monotonic() - started:.0f}"


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
