"""The files of a sandbox's folder: programs, certificates, kubeconfigs, configuration."""

import base64
import os
import shutil
import subprocess
from pathlib import Path

import yaml

from gpustack_deploy.sandbox import dns, kueue
from gpustack_deploy.sandbox.api import Json
from gpustack_deploy.sandbox.components import CLIENTS
from gpustack_deploy.sandbox.errors import StartFailed
from gpustack_deploy.sandbox.layout import Layout
from gpustack_deploy.sandbox.machine import programs_on_machine
from gpustack_deploy.sandbox.parts import PARTS, is_built, part_dir
from gpustack_deploy.sandbox.ports import LOOPBACK
from gpustack_deploy.sandbox.shape import Shape

STAGES_DIR = Path(__file__).parent / "stages"
_ADMINISTRATORS = "system:masters"


def write_files(layout: Layout, shape: Shape) -> None:
    """Writes everything that the components read before they are started."""
    for folder in (layout.certificates, layout.configuration, layout.logs, layout.programs):
        folder.mkdir()
    link_programs(layout.programs)
    _write_certificates(layout.certificates)
    for client in CLIENTS:
        _write_kubeconfig(layout, client)
    _write_configuration(layout, shape)


def link_programs(folder: Path) -> None:
    """Makes every program available in the folder: the machine's own, else the built one."""
    own = programs_on_machine()
    for name, target in own.items():
        (folder / name).symlink_to(target)
    for part in PARTS:
        if is_built(part):
            for file in part_dir(part).iterdir():
                if file.name not in own and os.access(file, os.X_OK):
                    _hard_link(file, folder / file.name)


def part_folder(name: str) -> Path:
    """The folder of a built part, by name."""
    return next(part_dir(part) for part in PARTS if part.name == name)


def _hard_link(file: Path, link: Path) -> None:
    """Pulumi looks for its companions beside the real file, which a symbolic link would not be."""
    try:
        link.hardlink_to(file)
    except OSError:
        shutil.copy2(file, link)


def _write_certificates(folder: Path) -> None:
    clients = ",".join(f"{client}={_ADMINISTRATORS}" for client in CLIENTS)
    done = subprocess.run(
        [part_folder("certs") / "certs", "-dir", folder, "-clients", clients],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise StartFailed(f"The sandbox's certificates could not be made: {done.stderr.strip()}")


def _write_kubeconfig(layout: Layout, client: str) -> None:
    """A kubeconfig that stands alone: its certificates are inside."""

    def inlined(file: str) -> str:
        return base64.b64encode((layout.certificates / file).read_bytes()).decode()

    server = f"https://{LOOPBACK}:{layout.ports['kube-apiserver']}"
    cluster = {"server": server, "certificate-authority-data": inlined("ca.crt")}
    user = {
        "client-certificate-data": inlined(f"{client}.crt"),
        "client-key-data": inlined(f"{client}.key"),
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "sandbox", "cluster": cluster}],
        "users": [{"name": client, "user": user}],
        "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": client}}],
        "current-context": "sandbox",
    }
    file = layout.kubeconfig_of(client)
    file.touch(mode=0o600)
    file.write_text(yaml.safe_dump(config, sort_keys=False))


def _write_configuration(layout: Layout, shape: Shape) -> None:
    folder = layout.configuration
    manager = kueue.configuration(
        shape,
        health_port=layout.ports["kueue-health"],
        webhook_port=layout.ports["kueue-webhook"],
        certificates=layout.certificates,
    )
    _write_yaml(folder / "kueue.yaml", manager)
    scheduler = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {
            "kubeconfig": str(layout.kubeconfig_of("kube-scheduler")),
            "qps": 500,
            "burst": 1000,
        },
    }
    _write_yaml(folder / "kube-scheduler.yaml", scheduler)
    audit = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*"]},
            {
                "level": "None",
                "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}],
            },
            {"level": "Metadata"},
        ],
    }
    _write_yaml(folder / "audit.yaml", audit)
    kwok = {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "options": {"podPlayStageParallelism": 16, "nodePlayStageParallelism": 8},
    }
    (folder / "Corefile").write_text(dns.corefile(layout))
    stages = [file.read_text() for file in sorted(STAGES_DIR.glob("*.yaml"))]
    (folder / "kwok.yaml").write_text("---\n".join([yaml.safe_dump(kwok), *stages]))


def _write_yaml(file: Path, content: Json) -> None:
    file.write_text(yaml.safe_dump(content, sort_keys=False))
