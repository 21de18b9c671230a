"""Destroys one role from what its state remembers; needs no declaration (D28)."""

from gpustack_deploy.engine.cluster import Cluster
from gpustack_deploy.engine.preflight import namespace_uid, require_cluster
from gpustack_deploy.engine.record_store import RecordStore
from gpustack_deploy.engine.replacement import drive
from gpustack_deploy.engine.run import RunContext
from gpustack_deploy.model.desired import Desired, ServiceShape
from gpustack_deploy.model.errors import WrongCluster
from gpustack_deploy.model.record import RoleRecord
from gpustack_deploy.model.state import RoleState
from gpustack_deploy.plan.checks import WaitCode
from gpustack_deploy.plan.snapshot import RoleView, Snapshot
from gpustack_deploy.plan.step import Await, Done, Step
from gpustack_deploy.plan.teardown import next_teardown_step


async def delete_role(
    cluster: Cluster,
    *,
    deployment: str,
    role: str,
    namespace: str,
    previous: RoleState,
    run: RunContext,
    force_cluster: bool = False,
) -> tuple[str, ...]:
    """Remove members, Workloads, Services and the record, all by UID; return warnings.

    A claim that is no longer the record's removes nothing: a forced replacement deletes after its
    create (D12). An absent namespace is success. Without the record, what carries its UID is
    removed: serving members that the garbage collector deleted wait for their Workload.

    Raises:
        WrongCluster: the connection leads to another cluster, or to one that cannot be identified.
    """
    marks = await cluster.marks()
    require_cluster(marks, previous)
    if not marks.uid and not marks.ca and not force_cluster:
        raise WrongCluster(
            previous.cluster_uid or "that it was created in",
            "that cannot be identified (set GPUSTACK_FORCE_CLUSTER=1 to delete nevertheless)",
        )
    uid = await namespace_uid(cluster, namespace)
    if not uid or (previous.namespace_uid and previous.namespace_uid != uid):
        return (f"namespace {namespace} is gone, and role {role} with it",)
    store = RecordStore(
        cluster,
        namespace=namespace,
        deployment=deployment,
        role=role,
        run=run,
        outlives_record=True,
    )
    record = await store.read()
    if record is None:
        store.go_on_without(
            RoleRecord(
                deployment=deployment,
                role=role,
                role_kinds={},
                front_role="",
                uid=previous.record_uid,
            )
        )
    elif previous.claim and record.claim != previous.claim:
        earlier = (
            f"role {role} was created anew or adopted meanwhile (by {record.writer}); this delete"
            " is of an earlier claim and removed nothing"
        )
        return (earlier,)
    else:
        await store.acquire()
    warnings: list[str] = []
    if record is None:
        warnings.append(f"role {role} has no record any more; only what it had left was removed")

    def planner(snapshot: Snapshot, known: RoleRecord) -> Step:
        view = RoleView(desired=_standing_shape(known), snapshot=snapshot, record=known)
        step = next_teardown_step(view)
        if isinstance(step, Await) and step.check.code is WaitCode.MEMBER_ON_LOST_NODE:
            warnings.append(f"{step.check.reason}; its Workload was deleted, it was not waited for")
            return Done()
        return step

    await drive(cluster, store, planner, run, namespace=namespace)
    await store.delete()
    return tuple(dict.fromkeys(warnings))


def _standing_shape(record: RoleRecord) -> Desired:
    """Return a shape that asks for nothing: a teardown reads members by owner alone."""
    return Desired(
        deployment=record.deployment,
        namespace="",
        role=record.role,
        kind="",
        replicas=0,
        size=1,
        fingerprint="",
        local_queue="",
        requests={},
        is_managed=True,
        is_external_dp=False,
        service=ServiceShape(ports=()),
        front_role=record.front_role,
    )
