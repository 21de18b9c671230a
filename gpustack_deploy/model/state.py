"""What one role's resource keeps between runs (outputs, D19): achieved facts, never wishes."""

from dataclasses import dataclass

STATE_SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class RoleState:
    """What was achieved, and the identities that later calls compare against (D12, D25).

    `record_uid` is the UID of the role's record: the ownership authority of its objects. `claim` is
    the stamp of the create or adoption that this state belongs to. `is_finished` is false while a
    rollout is under way: the next run resumes it.
    """

    record_uid: str
    claim: str
    cluster_uid: str
    cluster_ca: str
    namespace_uid: str
    fingerprint: str
    replicas: int
    size: int
    is_finished: bool = True
