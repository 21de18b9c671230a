"""Kueue outside a cluster: its configuration file, its CRDs and its webhooks."""

import base64
import concurrent.futures
import http.client
from pathlib import Path

import yaml

from gpustack_deploy.sandbox.api import ApiError, Json, SandboxApi
from gpustack_deploy.sandbox.objects import KUEUE_API
from gpustack_deploy.sandbox.ports import LOOPBACK
from gpustack_deploy.sandbox.shape import Shape
from gpustack_deploy.sandbox.waiting import wait_until

UNMANAGED_NAMESPACES = ["kube-system", "kueue-system"]
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_KEPT_WEBHOOKS = ("pod", "workload", "clusterqueue", "resourceflavor", "cohort")


def configuration(shape: Shape, *, health_port: int, webhook_port: int, certificates: Path) -> Json:
    """The manager's configuration: pods only, no leader election, no limit on its own requests."""
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": "kueue-system",
        "health": {"healthProbeBindAddress": f"{LOOPBACK}:{health_port}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": LOOPBACK, "port": webhook_port, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "clientConnection": {"qps": -1, "burst": 1000},
        "controller": {
            "groupKindConcurrency": {
                "Pod": 10,
                "Workload.kueue.x-k8s.io": 10,
                "LocalQueue.kueue.x-k8s.io": 2,
                "ClusterQueue.kueue.x-k8s.io": 2,
            }
        },
        "managedJobsNamespaceSelector": {"matchExpressions": [_managed_namespaces()]},
        "integrations": {"frameworks": ["pod"]},
        "resources": {"excludeResourcePrefixes": list(shape.unmetered)},
        "featureGates": {"VisibilityOnDemand": False, "MultiKueue": False},
    }


def create_crds(api: SandboxApi, manifests: Path) -> None:
    """Creates all of Kueue's CRDs and returns once each is served."""
    files = sorted(manifests.glob("kueue.x-k8s.io_*.yaml"))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        created = list(pool.map(lambda file: api.create(_CRDS, file.read_bytes()), files))
    # Discovery is asked, not each CRD: the larger ones take the server half a second to write out.
    wanted = {crd["spec"]["names"]["plural"] for crd in created}
    wait_until(lambda: wanted <= _served(api), what="Kueue's CRDs to be served", interval=0.1)


def register_webhooks(api: SandboxApi, manifests: Path, *, port: int, authority: Path) -> None:
    """Registers the webhooks of what is served here, each by address with our own authority."""
    bundle = base64.b64encode(authority.read_bytes()).decode()
    documents = yaml.safe_load_all((manifests / "manifests.yaml").read_text())
    for document in documents:
        if document and "webhooks" in document:
            kind = document["kind"]
            document["metadata"] = {"name": f"kueue-{kind.removesuffix('Configuration').lower()}"}
            document["webhooks"] = [
                _at_address(webhook, port, bundle)
                for webhook in document["webhooks"]
                if webhook["name"][1:].removesuffix(".kb.io") in _KEPT_WEBHOOKS
            ]
            api.create(f"{_ADMISSION}/{kind.lower()}s", document)


def create_when_webhooks_answer(api: SandboxApi, path: str, body: Json) -> None:
    """Creates an object, again as long as the API server cannot reach Kueue's webhooks yet."""

    def created() -> bool:
        try:
            api.create(path, body)
        except ApiError as error:
            if error.code == http.client.CONFLICT:
                return True
            if error.code == http.client.INTERNAL_SERVER_ERROR:
                return False
            raise
        return True

    wait_until(created, what=f"Kueue to accept {body['kind']} {body['metadata']['name']}")


def wait_for_queue(api: SandboxApi, path: str) -> None:
    """Returns once the queue at the path says that it is active."""
    wait_until(lambda: _condition(api.get(path), "Active") == "True", what=f"{path} to be active")


def _managed_namespaces() -> Json:
    return {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": list(UNMANAGED_NAMESPACES),
    }


def _at_address(webhook: Json, port: int, bundle: str) -> Json:
    path = webhook["clientConfig"]["service"]["path"]
    moved = webhook | {
        "clientConfig": {"url": f"https://{LOOPBACK}:{port}{path}", "caBundle": bundle}
    }
    if webhook["name"].endswith("pod.kb.io"):
        moved["namespaceSelector"] = {"matchExpressions": [_managed_namespaces()]}
    return moved


def _served(api: SandboxApi) -> set[str]:
    resources = (api.find(KUEUE_API) or {}).get("resources", [])
    return {resource["name"] for resource in resources}


def _condition(obj: Json, kind: str) -> str:
    conditions = obj.get("status", {}).get("conditions") or []
    return next((str(entry["status"]) for entry in conditions if entry["type"] == kind), "")
