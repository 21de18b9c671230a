"""Starting a sandbox: files, programs in order, CRDs and webhooks, nodes and queues."""

import concurrent.futures
import http.client
import ssl
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from gpustack_deploy.sandbox import files, kueue, objects, processes
from gpustack_deploy.sandbox.api import ApiError, Json, SandboxApi
from gpustack_deploy.sandbox.build import Say
from gpustack_deploy.sandbox.components import (
    COMPONENTS,
    command_of,
    components_of,
    environment_of,
    ready_url,
)
from gpustack_deploy.sandbox.errors import StartFailed
from gpustack_deploy.sandbox.layout import Layout
from gpustack_deploy.sandbox.objects import KUEUE_API
from gpustack_deploy.sandbox.ports import LOOPBACK
from gpustack_deploy.sandbox.processes import is_alive
from gpustack_deploy.sandbox.shape import Shape
from gpustack_deploy.sandbox.state import State, read_state, write_state
from gpustack_deploy.sandbox.waiting import wait_for

_READY_SECONDS = 90.0


def start_all(layout: Layout, state: State, shape: Shape, say: Say) -> State:
    """Starts everything in a new folder and returns the state of the ready sandbox."""
    begun = time.monotonic()
    layout.folder.mkdir(parents=True, exist_ok=True)
    layout.folder.chmod(0o700)
    write_state(layout.folder, state)
    files.write_files(layout, shape)
    for component in ("etcd", "kube-apiserver"):
        start(component, layout)
    api = SandboxApi(layout.kubeconfig)
    for component in ("kube-controller-manager", "kube-scheduler", "kwok"):
        _spawn(component, layout)
    manifests = files.part_folder("kueue-manifests")
    kueue.create_crds(api, manifests)
    _spawn("kueue", layout)
    _in_parallel(partial(api.create, "/api/v1/nodes"), objects.node_objects(shape))
    for component in ("kube-controller-manager", "kube-scheduler", "kwok", "kueue"):
        _wait_ready(component, layout)
    kueue.register_webhooks(
        api,
        manifests,
        port=layout.ports["kueue-webhook"],
        authority=layout.certificates / "ca.crt",
    )
    _create_queues(api, shape)
    for namespace in shape.namespaces:
        add_namespace(api, namespace)
    _wait_for_nodes(api, shape)
    for component in components_of(state.options)[len(COMPONENTS) :]:
        start(component, layout)
    ready = replace(_state(layout), ready=True)
    write_state(layout.folder, ready)
    say(f"Sandbox '{state.name}' is ready after {time.monotonic() - begun:.1f} s.")
    return ready


def start(component: str, layout: Layout) -> None:
    """Starts one component and returns once it is ready."""
    _spawn(component, layout)
    _wait_ready(component, layout)


def add_namespace(api: SandboxApi, name: str, *, queues: bool = True) -> None:
    """Makes a namespace usable: it exists, has its service account and, if wanted, the queues."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    _create_if_absent(api, "/api/v1/namespaces", namespace)
    if queues:
        names = [queue["metadata"]["name"] for queue in api.list(f"{KUEUE_API}/clusterqueues")]
        path = f"{KUEUE_API}/namespaces/{name}/localqueues"
        for queue in names:
            _create_if_absent(api, path, objects.local_queue_object(queue, name))
        for queue in names:
            kueue.wait_for_queue(api, f"{path}/{queue}")
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    wait_for(lambda: api.find(account), what=f"the default service account of {name}")


def _spawn(component: str, layout: Layout) -> None:
    """Starts a component and records its process at once."""
    state = _state(layout)
    process = processes.start(
        command_of(component, layout, audit_log=state.audit_log),
        environment=environment_of(layout),
        log=layout.logs / f"{component}.log",
    )
    write_state(layout.folder, state.with_process(component, process))


def _wait_ready(component: str, layout: Layout) -> None:
    process = _state(layout).processes[component]
    scheme, port, path = ready_url(component, layout)
    tls = ssl.create_default_context(cafile=str(layout.certificates / "ca.crt"))
    if component == "kube-apiserver":
        certificate = layout.certificates / "admin"
        tls.load_cert_chain(f"{certificate}.crt", f"{certificate}.key")

    def answers() -> bool | None:
        if not is_alive(process):
            raise _failure(component, layout, "ended while it was starting")
        return _is_ok(scheme, port, path, tls) or None

    try:
        wait_for(answers, what=component, seconds=_READY_SECONDS)
    except TimeoutError as error:
        raise _failure(component, layout, f"was not ready in {_READY_SECONDS:.0f} s") from error


def _is_ok(scheme: str, port: int, path: str, tls: ssl.SSLContext) -> bool:
    connection = (
        http.client.HTTPSConnection(LOOPBACK, port, context=tls, timeout=5)
        if scheme == "https"
        else http.client.HTTPConnection(LOOPBACK, port, timeout=5)
    )
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _failure(component: str, layout: Layout, what: str) -> StartFailed:
    log = layout.logs / f"{component}.log"
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return StartFailed(f"{component} {what}; its last words: {' | '.join(lines[-3:])[-600:]}")


def _create_queues(api: SandboxApi, shape: Shape) -> None:
    for pool in shape.pools:
        flavors = f"{KUEUE_API}/resourceflavors"
        kueue.create_when_webhooks_answer(api, flavors, objects.flavor_object(pool))
    for pool in shape.pools:
        queue = objects.cluster_queue_object(pool, shape.unmetered)
        kueue.create_when_webhooks_answer(api, f"{KUEUE_API}/clusterqueues", queue)


def _wait_for_nodes(api: SandboxApi, shape: Shape) -> None:
    wanted = sum(pool.nodes for pool in shape.pools)

    def all_ready() -> bool | None:
        ready = [node for node in api.list("/api/v1/nodes") if _is_schedulable(node)]
        return len(ready) >= wanted or None

    wait_for(all_ready, what=f"{wanted} nodes to be Ready", seconds=60)


def _is_schedulable(node: Json) -> bool:
    conditions = node.get("status", {}).get("conditions") or []
    ready = any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)
    return ready and not node["spec"].get("taints")


def _create_if_absent(api: SandboxApi, path: str, body: Json) -> None:
    try:
        api.create(path, body)
    except ApiError as error:
        if error.code != http.client.CONFLICT:
            raise


def _in_parallel(create: Callable[[Json], Json], bodies: Iterable[Json]) -> None:
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(create, bodies))


def _state(layout: Layout) -> State:
    state = read_state(layout.folder)
    if state is None:
        raise StartFailed(f"{layout.folder} was removed while the sandbox was in use.")
    return state
