"""What stands after an edit, one line a replica; what changed carries a star."""

from collections.abc import Iterable, Sequence

from walkthrough.facts import Facts, Member

HEADINGS = ("role", "ordinal", "members", "Workload", "admitted", "queue", "peer Service")
_SHORT = 8


def table(before: Facts | None, after: Facts, deployment: str) -> list[str]:
    """The lines of the table."""
    known = _known_uids(before) if before is not None else set()
    rows = []
    for role in sorted({member.role for member in after.members}, reverse=True):
        for ordinal, members in sorted(after.replicas(role).items()):
            rows.append(_row(after, role, ordinal, members, known=known, deployment=deployment))
    return list(_aligned([HEADINGS, *rows]))


def _row(
    after: Facts,
    role: str,
    ordinal: int,
    members: Sequence[Member],
    *,
    known: set[str],
    deployment: str,
) -> tuple[str, ...]:
    workload = after.workload_of(members)
    peer = after.services.get(f"{deployment}-{role}-r{ordinal}")
    return (
        role,
        f"r{ordinal}",
        " ".join(_marked(member.uid, known) for member in members),
        _marked(workload.uid, known) if workload else "-",
        "yes" if workload and workload.is_admitted else "no",
        members[0].queue,
        _marked(peer.uid, known) if peer else "-",
    )


def _marked(uid: str, known: set[str]) -> str:
    return uid[:_SHORT] + (" " if uid in known else "*")


def _known_uids(facts: Facts) -> set[str]:
    return {
        *(member.uid for member in facts.members),
        *(workload.uid for workload in facts.workloads.values()),
        *(service.uid for service in facts.services.values()),
    }


def _aligned(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()
