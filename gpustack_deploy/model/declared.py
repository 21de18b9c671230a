"""What every declared block shares: frozen, closed, camelCase outside and snake_case inside."""

import re
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from gpustack_deploy.model.quantity import QUANTITY, parse_quantity

DNS_LABEL: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_SUBDOMAIN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
ENV_NAME: Final = r"^[-._a-zA-Z][-._a-zA-Z0-9]*$"
ABSOLUTE_PATH: Final = r"^/[^:]*$"
URL_PATH: Final = r"^/\S*$"

# What each pattern means, for the sentence that refuses a value.
SPELLINGS: Final = {
    DNS_LABEL: "lower-case letters, digits and dashes",
    DNS_SUBDOMAIN: "lower-case letters, digits, dashes and dots",
    ENV_NAME: "letters, digits, '-', '_' and '.', not beginning with a digit",
    ABSOLUTE_PATH: "an absolute path without ':'",
    URL_PATH: "a path that begins with '/' and has no spaces",
}


class Declared(BaseModel):
    """Base of every block a user may write."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        hide_input_in_errors=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _null_is_unset(cls, raw: Any) -> Any:
        if isinstance(raw, dict):
            return {key: value for key, value in raw.items() if value is not None}
        return raw


def wrong(needed: str) -> PydanticCustomError:
    """Return the error that says what a value must be; path and what was found are added later."""
    return PydanticCustomError("needed", "{needed}", {"needed": needed})


def _whole_number(value: Any) -> Any:
    # Text and booleans are not numbers here: "8" or true in a file is a slip that should be seen.
    if isinstance(value, bool | str) or (isinstance(value, float) and not value.is_integer()):
        raise wrong("a whole number")
    return value


def number_text(value: float) -> str:
    """Return the number in digits; a whole one without a fraction."""
    return str(int(value)) if float(value).is_integer() else str(value)


def _quantity(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise wrong('a quantity such as "192Gi" or 16')
    text = value if isinstance(value, str) else number_text(value)
    try:
        parse_quantity(text)
    except ValueError as error:
        raise wrong('a quantity such as "192Gi" or 16') from error
    return text


def _size_quantity(value: Any) -> Any:
    text = _quantity(value)
    if parse_quantity(text) <= 0:
        raise wrong('a quantity above zero such as "16Gi"')
    return text


def _pair_of_name_and_key(value: Any) -> Any:
    if isinstance(value, list | tuple) and len(value) == 2:
        return {"name": value[0], "key": value[1]}
    return value


WHOLE_NUMBER: Final = BeforeValidator(_whole_number)
_WRITTEN = Annotated[str, Field(pattern=QUANTITY)] | Annotated[float, Field(ge=0)]
Quantity = Annotated[str, BeforeValidator(_quantity, json_schema_input_type=_WRITTEN)]
SizeQuantity = Annotated[str, BeforeValidator(_size_quantity, json_schema_input_type=_WRITTEN)]
Name = Annotated[str, Field(min_length=1, max_length=63, pattern=DNS_LABEL)]
LabelName = Annotated[str, Field(min_length=1, max_length=63, pattern=DNS_SUBDOMAIN)]
ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=DNS_SUBDOMAIN)]
Text = Annotated[str, Field(min_length=1, max_length=253)]


class KeyReference(Declared):
    """One key of a Secret or a ConfigMap."""

    name: ObjectName
    key: Text


KeyRef = Annotated[KeyReference, BeforeValidator(_pair_of_name_and_key)]

_QUALIFIED_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)


def is_label_key(key: str) -> bool:
    """Whether the text is a qualified label or annotation key: `[prefix/]name`."""
    prefix, slash, name = key.rpartition("/")
    has_good_prefix = not slash or (
        len(prefix) <= 253 and re.fullmatch(DNS_SUBDOMAIN, prefix, re.ASCII) is not None
    )
    return has_good_prefix and _QUALIFIED_NAME.fullmatch(name) is not None


def is_label_value(value: str) -> bool:
    """Whether the text may stand as a label's value."""
    return value == "" or _QUALIFIED_NAME.fullmatch(value) is not None
