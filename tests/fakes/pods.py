"""Small manifests for tests that need a Pod, a Service or a ConfigMap of no particular role."""

from collections.abc import Mapping

from gpustack_deploy.model import identity
from tests.fakes.objects import Object


def pod(
    name: str,
    *,
    group: str = "",
    total: int = 1,
    queue: str = "h200",
    role: str = "server",
    requests: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    owner: Object | None = None,
    grace_seconds: int = 30,
) -> Object:
    """Return a Pod; with a group, a member of a serving group of that total."""
    metadata: Object = {"name": name, "labels": dict(labels or {})}
    if group:
        metadata["labels"] |= {
            identity.KUEUE_QUEUE_NAME: queue,
            identity.KUEUE_GROUP_NAME: group,
        }
        metadata["annotations"] = {
            identity.KUEUE_GROUP_TOTAL: str(total),
            identity.KUEUE_ROLE_HASH: role,
            identity.KUEUE_SERVING: "true",
        }
    if owner is not None:
        metadata["ownerReferences"] = [controller_reference(owner)]
    resources = {"requests": dict(requests), "limits": dict(requests)} if requests else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {
            "terminationGracePeriodSeconds": grace_seconds,
            "containers": [
                {"name": "main", "image": "registry.invalid/x:1", "resources": resources}
            ],
        },
    }


def service(name: str, *, labels: Mapping[str, str] | None = None, port: int = 80) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {"selector": {"app": name}, "ports": [{"name": "http", "port": port}]},
    }


def config_map(
    name: str, data: Mapping[str, str] | None = None, *, labels: Mapping[str, str] | None = None
) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "data": dict(data or {}),
    }


def controller_reference(owner: Object) -> Object:
    """Return the reference that makes the owner the controller of what carries it."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
