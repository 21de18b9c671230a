"""`gpustack-deploy sandbox`: a real control plane on loopback for rehearsals and tests."""

import argparse
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpustack_deploy.sandbox import Sandbox, SandboxError
from gpustack_deploy.sandbox.build import build
from gpustack_deploy.sandbox.cache import DEFAULT_NAME, cache_dir, parts_dir, scratch_dir
from gpustack_deploy.sandbox.folders import folders
from gpustack_deploy.sandbox.parts import OPTIONS_NOT_YET, options

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001


def add_parser(subparsers: "Subparsers") -> None:
    """Adds `sandbox` with its own subcommands."""
    parser = subparsers.add_parser(
        "sandbox",
        help="a real control plane on loopback, with Kueue and simulated nodes",
        description="Real etcd, Kubernetes and Kueue on loopback; KWOK stands in for kubelets, so "
        "Pods never run a container. No cluster of yours is read or written.",
    )
    add_commands(parser.add_subparsers(metavar="COMMAND", required=True))


def add_commands(commands: "Subparsers") -> None:
    """Adds the subcommands of `sandbox`; each handler returns an exit code."""
    command = commands.add_parser("build", help="build what is missing, once")
    _add_with(command)
    command.set_defaults(run=run_build)

    command = commands.add_parser("up", help="start a sandbox, built first when needed")
    _add_name(command)
    _add_with(command)
    command.add_argument("--nodes", metavar="FILE", help="YAML file that declares nodes and quotas")
    command.add_argument("--audit-log", action="store_true", help="record every API request")
    command.set_defaults(run=run_up)

    for name, handler, text in (
        ("down", run_down, "end a sandbox and remove all of it"),
        ("status", run_status, "say what runs, in which version and on which port"),
        ("env", run_env, "print the lines that a shell evaluates to work against a sandbox"),
    ):
        command = commands.add_parser(name, help=text)
        _add_name(command)
        command.set_defaults(run=handler)

    command = commands.add_parser("queues", help="give a namespace the local queues")
    _add_name(command)
    command.add_argument("--namespace", required=True, help="made when absent")
    command.set_defaults(run=run_queues)

    command = commands.add_parser("clean-cache", help="remove everything that was built")
    command.set_defaults(run=run_clean_cache)


def run_build(arguments: argparse.Namespace) -> int:
    """Builds the missing parts."""
    build(arguments.options, say=_say)
    _say(f"The sandbox's programs are in {parts_dir()}.")
    return 0


def run_up(arguments: argparse.Namespace) -> int:
    """Starts a sandbox and says how to reach it."""
    sandbox = Sandbox.up(
        arguments.name,
        nodes=arguments.nodes,
        audit_log=arguments.audit_log,
        options=arguments.options,
        say=_say,
    )
    _say("Pods here are simulated: no container runs. Admission, quota and objects are real.")
    _say(f"KUBECONFIG={sandbox.kubeconfig}")
    _say(f'For a shell: eval "$(gpustack-deploy sandbox env{_name_option(arguments.name)})"')
    return 0


def run_down(arguments: argparse.Namespace) -> int:
    """Ends a sandbox; one that does not run is no error."""
    if not Sandbox.end(arguments.name):
        _say(f"No sandbox '{arguments.name}' was running.")
        return 0
    _say(f"Sandbox '{arguments.name}' is gone.")
    return 0


def run_status(arguments: argparse.Namespace) -> int:
    """Prints components, versions and ports; exit code 1 when something does not run."""
    sandbox = Sandbox.require(arguments.name)
    state = sandbox.state
    status = sandbox.status()
    _say(f"Sandbox '{sandbox.name}' in {sandbox.folder}")
    for component, runs in status.items():
        process = state.processes.get(component)
        where = f"pid {process.pid}" if runs and process else "stopped"
        version = state.versions.get(component, "")
        port = state.ports.get(component, state.ports.get(f"{component}-webhook", ""))
        _say(f"  {component:<24} {version:<10} {where:<12} 127.0.0.1:{port}")
    return 0 if all(status.values()) else 1


def run_env(arguments: argparse.Namespace) -> int:
    """Prints shell lines, nothing else."""
    for line in Sandbox.require(arguments.name).shell_lines():
        _say(line)
    return 0


def run_queues(arguments: argparse.Namespace) -> int:
    """Adds the local queues to a namespace."""
    Sandbox.require(arguments.name).add_namespace(arguments.namespace)
    _say(f"Namespace {arguments.namespace} has the local queues.")
    return 0


def run_clean_cache(_: argparse.Namespace) -> int:
    """Removes built parts; refused while a sandbox still uses them."""
    if running := [folder.name for folder in folders()]:
        raise SandboxError(
            f"Sandbox {', '.join(running)} still uses the cache: end it first with "
            "`gpustack-deploy sandbox down`."
        )
    removed = [folder for folder in (parts_dir(), scratch_dir()) if folder.exists()]
    for folder in removed:
        shutil.rmtree(folder)
    _say(f"Removed {len(removed)} folders from {cache_dir()}." if removed else "Nothing is cached.")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """The same commands without the rest of `gpustack-deploy`."""
    parser = argparse.ArgumentParser(prog="gpustack-deploy sandbox")
    add_commands(parser.add_subparsers(metavar="COMMAND", required=True))
    arguments = parser.parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except SandboxError as error:
        print(f"gpustack-deploy: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("gpustack-deploy: interrupted", file=sys.stderr)
        return 130


def _add_name(command: argparse.ArgumentParser) -> None:
    command.add_argument("--name", default=DEFAULT_NAME, help="which sandbox; several may run")


def _add_with(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--with",
        dest="options",
        type=lambda text: tuple(filter(None, text.split(","))),
        default=(),
        metavar="PART",
        help=f"optional parts: {', '.join(options())} (not yet: {', '.join(OPTIONS_NOT_YET)})",
    )


def _name_option(name: str) -> str:
    return "" if name == DEFAULT_NAME else f" --name {name}"


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
