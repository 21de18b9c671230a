"""Write requirements.lock: the exact versions that a fresh resolution of pyproject.toml gives.

Run with the oldest supported Python, so that the pins hold for the newer ones too. The list is used
as constraints: what another Python needs beside it is still found.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements.lock"
HEADER = "# Written by scripts/lock.py from pyproject.toml; used as pip constraints.\n"


def resolve() -> dict[str, str]:
    """Name to version of everything the development environment holds."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run"]
        command += ["--ignore-installed", "--report", str(report)]
        command += ["hatchling>=1.27,<2", "editables", f"{ROOT}[test]"]
        subprocess.run(command, check=True)
        installs = json.loads(report.read_text())["install"]
    pins = {entry["metadata"]["name"]: entry["metadata"]["version"] for entry in installs}
    del pins["gpustack-deploy"]
    return pins


def main() -> None:
    """Write the file and say how many pins it has."""
    pins = resolve()
    lines = [f"{name}=={pins[name]}\n" for name in sorted(pins, key=str.lower)]
    LOCK.write_text(HEADER + "".join(lines))
    print(f"{LOCK.name}: {len(lines)} pins")


if __name__ == "__main__":
    main()
