"""Acts on one step: thin, repeatable, and never concluding anything from a lost answer.

What a call answered ambiguously is settled by the next observation, not here.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar, assert_never

from gpustack_deploy.engine.admission import check_managed
from gpustack_deploy.engine.cluster import CONFIG_MAP, POD, SERVICE, WORKLOAD, Cluster, Kind
from gpustack_deploy.engine.record_store import RecordStore
from gpustack_deploy.model import identity
from gpustack_deploy.model.errors import (
    AdmissionRefused,
    Conflict,
    ForeignObject,
    InvalidSpec,
    KueueNotManaging,
    NotFound,
    Refused,
    Throttled,
)
from gpustack_deploy.model.observed import observe_member, observe_service
from gpustack_deploy.model.raw import Json, text_at
from gpustack_deploy.model.role import RoleDeclaration
from gpustack_deploy.plan.render import Owner, render_member
from gpustack_deploy.plan.resource_quota import is_over_quota
from gpustack_deploy.plan.services import WantedService
from gpustack_deploy.plan.snapshot import Snapshot
from gpustack_deploy.plan.step import (
    Compose,
    ObjectRef,
    PruneServices,
    Remove,
    RemoveWorkload,
    Seat,
    SyncServices,
    Withdraw,
)

_QUOTA_RETRY_SECONDS = 2.0
_CALLS_AT_ONCE = 16

_Item = TypeVar("_Item")

ClusterStep = Withdraw | Remove | RemoveWorkload | Compose | SyncServices | PruneServices


class Executor:
    """Performs the steps that touch Pods, Services and Workloads of one role."""

    def __init__(
        self,
        cluster: Cluster,
        store: RecordStore,
        declaration: RoleDeclaration | None,
        namespace: str,
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._declaration = declaration
        self._namespace = namespace

    async def perform(self, step: ClusterStep, snapshot: Snapshot) -> None:
        """Perform the step's calls; each is sent once.

        Raises:
            ForeignObject: a name we need is taken.
            AdmissionRefused, KueueNotManaging: a create was refused, or would bypass quota.
            ClusterError: what became of a call is unknown; observe again.
        """
        if isinstance(step, SyncServices):
            # Before the run's first write: names that someone else holds must not be found halfway.
            await self._each(step.create, lambda service: self._require_ours(SERVICE, service.name))
        await self._store.ensure_held()
        match step:
            case Withdraw(members=members):
                await self._each(members, self._withdraw)
            case Remove(members=members, grace_period_seconds=grace):
                await self._each(
                    members, lambda ref: self._delete(POD, ref, grace_period_seconds=grace)
                )
            case RemoveWorkload(workload=workload):
                await self._delete(WORKLOAD, workload)
            case Compose(seats=seats):
                await self._each(seats, self._create_member)
            case SyncServices(create=create, align=align):
                await self._each(create, self._create_service)
                await self._each(align, lambda service: self._align_service(service, snapshot))
            case PruneServices(services=services):
                await self._each(services, lambda ref: self._delete(SERVICE, ref))
            case _:
                assert_never(step)

    async def _each(self, items: Iterable[_Item], act: Callable[[_Item], Awaitable[None]]) -> None:
        """Do them side by side and, when all have ended, raise the first failure.

        A failure of one does not stop the rest: the group must be as complete as it can be. Only
        another run that took the lock over does: what has not been sent by then never is (D11).
        """
        turns = asyncio.Semaphore(_CALLS_AT_ONCE)

        async def one(item: _Item) -> None:
            async with turns:
                self._store.require_unfenced()
                await act(item)

        results = await asyncio.gather(*(one(item) for item in items), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _withdraw(self, ref: ObjectRef) -> None:
        body = {"metadata": {"labels": {identity.LABEL_API_ANSWERING: None}}}
        try:
            await self._cluster.patch(POD, self._namespace, ref.name, body, uid=ref.uid)
        except (NotFound, Conflict):
            return

    async def _delete(
        self, kind: Kind, ref: ObjectRef, *, grace_period_seconds: int | None = None
    ) -> None:
        """Delete by UID; an absent object and another object of that name are both success."""
        try:
            await self._cluster.delete(
                kind,
                self._namespace,
                ref.name,
                uid=ref.uid,
                grace_period_seconds=grace_period_seconds,
            )
        except (NotFound, Conflict):
            return

    async def _create_member(self, seat: Seat) -> None:
        declaration = self._require_declaration()
        record = self._store.record
        body = render_member(
            declaration,
            seat.ordinal,
            seat.member_index,
            group_name=seat.group_name,
            token=seat.token,
            owner=Owner(name=self._store.name, uid=record.uid),
        )
        name = text_at(body, "metadata", "name")
        try:
            made = await self._cluster.create(POD, self._namespace, body)
        except Conflict:
            await self._require_ours(POD, name)
            return
        except Refused as refusal:
            if is_over_quota(str(refusal)):
                # A ResourceQuota frees with what leaves: later, not never.
                raise Throttled(str(refusal), retry_after_seconds=_QUOTA_RETRY_SECONDS) from refusal
            raise AdmissionRefused(declaration.role, str(refusal)) from refusal
        try:
            check_managed(made, self._namespace)
        except KueueNotManaging:
            ref = ObjectRef(name, text_at(made, "metadata", "uid"))
            await self._delete(POD, ref)
            raise

    async def _create_service(self, wanted: WantedService) -> None:
        metadata = {
            "name": wanted.name,
            "namespace": self._namespace,
            "labels": dict(wanted.labels),
            "annotations": dict(wanted.annotations),
            "ownerReferences": [self._owner_reference()],
        }
        spec: dict[str, object] = {"type": "ClusterIP", **_service_fields(wanted)}
        if wanted.is_headless:
            spec["clusterIP"] = "None"
        body = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
        try:
            await self._cluster.create(SERVICE, self._namespace, body)
        except Conflict:
            await self._require_ours(SERVICE, wanted.name)
        except Refused as refusal:
            raise InvalidSpec(
                f"Service {wanted.name}", f"the cluster refuses it: {refusal}"
            ) from refusal

    async def _align_service(self, wanted: WantedService, snapshot: Snapshot) -> None:
        found = next(each for each in snapshot.services if each.name == wanted.name)
        fields = _service_fields(wanted)
        fields["selector"] = {
            **dict.fromkeys(found.selector.keys() - wanted.selector.keys()),
            **wanted.selector,
        }
        body = {
            "metadata": {"labels": dict(wanted.labels), "annotations": dict(wanted.annotations)},
            "spec": fields,
        }
        try:
            await self._cluster.patch(SERVICE, self._namespace, wanted.name, body, uid=found.uid)
        except (NotFound, Conflict):
            return

    async def _require_ours(self, kind: Kind, name: str) -> None:
        """Settle a create that met an object of that name: ours is adopted by observation.

        Raises:
            ForeignObject: its controller owner is not the role's record.
        """
        try:
            found = await self._cluster.get(kind, self._namespace, name)
        except NotFound:
            return
        record = self._store.record
        observe = observe_member if kind is POD else observe_service
        owner_uid = observe(found).owner_uid
        if owner_uid not in {record.uid, record.former_uid} or not owner_uid:
            raise ForeignObject(kind.name, name, text_at(found, "metadata", "uid"))

    def _owner_reference(self) -> Json:
        return {
            "apiVersion": CONFIG_MAP.api_version,
            "kind": CONFIG_MAP.name,
            "name": self._store.name,
            "uid": self._store.record.uid,
            "controller": True,
        }

    def _require_declaration(self) -> RoleDeclaration:
        if self._declaration is None:
            msg = "a teardown composes nothing"
            raise RuntimeError(msg)
        return self._declaration


def _service_fields(wanted: WantedService) -> dict[str, object]:
    return {
        "selector": dict(wanted.selector),
        "publishNotReadyAddresses": wanted.is_headless,
        "ports": [
            {
                "name": port.name,
                "port": port.port,
                "targetPort": port.target_port,
                "protocol": port.protocol,
            }
            for port in wanted.ports
        ],
    }
