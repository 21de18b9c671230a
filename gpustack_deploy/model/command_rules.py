"""Rules about the command line, the environment, ports and volumes of a role."""

import math
from collections.abc import Iterator
from typing import Final

from gpustack_deploy.model import identity
from gpustack_deploy.model.command_line import (
    DEGREES,
    OWNED_ENV,
    Option,
    has_flag,
    last_value,
    read_options,
)
from gpustack_deploy.model.hardware import GeometryMode
from gpustack_deploy.model.listener import BOOTSTRAP_PORT, engine_arguments_of, port_number
from gpustack_deploy.model.refusals import Problem
from gpustack_deploy.model.role import EngineName, RoleDeclaration, RoleKind
from gpustack_deploy.model.rule import Rule

_OWN_IT: Final = "remove it, or own the whole line with `command`"
_OUR_MOUNTS: Final = "/etc/gpustack"
_DEGREE_VARIABLE: Final = "VLLM_DP_SIZE"


def _env(declaration: RoleDeclaration) -> Iterator[Problem]:
    owned = OWNED_ENV[declaration.engine.name] if declaration.is_managed else frozenset()
    first: dict[str, int] = {}
    for position, entry in enumerate(declaration.env):
        path = f"env[{position}]"
        if len(entry.sources) != 1:
            yield Problem(
                path,
                f"found {' and '.join(entry.sources) or 'no source'} for {entry.name!r}, needed"
                " exactly one of value, secretRef, configMapRef and fieldRef; keep one",
            )
        if entry.name in identity.RESERVED_ENV:
            yield Problem(
                f"{path}.name",
                f"found {entry.name!r}, which is written for every member above size 1 and reserved"
                " at every size; needed another name; remove it",
            )
        if entry.name in owned:
            yield Problem(
                f"{path}.name",
                f"found {entry.name!r}, which is written here for {declaration.engine.name};"
                f" needed one source for it; {_OWN_IT}",
            )
        if entry.name in first:
            yield Problem(
                f"{path}.name",
                f"found {entry.name!r} again, needed each name once; remove one of the two",
                touches=(f"env[{first[entry.name]}].name",),
            )
        first.setdefault(entry.name, position)


def _owned_flags(declaration: RoleDeclaration) -> Iterator[Problem]:
    if not declaration.is_managed:
        return
    for option in read_options(declaration.engine.name, declaration.extra_args):
        if option.flag.is_owned:
            yield Problem(
                f"extraArgs[{option.position}]",
                f"found {option.flag.name}, which is written here for {declaration.engine.name};"
                f" needed one source for it; {_OWN_IT}",
            )


def _degrees(declaration: RoleDeclaration) -> Iterator[Problem]:
    if not declaration.is_managed:
        return
    options = read_options(declaration.engine.name, declaration.extra_args)
    degrees: dict[str, int] = {}
    for option in options:
        if option.flag.name not in DEGREES[declaration.engine.name]:
            continue
        degree = _degree(option.value, flag=option.flag.name)
        if degree is None:
            found = "no value" if option.value is None else repr(option.value)
            yield Problem(
                f"extraArgs[{option.position}]",
                f"found {found} for {option.flag.name}, needed a whole number of 1 or more; correct"
                " it, or own the whole line with `command`",
            )
            return
        degrees[option.flag.name] = degree
    for position, entry in enumerate(declaration.env):
        # The engine reads the variable only where the command line sets no data parallelism.
        is_read = declaration.engine.name is EngineName.VLLM and entry.name == _DEGREE_VARIABLE
        if is_read and entry.value is not None and degrees.get("--data-parallel-size", 1) == 1:
            degree = _degree(entry.value, flag=_DEGREE_VARIABLE)
            if degree is None:
                yield Problem(
                    f"env[{position}].value",
                    f"found no whole number for {_DEGREE_VARIABLE}, needed 1 or more; correct it",
                )
                return
            degrees["--data-parallel-size"] = degree
    yield from _width(declaration, options=options, degrees=degrees)


def _width(
    declaration: RoleDeclaration, *, options: tuple[Option, ...], degrees: dict[str, int]
) -> Iterator[Problem]:
    if any(option.flag.moves_members for option in options):
        return  # some of the width lives on other members
    geometry = declaration.geometry
    if geometry.mode is GeometryMode.NONE:
        return
    counted = dict(degrees)
    if counted.pop("--data-parallel-size-local", 0) and "--data-parallel-size" in counted:
        counted["--data-parallel-size"] = degrees["--data-parallel-size-local"]
    if has_flag(options, "--enable-dp-attention"):
        counted.pop("--dp-size", None)  # it shares the tensor-parallel cards
    width = math.prod(counted.values())
    cards = geometry.count
    if width > cards:
        spelled = " x ".join(f"{flag} {degree}" for flag, degree in counted.items())
        yield Problem(
            "extraArgs",
            f"found a width of {width} on each member ({spelled}) and {cards} card(s), needed at"
            " most one process a card (`size` does not add cards to a member); lower the degree or"
            " raise `resources.count`",
        )


def _degree(text: str | None, *, flag: str) -> int | None:
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > 6:
        return None
    lowest = 0 if flag == "--data-parallel-size-local" else 1
    return int(text) if int(text) >= lowest else None


def _ports(declaration: RoleDeclaration) -> Iterator[Problem]:
    first: dict[tuple[int, str], int] = {}
    for position, entry in enumerate(declaration.ports):
        key = (entry.port, entry.protocol)
        if key in first:
            yield Problem(
                f"ports[{position}]",
                f"found {entry.protocol} port {entry.port} again, needed each once; remove one of"
                " the two",
                touches=(f"ports[{first[key]}]",),
            )
        first.setdefault(key, position)
    has_bootstrap = declaration.is_managed and declaration.kind is RoleKind.PREFILL
    taken = [i for i, entry in enumerate(declaration.ports) if entry.port == BOOTSTRAP_PORT]
    if has_bootstrap and taken:
        yield Problem(
            f"ports[{taken[0]}].port",
            f"found {BOOTSTRAP_PORT}, where a prefiller's transfer bootstrap listens; needed"
            " another port; change it",
            touches=("kind", "command"),
        )


def _port_flag(declaration: RoleDeclaration) -> Iterator[Problem]:
    options = read_options(declaration.engine.name, engine_arguments_of(declaration))
    if not has_flag(options, "--port"):
        return
    field = "extraArgs" if declaration.is_managed else "command"
    value = last_value(options, "--port")
    port = port_number(value)
    if port is None:
        if declaration.is_managed:
            yield Problem(
                field,
                f"found {'no value' if value is None else repr(value)} for --port, needed a port"
                " from 1 to 65535; correct it, or declare `ports`",
            )
        return
    if declaration.ports and declaration.ports[0].port != port:
        yield Problem(
            field,
            f"found --port {port} and `ports[0].port` {declaration.ports[0].port}, needed the same"
            " port; remove the flag, or change one of the two",
            touches=("ports[0].port",),
        )
    elif declaration.is_managed and declaration.kind is RoleKind.PREFILL and port == BOOTSTRAP_PORT:
        yield Problem(
            field,
            f"found --port {port}, where a prefiller's transfer bootstrap listens; needed another"
            " port; change it",
        )


def _volumes(declaration: RoleDeclaration) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for position, volume in enumerate(declaration.volumes):
        path = f"volumes[{position}]"
        mount = volume.mount_path.rstrip("/") or "/"
        if len(volume.sources) > 1:
            yield Problem(
                path,
                f"found {' and '.join(volume.sources)}, needed one source; keep one",
            )
        if mount in first:
            yield Problem(
                f"{path}.mountPath",
                f"found {mount!r} again, needed each path once; change one of the two",
                touches=(f"volumes[{first[mount]}].mountPath",),
            )
        first.setdefault(mount, position)
        if mount == _OUR_MOUNTS or mount.startswith(f"{_OUR_MOUNTS}/"):
            yield Problem(
                f"{path}.mountPath",
                f"found {mount!r}, needed a path outside {_OUR_MOUNTS}, which is kept free for what"
                " is mounted here; change it",
            )
        sub_path = volume.sub_path
        if sub_path and (sub_path.startswith("/") or ".." in sub_path.split("/")):
            yield Problem(
                f"{path}.subPath",
                f"found {sub_path!r}, needed a relative path without '..'; change it",
            )


COMMAND_RULES: Final = (
    Rule(_env, reads=("engine.name", "command")),
    Rule(_owned_flags, reads=("engine.name", "command", "extraArgs")),
    Rule(
        _degrees,
        reads=("engine.name", "command", "extraArgs", "env", "resources", "instanceType"),
    ),
    Rule(_ports),
    Rule(_port_flag, reads=("engine.name", "kind", "command", "extraArgs", "ports")),
    Rule(_volumes),
)
