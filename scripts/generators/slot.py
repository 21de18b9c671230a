"""The page about the slot, drawn from the table that the planner uses."""

from gpustack_deploy.plan.slot import EDGES, SlotState

PAGE = "docs/explanation/slot.md"
_INTRODUCTION = """\
# The slot

<!-- Generated from gpustack_deploy/plan/slot.py; `make generate` writes it. -->

A role has at most one *slot*: the replacement of one ordinal, written into the role's record before
the first delete ([D1](decisions.md#d1-record), [D6](decisions.md#d6-order)). A run that is killed
anywhere leaves the slot behind, and the next run goes on from it.

In `Cleanup` the captured members and their Workload leave; in `WaitingForAdmission` the new members
stand and wait for an admission that describes exactly them, and then for the gate. `Closed` is the
absence of a slot.
"""


def generate() -> dict[str, str]:
    """The page with the diagram and the table of edges."""
    arrows: dict[tuple[SlotState, SlotState], list[str]] = {}
    for transition, edge in EDGES.items():
        arrows.setdefault((edge.source, edge.target), []).append(transition.value)
    diagram = ["```mermaid", "stateDiagram-v2", f"    [*] --> {SlotState.CLOSED}"]
    diagram += [
        f"    {source} --> {target}: {', '.join(names)}"
        for (source, target), names in arrows.items()
    ]
    table = ["| Transition | From | To | What is observed |", "|---|---|---|---|"]
    table += [
        f"| {transition} | `{edge.source}` | `{edge.target}` | {edge.observation} |"
        for transition, edge in EDGES.items()
    ]
    return {PAGE: "\n".join([_INTRODUCTION, *diagram, "```", "", *table, ""])}
