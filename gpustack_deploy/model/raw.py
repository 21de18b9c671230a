"""Raw Kubernetes objects: a type and typed reads that never raise on a foreign shape."""

from collections.abc import Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]


def mapping_at(obj: Json, *path: str) -> Json:
    """Return the mapping at the path, or an empty one."""
    found: Any = obj
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def text_at(obj: Json, *path: str) -> str:
    """Return the string at the path, or an empty one."""
    found = mapping_at(obj, *path[:-1]).get(path[-1])
    return found if isinstance(found, str) else ""


def list_at(obj: Json, *path: str) -> Sequence[Json]:
    """Return the mappings of the list at the path, or nothing."""
    found = mapping_at(obj, *path[:-1]).get(path[-1])
    if not isinstance(found, Sequence) or isinstance(found, str):
        return ()
    return tuple(item for item in found if isinstance(item, Mapping))


def count_text(text: str) -> int | None:
    """Return the non-negative integer that the text spells, or None when it spells none."""
    return int(text) if text.isascii() and text.isdigit() and text == str(int(text)) else None
