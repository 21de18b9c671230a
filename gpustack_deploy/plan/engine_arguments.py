"""The command line and the environment of a managed role, per engine.

No parallel degree is composed: degrees do not follow from size and cards alone, so the role's
`extraArgs` say them, with `$(GPUSTACK_MEMBER_INDEX)` and its kin expanded by Kubernetes.
"""

import json
from dataclasses import dataclass
from typing import Final, assert_never

from gpustack_deploy.model.command_line import has_flag, read_options
from gpustack_deploy.model.listener import BOOTSTRAP_PORT, listener_of
from gpustack_deploy.model.role import EngineName, RoleDeclaration, RoleKind, TransferProtocol

# What the transfer engine calls the protocols; unset is TCP.
TRANSFER_PROTOCOLS: Final[dict[TransferProtocol, str]] = {
    TransferProtocol.AUTO: "tcp",
    TransferProtocol.TCP: "tcp",
    TransferProtocol.RDMA: "rdma",
    TransferProtocol.EFA: "efa",
    TransferProtocol.CANN: "ascend",
    TransferProtocol.ROCM: "hip",
}
_CONNECTOR_ROLES: Final = {RoleKind.PREFILL: "kv_producer", RoleKind.DECODE: "kv_consumer"}


@dataclass(frozen=True, slots=True)
class EngineArguments:
    """What a managed role's container gets beyond what the role says itself.

    `owned_env` may not be set by the role (rules refuse it); `default_env` gives way to it.
    """

    command: tuple[str, ...]
    owned_env: tuple[tuple[str, str], ...] = ()
    default_env: tuple[tuple[str, str], ...] = ()
    has_bootstrap_port: bool = False


def engine_arguments(declaration: RoleDeclaration) -> EngineArguments:
    """Return the whole command line of a managed role, and the environment that belongs to it."""
    transfer, owned_env, default_env = _transfer(declaration)
    command = (
        *_base_command(declaration),
        *transfer,
        *declaration.extra_args,
        *_bind_address(declaration),
    )
    return EngineArguments(
        command=command,
        owned_env=owned_env,
        default_env=default_env,
        has_bootstrap_port=declaration.kind is RoleKind.PREFILL,
    )


def _base_command(declaration: RoleDeclaration) -> tuple[str, ...]:
    match declaration.engine.name:
        case EngineName.VLLM:
            return ("vllm", "serve", declaration.model)
        case EngineName.SGLANG:
            # Without its metrics the drain hook could not see what is in flight.
            return (
                *("python3", "-m", "sglang.launch_server"),
                *("--model-path", declaration.model, "--enable-metrics"),
            )
        case never:
            assert_never(never)


def _bind_address(declaration: RoleDeclaration) -> tuple[str, ...]:
    # The engines disagree on both defaults, so both are said unless the role says them.
    options = read_options(declaration.engine.name, declaration.extra_args)
    host = () if has_flag(options, "--host") else ("--host", "0.0.0.0")  # noqa: S104
    port = () if has_flag(options, "--port") else ("--port", str(listener_of(declaration).port))
    return (*host, *port)


_Pairs = tuple[tuple[str, str], ...]


def _transfer(declaration: RoleDeclaration) -> tuple[tuple[str, ...], _Pairs, _Pairs]:
    """Return the arguments and the owned and default environment of a half of a pair."""
    if declaration.kind is RoleKind.SERVER:
        return (), (), ()
    declared = declaration.kv_transfer.protocol if declaration.kv_transfer else None
    protocol = TRANSFER_PROTOCOLS[declared or TransferProtocol.TCP]
    match declaration.engine.name:
        case EngineName.VLLM:
            return _vllm_transfer(declaration.kind, protocol)
        case EngineName.SGLANG:
            return _sglang_transfer(declaration.kind, protocol)
        case never:
            assert_never(never)


def _vllm_transfer(kind: RoleKind, protocol: str) -> tuple[tuple[str, ...], _Pairs, _Pairs]:
    document = {
        "kv_connector": "MooncakeConnector",
        "kv_role": _CONNECTOR_ROLES[kind],
        "kv_connector_extra_config": {"mooncake_protocol": protocol},
    }
    owned: _Pairs = ()
    if kind is RoleKind.PREFILL:
        owned = (("VLLM_MOONCAKE_BOOTSTRAP_PORT", str(BOOTSTRAP_PORT)),)
    defaults: _Pairs = (("MC_TE_METRIC", "1"),)
    if protocol == "tcp":
        # The document only asks for a protocol; this makes the transfer engine keep to it.
        defaults = (*defaults, ("MC_FORCE_TCP", "1"))
    text = json.dumps(document, separators=(",", ":"))
    return ("--kv-transfer-config", text), owned, defaults


def _sglang_transfer(kind: RoleKind, protocol: str) -> tuple[tuple[str, ...], _Pairs, _Pairs]:
    arguments: tuple[str, ...] = (
        *("--disaggregation-mode", kind.lower()),
        *(
            "--disaggregation-transfer-backend",
            "mooncake_tcp" if protocol == "tcp" else "mooncake",
        ),
    )
    if kind is RoleKind.PREFILL:
        arguments = (*arguments, "--disaggregation-bootstrap-port", str(BOOTSTRAP_PORT))
    return arguments, (), (("MC_TE_METRIC", "1"),)
