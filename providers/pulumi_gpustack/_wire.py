"""The one place where what a user writes becomes the camelCase declaration of files and state.

An args class and its dict form mean the same. Structure (blocks, lists, maps) is plain; a leaf may
be an Output and is passed on as it is. A key that no block knows is passed on too, so that `check`
refuses it with its path.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

Wire = dict[str, Any]
Blocks = Mapping[str, "type[Args]"]


class Args:
    """Base of the args classes: frozen dataclasses whose nested blocks are named in `blocks`."""

    __slots__ = ()

    blocks: ClassVar[Blocks] = {}


def to_wire(value: object, block: type[Args]) -> Any:
    """Return the block as plain data with camelCase keys, unset fields dropped."""
    if isinstance(value, Args):
        given = {item.name: getattr(value, item.name) for item in _fields(type(value))}
        return _translated(given, type(value))
    if isinstance(value, Mapping):
        return _translated(value, block)
    if isinstance(value, tuple) and len(value) == len(_fields(block)):
        return _translated(dict(zip(_names(block), value, strict=True)), block)
    return value


def camel(name: str) -> str:
    """Return the camelCase spelling of a snake_case name."""
    head, *rest = name.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


def _translated(given: Mapping[str, Any], block: type[Args]) -> Wire:
    spellings = {name: camel(name) for name in _names(block)}
    wire: Wire = {}
    for key, value in given.items():
        if value is None:
            continue
        nested = next((b for name, b in block.blocks.items() if key in (name, camel(name))), None)
        wire[spellings.get(key, key)] = _nested(value, nested) if nested else _plain(value)
    return wire


def _nested(value: Any, block: type[Args]) -> Any:
    # A pair such as ("hf", "token") is one block written short; every other sequence is a list.
    is_pair = isinstance(value, tuple) and not all(isinstance(it, Args | Mapping) for it in value)
    if isinstance(value, Sequence) and not is_pair and not isinstance(value, str | bytes):
        return [to_wire(item, block) for item in value]
    return to_wire(value, block)


def _plain(value: Any) -> Any:
    # Keys of these maps are the user's own (labels) or Kubernetes' (securityContext).
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(item) for item in value]
    return value


def _fields(block: type[Args]) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(block)  # type: ignore[arg-type]  # each subclass is a dataclass


def _names(block: type[Args]) -> list[str]:
    return [item.name for item in _fields(block)]
