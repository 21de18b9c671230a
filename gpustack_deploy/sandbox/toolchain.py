"""The Go toolchain on this machine, and the environment its builds run in."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from gpustack_deploy.sandbox.cache import scratch_dir
from gpustack_deploy.sandbox.errors import MissingTool

NEEDED_GO = (1, 26)
_HINT = "install Go 1.26 or newer (https://go.dev/dl) and put `go` on PATH"


def require_go() -> Path:
    """The `go` program, at least as new as needed; otherwise one sentence with the install hint."""
    found = shutil.which("go")
    if found is None:
        raise MissingTool(f"Go is not on PATH and the sandbox has to be built once: {_HINT}.")
    answer = subprocess.run(
        [found, "env", "GOVERSION"],
        env={**os.environ, "GOTOOLCHAIN": "local"},
        capture_output=True,
        text=True,
        check=False,
    )
    version = answer.stdout.strip()
    if (number := _parse(version)) is None:
        raise MissingTool(f"{found} did not tell its version ({answer.stderr.strip()}): {_HINT}.")
    if number < NEEDED_GO:
        raise MissingTool(f"{found} is {version}, older than the sandbox's build needs: {_HINT}.")
    return Path(found)


def go_environment() -> dict[str, str]:
    """The environment of every build: static, reproducible, with a cache of the sandbox's own."""
    kept = {key: value for key, value in os.environ.items() if key not in ("GOOS", "GOARCH")}
    return kept | {
        "CGO_ENABLED": "0",
        "GO111MODULE": "on",
        "GOCACHE": str(go_cache_dir()),
        "GOFLAGS": "-mod=readonly -buildvcs=false -trimpath",
        "GOTMPDIR": str(go_temporary_dir()),
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


def go_cache_dir() -> Path:
    """Go's build cache while the sandbox is being built; removed after a complete build."""
    return scratch_dir() / "go-cache"


def go_temporary_dir() -> Path:
    """Where Go links; beside the cache, because a small /tmp would not do."""
    return scratch_dir() / "go-tmp"


def _parse(version: str) -> tuple[int, int] | None:
    match = re.match(r"go(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else None
