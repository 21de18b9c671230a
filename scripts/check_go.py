"""Exit with one sentence when the sandbox has to be built and Go is missing or too old."""

import sys
from pathlib import Path

# Runs before anything is installed: the sandbox's builder needs the standard library only.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.dont_write_bytecode = True

from gpustack_deploy.sandbox.errors import SandboxError  # noqa: E402
from gpustack_deploy.sandbox.machine import parts_on_machine  # noqa: E402
from gpustack_deploy.sandbox.parts import is_built, parts_for  # noqa: E402
from gpustack_deploy.sandbox.toolchain import require_go  # noqa: E402

present = parts_on_machine()
if not all(part.name in present or is_built(part) for part in parts_for(frozenset())):
    try:
        require_go()
    except SandboxError as error:
        sys.exit(str(error))
