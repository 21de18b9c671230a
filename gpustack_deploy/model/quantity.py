"""Kubernetes quantities in exact arithmetic, and the one spelling the API server keeps."""

import re
from fractions import Fraction
from typing import Final

GI: Final = 1024**3
MI: Final = 1024**2

_BINARY: Final = {"Ei": 1024**6, "Pi": 1024**5, "Ti": 1024**4, "Gi": GI, "Mi": MI, "Ki": 1024}
_DECIMAL: Final = {
    "E": Fraction(10**18),
    "P": Fraction(10**15),
    "T": Fraction(10**12),
    "G": Fraction(10**9),
    "M": Fraction(10**6),
    "k": Fraction(1000),
    "": Fraction(1),
    "m": Fraction(1, 1000),
}
QUANTITY: Final = r"^([0-9]+(?:\.[0-9]+)?)([EPTGMK]i|[EPTGMkm]?)$"


def parse_quantity(text: str) -> Fraction:
    """Return the number that the quantity spells, exactly.

    Raises:
        ValueError: the text is no non-negative Kubernetes quantity.
    """
    match = re.fullmatch(QUANTITY, text)
    if match is None:
        raise ValueError(f"{text!r} is no quantity")
    digits, suffix = match.groups()
    return Fraction(digits) * (_BINARY[suffix] if suffix in _BINARY else _DECIMAL[suffix])


def canonical_quantity(text: str) -> str:
    """Return the quantity as the API server spells it: the same amount, in the same base."""
    amount = parse_quantity(text)
    if text.endswith("i"):
        return binary_quantity(-(-amount // 1))
    return decimal_quantity(amount)


def binary_quantity(amount: int) -> str:
    """Return the bytes with the largest binary suffix that keeps them whole."""
    for suffix, factor in _BINARY.items():
        if amount and amount % factor == 0:
            return f"{amount // factor}{suffix}"
    return str(amount)


def decimal_quantity(amount: Fraction | int) -> str:
    """Return the amount with the largest decimal suffix that keeps it whole, down to thousandths.

    Smaller parts are rounded up, as the API server does.
    """
    thousandths = -((-Fraction(amount) * 1000) // 1)
    for suffix, factor in _DECIMAL.items():
        step = int(factor * 1000)
        if thousandths and thousandths % step == 0:
            return f"{thousandths // step}{suffix}"
    return "0"
