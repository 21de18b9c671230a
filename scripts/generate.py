"""Write every generated file, or with --check say which ones differ and exit 1.

Each module of `scripts/generators` has `generate()`: path below the root to the whole content.
"""

import importlib
import pkgutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))


def generated() -> dict[Path, str]:
    """Path to content of every generated file, the same at each call."""
    files: dict[Path, str] = {}
    for module in pkgutil.iter_modules([str(ROOT / "scripts" / "generators")]):
        made = importlib.import_module(f"scripts.generators.{module.name}").generate()
        files |= {ROOT / path: content for path, content in made.items()}
    return files


def outdated() -> list[Path]:
    """The generated files whose content on disk is not what would be written."""
    return [
        path
        for path, content in sorted(generated().items())
        if not path.exists() or path.read_text() != content
    ]


def main(arguments: list[str]) -> int:
    """Write or check."""
    differing = outdated()
    for path in differing:
        name = path.relative_to(ROOT)
        if "--check" in arguments:
            print(f"{name} is not what `make generate` writes: run it and commit the result.")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(generated()[path])
            print(f"wrote {name}")
    return 1 if differing and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
