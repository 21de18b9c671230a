"""InstanceType: the cluster's offer of a hardware pool, declared as data.

Its cards are either unpartitioned (they serve whole cards and slices) or partitioned (they serve
partitions only); a pool that lists partition profiles is a partitioned one.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Final

from pydantic import AliasChoices, Field

from gpustack_deploy.model.declared import (
    WHOLE_NUMBER,
    Declared,
    LabelName,
    Name,
    Quantity,
    SizeQuantity,
    Text,
)
from gpustack_deploy.model.quantity import parse_quantity


@dataclass(frozen=True, slots=True)
class AcceleratorFamily:
    """One manufacturer: its device key, its runner backend and its word for partitions."""

    device_key: str
    backend: str = ""
    partition_kind: str = ""


# The manufacturer is what stands before the first dash of an accelerator group.
ACCELERATOR_FAMILIES: Final[dict[str, AcceleratorFamily]] = {
    "amd": AcceleratorFamily("amd.com/gpu", "rocm"),
    "ascend": AcceleratorFamily("huawei.com/npu", "cann"),
    "cambricon": AcceleratorFamily("cambricon.com/mlu"),
    "hygon": AcceleratorFamily("hygon.com/dcu", "dtk", "mig"),
    "iluvatar": AcceleratorFamily("iluvatar.com/gpu", "corex"),
    "metax": AcceleratorFamily("metax-tech.com/gpu", "maca"),
    "mthreads": AcceleratorFamily("mthreads.com/gpu", "musa"),
    "nvidia": AcceleratorFamily("nvidia.com/gpu", "cuda", "mig"),
    "thead": AcceleratorFamily("alibabacloud.com/ppu", "hggc", "mig"),
}


class PartitionProfile(Declared):
    """One partition shape that the pool's cards offer, with the memory it takes."""

    name: Text
    memory: SizeQuantity


class InstanceType(Declared):
    """A pool of equal nodes behind one LocalQueue; CPU and memory are one card's host share.

    Without an accelerator group the type has no cards, and its host share is one core's.
    """

    name: Text
    local_queue: LabelName = Field(
        validation_alias=AliasChoices("localQueue", "local_queue", "entrance")
    )
    accelerator_group: Annotated[str, Field(max_length=63)] = ""
    unit_cpu: SizeQuantity
    unit_memory: Quantity
    accelerator_memory: SizeQuantity | None = None
    accelerator_capacity: Annotated[int, Field(ge=1), WHOLE_NUMBER] | None = None
    local_storage: Quantity | None = None
    sliceable: bool = False
    partition_profiles: tuple[PartitionProfile, ...] = ()
    backend: Name | None = None
    runtime_version: Text | None = None
    runtime_variant: Name | None = None
    os: Name = "linux"
    arch: Name = "amd64"
    overcommit: bool = True

    @property
    def manufacturer(self) -> str:
        """The manufacturer that the accelerator group begins with; empty for a CPU-only type."""
        return self.accelerator_group.split("-", 1)[0]

    @property
    def is_acceleratable(self) -> bool:
        """Whether the type has cards."""
        return bool(self.accelerator_group)

    @property
    def is_partitioned(self) -> bool:
        """Whether the cards serve partitions, and then nothing else."""
        return bool(self.partition_profiles)

    @property
    def family(self) -> AcceleratorFamily | None:
        """The manufacturer's keys; none for a CPU-only or an unknown group."""
        return ACCELERATOR_FAMILIES.get(self.manufacturer)

    @property
    def runner_backend(self) -> str:
        """The backend named in runner images: declared, or the manufacturer's; may be empty."""
        return self.backend or (self.family.backend if self.family else "")

    def profile_share(self, profile: str) -> Fraction | None:
        """Return the share of a card's memory that a partition takes; none when not offered."""
        if self.accelerator_memory is None:
            return None
        card = parse_quantity(self.accelerator_memory)
        for offered in self.partition_profiles:
            if offered.name == profile:
                return parse_quantity(offered.memory) / card
        return None
