"""The manifest of one member: the role's template on a seat, in a group, with an owner."""

from dataclasses import dataclass
from typing import Final

from gpustack_deploy.model import identity
from gpustack_deploy.model.desired import member_fingerprint
from gpustack_deploy.model.listener import is_external_dp
from gpustack_deploy.model.role import RoleDeclaration
from gpustack_deploy.plan.fingerprint import template_fingerprint
from gpustack_deploy.plan.template import Manifest, render_template

RENDERER_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Owner:
    """The record ConfigMap: controller owner of the role's Pods and Services (D1)."""

    name: str
    uid: str


def render_member(
    declaration: RoleDeclaration,
    ordinal: int,
    member_index: int,
    *,
    group_name: str,
    token: str,
    owner: Owner | None,
) -> Manifest:
    """Return the whole Pod manifest of one member."""
    template = render_template(declaration)
    fingerprint = template_fingerprint(template)
    deployment, role = declaration.deployment, declaration.role
    name = identity.member_name(deployment, role, ordinal, member_index)
    labels = {
        **template["metadata"]["labels"],
        identity.LABEL_ORDINAL: str(ordinal),
        identity.LABEL_MEMBER_INDEX: str(member_index),
        identity.KUEUE_GROUP_NAME: group_name,
    }
    if answers_api(declaration, member_index):
        labels[identity.LABEL_API_ANSWERING] = "true"
    annotations = {
        **template["metadata"]["annotations"],
        identity.ANNOTATION_FINGERPRINT: member_fingerprint(fingerprint, ordinal, member_index),
        identity.ANNOTATION_TOKEN: token,
        identity.ANNOTATION_RENDERER: str(RENDERER_VERSION),
    }
    metadata: Manifest = {
        "name": name,
        "namespace": declaration.namespace,
        "labels": labels,
        "annotations": annotations,
    }
    if owner is not None:
        metadata["ownerReferences"] = [_owner_reference(owner)]
    spec = template["spec"]
    if declaration.size > 1:
        spec = _seated(spec, declaration=declaration, ordinal=ordinal, name=name)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def answers_api(declaration: RoleDeclaration, member_index: int) -> bool:
    """Whether that member answers the API by its own shape (D10): the leader, or every member."""
    return member_index == 0 or is_external_dp(declaration)


def _seated(spec: Manifest, *, declaration: RoleDeclaration, ordinal: int, name: str) -> Manifest:
    deployment, role = declaration.deployment, declaration.role
    subdomain = identity.peer_service_name(deployment, role, ordinal)
    leader = identity.member_name(deployment, role, ordinal, 0)
    filled = {
        identity.ENV_LEADER_ADDRESS: f"{leader}.{subdomain}",
        identity.ENV_REPLICA_SIZE: str(declaration.size),
    }
    container = spec["containers"][0]
    env = [
        {**entry, "value": filled[entry["name"]]} if entry["name"] in filled else entry
        for entry in container["env"]
    ]
    return {
        **spec,
        "hostname": name,
        "subdomain": subdomain,
        "containers": [{**container, "env": env}],
    }


def _owner_reference(owner: Owner) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
    }
