"""Builds the missing parts of the sandbox one after the other, each kept once it is complete.

`python -m gpustack_deploy.sandbox.build` builds everything that is always needed.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gpustack_deploy.sandbox.cache import cache_dir, scratch_dir
from gpustack_deploy.sandbox.errors import BuildFailed, NotEnoughSpace, SandboxError
from gpustack_deploy.sandbox.machine import parts_on_machine
from gpustack_deploy.sandbox.parts import (
    OPTIONS_NOT_YET,
    TOOLS_DIR,
    Part,
    Patch,
    is_built,
    options,
    part_dir,
    part_key,
    parts_for,
)
from gpustack_deploy.sandbox.toolchain import (
    go_cache_dir,
    go_environment,
    go_temporary_dir,
    require_go,
)

Say = Callable[[str], None]

_MEASURED_CORES = 2
_MOST_USEFUL_CORES = 8


def say_on_stderr(line: str) -> None:
    """Prints a progress line where it cannot mix with a command's output."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def build(wanted: Sequence[str] = (), *, say: Say = say_on_stderr) -> None:
    """Makes every needed part present: found on the machine, in the cache, or built now.

    A part that is complete is never built again, so an interrupted build goes on where it stopped.
    """
    needed = parts_for(_known_options(wanted))
    present = parts_on_machine()
    if not _missing(needed, present):
        return
    go = require_go()
    with _one_builder(say):
        missing = _missing(needed, present)
        if not missing:
            return
        announce(missing, say)
        _build_all(go, missing, say)


def announce(missing: Sequence[Part], say: Say) -> None:
    """Says what is built, how long it takes here, the space; refuses when there is too little."""
    cores = os.cpu_count() or 1
    need = sum(part.mib for part in missing) / 1024
    free = shutil.disk_usage(_existing(cache_dir())).free / 1024**3
    say(f"Building {len(missing)} parts of the sandbox once, into {cache_dir()}:")
    say("  " + ", ".join(f"{part.name} {part.version}" for part in missing))
    say(
        f"  about {expected_minutes(missing, cores):.0f} minutes on {cores} cores; "
        f"needs {need:.1f} GB of disk while building, {free:.1f} GB are free"
    )
    if free < need:
        raise NotEnoughSpace(
            f"Building the sandbox needs {need:.1f} GB free under {cache_dir()} and {free:.1f} GB "
            "are: free some space or set GPUSTACK_CACHE_DIR to a folder on a larger disk."
        )


def expected_minutes(missing: Sequence[Part], cores: int) -> float:
    """How long the parts take on this many cores, at least one minute."""
    useful = max(1, min(cores, _MOST_USEFUL_CORES))
    seconds = sum(part.seconds for part in missing) * _MEASURED_CORES / useful
    return max(1.0, seconds / 60)


def _known_options(wanted: Sequence[str]) -> frozenset[str]:
    for option in wanted:
        if option in OPTIONS_NOT_YET:
            raise SandboxError(
                f"The sandbox cannot build '{option}' yet; it can build: {', '.join(options())}."
            )
        if option not in options():
            raise SandboxError(
                f"The sandbox has no optional part '{option}'; it has: {', '.join(options())}."
            )
    return frozenset(wanted)


def _missing(needed: Sequence[Part], present: frozenset[str]) -> list[Part]:
    return [part for part in needed if part.name not in present and not is_built(part)]


def _build_all(go: Path, missing: Sequence[Part], say: Say) -> None:
    go_cache_dir().mkdir(parents=True, exist_ok=True)
    go_temporary_dir().mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    for index, part in enumerate(missing):
        left = expected_minutes(missing[index:], os.cpu_count() or 1)
        say(f"[{index + 1}/{len(missing)}] {part.name} ... (about {left:.0f} min left)")
        started = time.monotonic()
        _build_part(go, part)
        say(f"[{index + 1}/{len(missing)}] {part.name} done in {time.monotonic() - started:.0f} s")
    shutil.rmtree(scratch_dir(), ignore_errors=True)
    minutes = (time.monotonic() - begun) / 60
    say(f"The sandbox is built ({minutes:.1f} min); later starts use the cache.")


def _build_part(go: Path, part: Part) -> None:
    final = part_dir(part)
    unfinished = scratch_dir() / "unfinished" / f"{part.name}-{part_key(part)}"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    module = _module_copy(go, part)
    if part.copies is not None:
        source = _module_dir(go, module, part.copies.module, part)
        for pattern, executable in part.copies.files:
            for file in sorted(source.glob(pattern)):
                target = unfinished / file.name
                shutil.copyfile(file, target)
                target.chmod(0o755 if executable else 0o644)
        if not any(unfinished.iterdir()):
            raise BuildFailed(
                f"{part.copies.module} holds none of the files that {part.name} needs."
            )
    else:
        flags = " ".join(("-s", "-w", *part.ldflags))
        target = unfinished / part.name
        _run(
            [str(go), "build", "-ldflags", flags, "-o", str(target), part.package],
            cwd=module,
            part=part,
        )
    final.parent.mkdir(parents=True, exist_ok=True)
    unfinished.rename(final)


def _module_copy(go: Path, part: Part) -> Path:
    """A writable copy of the part's tools module, with the patched dependency put in its place."""
    copy = scratch_dir() / "modules" / part.name
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(TOOLS_DIR / part.tools, copy)
    if part.patch is not None:
        patched = _patched_copy(_module_dir(go, copy, part.patch.module, part), part.patch)
        replace = f"-replace={part.patch.module}={patched}"
        _run([str(go), "mod", "edit", replace], cwd=copy, part=part)
    return copy


def _patched_copy(source: Path, patch: Patch) -> Path:
    copy = scratch_dir() / "patched" / patch.module.replace("/", "_")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(source, copy, copy_function=shutil.copyfile)
    for folder, names, _ in os.walk(copy):
        for name in names:
            Path(folder, name).chmod(0o755)
    file = copy / patch.file
    text = file.read_text()
    if text.count(patch.old) != 1:
        raise BuildFailed(
            f"{patch.module}: {patch.file} does not hold the one line that the sandbox changes; "
            "pin the version that the sandbox was written for."
        )
    file.write_text(text.replace(patch.old, patch.new))
    return copy


def _module_dir(go: Path, cwd: Path, module: str, part: Part) -> Path:
    """The folder of a dependency at its pinned version, downloaded and checked against go.sum."""
    answer = json.loads(_run([str(go), "mod", "download", "-json", module], cwd=cwd, part=part))
    return Path(answer["Dir"])


def _run(command: list[str], *, cwd: Path, part: Part) -> str:
    """Runs one build command, its errors into a log file; returns what it printed."""
    log = scratch_dir() / "logs" / f"{part.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as errors:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=go_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        tail = " | ".join(log.read_text(errors="replace").strip().splitlines()[-3:])
        raise BuildFailed(f"{part.name} {part.version} did not build, see {log}: {tail}")
    return done.stdout


@contextmanager
def _one_builder(say: Say) -> Iterator[None]:
    """Lets one build run at a time on a cache; the others wait and then find its parts."""
    cache_dir().mkdir(parents=True, exist_ok=True)
    with (cache_dir() / "build.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another build of the sandbox is running; waiting for it.")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path


if __name__ == "__main__":
    try:
        build(sys.argv[1:])
    except SandboxError as error:
        sys.exit(str(error))
