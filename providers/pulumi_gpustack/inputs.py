"""What users write: args classes, each with a dict form; every leaf is a `pulumi.Input`.

Defaults, limits and refusals are not repeated here: `check` applies them to both front ends alike.
An unset field takes the default that its sentence names.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Required, TypedDict

from pulumi import Input

from pulumi_gpustack._container_args import (
    Env,
    EnvDict,
    ExecReadiness,
    ExecReadinessDict,
    HttpReadiness,
    HttpReadinessDict,
    KeyRef,
    KeyRefDict,
    Port,
    PortDict,
    Readiness,
    ReadinessDict,
)
from pulumi_gpustack._hardware_args import (
    AnyResources,
    InstanceType,
    InstanceTypeDict,
    Partition,
    PartitionProfile,
    PartitionProfileDict,
    ResourcesDict,
    Slice,
    WholeGpu,
)
from pulumi_gpustack._pod_args import Pod, PodDict, Service, ServiceDict, Toleration, TolerationDict
from pulumi_gpustack._volume_args import (
    ClaimSource,
    ClaimSourceDict,
    EmptyDirSource,
    EmptyDirSourceDict,
    HostPathSource,
    HostPathSourceDict,
    ObjectSource,
    ObjectSourceDict,
    Volume,
    VolumeDict,
)
from pulumi_gpustack._wire import Args, Blocks

__all__ = [
    "ClaimSource",
    "ClaimSourceDict",
    "Connection",
    "ConnectionDict",
    "EmptyDirSource",
    "EmptyDirSourceDict",
    "Engine",
    "EngineDict",
    "Env",
    "EnvDict",
    "ExecReadiness",
    "ExecReadinessDict",
    "HostPathSource",
    "HostPathSourceDict",
    "HttpReadiness",
    "HttpReadinessDict",
    "InstanceType",
    "InstanceTypeDict",
    "KeyRef",
    "KeyRefDict",
    "KvTransfer",
    "KvTransferDict",
    "ObjectSource",
    "ObjectSourceDict",
    "Partition",
    "PartitionProfile",
    "PartitionProfileDict",
    "Pod",
    "PodDict",
    "Port",
    "PortDict",
    "Readiness",
    "ReadinessDict",
    "ResourcesDict",
    "Role",
    "RoleDict",
    "Rollout",
    "RolloutDict",
    "Service",
    "ServiceDict",
    "Slice",
    "Toleration",
    "TolerationDict",
    "Topology",
    "TopologyDict",
    "Volume",
    "VolumeDict",
    "WholeGpu",
]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Engine(Args):
    """The engine that serves the model."""

    name: Input[str]
    """`vLLM` or `SGLang`; fixed when the deployment is created."""

    version: Input[str] | None = None
    """Its version; names the runner image of roles without an `image`."""


class EngineDict(TypedDict, total=False):
    """The dict form of `Engine`."""

    name: Required[Input[str]]
    version: Input[str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KvTransfer(Args):
    """The link between the halves of a prefill/decode pair."""

    protocol: Input[str] | None = None
    """`Auto`, `TCP` (default), `RDMA`, `EFA`, `CANN` or `ROCM`."""


class KvTransferDict(TypedDict, total=False):
    """The dict form of `KvTransfer`."""

    protocol: Input[str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Topology(Args):
    """Where one replica's members must stand together."""

    required_level: Input[str] | None = None
    """The label key of the topology level, such as `cloud.example.com/rack`."""


class TopologyDict(TypedDict, total=False):
    """The dict form of `Topology`."""

    required_level: Input[str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rollout(Args):
    """How a replacement is paced and how long it is waited for; changes no Pod."""

    gate: Input[str] | None = None
    """`Ready` (default: every member Ready) or `Admitted`, before the next replica goes."""

    deadline_seconds: Input[int] | None = None
    """How long a run waits without progress; 1800 by default."""

    admission_wait_seconds: Input[int] | None = None
    """How long a run waits where only admission is missing and it cannot wait longer; 120."""

    lost_node: Input[str] | None = None
    """What becomes of a member that leaves from a lost node: `Wait`, the only one for now."""


class RolloutDict(TypedDict, total=False):
    """The dict form of `Rollout`."""

    gate: Input[str]
    deadline_seconds: Input[int]
    admission_wait_seconds: Input[int]
    lost_node: Input[str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Connection(Args):
    """Which cluster holds the deployment, by name; credentials never go into a program."""

    context: Input[str]
    """A context of the kubeconfig."""


class ConnectionDict(TypedDict):
    """The dict form of `Connection`."""

    context: Input[str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Role(Args):
    """A named part of a deployment, with replicas and a shape of its own."""

    name: str
    """The role's name; plain text, fixed when the deployment is created."""

    instance_type: InstanceType | InstanceTypeDict | str
    """The hardware profile, or the name of one of the `profiles`."""

    kind: Input[str] | None = None
    """`Server` (default), `Prefill` or `Decode`; fixed when the deployment is created."""

    replicas: Input[int] | None = None
    """Independent serving instances; 1 by default."""

    size: Input[int] | None = None
    """Members (Pods) of one replica; 1 by default."""

    resources: WholeGpu | Slice | Partition | ResourcesDict | None = None
    """What one member asks for; one whole card by default."""

    interface: Input[int] | None = None
    """RDMA or EFA interfaces of one member; none by default."""

    command: Sequence[Input[str]] | None = None
    """A command line of your own; without it the engine's command line is built."""

    extra_args: Sequence[Input[str]] | None = None
    """Arguments added to the built command line."""

    readiness: Readiness | ReadinessDict | None = None
    """How a role with its own `command` is found ready."""

    startup_timeout_seconds: Input[int] | None = None
    """How long a member may take to start serving; 3600 by default."""

    image: Input[str] | None = None
    """The image; by default the runner image of backend, runtime and engine version."""

    image_pull_policy: Input[str] | None = None
    """`Always`, `IfNotPresent` or `Never`."""

    image_pull_secrets: Sequence[Input[str]] | None = None
    """Names of the Secrets to pull with."""

    privileged: Input[bool] | None = None
    """Whether the engine container is privileged."""

    ports: "Sequence[Port | PortDict] | None" = None
    """Ports of the container and the Service; 8000 by default."""

    volumes: "Sequence[Volume | VolumeDict] | None" = None
    """Mounts of the engine container."""

    shm_size: Input[str] | None = None
    """Size of `/dev/shm`; 16Gi by default."""

    termination_grace_period_seconds: Input[int] | None = None
    """How long a member may drain, 15 to 3600 seconds."""

    env: "Sequence[Env | EnvDict] | None" = None
    """Environment of the engine container."""

    topology: Topology | TopologyDict | None = None
    """Where one replica's members must stand together."""

    pod: Pod | PodDict | None = None
    """Pod settings; its keys win over the deployment's."""

    service: Service | ServiceDict | None = None
    """Service settings; its keys win over the deployment's."""

    rollout: Rollout | RolloutDict | None = None
    """Rollout settings; its keys win over the deployment's."""

    blocks: ClassVar[Blocks] = {
        "instance_type": InstanceType,
        "resources": AnyResources,
        "readiness": Readiness,
        "ports": Port,
        "volumes": Volume,
        "env": Env,
        "topology": Topology,
        "pod": Pod,
        "service": Service,
        "rollout": Rollout,
    }


class RoleDict(TypedDict, total=False):
    """The dict form of `Role`."""

    name: Required[str]
    instance_type: Required[InstanceType | InstanceTypeDict | str]
    kind: Input[str]
    replicas: Input[int]
    size: Input[int]
    resources: WholeGpu | Slice | Partition | ResourcesDict
    interface: Input[int]
    command: Sequence[Input[str]]
    extra_args: Sequence[Input[str]]
    readiness: Readiness | ReadinessDict
    startup_timeout_seconds: Input[int]
    image: Input[str]
    image_pull_policy: Input[str]
    image_pull_secrets: Sequence[Input[str]]
    privileged: Input[bool]
    ports: Sequence[Port | PortDict]
    volumes: Sequence[Volume | VolumeDict]
    shm_size: Input[str]
    termination_grace_period_seconds: Input[int]
    env: Sequence[Env | EnvDict]
    topology: Topology | TopologyDict
    pod: Pod | PodDict
    service: Service | ServiceDict
    rollout: Rollout | RolloutDict
