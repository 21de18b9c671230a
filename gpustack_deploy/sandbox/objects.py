"""The Kubernetes objects that a shape stands for: nodes, flavors, queues."""

import hashlib
from collections.abc import Iterator, Sequence

from gpustack_deploy.sandbox.api import Json
from gpustack_deploy.sandbox.shape import Pool, Shape

KUEUE_API = "/apis/kueue.x-k8s.io/v1beta2"
LABEL_POOL = "sandbox.gpustack.ai/pool"
# KWOK stands in for the kubelet of the nodes that carry this label, and of no other.
LABEL_SIMULATED = "kwok.x-k8s.io/node"
SIMULATED = "fake"
KWOK_SELECTOR = f"{LABEL_SIMULATED}={SIMULATED}"


def node_objects(shape: Shape) -> Iterator[Json]:
    """Every node of the shape, simulated ones."""
    for pool in shape.pools:
        for index in range(pool.nodes):
            yield node_object(pool, f"{pool.name}-{index}")


def node_object(pool: Pool, name: str, *, simulated: bool = True) -> Json:
    """One node of a pool; without a simulated kubelet it is never Ready by itself."""
    labels = {
        **pool.labels,
        LABEL_POOL: pool.name,
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    }
    if simulated:
        labels[LABEL_SIMULATED] = SIMULATED
    capacity = pool.capacity() | {"pods": str(pool.pods)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {
            "addresses": [
                {"type": "Hostname", "address": name},
                {"type": "InternalIP", "address": _address(name)},
            ],
            "capacity": capacity,
            "allocatable": capacity,
        },
    }


def flavor_object(pool: Pool) -> Json:
    """The pool's ResourceFlavor: its nodes by label."""
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {"name": pool.name},
        "spec": {"nodeLabels": {LABEL_POOL: pool.name}},
    }


def cluster_queue_object(pool: Pool, unmetered: Sequence[str]) -> Json:
    """The pool's ClusterQueue: its quota, open to every namespace."""
    quotas = pool.quotas(unmetered)
    spec: Json = {
        "namespaceSelector": {},
        "resourceGroups": [
            {
                "coveredResources": list(quotas),
                "flavors": [
                    {
                        "name": pool.name,
                        "resources": [
                            {"name": resource, "nominalQuota": quota}
                            for resource, quota in quotas.items()
                        ],
                    }
                ],
            }
        ],
    }
    if pool.cohort:
        spec["cohortName"] = pool.cohort
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": pool.name},
        "spec": spec,
    }


def local_queue_object(queue: str, namespace: str) -> Json:
    """A LocalQueue of the cluster queue's own name in the namespace."""
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": queue, "namespace": namespace},
        "spec": {"clusterQueue": queue},
    }


def _address(name: str) -> str:
    """An address in 10.128.0.0/9 that depends on the node's name alone."""
    digest = hashlib.sha256(name.encode()).digest()
    return f"10.{128 + digest[0] % 128}.{digest[1]}.{1 + digest[2] % 254}"
