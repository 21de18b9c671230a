"""Rules about the instance type, the accelerator request and the interfaces of a role."""

from collections.abc import Iterator
from typing import Final

from gpustack_deploy.model.hardware import GeometryMode, Resources
from gpustack_deploy.model.instance_type import ACCELERATOR_FAMILIES
from gpustack_deploy.model.quantity import parse_quantity
from gpustack_deploy.model.refusals import Problem
from gpustack_deploy.model.role import EngineName, RoleDeclaration, RoleKind, TransferProtocol
from gpustack_deploy.model.rule import Rule

_BACKEND_WITHOUT_TRANSFER: Final = "cann"


def _instance_type(declaration: RoleDeclaration) -> Iterator[Problem]:
    offer = declaration.instance_type
    if not offer.is_acceleratable:
        if parse_quantity(offer.unit_cpu) != 1:
            yield Problem(
                "instanceType.unitCpu",
                f"found {offer.unit_cpu!r} on a type without cards, needed 1 (its unit is one"
                " core); set 1, or name its `acceleratorGroup`",
            )
        return
    if offer.family is None:
        known = ", ".join(sorted(ACCELERATOR_FAMILIES))
        yield Problem(
            "instanceType.acceleratorGroup",
            f"found {offer.accelerator_group!r}, needed a group that begins with a known"
            f" manufacturer ({known}); name it like nvidia-h200",
        )
        return
    if not offer.is_partitioned:
        return
    if offer.sliceable:
        yield Problem(
            "instanceType.sliceable",
            "found true beside `partitionProfiles`, needed one of the two (a card serves slices or"
            " partitions, never both); remove one",
        )
    if not offer.family.partition_kind:
        yield Problem(
            "instanceType.partitionProfiles",
            f"found profiles on cards of {offer.manufacturer}, which cannot be partitioned; needed"
            " none; remove them",
        )
    if offer.accelerator_memory is None:
        yield Problem(
            "instanceType.acceleratorMemory",
            "found nothing beside `partitionProfiles`, needed the memory of one card to size them;"
            " write it",
        )
        return
    card = parse_quantity(offer.accelerator_memory)
    for position, profile in enumerate(offer.partition_profiles):
        if parse_quantity(profile.memory) > card:
            yield Problem(
                f"instanceType.partitionProfiles[{position}].memory",
                f"found {profile.memory!r}, needed at most the card's {offer.accelerator_memory!r};"
                " correct one of the two",
            )


def _resources(declaration: RoleDeclaration) -> Iterator[Problem]:
    asked, offer = declaration.resources or Resources(), declaration.instance_type
    if offer.is_acceleratable and offer.family is None:
        return
    if asked.profile and asked.has_percentage:
        yield Problem(
            "resources",
            "found a profile and percentages, needed one of the two (one card cannot serve both);"
            " remove one",
        )
        return
    if (asked.profile or asked.has_percentage) and asked.count not in (None, 1):
        yield Problem(
            "resources.count",
            f"found {asked.count} beside a share of a card, needed 1 or none; remove it",
        )
        return
    if not offer.is_acceleratable:
        if asked.count or asked.profile or asked.has_percentage:
            yield Problem(
                "resources",
                f"found an accelerator request on type {offer.name!r}, which has no cards; needed"
                " none; remove it, or choose a type with cards",
            )
        return
    yield from _offered(declaration)


def _offered(declaration: RoleDeclaration) -> Iterator[Problem]:
    geometry, offer = declaration.geometry, declaration.instance_type
    match geometry.mode:
        case GeometryMode.PARTITION:
            offered = [profile.name for profile in offer.partition_profiles]
            if not offered:
                yield Problem(
                    "resources.profile",
                    f"found {geometry.profile!r} on type {offer.name!r}, whose cards are not"
                    " partitioned; needed a type with `partitionProfiles`; choose one",
                )
            elif geometry.profile not in offered:
                yield Problem(
                    "resources.profile",
                    f"found {geometry.profile!r}, needed one that type {offer.name!r} offers"
                    f" ({', '.join(offered)}); choose one of these",
                )
        case GeometryMode.SLICE:
            if not offer.sliceable:
                yield Problem(
                    "resources",
                    f"found a slice on type {offer.name!r}, which offers none; needed a type that"
                    " is `sliceable`; choose one, or ask for whole cards",
                )
        case GeometryMode.WHOLE:
            if offer.is_partitioned:
                yield Problem(
                    "resources",
                    f"found {geometry.count} whole card(s) on type {offer.name!r}, whose cards are"
                    " partitioned; needed a `profile`; choose one of"
                    f" {', '.join(profile.name for profile in offer.partition_profiles)}",
                )
            capacity = offer.accelerator_capacity
            if capacity is not None and geometry.count > capacity:
                yield Problem(
                    "resources.count",
                    f"found {geometry.count}, needed at most the {capacity} card(s) that type"
                    f" {offer.name!r} has in all; lower it",
                )
        case GeometryMode.NONE:
            pass


def _interface(declaration: RoleDeclaration) -> Iterator[Problem]:
    # Above size 1 and on take-over roles the fabric carries collective traffic (D17).
    if not declaration.interface or declaration.size > 1 or not declaration.is_managed:
        return
    transfer = declaration.kv_transfer
    protocol = transfer.protocol if transfer else None
    if declaration.kind is RoleKind.SERVER or declaration.engine.name is not EngineName.VLLM:
        yield Problem(
            "interface",
            f"found {declaration.interface} on a {declaration.engine.name} {declaration.kind} of"
            " size 1, which moves nothing over a fabric; needed the half of a vLLM pair, a size"
            " above 1 or a `command`; set it to 0",
        )
    elif protocol not in (TransferProtocol.RDMA, TransferProtocol.EFA):
        yield Problem(
            "interface",
            f"found {declaration.interface} on a pair that transfers over {protocol or 'TCP'};"
            " needed `kvTransfer.protocol` RDMA or EFA; set it, or set the interface to 0",
        )


def _transfer(declaration: RoleDeclaration) -> Iterator[Problem]:
    if (
        declaration.is_managed
        and declaration.kind is not RoleKind.SERVER
        and declaration.engine.name is EngineName.VLLM
        and declaration.instance_type.runner_backend == _BACKEND_WITHOUT_TRANSFER
    ):
        yield Problem(
            "kind",
            f"found a vLLM {declaration.kind} on Ascend cards, whose transfer between the halves is"
            " not supported in this version; use SGLang, or own the whole line with `command`",
        )


_TYPE: Final = ("instanceType",)
HARDWARE_RULES: Final = (
    Rule(_instance_type, reads=_TYPE),
    Rule(_resources, reads=("resources", *_TYPE)),
    Rule(_interface, reads=("kind", "size", "command", "engine.name", "kvTransfer")),
    Rule(
        _transfer,
        reads=(
            "command",
            "engine.name",
            "instanceType.backend",
            "instanceType.acceleratorGroup",
        ),
    ),
)
