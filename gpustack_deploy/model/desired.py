"""What the planner needs of a role's declaration: counts, fingerprints and the Services' shape."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache


class Gate(StrEnum):
    """What a replacement must pass before the next healthy replica goes (D7)."""

    READY = "Ready"
    ADMITTED = "Admitted"


class LostNode(StrEnum):
    """What to do with a captured member on a lost node (D5)."""

    WAIT = "Wait"
    FORCE = "Force"


@dataclass(frozen=True, slots=True)
class ServicePort:
    """One port of the role's Services."""

    name: str
    port: int
    target_port: int
    protocol: str = "TCP"


@dataclass(frozen=True, slots=True)
class ServiceShape:
    """What a user may set of the role's and the front Service."""

    ports: tuple[ServicePort, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Desired:
    """One role as declared, reduced to what decides steps.

    `fingerprint` is the role's: everything rendered except ordinal, names, group name, token, owner
    and routing labels (D3). `requests` are one member's effective requests as Kubernetes
    quantities.
    """

    deployment: str
    namespace: str
    role: str
    kind: str
    replicas: int
    size: int
    fingerprint: str
    local_queue: str
    requests: Mapping[str, str]
    is_managed: bool
    is_external_dp: bool
    service: ServiceShape
    front_role: str
    gate: Gate = Gate.READY
    lost_node: LostNode = LostNode.WAIT

    @property
    def is_front(self) -> bool:
        """Whether this role keeps the deployment's front Service (D9)."""
        return self.front_role == self.role

    def member_fingerprints(self, ordinal: int) -> tuple[str, ...]:
        """Return the fingerprints of one replica's members, in seat order.

        A member's fingerprint adds its seat to the role's: names derive from deployment, role and
        seat alone, so two members' fingerprints are equal exactly when they render equal (D3).
        """
        return _replica_fingerprints(self.fingerprint, ordinal, self.size)


@lru_cache(maxsize=4096)
def _replica_fingerprints(role_fingerprint: str, ordinal: int, size: int) -> tuple[str, ...]:
    """Return what `member_fingerprint` says of each seat; asked again for every snapshot."""
    return tuple(member_fingerprint(role_fingerprint, ordinal, index) for index in range(size))


def member_fingerprint(role_fingerprint: str, ordinal: int, member_index: int) -> str:
    """Return the fingerprint of the member on that seat."""
    text = f"{role_fingerprint}/{ordinal}/{member_index}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]
