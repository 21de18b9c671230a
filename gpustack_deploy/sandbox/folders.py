"""The folders of the sandboxes on this machine: locked, swept and removed."""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from gpustack_deploy.sandbox.cache import sandbox_dir, sandboxes_dir
from gpustack_deploy.sandbox.errors import SandboxError
from gpustack_deploy.sandbox.ports import is_free
from gpustack_deploy.sandbox.processes import is_alive, stop
from gpustack_deploy.sandbox.state import STATE_FILE, read_state
from gpustack_deploy.sandbox.waiting import wait_until


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lets one process at a time start or end the sandbox of a folder."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    file = folder.parent / f".{folder.name}.lock"
    with contextlib.ExitStack() as stack:
        while True:
            lock = stack.enter_context(file.open("a+"))
            fcntl.flock(lock, fcntl.LOCK_EX)
            # Whoever held it may have removed the file together with the folder.
            with contextlib.suppress(FileNotFoundError):
                if file.stat().st_ino == os.fstat(lock.fileno()).st_ino:
                    break
        yield
        if not folder.exists():
            file.unlink(missing_ok=True)


def remove(folder: Path) -> None:
    """Ends every process that the folder records, then removes it; nothing of it is left.

    A folder that holds other things than a sandbox is refused.
    """
    state = read_state(folder)
    if state is None and folder.exists() and any(folder.iterdir()):
        raise SandboxError(
            f"{folder} is not a sandbox's folder and is left alone: name another one or empty it."
        )
    if state is not None:
        stop(state.processes.values())
        ports = list(state.ports.values())
        wait_until(lambda: all(map(is_free, ports)), what="the sandbox's ports to be free")
    if folder.exists():
        shutil.rmtree(folder)


def folders() -> list[Path]:
    """Every folder of this machine that records a sandbox."""
    recorded = {file.parent for file in sandboxes_dir().glob(f"*/{STATE_FILE}")}
    if (sandbox_dir() / STATE_FILE).exists():
        recorded.add(sandbox_dir())
    return sorted(recorded)


def taken_ports() -> frozenset[int]:
    """The ports of every recorded sandbox, those not listening yet included."""
    states = [state for folder in folders() if (state := read_state(folder)) is not None]
    return frozenset(port for state in states for port in state.ports.values())


def orphans() -> list[Path]:
    """The folders of sandboxes whose owner ended without ending them."""
    found = []
    for folder in folders():
        state = read_state(folder)
        if state is not None and state.owner is not None and not is_alive(state.owner):
            found.append(folder)
    return found
