"""Programs already on this machine that are used instead of building them."""

import os
import shutil
from pathlib import Path

from gpustack_deploy.sandbox.cache import cache_dir

ENV_ASSETS = "KUBEBUILDER_ASSETS"
_ASSETS = ("etcd", "kube-apiserver")
# Pulumi counts as installed only with its whole Python side.
_PULUMI = (
    "pulumi",
    "pulumi-language-python",
    "pulumi-language-python-exec",
    "pulumi-resource-pulumi-python",
)
_PULUMI_PARTS = ("pulumi", "pulumi-launchers", "pulumi-language-python")


def programs_on_machine() -> dict[str, Path]:
    """Program name to path for everything that need not be built here."""
    found: dict[str, Path] = {}
    if assets := os.environ.get(ENV_ASSETS):
        for name in _ASSETS:
            candidate = Path(assets) / name
            if os.access(candidate, os.X_OK):
                found[name] = candidate
    installed = {name: path for name in _PULUMI if (path := _on_path(name)) is not None}
    if len(installed) == len(_PULUMI):
        found |= installed
    return found


def parts_on_machine() -> frozenset[str]:
    """The names of the parts that `programs_on_machine` makes unnecessary."""
    programs = programs_on_machine()
    parts = {name for name in _ASSETS if name in programs}
    if "pulumi" in programs:
        parts |= set(_PULUMI_PARTS)
    return frozenset(parts)


def _on_path(name: str) -> Path | None:
    """The program on PATH, unless it is a sandbox's own (which goes away with it)."""
    found = shutil.which(name)
    if found is None or Path(found).resolve().is_relative_to(cache_dir().resolve()):
        return None
    return Path(found)
