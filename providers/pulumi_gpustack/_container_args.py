"""What users write about the engine container: environment, ports, readiness."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Required, TypedDict

from pulumi import Input

from pulumi_gpustack._wire import Args, Blocks


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyRef(Args):
    """One key of a Secret or a ConfigMap; the pair `(name, key)` is the short form."""

    name: Input[str]
    """Name of the object, in the deployment's namespace."""

    key: Input[str]
    """The key in it."""


class KeyRefDict(TypedDict):
    """The dict form of `KeyRef`."""

    name: Input[str]
    key: Input[str]


AnyKeyRef = tuple[Input[str], Input[str]] | KeyRef | KeyRefDict


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Env(Args):
    """One environment variable with exactly one source."""

    name: Input[str] = field(kw_only=False)
    """The variable's name."""

    value: Input[str] | None = None
    """A literal value; it stands in the Pod in the clear, a Pulumi secret too."""

    secret_ref: AnyKeyRef | None = None
    """A key of a Secret: the way for tokens."""

    config_map_ref: AnyKeyRef | None = None
    """A key of a ConfigMap."""

    field_ref: Input[str] | None = None
    """A field of the Pod, such as `status.podIP`."""

    blocks: ClassVar[Blocks] = {"secret_ref": KeyRef, "config_map_ref": KeyRef}


class EnvDict(TypedDict, total=False):
    """The dict form of `Env`."""

    name: Required[Input[str]]
    value: Input[str]
    secret_ref: AnyKeyRef
    config_map_ref: AnyKeyRef
    field_ref: Input[str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Port(Args):
    """One port of the engine container and of the role's Service; its name is derived."""

    port: Input[int] = field(kw_only=False)
    """The number, 1 to 65535; the role's first port is the one its endpoint shows."""

    protocol: Input[str] | None = None
    """`TCP` (default), `UDP` or `SCTP`."""


class PortDict(TypedDict, total=False):
    """The dict form of `Port`."""

    port: Required[Input[int]]
    protocol: Input[str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HttpReadiness(Args):
    """Ready while a GET answers with success."""

    path: Input[str]
    """The path, such as `/health`."""

    port: Input[int]
    """The port of the container."""


class HttpReadinessDict(TypedDict):
    """The dict form of `HttpReadiness`."""

    path: Input[str]
    port: Input[int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExecReadiness(Args):
    """Ready while a command in the container ends with 0."""

    command: Sequence[Input[str]] = field(kw_only=False)
    """The command and its arguments."""


class ExecReadinessDict(TypedDict):
    """The dict form of `ExecReadiness`."""

    command: Sequence[Input[str]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Readiness(Args):
    """How a role with its own `command` is found ready: exactly one of the two."""

    http: HttpReadiness | HttpReadinessDict | None = None
    """By an HTTP GET."""

    exec: ExecReadiness | ExecReadinessDict | None = None
    """By a command."""

    blocks: ClassVar[Blocks] = {"http": HttpReadiness, "exec": ExecReadiness}


class ReadinessDict(TypedDict, total=False):
    """The dict form of `Readiness`."""

    http: HttpReadiness | HttpReadinessDict
    exec: ExecReadiness | ExecReadinessDict
