"""Which version of what a sandbox runs, and where it came from."""

from gpustack_deploy.sandbox.machine import parts_on_machine
from gpustack_deploy.sandbox.parts import PARTS, is_built


def versions_in_use() -> dict[str, str]:
    """Part name to its pinned version, or to the word that it is the machine's own."""
    own = parts_on_machine()
    return {
        part.name: "found on this machine" if part.name in own else part.version
        for part in PARTS
        if part.name in own or is_built(part)
    }
