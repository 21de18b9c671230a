"""Where the files of one sandbox are, and what it needs ports for."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PORTS = (
    "etcd",
    "etcd-peer",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kueue-health",
    "kueue-webhook",
    "kwok",
    "coredns",
    "coredns-ready",
)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the files of one sandbox are, and which ports it uses."""

    folder: Path
    ports: Mapping[str, int]

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, the one for everybody outside."""
        return self.kubeconfig_of("admin")

    def kubeconfig_of(self, client: str) -> Path:
        """The kubeconfig of one of the clients."""
        suffix = "" if client == "admin" else f"-{client}"
        return self.folder / f"kubeconfig{suffix}"

    @property
    def certificates(self) -> Path:
        """Certificates and keys, `ca.crt` among them."""
        return self.folder / "certificates"

    @property
    def configuration(self) -> Path:
        """Configuration files of the components."""
        return self.folder / "configuration"

    @property
    def logs(self) -> Path:
        """One log file a component, and the audit log."""
        return self.folder / "logs"

    @property
    def audit_log(self) -> Path:
        """One JSON line a request, when the audit log is on."""
        return self.logs / "audit.jsonl"

    @property
    def programs(self) -> Path:
        """What is put in front of PATH: the programs of this sandbox."""
        return self.folder / "bin"
