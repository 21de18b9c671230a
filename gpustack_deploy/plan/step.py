"""What the planner answers: one step, a closed union finished with `assert_never`."""

from dataclasses import dataclass

from gpustack_deploy.model.record import RoleRecord
from gpustack_deploy.plan.checks import Unmet
from gpustack_deploy.plan.services import WantedService
from gpustack_deploy.plan.slot import Transition


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """An object that may be deleted or patched: its name locates it, its UID permits it."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Seat:
    """One member to create."""

    ordinal: int
    member_index: int
    group_name: str
    token: str


@dataclass(frozen=True, slots=True)
class CreateRecord:
    """The role has no record: it is the first thing written (D1)."""


@dataclass(frozen=True, slots=True)
class WriteRecord:
    """A transition of the slot, the batch or the departures; written before anything it permits."""

    transition: Transition
    record: RoleRecord
    ordinal: int | None
    cause: str


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Take the routing label from members that are about to leave (D14)."""

    members: tuple[ObjectRef, ...]


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete captured members by UID; a grace period of 0 forces them out of a lost node."""

    ordinal: int
    members: tuple[ObjectRef, ...]
    grace_period_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class RemoveWorkload:
    """Delete the departing replica's Workload by UID, which frees its quota and its members."""

    ordinal: int
    workload: ObjectRef


@dataclass(frozen=True, slots=True)
class Compose:
    """Create members, each seat of each group."""

    seats: tuple[Seat, ...]


@dataclass(frozen=True, slots=True)
class SyncServices:
    """Create missing Services and align existing ones in place (ClusterIP kept)."""

    create: tuple[WantedService, ...]
    align: tuple[WantedService, ...]


@dataclass(frozen=True, slots=True)
class PruneServices:
    """Delete peer Services whose last member has left."""

    services: tuple[ObjectRef, ...]


@dataclass(frozen=True, slots=True)
class Inspect:
    """Read these Workloads and Nodes by name: the decision depends on them (D4)."""

    workloads: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Await:
    """Nothing to do until the world moves; `wake_at` is when time alone changes the answer."""

    check: Unmet
    wake_at: float | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """Nothing this run may do can meet the check: the user has to act."""

    check: Unmet


@dataclass(frozen=True, slots=True)
class Done:
    """The role stands as declared."""


Step = (
    CreateRecord
    | WriteRecord
    | Withdraw
    | Remove
    | RemoveWorkload
    | Compose
    | SyncServices
    | PruneServices
    | Inspect
    | Await
    | Hold
    | Done
)
