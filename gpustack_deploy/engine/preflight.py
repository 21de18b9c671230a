"""What must hold before anything is written: the cluster, the namespace, the queue, free names."""

from dataclasses import dataclass

from gpustack_deploy.engine.cluster import (
    LOCAL_QUEUE,
    NAMESPACE,
    SERVICE,
    WORKLOAD,
    Cluster,
    ClusterMarks,
)
from gpustack_deploy.model import identity
from gpustack_deploy.model.errors import (
    ForeignObject,
    InvalidSpec,
    KueueNotManaging,
    NotFound,
    WrongCluster,
)
from gpustack_deploy.model.observed import observe_service
from gpustack_deploy.model.raw import text_at
from gpustack_deploy.model.role import RoleDeclaration
from gpustack_deploy.model.state import RoleState


@dataclass(frozen=True, slots=True)
class Place:
    """Where the role stands: the cluster's marks and the namespace's UID (empty: absent)."""

    marks: ClusterMarks
    namespace_uid: str
    is_gone: bool = False


async def require_place(
    cluster: Cluster, namespace: str, *, previous: RoleState | None = None, is_read: bool = False
) -> Place:
    """Return where the connection leads, after comparing it with where the role stands (D25).

    Raises:
        WrongCluster: a mark that can be read differs.
        InvalidSpec: the namespace does not exist and the role is to be written.
        KueueNotManaging: the cluster serves no Kueue of the needed version.
    """
    marks = await cluster.marks()
    if previous is not None:
        require_cluster(marks, previous)
    uid = await namespace_uid(cluster, namespace)
    is_gone = not uid or bool(previous and previous.namespace_uid and previous.namespace_uid != uid)
    if not is_read:
        if not uid:
            raise InvalidSpec(
                "namespace",
                f"namespace {namespace} does not exist in this cluster; create it first, then run"
                " `pulumi up` again",
            )
        if not await cluster.serves(WORKLOAD):
            raise KueueNotManaging(
                namespace,
                f"the cluster does not serve {WORKLOAD.api_version} Workloads (Kueue 0.15 or newer"
                " is needed)",
            )
    return Place(marks=marks, namespace_uid=uid, is_gone=is_gone)


def require_cluster(marks: ClusterMarks, previous: RoleState) -> None:
    """Compare like with like; an unreadable mark is unknown, never different.

    Raises:
        WrongCluster: one of the two marks differs.
    """
    for found, expected in (
        (marks.uid, previous.cluster_uid),
        (marks.ca, previous.cluster_ca),
    ):
        if found and expected and found != expected:
            raise WrongCluster(expected, found)


async def namespace_uid(cluster: Cluster, namespace: str) -> str:
    """Return the namespace's UID, empty when the server states its absence."""
    try:
        return text_at(await cluster.get(NAMESPACE, "", namespace), "metadata", "uid")
    except NotFound:
        return ""


async def require_queue(cluster: Cluster, declaration: RoleDeclaration) -> None:
    """Require the LocalQueue that the instance type names.

    Raises:
        InvalidSpec: the namespace has none of that name.
    """
    queue = declaration.instance_type.local_queue
    try:
        await cluster.get(LOCAL_QUEUE, declaration.namespace, queue)
    except NotFound as absent:
        raise InvalidSpec(
            "instanceType.localQueue",
            f"namespace {declaration.namespace} has no LocalQueue {queue}; create it, or name one"
            " that exists",
        ) from absent


async def require_free_services(
    cluster: Cluster, declaration: RoleDeclaration, *, former_uid: str = ""
) -> None:
    """Require that no Service stands on the names the role is about to take.

    Raises:
        ForeignObject: one does, and it is not of a former record of this role.
    """
    deployment, role = declaration.deployment, declaration.role
    names = [identity.role_service_name(deployment, role)]
    if declaration.front_role == role:
        names.append(identity.front_service_name(deployment))
    if declaration.size > 1:
        names += [
            identity.peer_service_name(deployment, role, ordinal)
            for ordinal in range(declaration.replicas)
        ]
    for name in names:
        try:
            found = observe_service(await cluster.get(SERVICE, declaration.namespace, name))
        except NotFound:
            continue
        if not former_uid or found.owner_uid != former_uid:
            raise ForeignObject("Service", name, found.uid)
