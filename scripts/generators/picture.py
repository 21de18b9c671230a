"""The README's picture: one role replaced one ordinal at a time, its sibling role untouched."""

from dataclasses import dataclass
from enum import StrEnum
from html import escape


class Look(StrEnum):
    """How a replica stands in one column; the word is drawn on the edited role's cards."""

    SERVING = "serving"
    LEAVING = "leaving"
    WAITING = "waiting for admission"
    REPLACED = "admitted, ready"
    SIBLING = "untouched"


@dataclass(frozen=True, slots=True)
class Replica:
    """One card: the Workload it holds and the GPUs of each of its members."""

    look: Look
    workload: str
    gpus: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """One moment of the rollout."""

    title: str
    text: tuple[str, str]
    decode: tuple[Replica, Replica]  # r1, r0


# Workload names stand for UIDs; each is made up and different where the object is different.
_OLD_R1 = Replica(Look.SERVING, "a41f", (2, 2))
_OLD_R0 = Replica(Look.SERVING, "5e07", (2, 2))
_NEW_R1 = Replica(Look.REPLACED, "c9d2", (4, 4))
_NEW_R0 = Replica(Look.REPLACED, "e36b", (4, 4))
_SIBLINGS = (Replica(Look.SIBLING, "77b0", (2,)), Replica(Look.SIBLING, "1f9c", (2,)))

COLUMNS = (
    Column("Before", ("decode: 2 GPUs a member", ""), (_OLD_R1, _OLD_R0)),
    Column(
        "r1 leaves",
        ("its Pods and its Workload", "are deleted, by UID"),
        (Replica(Look.LEAVING, "a41f", (2, 2)), _OLD_R0),
    ),
    Column(
        "r1 waits for quota",
        ("fresh Pods, fresh Workload;", "r0 goes on serving"),
        (Replica(Look.WAITING, "c9d2", (4, 4)), _OLD_R0),
    ),
    Column(
        "r0 leaves",
        ("only now: r1 is admitted", "and ready"),
        (_NEW_R1, Replica(Look.LEAVING, "5e07", (2, 2))),
    ),
    Column("Done", ("decode: 4 GPUs a member", ""), (_NEW_R1, _NEW_R0)),
)

# fill, stroke, text of a card
_COLOURS = {
    Look.SERVING: ("#e7effa", "#3b73b9", "#1f4e87"),
    Look.LEAVING: ("#ffffff", "#9db8d9", "#8096b3"),
    Look.WAITING: ("#fff7e3", "#d69a1c", "#8a5f06"),
    Look.REPLACED: ("#e0f4ea", "#1f9d68", "#0f6b45"),
    Look.SIBLING: ("#f1eefb", "#8573c9", "#54429a"),
}
_LEFT, _PITCH, _WIDTH, _CARD = 112, 184, 1040, 168
_TOP, _DECODE_HEIGHT, _PREFILL_HEIGHT = 92, 84, 62
_NORMAL = 400
_GREY = "#5b6673"
_TITLE = (
    "A decode role is edited from 2 to 4 GPUs a member: replica r1 is replaced whole, then r0;"
    " each gets fresh Pods and a fresh Workload; the prefill role is not touched."
)
_NOTE = (
    "Each square is a GPU. A Workload is Kueue's admission of one replica:"
    " a new one, for exactly the new Pods, each time."
)
_FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Arial, sans-serif"


def generate() -> dict[str, str]:
    """Path to content of the one file that is made here."""
    return {"docs/images/replacement.svg": _picture()}


def _picture() -> str:
    rows = (_TOP, _TOP + _DECODE_HEIGHT + 10)
    prefill = _TOP + 2 * (_DECODE_HEIGHT + 10) + 22
    prefill_rows = (prefill, prefill + _PREFILL_HEIGHT + 10)
    bottom = prefill_rows[1] + _PREFILL_HEIGHT
    height = bottom + 48
    parts = [
        f"<title>{_TITLE}</title>",
        _rect(1, 1, _WIDTH - 2, height - 2, rx=12, fill="#ffffff", stroke="#d8dee6"),
        _rect(20, prefill - 17, _WIDTH - 40, 1, fill="#e3e8ee"),
        *_side_labels(rows, prefill_rows),
    ]
    for number, column in enumerate(COLUMNS):
        left = _LEFT + number * _PITCH
        parts += _heading(number, column, left)
        for replica, y in zip(column.decode, rows, strict=True):
            parts += _card(replica, left, y, _DECODE_HEIGHT)
        for replica, y in zip(_SIBLINGS, prefill_rows, strict=True):
            parts += _card(replica, left, y, _PREFILL_HEIGHT)
    parts.append(_text(_LEFT, bottom + 29, _NOTE, size=13, fill=_GREY))
    opening = _tag(
        "svg",
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_WIDTH} {height}",
        width=_WIDTH,
        height=height,
        role="img",
        font_family=_FONT,
    )
    return "\n".join([f"<{opening}>", *parts, "</svg>", ""])


def _side_labels(decode: tuple[int, int], prefill: tuple[int, int]) -> list[str]:
    groups = (
        ("decode", "edited", "#1f4e87", decode, _DECODE_HEIGHT),
        ("prefill", "untouched", "#54429a", prefill, _PREFILL_HEIGHT),
    )
    parts = []
    for name, state, colour, (first, second), height in groups:
        middle = (first + second + height) // 2
        parts += [
            _text(20, middle - 4, name, size=16, fill=colour, weight=700),
            _text(20, middle + 14, state, size=13, fill=_GREY),
            _text(84, first + height // 2 + 5, "r1", size=13, fill=_GREY),
            _text(84, second + height // 2 + 5, "r0", size=13, fill=_GREY),
        ]
    return parts


def _heading(number: int, column: Column, left: int) -> list[str]:
    first, second = column.text
    return [
        f'<circle cx="{left + 11}" cy="30" r="11" fill="#26313d"/>',
        _text(left + 7, 35, str(number + 1), size=13, fill="#ffffff", weight=700),
        _text(left + 28, 35, column.title, size=14, fill="#26313d", weight=700),
        _text(left, 59, first, size=12.5, fill=_GREY),
        _text(left, 76, second, size=12.5, fill=_GREY),
    ]


def _card(replica: Replica, left: int, top: int, height: int) -> list[str]:
    fill, stroke, ink = _COLOURS[replica.look]
    edge: dict[str, str | float] = {"stroke": stroke}
    if replica.look is Look.LEAVING:
        edge["stroke_dasharray"] = "5 4"
    name = f"Workload {replica.workload}"
    parts = [
        _rect(left, top, _CARD, height, rx=8, fill=fill, stroke_width=1.5, **edge),
        _text(left + 10, top + 20, name, size=12.5, fill=ink, weight=600),
    ]
    if height == _DECODE_HEIGHT:
        parts.append(_text(left + 10, top + 75, replica.look, size=12, fill=ink))
    for index, gpus in enumerate(replica.gpus):
        x, y = left + 10 + index * 76, top + 28
        parts += [
            _rect(x, y, 72, 26, rx=5, fill="#ffffff", **edge),
            _text(x + 6, y + 17, f"m{index}", size=11.5, fill=ink),
        ]
        for gpu in range(gpus):
            parts.append(_rect(x + 28 + gpu * 11, y + 9, 8, 8, rx=1.5, fill=stroke))
    return parts


def _text(x: int, y: int, text: str, *, size: float, fill: str, weight: int = 400) -> str:
    bold = {"font_weight": weight} if weight != _NORMAL else {}
    return f"<{_tag('text', x=x, y=y, font_size=size, fill=fill, **bold)}>{escape(text)}</text>"


def _rect(x: int, y: int, width: int, height: int, **attributes: str | float) -> str:
    return f"<{_tag('rect', x=x, y=y, width=width, height=height, **attributes)}/>"


def _tag(name: str, **attributes: str | float) -> str:
    spelled = (f'{key.replace("_", "-")}="{value}"' for key, value in attributes.items())
    return " ".join([name, *spelled])
