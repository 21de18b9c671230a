"""The programs of a sandbox: how each is called and where it says that it is ready."""

from collections.abc import Sequence

from gpustack_deploy.sandbox.layout import Layout
from gpustack_deploy.sandbox.objects import KWOK_SELECTOR
from gpustack_deploy.sandbox.parts import KUEUE_METRICS_CERT_ENV
from gpustack_deploy.sandbox.ports import LOOPBACK

# In starting order. Stopping goes the other way.
COMPONENTS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kwok",
    "kueue",
)
# Further ones by option.
OPTIONAL = {"dns": "coredns"}
# Each asks the API server with an identity of its own, so that an audit log tells them apart.
CLIENTS = ("admin", "kube-controller-manager", "kube-scheduler", "kwok", "kueue", "coredns")
# A node whose kubelet is gone is found NotReady after this long.
NODE_GRACE_SECONDS = 20
_NODE_LEASE_SECONDS = 12
_SERVICE_CIDR = "10.96.0.0/16"
_POD_CIDR = "10.244.0.1/16"
# What has no counterpart here: clouds, disks, certificates of real kubelets, autoscaling.
_NO_CONTROLLERS = (
    "bootstrap-signer-controller",
    "token-cleaner-controller",
    "certificatesigningrequest-signing-controller",
    "certificatesigningrequest-approving-controller",
    "certificatesigningrequest-cleaner-controller",
    "horizontal-pod-autoscaler-controller",
    "node-ipam-controller",
    "persistentvolume-attach-detach-controller",
    "persistentvolume-expander-controller",
    "service-lb-controller",
    "node-route-controller",
    "cloud-node-lifecycle-controller",
)


def components_of(options: Sequence[str]) -> tuple[str, ...]:
    """The components of a sandbox with these options, in starting order."""
    return (*COMPONENTS, *(OPTIONAL[option] for option in options if option in OPTIONAL))


def command_of(component: str, layout: Layout, *, audit_log: bool = False) -> Sequence[str]:
    """The command line of a component."""
    match component:
        case "etcd":
            return _etcd(layout)
        case "kube-apiserver":
            return _apiserver(layout, audit_log=audit_log)
        case "kube-controller-manager":
            return _controller_manager(layout)
        case "kube-scheduler":
            return _scheduler(layout)
        case "kwok":
            return _kwok(layout)
        case "kueue":
            return [
                f"{layout.programs}/kueue",
                f"--config={layout.configuration}/kueue.yaml",
                f"--kubeconfig={layout.kubeconfig_of('kueue')}",
                "--zap-log-level=2",
            ]
        case "coredns":
            return [f"{layout.programs}/coredns", f"-conf={layout.configuration}/Corefile"]
        case _:
            raise ValueError(component)


def environment_of(layout: Layout) -> dict[str, str]:
    """The environment of every component: nothing of the user's home, logins or clusters."""
    return {
        "HOME": str(layout.folder),
        "PATH": "/usr/bin:/bin",
        "KWOK_WORKDIR": str(layout.folder / "kwok"),
        KUEUE_METRICS_CERT_ENV: str(layout.certificates),
    }


def ready_url(component: str, layout: Layout) -> tuple[str, int, str]:
    """Scheme, port and path that answer 200 once the component is ready."""
    ports = layout.ports
    match component:
        case "etcd":
            return "http", ports["etcd"], "/health"
        case "kube-apiserver":
            return "https", ports[component], "/readyz"
        case "kube-controller-manager" | "kube-scheduler":
            return "https", ports[component], "/healthz"
        case "kwok":
            return "http", ports["kwok"], "/healthz"
        case "kueue":
            return "http", ports["kueue-health"], "/readyz"
        case "coredns":
            return "http", ports["coredns-ready"], "/ready"
        case _:
            raise ValueError(component)


def _etcd(layout: Layout) -> list[str]:
    client = f"http://{LOOPBACK}:{layout.ports['etcd']}"
    peer = f"http://{LOOPBACK}:{layout.ports['etcd-peer']}"
    return [
        f"{layout.programs}/etcd",
        f"--data-dir={layout.folder}/etcd",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        "--quota-backend-bytes=4294967296",
        "--auto-compaction-mode=periodic",
        "--auto-compaction-retention=10m",
        "--log-level=warn",
    ]


def _apiserver(layout: Layout, *, audit_log: bool) -> list[str]:
    certificates = layout.certificates
    command = [
        f"{layout.programs}/kube-apiserver",
        f"--etcd-servers=http://{LOOPBACK}:{layout.ports['etcd']}",
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        f"--secure-port={layout.ports['kube-apiserver']}",
        "--endpoint-reconciler-type=none",
        f"--service-cluster-ip-range={_SERVICE_CIDR}",
        *_serving_certificate(layout),
        f"--client-ca-file={certificates}/ca.crt",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={certificates}/service-accounts.pub",
        f"--service-account-signing-key-file={certificates}/service-accounts.key",
        "--allow-privileged=true",
        "--max-requests-inflight=1600",
        "--max-mutating-requests-inflight=800",
        "--profiling=false",
    ]
    if audit_log:
        command += [
            f"--audit-policy-file={layout.configuration}/audit.yaml",
            f"--audit-log-path={layout.audit_log}",
            "--audit-log-mode=blocking",
            "--audit-log-maxsize=4000",
        ]
    return command


def _controller_manager(layout: Layout) -> list[str]:
    certificates = layout.certificates
    controllers = ["*", *(f"-{name}" for name in _NO_CONTROLLERS)]
    return [
        f"{layout.programs}/kube-controller-manager",
        f"--kubeconfig={layout.kubeconfig_of('kube-controller-manager')}",
        *_serving_certificate(layout),
        f"--bind-address={LOOPBACK}",
        f"--secure-port={layout.ports['kube-controller-manager']}",
        "--leader-elect=false",
        f"--controllers={','.join(controllers)}",
        f"--root-ca-file={certificates}/ca.crt",
        f"--service-account-private-key-file={certificates}/service-accounts.key",
        f"--node-monitor-grace-period={NODE_GRACE_SECONDS}s",
        "--node-monitor-period=2s",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        "--profiling=false",
    ]


def _scheduler(layout: Layout) -> list[str]:
    return [
        f"{layout.programs}/kube-scheduler",
        f"--config={layout.configuration}/kube-scheduler.yaml",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={layout.ports['kube-scheduler']}",
        *_serving_certificate(layout),
    ]


def _kwok(layout: Layout) -> list[str]:
    return [
        f"{layout.programs}/kwok",
        f"--config={layout.configuration}/kwok.yaml",
        f"--kubeconfig={layout.kubeconfig_of('kwok')}",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-label-selector={KWOK_SELECTOR}",
        f"--node-lease-duration-seconds={_NODE_LEASE_SECONDS}",
        f"--cidr={_POD_CIDR}",
        f"--server-address={LOOPBACK}:{layout.ports['kwok']}",
    ]


def _serving_certificate(layout: Layout) -> list[str]:
    return [
        f"--tls-cert-file={layout.certificates}/tls.crt",
        f"--tls-private-key-file={layout.certificates}/tls.key",
    ]
