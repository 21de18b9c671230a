"""Where a role's engine listens and who answers there, read from its declared command line."""

from dataclasses import dataclass
from typing import Final

from gpustack_deploy.model.command_line import has_flag, last_value, read_options
from gpustack_deploy.model.pod_fields import Protocol
from gpustack_deploy.model.role import EngineName, RoleDeclaration

DEFAULT_PORT: Final = 8000
BOOTSTRAP_PORT: Final = 8998

_EVERY_ADDRESS: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - what a Service needs
# CERT_NONE and CERT_OPTIONAL: the two under which a kubelet, which has no certificate, is answered.
_ANSWERS_WITHOUT_CERTIFICATE: Final = frozenset({"0", "1"})


@dataclass(frozen=True, slots=True)
class Listener:
    """The engine's own listener.

    `published_port` is the Service's, `port` the engine's: they differ when a role without `ports`
    passes its own `--port`. `is_probeable` is false where a kubelet would get no answer although
    the engine serves.
    """

    published_port: int
    port: int
    scheme: str
    is_probeable: bool


def engine_arguments_of(declaration: RoleDeclaration) -> tuple[str, ...]:
    """Return the part of the command line that the role itself contributes."""
    return declaration.command or declaration.extra_args


def listener_of(declaration: RoleDeclaration) -> Listener:
    """Return where the role's engine listens."""
    options = read_options(declaration.engine.name, engine_arguments_of(declaration))
    first = declaration.ports[0] if declaration.ports else None
    published = first.port if first else DEFAULT_PORT
    moved = port_number(last_value(options, "--port"))
    host = last_value(options, "--host")
    is_tls = has_flag(options, "--ssl-certfile", "--ssl-keyfile")
    certificate = last_value(options, "--ssl-cert-reqs")
    demands_certificate = has_flag(options, "--ssl-cert-reqs") and (
        certificate not in _ANSWERS_WITHOUT_CERTIFICATE
    )
    return Listener(
        published_port=published,
        port=published if first or moved is None else moved,
        scheme="HTTPS" if is_tls else "HTTP",
        is_probeable=(host is None or host in _EVERY_ADDRESS)
        and not (is_tls and demands_certificate)
        and (first is None or first.protocol is Protocol.TCP),
    )


def is_external_dp(declaration: RoleDeclaration) -> bool:
    """Whether every member serves its own share of a data-parallel vLLM group.

    An explicit rank selects that as the flag itself does; a start rank alone does not.
    """
    if declaration.size == 1 or declaration.engine.name is not EngineName.VLLM:
        return False
    options = read_options(declaration.engine.name, engine_arguments_of(declaration))
    return has_flag(options, "--data-parallel-external-lb", "--data-parallel-rank")


def port_number(text: str | None) -> int | None:
    """Return the port that the text spells, None when it spells none."""
    if text is None or not (text.isascii() and text.isdigit()):
        return None
    return int(text) if 1 <= int(text) <= 65535 else None
