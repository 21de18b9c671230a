"""The port through which the engine talks to a cluster: requests are values, answers raw dicts.

Two adapters satisfy one contract suite: `engine/kube.py` (a real API server) and the in-memory
cluster of the tests. An error is never an absence: every failure raises a `ClusterError`.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from gpustack_deploy.model import identity
from gpustack_deploy.model.raw import Json


@dataclass(frozen=True, slots=True)
class Kind:
    """One served kind: its API group and version (empty group: core), plural and scope."""

    name: str
    plural: str
    group: str = ""
    version: str = "v1"
    is_namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version


POD: Final = Kind("Pod", "pods")
SERVICE: Final = Kind("Service", "services")
CONFIG_MAP: Final = Kind("ConfigMap", "configmaps")
NAMESPACE: Final = Kind("Namespace", "namespaces", is_namespaced=False)
NODE: Final = Kind("Node", "nodes", is_namespaced=False)
WORKLOAD: Final = Kind("Workload", "workloads", identity.KUEUE_GROUP, identity.KUEUE_VERSION)
LOCAL_QUEUE: Final = Kind("LocalQueue", "localqueues", identity.KUEUE_GROUP, identity.KUEUE_VERSION)
CLUSTER_QUEUE: Final = Kind(
    "ClusterQueue",
    "clusterqueues",
    identity.KUEUE_GROUP,
    identity.KUEUE_VERSION,
    is_namespaced=False,
)


class Change(StrEnum):
    """What a watch event says of an object."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True)
class Event:
    """One watch event; a bookmark's object carries only a resourceVersion."""

    change: Change
    obj: Json


@dataclass(frozen=True, slots=True)
class Listing:
    """The answer to a list: raw items (without apiVersion and kind) and the list's version."""

    items: tuple[Json, ...]
    resource_version: str


@dataclass(frozen=True, slots=True)
class ClusterMarks:
    """What identifies a cluster (D25); an unreadable mark is empty: unknown, never different."""

    uid: str
    ca: str


class Cluster(Protocol):
    """What the engine needs from a cluster. Reads are quorum reads (resourceVersion unset).

    Every call raises a `ClusterError`: `NotFound` (404), `Conflict` (409), `Expired` (410),
    `Throttled` (429), `Forbidden` (RBAC), `Refused` (validation or admission; the server's own
    sentence is its message), `Unreachable` (no answer, or a 5xx: what became of the request is
    unknown). Only idempotent reads are retried inside an adapter, never a write.
    """

    async def get(self, kind: Kind, namespace: str, name: str) -> Json:
        """Return the object; raise `NotFound` when the server says it is absent."""
        ...

    async def list(
        self, kind: Kind, namespace: str, *, labels: str = "", name: str = ""
    ) -> Listing:
        """Return all objects of the namespace that match the label selector, or the one name."""
        ...

    def watch(
        self,
        kind: Kind,
        namespace: str,
        *,
        labels: str = "",
        name: str = "",
        resource_version: str,
        timeout_seconds: int,
    ) -> AsyncIterator[Event]:
        """Yield events after that version until the server closes; raise `Expired` on 410."""
        ...

    async def create(
        self, kind: Kind, namespace: str, body: Json, *, dry_run: bool = False
    ) -> Json:
        """Create the object and return it as stored (or as it would be, in a dry run)."""
        ...

    async def replace(self, kind: Kind, namespace: str, name: str, body: Json) -> Json:
        """Replace the object; the body's resourceVersion is the precondition (`Conflict`)."""
        ...

    async def patch(self, kind: Kind, namespace: str, name: str, body: Json, *, uid: str) -> Json:
        """Merge-patch the object of that UID; another UID there is `Conflict`."""
        ...

    async def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        *,
        uid: str,
        grace_period_seconds: int | None = None,
    ) -> None:
        """Delete the object of exactly that UID, in the background; another UID is `Conflict`."""
        ...

    async def serves(self, kind: Kind) -> bool:
        """Whether discovery lists the kind at its version."""
        ...

    async def marks(self) -> ClusterMarks:
        """Return what identifies the cluster; unreadable marks are empty."""
        ...

    async def close(self) -> None:
        """Release every connection."""
        ...
