"""`gpustack-deploy`, or `python -m gpustack_deploy.cli`."""

import argparse
import importlib
import importlib.util
import sys
from collections.abc import Sequence

from gpustack_deploy import __version__
from gpustack_deploy.model.errors import ClusterError, GpustackDeployError
from gpustack_deploy.sandbox.errors import SandboxError

# In the order of the help text. A name counts once a module of it stands beside this file.
SUBCOMMANDS = (
    "plan",
    "status",
    "explain",
    "adopt",
    "release",
    "destroy",
    "schema",
    "rbac",
    "sandbox",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand; 0 done, 1 an error told in one sentence, 2 wrong usage."""
    arguments = build_parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
    except (GpustackDeployError, ClusterError, SandboxError) as error:
        print(f"gpustack-deploy: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("gpustack-deploy: interrupted", file=sys.stderr)
        return 130
    return code


def build_parser() -> argparse.ArgumentParser:
    """The parser with every subcommand that exists."""
    parser = argparse.ArgumentParser(
        prog="gpustack-deploy", description="GPU model serving on Kubernetes and Kueue, as code."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for name in SUBCOMMANDS:
        module = f"gpustack_deploy.cli.{name}"
        if importlib.util.find_spec(module) is not None:
            importlib.import_module(module).add_parser(subparsers)
    return parser


if __name__ == "__main__":
    sys.exit(main())
