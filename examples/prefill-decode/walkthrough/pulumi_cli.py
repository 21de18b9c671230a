"""The real Pulumi program of this example, run by the real command line from a copy of its files.

The copy keeps the stack's configuration file, which Pulumi writes beside the program, out of the
tree.
"""

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

PROJECT = "prefill-decode"
STACK = "demo"
PROGRAM = Path(__file__).resolve().parents[1]
Say = Callable[[str], None]


class PulumiFailed(Exception):
    """The command line ended with an error, which it has already printed."""


@dataclass(frozen=True)
class Stack:
    """One stack of the program, in a folder of its own."""

    folder: Path
    env: Mapping[str, str]
    namespace: str
    say: Say

    @classmethod
    def create(cls, folder: Path, env: Mapping[str, str], namespace: str, say: Say) -> "Stack":
        """Copy the program and make the stack; a stack of that name is taken as it is."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("Pulumi.yaml", "__main__.py"):
            shutil.copy(PROGRAM / name, folder / name)
        stack = cls(folder, env, namespace, say)
        stack._run("stack", "select", "--create", STACK, is_quiet=True)
        return stack

    def configure(self, settings: Mapping[str, Mapping[str, Any]], **others: str) -> None:
        """Write the stack's configuration, as `pulumi config set --path` would."""
        file = self.folder / f"Pulumi.{STACK}.yaml"
        known = yaml.safe_load(file.read_text()) if file.exists() else {}
        values: dict[str, Any] = {"namespace": self.namespace, **settings}
        config = {f"{PROJECT}:{key}": value for key, value in values.items()} | others
        file.write_text(yaml.safe_dump({**(known or {}), "config": config}))

    def preview(self, *arguments: str) -> None:
        self._run("preview", *arguments)

    def up(self, *arguments: str) -> None:
        """Bring the stack to its configuration."""
        self._run("up", "--yes", "--skip-preview", *arguments)

    def destroy(self) -> None:
        self._run("destroy", "--yes", "--skip-preview")

    def remove(self) -> None:
        self._run("stack", "rm", "--yes", STACK, is_quiet=True)

    def _run(self, *arguments: str, is_quiet: bool = False) -> str:
        command = ["pulumi", "--non-interactive", "--color=never", *arguments]
        if not is_quiet:
            self.say(f"$ pulumi {' '.join(arguments)}")
        with subprocess.Popen(
            command,
            cwd=self.folder,
            env=dict(self.env),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if is_quiet else subprocess.STDOUT,
            text=True,
        ) as running:
            assert running.stdout is not None  # noqa: S101 - it is a pipe
            lines, said = [], ""
            for line in running.stdout:
                lines.append(line)
                told = "" if is_quiet else _told(line)
                if told and told != said:
                    self.say(f"  {told}")
                    said = told
            errors = running.stderr.read() if running.stderr is not None else ""
        if running.returncode:
            if is_quiet:
                self.say("".join(lines) + errors)
            raise PulumiFailed(f"`pulumi {' '.join(arguments)}` ended with {running.returncode}")
        return "".join(lines)


_ROLE_TYPE = "pulumi-python:dynamic/gpustack:"
_ROW = re.compile(r"\w+ing \(\d+s\)(?: \[diff: [^]]*\];?)? (?P<said>[a-z0-9-]+(?: r\d+)?: .*)")
_WAIT = re.compile(r"\([A-Z]\w+\)$")


def _told(line: str) -> str:
    """The line as it is shown: progress as the provider says it, without its repeated waits."""
    text = line.rstrip().replace(_ROLE_TYPE, "").partition(" · Ctrl-C")[0]
    row = _ROW.search(text)
    if row is not None:
        return "" if _WAIT.search(row["said"]) else f"   {row['said']}"
    is_noise = not text.strip() or text.startswith("@") or _WAIT.search(text)
    return "" if is_noise else text
