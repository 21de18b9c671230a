"""The repository as the house tests read it."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def files(*patterns: str) -> list[Path]:
    """Every file that is committed or would be, below the root; deleted ones left out."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"]
    listed = subprocess.run(
        [*command, *patterns], cwd=ROOT, capture_output=True, text=True, check=True
    )
    names = dict.fromkeys(name for name in listed.stdout.split("\0") if name)
    return [path for name in names if (path := ROOT / name).is_file()]


def lines(*patterns: str) -> Iterator[tuple[str, str]]:
    """Each line of these files with its place, `path:number`; binary files are left out."""
    for path in files(*patterns):
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            yield f"{path.relative_to(ROOT)}:{number}", line
