"""Volumes and mounts of the engine container, with shared memory by default."""

from typing import Any, Final

from gpustack_deploy.model.pod_fields import EmptyDirSource, Volume
from gpustack_deploy.model.quantity import canonical_quantity
from gpustack_deploy.model.role import RoleDeclaration

SHARED_MEMORY_PATH: Final = "/dev/shm"  # noqa: S108 - where the engines look for it
DEFAULT_SHARED_MEMORY: Final = "16Gi"

Manifest = dict[str, Any]


def render_volumes(declaration: RoleDeclaration) -> tuple[list[Manifest], list[Manifest]]:
    """Return the Pod's volumes and the container's mounts, in the order declared.

    A mount declared at the path of shared memory replaces the default one.
    """
    volumes: list[Manifest] = []
    mounts: list[Manifest] = []
    if all(each.mount_path != SHARED_MEMORY_PATH for each in declaration.volumes):
        limit = canonical_quantity(declaration.shm_size or DEFAULT_SHARED_MEMORY)
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": limit}})
        mounts.append({"name": "shm", "mountPath": SHARED_MEMORY_PATH})
    for position, volume in enumerate(declaration.volumes):
        source = _source(volume)
        if source is None:
            continue
        name = f"volume-{position}"
        volumes.append({"name": name, **source})
        mount: Manifest = {"name": name, "mountPath": volume.mount_path}
        if volume.read_only:
            mount["readOnly"] = True
        if volume.sub_path:
            mount["subPath"] = volume.sub_path
        mounts.append(mount)
    return volumes, mounts


def _source(volume: Volume) -> Manifest | None:
    if volume.config_map is not None:
        return {"configMap": {"name": volume.config_map.name}}
    if volume.secret is not None:
        return {"secret": {"secretName": volume.secret.name}}
    if volume.host_path is not None:
        return {"hostPath": volume.host_path.model_dump(exclude_none=True)}
    if volume.persistent_volume_claim is not None:
        return {"persistentVolumeClaim": {"claimName": volume.persistent_volume_claim.claim_name}}
    if volume.empty_dir is not None:
        return {"emptyDir": _scratch(volume.empty_dir)}
    return None


def _scratch(source: EmptyDirSource) -> Manifest:
    # In the API server's spelling: it would rewrite another one, and that looks like a mutation.
    rendered: Manifest = {}
    if source.medium:
        rendered["medium"] = source.medium
    if source.size_limit:
        rendered["sizeLimit"] = canonical_quantity(source.size_limit)
    return rendered
