"""From what a block's validation found to one sentence: path, found, needed, what to do next."""

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from gpustack_deploy.model.declared import SPELLINGS, number_text
from gpustack_deploy.model.errors import InvalidSpec
from gpustack_deploy.model.paths import Step, overlap, path_of

_NOT_SUPPORTED: Final = {
    "kvCache": "a shared cache pool is not supported; remove it, or attach one through `extraArgs`"
    " and `command` of a take-over role",
    "router": "a managed router is not supported; remove it, and put a router of your own before"
    " the roles' Services",
    "artifactRef": "delivered weights are not supported; name the model as a string, and mount its"
    " weights with `volumes`",
    "elasticEp": "elastic expert parallelism is not supported in this version; remove it, and scale"
    " with `replicas`",
    "template": "a Pod template is not supported; use the role's own fields and its `pod` block",
    "args": "there is no `args`; use `extraArgs`, or write the whole line into `command`",
}
# Leaves whose text may be a secret: never quoted.
_UNQUOTED: Final = frozenset({"value", "command", "extraArgs"})


@dataclass(frozen=True, slots=True)
class Problem:
    """One refusal; `touches` are the further paths that the rule read to find it."""

    path: str
    reason: str
    touches: tuple[str, ...] = ()

    def is_touched_by(self, unknown: Iterable[str]) -> bool:
        """Whether the rule read a value that is not known yet."""
        read = (self.path, *self.touches)
        return any(overlap(path, each) for path in read for each in unknown)

    @property
    def error(self) -> InvalidSpec:
        """The error that reports it."""
        return InvalidSpec(self.path, self.reason)


def translate(error: ValidationError, *, block: type[BaseModel]) -> tuple[Problem, ...]:
    """Return what validation found, each as a sentence that stands alone.

    Unknown fields come first: a misspelt field is missing as well.
    """
    found = error.errors(include_url=False)
    found.sort(key=lambda details: details["type"] != "extra_forbidden")
    return tuple(_problem(details, block) for details in found)


def not_an_object(raw: object) -> Problem:
    """Return the refusal of a declaration that is no object at all."""
    return Problem(
        "", f"found {shown(raw)}, needed an object with the declaration's fields; write one"
    )


def shown(value: object, *, is_quoted: bool = True) -> str:
    """Return what was found, in words; text and numbers are quoted only where that is safe."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower() if is_quoted else "true or false"
        case int() | float():
            return number_text(value) if is_quoted else "a number"
        case str():
            return repr(value[:80]) if is_quoted else "text"
        case Mapping():
            return "an object"
        case Sequence():
            return "a list"
        case _:
            return "something else"


def _problem(details: ErrorDetails, block: type[BaseModel]) -> Problem:
    location = tuple(step for step in details["loc"] if step != "[key]")
    path = path_of(location)
    kind = details["type"]
    if kind == "extra_forbidden":
        return Problem(path, _unknown_field(location, block))
    if kind == "missing":
        return Problem(path, "found nothing, this field is needed; write it")
    names = [step for step in location if isinstance(step, str)]
    # A variable that is no object yet, such as "TOKEN=…", is its value as well.
    is_quoted = not _UNQUOTED.intersection(names) and names[-1:] != ["env"]
    found = shown(details.get("input"), is_quoted=is_quoted)
    needed = _needed(kind, details.get("ctx", {}), details["msg"])
    advice = "quote it" if kind == "string_type" else "change it"
    return Problem(path, f"found {found}, needed {needed}; {advice}")


_NEEDED: Final = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "tuple_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "greater_than_equal": "{ge} or more",
    "less_than_equal": "{le} or less",
    "string_too_short": "at least {min_length} character(s)",
    "string_too_long": "at most {max_length} characters",
    "too_short": "at least {min_length} entry",
    "too_long": "at most {max_length} entries",
    "literal_error": "one of {expected}",
    "enum": "one of {expected}",
    "needed": "{needed}",
}


def _needed(kind: str, context: Mapping[str, Any], message: str) -> str:
    if kind == "string_pattern_mismatch":
        return SPELLINGS[context["pattern"]]
    form = _NEEDED.get(kind)
    return message if form is None else form.format(**context)


def _unknown_field(location: Sequence[Step], block: type[BaseModel]) -> str:
    name = str(location[-1])
    if name in _NOT_SUPPORTED:
        return _NOT_SUPPORTED[name]
    allowed = sorted(_field_names(block, location[:-1]))
    close = difflib.get_close_matches(name, allowed, n=2)
    fields = ", ".join(allowed)
    if close:
        return f"there is no such field; did you mean {' or '.join(close)}? (fields here: {fields})"
    return f"there is no such field; remove it (fields here: {fields})"


def _field_names(block: type[BaseModel], location: Sequence[Step]) -> tuple[str, ...]:
    """Return the names of the fields at the location, found by walking the annotations."""
    here = block
    for step in location:
        if isinstance(step, str):
            here = next(_blocks_in(_field(here, step).annotation), here)
    return tuple(field.alias or name for name, field in here.model_fields.items())


def _field(block: type[BaseModel], step: str) -> FieldInfo:
    return next(field for name, field in block.model_fields.items() if step in (name, field.alias))


def _blocks_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _blocks_in(argument)
