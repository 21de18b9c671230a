"""What the cluster must accept before anything is deleted (D27), and who must have taken charge."""

from collections.abc import Sequence

from gpustack_deploy.engine.cluster import POD, Cluster
from gpustack_deploy.model import identity
from gpustack_deploy.model.errors import AdmissionRefused, KueueNotManaging, Refused
from gpustack_deploy.model.observed import ObservedMember
from gpustack_deploy.model.raw import Json, list_at, mapping_at, text_at
from gpustack_deploy.model.role import RoleDeclaration
from gpustack_deploy.plan.render import Owner, render_member
from gpustack_deploy.plan.resource_quota import frees_enough


async def dry_run_member(
    cluster: Cluster,
    declaration: RoleDeclaration,
    *,
    token: str,
    owner: Owner | None,
    departing: Sequence[ObservedMember] = (),
) -> None:
    """Have the API server judge member 0 under a free name, without storing it.

    A ResourceQuota may be full as long as the departing members free what the new ones need.

    Raises:
        AdmissionRefused: a policy, PodSecurity, a LimitRange or a full ResourceQuota refuses it.
        KueueNotManaging: Kueue would not take charge of it.
    """
    deployment, role = declaration.deployment, declaration.role
    body = render_member(
        declaration,
        0,
        0,
        group_name=identity.group_name(deployment, role, token),
        token=token,
        owner=owner,
    )
    name = identity.probe_name(deployment, role, token)
    probe = {**body, "metadata": {**body["metadata"], "name": name}}
    try:
        answer = await cluster.create(POD, declaration.namespace, probe, dry_run=True)
    except Refused as refusal:
        if departing and frees_enough(str(refusal), departing, declaration.size):
            return
        raise AdmissionRefused(role, str(refusal)) from refusal
    check_managed(answer, declaration.namespace)


def check_managed(pod: Json, namespace: str) -> None:
    """Require Kueue's admission gate, finalizer and managed label on what the server answered.

    Raises:
        KueueNotManaging: one of the three is missing, so the Pod would run without quota.
    """
    gates = {text_at(gate, "name") for gate in list_at(pod, "spec", "schedulingGates")}
    labels = mapping_at(pod, "metadata", "labels")
    finalizers = mapping_at(pod, "metadata").get("finalizers") or ()
    missing = [
        what
        for what, is_there in (
            ("scheduling gate", identity.KUEUE_ADMISSION_GATE in gates),
            ("finalizer", identity.KUEUE_MANAGED in finalizers),
            ("label", labels.get(identity.KUEUE_MANAGED) == "true"),
        )
        if not is_there
    ]
    if missing:
        raise KueueNotManaging(
            namespace, f"the API server's answer to the Pod lacks Kueue's {', '.join(missing)}"
        )
