"""What users write about hardware: profiles, and what one member asks of its node."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Required, TypedDict

from pulumi import Input

from pulumi_gpustack._wire import Args, Blocks


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartitionProfile(Args):
    """One partition shape that the pool's cards offer."""

    name: Input[str]
    """The profile's name, such as `3g.71gb`."""

    memory: Input[str]
    """Memory of one partition; its share of `accelerator_memory` sizes the host share."""


class PartitionProfileDict(TypedDict):
    """The dict form of `PartitionProfile`."""

    name: Input[str]
    memory: Input[str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InstanceType(Args):
    """A hardware profile: a pool of equal nodes behind one LocalQueue of Kueue."""

    name: Input[str]
    """The profile's name; messages name it."""

    local_queue: Input[str]
    """The LocalQueue of the deployment's namespace that admits its Pods."""

    unit_cpu: Input[str | int | float]
    """CPU that goes with one card; without cards, with one member."""

    unit_memory: Input[str]
    """Memory that goes with one card."""

    accelerator_group: Input[str] | None = None
    """Manufacturer and model, such as `nvidia-h200`; unset for a pool without cards."""

    accelerator_memory: Input[str] | None = None
    """Memory of one card; partitions are sized by it."""

    accelerator_capacity: Input[int] | None = None
    """Cards of the whole pool; a member may not ask for more."""

    local_storage: Input[str] | None = None
    """Local disk of one node; caps the scratch space of a member."""

    sliceable: Input[bool] | None = None
    """Whether the cards serve slices."""

    partition_profiles: "Sequence[PartitionProfile | PartitionProfileDict] | None" = None
    """Partitions that the cards offer; a pool with any serves partitions only."""

    backend: Input[str] | None = None
    """Backend in the runner image's name; the manufacturer's by default."""

    runtime_version: Input[str] | None = None
    """Runtime version in the runner image's name, such as `12.8`."""

    runtime_variant: Input[str] | None = None
    """Variant in the runner image's name."""

    os: Input[str] | None = None
    """Operating system of the nodes; `linux` by default."""

    arch: Input[str] | None = None
    """Architecture of the nodes; `amd64` by default."""

    overcommit: Input[bool] | None = None
    """Whether CPU, memory and storage are requested at a fraction of their limits (default)."""

    blocks: ClassVar[Blocks] = {"partition_profiles": PartitionProfile}


class InstanceTypeDict(TypedDict, total=False):
    """The dict form of `InstanceType`."""

    name: Required[Input[str]]
    local_queue: Required[Input[str]]
    unit_cpu: Required[Input[str | int | float]]
    unit_memory: Required[Input[str]]
    accelerator_group: Input[str]
    accelerator_memory: Input[str]
    accelerator_capacity: Input[int]
    local_storage: Input[str]
    sliceable: Input[bool]
    partition_profiles: Sequence[PartitionProfile | PartitionProfileDict]
    backend: Input[str]
    runtime_version: Input[str]
    runtime_variant: Input[str]
    os: Input[str]
    arch: Input[str]
    overcommit: Input[bool]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WholeGpu(Args):
    """Whole cards for one member."""

    count: Input[int] = field(default=1)
    """How many; 0 asks for none."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Slice(Args):
    """A share of one card for one member; one percentage alone stands for both."""

    memory_percentage: Input[int] | None = None
    """Share of the card's memory, 1 to 100."""

    cores_percentage: Input[int] | None = None
    """Share of the card's compute, 1 to 100."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Partition(Args):
    """One partition of one card for one member."""

    profile: Input[str]
    """A name among the profile's `partition_profiles`."""


class ResourcesDict(TypedDict, total=False):
    """The dict form of `WholeGpu`, `Slice` and `Partition`: the keys of exactly one of them."""

    count: Input[int]
    memory_percentage: Input[int]
    cores_percentage: Input[int]
    profile: Input[str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AnyResources(Args):
    """Every key that the three ways to ask for cards have; only the dict form is read by it."""

    count: Input[int] | None = None
    """See `WholeGpu`."""

    memory_percentage: Input[int] | None = None
    """See `Slice`."""

    cores_percentage: Input[int] | None = None
    """See `Slice`."""

    profile: Input[str] | None = None
    """See `Partition`."""
