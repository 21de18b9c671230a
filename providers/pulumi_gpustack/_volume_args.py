"""What users write about volumes of the engine container."""

from dataclasses import dataclass, field
from typing import ClassVar, Required, TypedDict

from pulumi import Input

from pulumi_gpustack._wire import Args, Blocks


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ObjectSource(Args):
    """A ConfigMap or a Secret, mounted whole."""

    name: Input[str] = field(kw_only=False)
    """Name of the object, in the deployment's namespace."""


class ObjectSourceDict(TypedDict):
    """The dict form of `ObjectSource`."""

    name: Input[str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HostPathSource(Args):
    """A path of the node."""

    path: Input[str] = field(kw_only=False)
    """The absolute path."""

    type: Input[str] | None = None
    """What Kubernetes checks of the path, such as `Directory`."""


class HostPathSourceDict(TypedDict, total=False):
    """The dict form of `HostPathSource`."""

    path: Required[Input[str]]
    type: Input[str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClaimSource(Args):
    """A PersistentVolumeClaim."""

    claim_name: Input[str] = field(kw_only=False)
    """Name of the claim, in the deployment's namespace."""


class ClaimSourceDict(TypedDict):
    """The dict form of `ClaimSource`."""

    claim_name: Input[str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EmptyDirSource(Args):
    """Scratch space that lives as long as the member."""

    medium: Input[str] | None = None
    """`Memory`, or unset for disk."""

    size_limit: Input[str] | None = None
    """The most it may hold."""


class EmptyDirSourceDict(TypedDict, total=False):
    """The dict form of `EmptyDirSource`."""

    medium: Input[str]
    size_limit: Input[str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Volume(Args):
    """One mount of the engine container, with exactly one source."""

    mount_path: Input[str]
    """Where it is mounted; absolute."""

    read_only: Input[bool] | None = None
    """Whether the container may only read it."""

    sub_path: Input[str] | None = None
    """A path inside the volume to mount in place of its root."""

    config_map: ObjectSource | ObjectSourceDict | None = None
    """A ConfigMap."""

    secret: ObjectSource | ObjectSourceDict | None = None
    """A Secret."""

    host_path: HostPathSource | HostPathSourceDict | None = None
    """A path of the node."""

    persistent_volume_claim: ClaimSource | ClaimSourceDict | None = None
    """A PersistentVolumeClaim."""

    empty_dir: EmptyDirSource | EmptyDirSourceDict | None = None
    """Scratch space."""

    blocks: ClassVar[Blocks] = {
        "config_map": ObjectSource,
        "secret": ObjectSource,
        "host_path": HostPathSource,
        "persistent_volume_claim": ClaimSource,
        "empty_dir": EmptyDirSource,
    }


class VolumeDict(TypedDict, total=False):
    """The dict form of `Volume`."""

    mount_path: Required[Input[str]]
    read_only: Input[bool]
    sub_path: Input[str]
    config_map: ObjectSource | ObjectSourceDict
    secret: ObjectSource | ObjectSourceDict
    host_path: HostPathSource | HostPathSourceDict
    persistent_volume_claim: ClaimSource | ClaimSourceDict
    empty_dir: EmptyDirSource | EmptyDirSourceDict
