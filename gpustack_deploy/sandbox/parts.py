"""What the sandbox is made of: one row a part, each pinned by its tools module."""

import hashlib
import platform
from dataclasses import dataclass
from pathlib import Path

from gpustack_deploy.sandbox.cache import parts_dir

TOOLS_DIR = Path(__file__).parent / "tools"
KUBERNETES_VERSION = "v1.35.4"
KUEUE_VERSION = "v0.17.0"
PULUMI_VERSION = "v3.274.1"
PULUMI_PYTHON_VERSION = "v3.78.0"
KWOK_VERSION = "v0.7.0"
KUEUE_METRICS_CERT_ENV = "KUEUE_METRICS_CERT_DIR"

_KEY_FORMAT = "1"


@dataclass(frozen=True, slots=True)
class Patch:
    """One exact replacement in one file of a dependency, made in a copy of its module folder."""

    module: str
    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Copies:
    """Files taken as they are from a module's folder; `(glob in the module, executable)`."""

    module: str
    files: tuple[tuple[str, bool], ...]


@dataclass(frozen=True, slots=True)
class Part:
    """One thing that is built (or copied) once and kept under its key.

    `seconds` and `mib` are what a cold build in table order takes on two cores and adds to the
    build cache and the module cache together; they feed the announcement, nothing else.
    """

    name: str
    tools: str
    version: str
    seconds: int
    mib: int
    package: str = ""
    ldflags: tuple[str, ...] = ()
    patch: Patch | None = None
    copies: Copies | None = None
    option: str = ""


_KUBERNETES_LDFLAGS = (
    f"-X k8s.io/component-base/version.gitVersion={KUBERNETES_VERSION}",
    "-X k8s.io/component-base/version.gitMajor=1",
    "-X k8s.io/component-base/version.gitMinor=35",
)
_PULUMI_VERSION_VARIABLE = "github.com/pulumi/pulumi/sdk/v3/go/common/version.Version"

# In build order: what shares packages with an earlier row compiles only the rest.
PARTS: tuple[Part, ...] = (
    Part("certs", "certs", "1", seconds=10, mib=150, package="gpustack-deploy.local/sandbox/certs"),
    Part(
        "etcd",
        "control-plane",
        "v3.6.16",
        seconds=45,
        mib=900,
        package="go.etcd.io/etcd/server/v3",
    ),
    Part(
        "kube-apiserver",
        "control-plane",
        KUBERNETES_VERSION,
        seconds=175,
        mib=3000,
        package="k8s.io/kubernetes/cmd/kube-apiserver",
        ldflags=_KUBERNETES_LDFLAGS,
    ),
    Part(
        "kube-controller-manager",
        "control-plane",
        KUBERNETES_VERSION,
        seconds=50,
        mib=800,
        package="k8s.io/kubernetes/cmd/kube-controller-manager",
        ldflags=_KUBERNETES_LDFLAGS,
    ),
    Part(
        "kube-scheduler",
        "control-plane",
        KUBERNETES_VERSION,
        seconds=5,
        mib=300,
        package="k8s.io/kubernetes/cmd/kube-scheduler",
        ldflags=_KUBERNETES_LDFLAGS,
    ),
    Part(
        "kueue",
        "control-plane",
        KUEUE_VERSION,
        seconds=55,
        mib=900,
        package="sigs.k8s.io/kueue/cmd/kueue",
        ldflags=(f"-X sigs.k8s.io/kueue/pkg/version.GitVersion={KUEUE_VERSION}",),
        patch=Patch(
            "sigs.k8s.io/kueue",
            "cmd/kueue/main.go",
            'metricsCertPath := "/etc/kueue/metrics/certs"',
            f'metricsCertPath := os.Getenv("{KUEUE_METRICS_CERT_ENV}")',
        ),
    ),
    Part(
        "kueue-manifests",
        "control-plane",
        KUEUE_VERSION,
        seconds=1,
        mib=30,
        copies=Copies(
            "sigs.k8s.io/kueue",
            (
                ("config/components/crd/bases/*.yaml", False),
                ("config/components/webhook/manifests.yaml", False),
            ),
        ),
    ),
    Part(
        "kwok",
        "kwok",
        KWOK_VERSION,
        seconds=80,
        mib=1300,
        package="sigs.k8s.io/kwok/cmd/kwok",
        ldflags=(f"-X sigs.k8s.io/kwok/pkg/consts.Version={KWOK_VERSION}",),
    ),
    Part(
        "pulumi",
        "pulumi",
        PULUMI_VERSION,
        seconds=190,
        mib=3200,
        package="github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
        ldflags=(f"-X {_PULUMI_VERSION_VARIABLE}={PULUMI_VERSION}",),
    ),
    Part(
        "pulumi-launchers",
        "pulumi",
        PULUMI_VERSION,
        seconds=1,
        mib=1,
        copies=Copies(
            "github.com/pulumi/pulumi/sdk/v3",
            (
                ("python/cmd/pulumi-language-python-exec", True),
                ("python/dist/pulumi-resource-pulumi-python", True),
            ),
        ),
    ),
    Part(
        "pulumi-language-python",
        "pulumi-python",
        PULUMI_PYTHON_VERSION,
        seconds=40,
        mib=600,
        package="github.com/pulumi/pulumi/sdk/v3/python/cmd/pulumi-language-python",
        ldflags=(f"-X {_PULUMI_VERSION_VARIABLE}={PULUMI_PYTHON_VERSION}",),
    ),
    Part(
        "coredns",
        "coredns",
        "v1.14.7",
        seconds=100,
        mib=1800,
        package="github.com/coredns/coredns",
        option="dns",
    ),
)

# Options that the table names but nothing builds yet.
OPTIONS_NOT_YET = ("kubernetes", "node")


def part_key(part: Part) -> str:
    """The content key of a part: equal exactly when the same inputs would build the same thing."""
    digest = hashlib.sha256()
    for field in (
        _KEY_FORMAT,
        platform.system(),
        platform.machine(),
        part.package,
        *part.ldflags,
        repr(part.patch),
        repr(part.copies),
    ):
        digest.update(field.encode())
        digest.update(b"\0")
    for source in sorted((TOOLS_DIR / part.tools).iterdir()):
        if source.is_file():
            digest.update(f"{source.name}\0".encode())
            digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def part_dir(part: Part) -> Path:
    """The folder that holds the part once it is complete."""
    return parts_dir() / part.name / part_key(part)


def is_built(part: Part) -> bool:
    """Whether the part is complete in the cache; an interrupted build never makes it so."""
    return part_dir(part).is_dir()


def options() -> tuple[str, ...]:
    """Every optional part that can be asked for by name, in table order."""
    return tuple(dict.fromkeys(part.option for part in PARTS if part.option))


def parts_for(wanted: frozenset[str]) -> tuple[Part, ...]:
    """The parts that are always needed and those of the wanted options, in build order."""
    return tuple(part for part in PARTS if not part.option or part.option in wanted)
