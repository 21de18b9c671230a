"""The Services of a role: which are wanted, by what stands, and how existing ones differ (D9, D10).

Routing follows the deployed members until the last old one left. A selector narrows to the leader
while any replica of several members stands, because single-member replicas carry index 0 as well.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gpustack_deploy.model import identity
from gpustack_deploy.model.desired import Desired, ServicePort
from gpustack_deploy.model.observed import ObservedMember, ObservedService
from gpustack_deploy.plan.snapshot import RoleView


class ServiceKind(StrEnum):
    """What a Service is for; the value of its label."""

    FRONT = "front"
    ROLE = "role"
    PEER = "peer"


@dataclass(frozen=True, slots=True)
class WantedService:
    """One Service as it should stand."""

    name: str
    kind: ServiceKind
    selector: Mapping[str, str]
    ports: tuple[ServicePort, ...]
    labels: Mapping[str, str]
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_headless(self) -> bool:
        """Whether it has no address of its own: peers find each other by member name."""
        return self.kind is ServiceKind.PEER


def wanted_services(role: RoleView) -> tuple[WantedService, ...]:
    """Return the Services the role needs now: front first, then its own, then its peers."""
    desired = role.desired
    selector = _routed_selector(role)
    fronted = [
        WantedService(
            name=name,
            kind=kind,
            selector=selector,
            ports=desired.service.ports,
            labels={**_labels(desired, kind), **desired.service.labels},
            annotations=desired.service.annotations,
        )
        for name, kind in _addressed(desired)
    ]
    peers = [
        WantedService(
            name=identity.peer_service_name(desired.deployment, desired.role, ordinal),
            kind=ServiceKind.PEER,
            selector={
                **identity.role_selector(desired.deployment, desired.role),
                identity.LABEL_ORDINAL: str(ordinal),
            },
            ports=(),
            labels=_labels(desired, ServiceKind.PEER),
        )
        for ordinal in peer_ordinals(role)
    ]
    return (*fronted, *peers)


def peer_ordinals(role: RoleView) -> tuple[int, ...]:
    """Return the ordinals whose members need a peer Service, lowest first.

    Every declared ordinal of a role of several members, and every ordinal (desired or surplus) on
    which a member of a several-member replica still stands, terminating included.
    """
    declared = range(role.desired.replicas) if role.desired.size > 1 else ()
    standing = {
        member.ordinal
        for member in role.members
        if member.ordinal is not None and (member.group_total or 0) > 1
    }
    return tuple(sorted({*declared, *standing}))


def selects_on_answering(services: tuple[ObservedService, ...]) -> bool:
    """Whether any Service routes by the answering label (only then is it worth withdrawing)."""
    return any(identity.LABEL_API_ANSWERING in service.selector for service in services)


def is_aligned(wanted: WantedService, service: ObservedService) -> bool:
    """Whether the Service already is what is wanted; labels and annotations of others are kept."""
    ports = tuple(
        (port.name, port.port, str(port.target_port), port.protocol) for port in wanted.ports
    )
    return (
        dict(service.selector) == dict(wanted.selector)
        and service.ports == ports
        and service.publishes_not_ready == wanted.is_headless
        and wanted.labels.items() <= service.labels.items()
        and wanted.annotations.items() <= service.annotations.items()
    )


def surplus_peers(role: RoleView, wanted: tuple[WantedService, ...]) -> tuple[ObservedService, ...]:
    """Return our peer Services whose last member has left."""
    names = {service.name for service in wanted}
    return tuple(
        service
        for service in role.snapshot.services
        if service.owner_uid in role.owner_uids
        and service.labels.get(identity.LABEL_SERVICE) == ServiceKind.PEER
        and service.name not in names
        and not service.is_terminating
    )


def _addressed(desired: Desired) -> tuple[tuple[str, ServiceKind], ...]:
    role = (identity.role_service_name(desired.deployment, desired.role), ServiceKind.ROLE)
    if not desired.is_front:
        return (role,)
    return ((identity.front_service_name(desired.deployment), ServiceKind.FRONT), role)


def _labels(desired: Desired, kind: ServiceKind) -> dict[str, str]:
    return {
        **identity.role_selector(desired.deployment, desired.role),
        identity.LABEL_PART_OF: identity.PART_OF_VALUE,
        identity.LABEL_SERVICE: kind.value,
    }


def _routed_selector(role: RoleView) -> dict[str, str]:
    desired = role.desired
    selector = identity.role_selector(desired.deployment, desired.role)
    if _follows_deployed(role):
        return {**selector, identity.LABEL_API_ANSWERING: "true"}
    if desired.is_external_dp:
        return {**selector, identity.LABEL_API_ANSWERING: "true"}
    if desired.size > 1 or any((member.group_total or 0) > 1 for member in role.members):
        return {**selector, identity.LABEL_MEMBER_INDEX: "0"}
    return selector


def _follows_deployed(role: RoleView) -> bool:
    """Whether some member answers by another rule than the declaration's (D10).

    Leaving members count until they have gone, so that a selector moves once to the old rule and
    once back.
    """
    return any(_answers_otherwise(role.desired, member) for member in role.members)


def _answers_otherwise(desired: Desired, member: ObservedMember) -> bool:
    # A follower that answers was built External DP; only that shape labels every rank.
    is_external_dp = member.answers_api and (member.member_index or 0) > 0
    several = (member.group_total or 0) > 1 and (member.member_index or 0) > 0
    return member.is_managed != desired.is_managed or (
        several and is_external_dp != desired.is_external_dp
    )
