"""Where built binaries and running sandboxes live on this machine."""

import os
from pathlib import Path

ENV_CACHE_DIR = "GPUSTACK_CACHE_DIR"
ENV_SANDBOX_DIR = "GPUSTACK_SANDBOX_DIR"
DEFAULT_NAME = "default"


def cache_dir() -> Path:
    """The cache folder: `$GPUSTACK_CACHE_DIR`, else the user's XDG cache folder."""
    if configured := os.environ.get(ENV_CACHE_DIR):
        return Path(configured).expanduser().absolute()
    xdg = os.environ.get("XDG_CACHE_HOME")
    base = Path(xdg).expanduser() if xdg else Path.home() / ".cache"
    return (base / "gpustack-deploy").absolute()


def parts_dir() -> Path:
    """One folder a part, one folder a key inside it; only complete parts have their final name."""
    return cache_dir() / "parts"


def scratch_dir() -> Path:
    """Everything that only a running build needs: Go's build cache, temporary modules, logs."""
    return cache_dir() / "build"


def sandboxes_dir() -> Path:
    """The folder that holds the sandboxes of this machine, one folder a name."""
    return cache_dir() / "sandboxes"


def sandbox_dir(name: str = DEFAULT_NAME) -> Path:
    """The folder of one sandbox; `$GPUSTACK_SANDBOX_DIR` names the default one's."""
    configured = os.environ.get(ENV_SANDBOX_DIR)
    if configured and name == DEFAULT_NAME:
        return Path(configured).expanduser().absolute()
    return sandboxes_dir() / name
