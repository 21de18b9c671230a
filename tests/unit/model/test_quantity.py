from fractions import Fraction

import pytest

from gpustack_deploy.model.quantity import (
    binary_quantity,
    canonical_quantity,
    decimal_quantity,
    parse_quantity,
)

pytestmark = pytest.mark.check


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("0", Fraction(0)),
        ("16", Fraction(16)),
        ("1.5", Fraction(3, 2)),
        ("250m", Fraction(1, 4)),
        ("192Gi", Fraction(192 * 1024**3)),
        ("0.5Ki", Fraction(512)),
        ("3k", Fraction(3000)),
        ("2E", Fraction(2 * 10**18)),
    ],
)
def test_a_quantity_is_read_exactly(text: str, want: Fraction) -> None:
    assert want == parse_quantity(text)


@pytest.mark.parametrize("text", ["", "-1", "1 Gi", "Gi", "1gi", "1e3", "1.Gi", "\u0661"])
def test_what_spells_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no quantity"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("0.5", "500m"),
        ("1000", "1k"),
        ("16Gi", "16Gi"),
        ("0.0001Ki", "1"),
    ],
)
def test_a_quantity_is_spelled_as_the_api_server_does(text: str, want: str) -> None:
    assert want == canonical_quantity(text)


@pytest.mark.parametrize(
    ("amount", "want"),
    [(0, "0"), (1, "1"), (1024, "1Ki"), (1920 * 1024**2, "1920Mi"), (49152 * 1024**2, "48Gi")],
)
def test_bytes_keep_the_largest_binary_suffix_that_is_whole(amount: int, want: str) -> None:
    assert want == binary_quantity(amount)


@pytest.mark.parametrize(
    ("amount", "want"),
    [
        (0, "0"),
        (2, "2"),
        (1000, "1k"),
        (1500, "1500"),
        (800_000, "800k"),
        (Fraction(32, 10), "3200m"),
        (Fraction(3), "3"),
        (Fraction(1, 3), "334m"),
    ],
)
def test_amounts_keep_the_largest_decimal_suffix_that_is_whole(
    amount: Fraction | int, want: str
) -> None:
    assert want == decimal_quantity(amount)
