"""What is recorded of a running sandbox, in `state.json` of its folder."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from gpustack_deploy.sandbox.processes import Process

STATE_FILE = "state.json"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class State:
    """Ports, processes and versions of one sandbox; written before anything is started."""

    name: str
    ports: Mapping[str, int]
    versions: Mapping[str, str]
    processes: Mapping[str, Process] = field(default_factory=dict)
    owner: Process | None = None
    ready: bool = False
    audit_log: bool = False
    options: tuple[str, ...] = ()

    def with_process(self, component: str, process: Process | None) -> "State":
        """The same state with a component's process set, or removed when it is None."""
        kept = {name: known for name, known in self.processes.items() if name != component}
        if process is not None:
            kept[component] = process
        return replace(self, processes=kept)


def write_state(folder: Path, state: State) -> None:
    """Writes the state so that a reader sees the old or the new one, never a part."""
    unfinished = folder / f"{STATE_FILE}.new"
    unfinished.write_text(json.dumps({"format": _FORMAT, **asdict(state)}, indent=2) + "\n")
    unfinished.replace(folder / STATE_FILE)


def read_state(folder: Path) -> State | None:
    """The recorded state, or None when the folder holds none."""
    try:
        stored = json.loads((folder / STATE_FILE).read_text())
    except (OSError, ValueError):
        return None
    owner = stored["owner"]
    return State(
        name=stored["name"],
        ports=stored["ports"],
        versions=stored["versions"],
        processes={name: Process(**entry) for name, entry in stored["processes"].items()},
        owner=Process(**owner) if owner else None,
        ready=stored["ready"],
        audit_log=stored["audit_log"],
        options=tuple(stored.get("options", ())),
    )
