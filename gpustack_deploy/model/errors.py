"""The error ladder: each class is named for what the reader does next.

Every message has what was found, what was needed and what to do next, and stands alone as the
last line of a traceback.
"""

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from gpustack_deploy.model.state import RoleState


class GpustackDeployError(Exception):
    """Base of every error of this package; abstract, never raised itself.

    `state` is what stands of the role when the error ended a run that had written (D21).
    """

    state: "RoleState | None" = None

    def __new__(cls, *args: object, **kwargs: object) -> Self:  # noqa: ARG004 - passed to __init__
        if cls in (GpustackDeployError, ClusterError):
            msg = f"{cls.__name__} is abstract; raise one of its subclasses"
            raise TypeError(msg)
        return super().__new__(cls)


class InvalidSpec(GpustackDeployError):
    """The declaration cannot be accepted; the user edits the input at `path`."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.path = path
        self.reason = reason


class RefusedChange(GpustackDeployError):
    """An identity field was edited; the user declares another deployment instead (D13)."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class ReplacementHeld(GpustackDeployError):
    """A named check stayed unmet until the deadline; the next run resumes (D12)."""

    def __init__(self, check: str, role: str, ordinal: int | None, reason: str) -> None:
        where = role if ordinal is None else f"{role} r{ordinal}"
        super().__init__(f"{where}: {check}: {reason}")
        self.check = check
        self.role = role
        self.ordinal = ordinal
        self.reason = reason


class AdmissionAwaited(ReplacementHeld):
    """Only Kueue's admission is missing, for longer than the run waits (D24); the slot is kept."""


class ForeignObject(GpustackDeployError):
    """A name we need is held by an object we did not make; it is never deleted (D5)."""

    def __init__(self, kind: str, name: str, uid: str, reason: str = "") -> None:
        super().__init__(
            f"{kind} {name} (uid {uid}) exists and is not owned by this role"
            + (f" ({reason})" if reason else "")
            + "; this name is needed: rename or delete that object yourself, or rename the"
            " deployment; nothing was changed"
        )
        self.kind = kind
        self.name = name
        self.uid = uid


class LockHeld(GpustackDeployError):
    """Another run holds the role's lock and renews it (D11); nothing was changed."""

    def __init__(self, role: str, holder: str) -> None:
        super().__init__(
            f"role {role} is being changed by another run ({holder}), which keeps renewing its"
            " lock; nothing was changed: wait for that run to end, then run `pulumi up` again"
        )
        self.role = role
        self.holder = holder


class AdmissionRefused(GpustackDeployError):
    """The API server refused member 0 in a dry run (D27); nothing was deleted or written."""

    def __init__(self, role: str, reason: str) -> None:
        super().__init__(
            f"role {role}: the cluster refuses the rendered Pod: {reason}; nothing was deleted or"
            " written: change the declaration or the policy, then run `pulumi up` again"
        )
        self.role = role
        self.reason = reason


class KueueNotManaging(GpustackDeployError):
    """Kueue did not take the Pod under its control, so it would bypass quota (D27)."""

    def __init__(self, namespace: str, reason: str) -> None:
        super().__init__(
            f"Kueue does not manage Pods in namespace {namespace}: {reason}; Pods there would"
            " bypass quota: install Kueue with the pod integration and let its"
            " managedJobsNamespaceSelector match this namespace; nothing was left behind"
        )
        self.namespace = namespace


class RecordUnreadable(GpustackDeployError):
    """The role's record cannot be understood; it is never read as an empty one (D1)."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(
            f"ConfigMap {name} holds a record that cannot be read: {reason}; restore it from a"
            " backup, or install the version that wrote it; nothing was changed"
        )
        self.name = name


class OtherWriter(GpustackDeployError):
    """The record names another stack as the role's writer."""

    def __init__(self, role: str, writer: str) -> None:
        super().__init__(
            f"role {role} is written by {writer}; two stacks must not declare one role: remove it"
            " from one of them; nothing was changed"
        )
        self.writer = writer


class WrongCluster(GpustackDeployError):
    """The connection leads to another cluster than the one that holds the role (D25)."""

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(
            f"the connection leads to cluster {found}, but this role stands in cluster {expected};"
            " nothing was changed: set `gpustack:context` or KUBECONFIG to the right cluster"
        )
        self.expected = expected
        self.found = found


class ClusterError(GpustackDeployError):
    """Base of what the API server or the way to it answered; abstract."""

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class NotFound(ClusterError):
    """The object, or the kind, does not exist (404)."""


class Conflict(ClusterError):
    """A precondition failed or the object exists already (409)."""


class Expired(ClusterError):
    """The watch's version is too old (410): list again."""


class Throttled(ClusterError):
    """The server asks to come back later (429, or 503 while overloaded)."""

    def __init__(self, message: str, *, retry_after_seconds: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class Forbidden(ClusterError):
    """RBAC refused: the message says `cannot <verb> resource` (403)."""


class Refused(ClusterError):
    """Validation or admission refused the object (400, 403 of a plugin, 422)."""


class Unreachable(ClusterError):
    """No answer, or a server-side failure: the state of the request is unknown."""
