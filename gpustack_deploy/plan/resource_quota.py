"""Whether departing members free what a ResourceQuota refuses now (D27)."""

import re
from collections.abc import Iterable
from fractions import Fraction
from typing import Final

from gpustack_deploy.model.observed import ObservedMember
from gpustack_deploy.model.quantity import parse_quantity

_PHRASE: Final = re.compile(
    r"exceeded quota: (?P<quota>[^,]+), requested: (?P<requested>.*?), used: (?P<used>.*?),"
    r" limited: (?P<limited>.*)"
)
_REQUESTS: Final = "requests."


def is_over_quota(refusal: str) -> bool:
    """Whether the API server refused a Pod for a ResourceQuota."""
    return "exceeded quota" in refusal


def frees_enough(refusal: str, departing: Iterable[ObservedMember], members: int) -> bool:
    """Whether the quota suffices for `members` like the refused one, once the departing have left.

    Only what their containers request, and their number, is counted as freed; a refusal that
    cannot be read, or for another resource, frees nothing.
    """
    found = _PHRASE.search(refusal)
    if found is None:
        return False
    leaving = tuple(departing)
    try:
        requested, used, limited = (
            _amounts(found[part]) for part in ("requested", "used", "limited")
        )
        return all(
            used[key] - _freed(key, leaving) + amount * members <= limited[key]
            for key, amount in requested.items()
        )
    except (KeyError, ValueError):
        return False


def _amounts(text: str) -> dict[str, Fraction]:
    pairs = (part.partition("=") for part in text.split(","))
    return {key.strip(): parse_quantity(amount.strip()) for key, _, amount in pairs}


def _freed(key: str, leaving: tuple[ObservedMember, ...]) -> Fraction:
    if key in ("pods", "count/pods"):
        return Fraction(len(leaving))
    resource = key.removeprefix(_REQUESTS)
    return sum(
        (parse_quantity(each.requests.get(resource, "0")) for each in leaving), start=Fraction(0)
    )
