"""What one member asks of its node: the geometry of a request and the Pod resources it becomes.

Arithmetic is exact. Cores are rounded up, memory and storage down to whole Gi, units down.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Annotated, Final

from pydantic import AliasChoices, Field

from gpustack_deploy.model import identity
from gpustack_deploy.model.declared import WHOLE_NUMBER, Declared, Text
from gpustack_deploy.model.instance_type import InstanceType
from gpustack_deploy.model.quantity import (
    GI,
    MI,
    binary_quantity,
    decimal_quantity,
    parse_quantity,
)

UNITS_PER_CARD: Final = 1_600_000
_EPHEMERAL_STORAGE_GI: Final = 15
_OVERCOMMIT_MILLICORES_WITH_CARDS: Final = 100
_OVERCOMMIT_MILLICORES_WITHOUT_CARDS: Final = 800
_OVERCOMMIT_MI_PER_GI: Final = 128

Percentage = Annotated[int, Field(ge=0, le=100), WHOLE_NUMBER]


class GeometryMode(StrEnum):
    """How a member holds its cards."""

    WHOLE = "whole"
    SLICE = "slice"
    PARTITION = "partition"
    NONE = "none"


class Resources(Declared):
    """A role's accelerator request for one member.

    Whole cards (`count`), a slice of one card (percentages), a partition of one card (`profile`),
    or none (`count` 0). A percentage of 0 is an unset one.
    """

    count: Annotated[int, Field(ge=0, le=1024), WHOLE_NUMBER] | None = Field(
        default=None, validation_alias=AliasChoices("count", "accelerator")
    )
    memory_percentage: Percentage | None = None
    cores_percentage: Percentage | None = None
    profile: Text | None = None

    @property
    def has_percentage(self) -> bool:
        """Whether it asks for a slice."""
        return bool(self.memory_percentage or self.cores_percentage)


class Fabric(StrEnum):
    """The network that a member's interfaces belong to."""

    RDMA = "RDMA"
    EFA = "EFA"


@dataclass(frozen=True, slots=True)
class Geometry:
    """The resolved accelerator shape of one member."""

    mode: GeometryMode
    count: int = 0
    memory_percentage: int = 0
    cores_percentage: int = 0
    profile: str = ""
    interfaces: int = 0


@dataclass(frozen=True, slots=True)
class PodResources:
    """Requests and limits of the engine container; device keys are equal in both."""

    requests: Mapping[str, str]
    limits: Mapping[str, str]


def resolve_geometry(
    resources: Resources | None, *, instance_type: InstanceType, interfaces: int = 0
) -> Geometry:
    """Return the geometry that the request means on that type.

    An unset count is one card on a type that has cards; one percentage stands for both.
    """
    asked = resources or Resources()
    count = asked.count
    if count is None:
        count = 1 if instance_type.is_acceleratable else 0
    if asked.profile:
        return Geometry(GeometryMode.PARTITION, 1, profile=asked.profile, interfaces=interfaces)
    if asked.has_percentage:
        memory = asked.memory_percentage or asked.cores_percentage or 0
        cores = asked.cores_percentage or memory
        return Geometry(GeometryMode.SLICE, 1, memory, cores, interfaces=interfaces)
    if count == 0 or not instance_type.is_acceleratable:
        return Geometry(GeometryMode.NONE, interfaces=interfaces)
    return Geometry(GeometryMode.WHOLE, count, interfaces=interfaces)


def render_resources(
    geometry: Geometry, *, instance_type: InstanceType, fabric: Fabric
) -> PodResources:
    """Return the requests and limits of one member, in the spelling the API server keeps."""
    share = host_share(geometry, instance_type=instance_type)
    cores = math.ceil(share * parse_quantity(instance_type.unit_cpu))
    memory_gi = math.floor(share * parse_quantity(instance_type.unit_memory) / GI)
    storage_gi = _EPHEMERAL_STORAGE_GI
    if instance_type.local_storage is not None:
        storage_gi = min(storage_gi, math.floor(parse_quantity(instance_type.local_storage) / GI))
    limits = {
        "cpu": decimal_quantity(cores),
        "memory": binary_quantity(memory_gi * GI),
        "ephemeral-storage": binary_quantity(storage_gi * GI),
    }
    requests = dict(limits)
    if instance_type.overcommit:
        millicores = (
            _OVERCOMMIT_MILLICORES_WITH_CARDS
            if instance_type.is_acceleratable
            else _OVERCOMMIT_MILLICORES_WITHOUT_CARDS
        )
        requests = {
            "cpu": decimal_quantity(Fraction(cores * millicores, 1000)),
            "memory": binary_quantity(memory_gi * _OVERCOMMIT_MI_PER_GI * MI),
            "ephemeral-storage": binary_quantity(storage_gi * _OVERCOMMIT_MI_PER_GI * MI),
        }
    devices = device_requests(geometry, instance_type=instance_type, fabric=fabric)
    return PodResources(requests={**requests, **devices}, limits={**limits, **devices})


def host_share(geometry: Geometry, *, instance_type: InstanceType) -> Fraction:
    """Return how many times a card's host share the member gets.

    Cores of a slice do not count, only its memory does. A partition that cannot be sized counts as
    nothing: rules refuse it before it is rendered.
    """
    match geometry.mode:
        case GeometryMode.SLICE:
            return Fraction(geometry.memory_percentage, 100)
        case GeometryMode.PARTITION:
            return instance_type.profile_share(geometry.profile) or Fraction(0)
        case GeometryMode.WHOLE:
            return Fraction(geometry.count)
        case GeometryMode.NONE:
            return Fraction(1)


def device_requests(
    geometry: Geometry, *, instance_type: InstanceType, fabric: Fabric
) -> dict[str, str]:
    """Return the device keys of the member: those of one family, and its interfaces."""
    devices: dict[str, str] = {}
    family = instance_type.family
    if family is not None:
        base = family.device_key
        units = host_share(geometry, instance_type=instance_type) * UNITS_PER_CARD
        match geometry.mode:
            case GeometryMode.WHOLE:
                devices[base] = decimal_quantity(geometry.count)
            case GeometryMode.SLICE:
                devices[f"{base}.sliced"] = "1"
                devices[f"{base}.sliced.memory-percentage"] = str(geometry.memory_percentage)
                devices[f"{base}.sliced.cores-percentage"] = str(geometry.cores_percentage)
                devices[f"{base}.sliced.units"] = decimal_quantity(math.floor(units))
            case GeometryMode.PARTITION:
                profile = f"{family.partition_kind}-{geometry.profile}"
                devices[f"{base}.partitioned"] = "1"
                devices[f"{base}.partitioned.{profile}"] = "1"
                devices[f"{base}.partitioned.units"] = decimal_quantity(math.floor(units))
            case GeometryMode.NONE:
                pass
    if geometry.interfaces:
        devices[_interface_key(geometry.interfaces, fabric)] = decimal_quantity(geometry.interfaces)
    return devices


def _interface_key(interfaces: int, fabric: Fabric) -> str:
    if fabric is Fabric.EFA:
        return identity.EFA
    return identity.RDMA_SHARED if interfaces == 1 else identity.RDMA
