"""What a value must fit: the digits of a type, the years of a calendar, the length of a text."""

from __future__ import annotations

import sys
from ctypes import c_float
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

from tidegate.errors import Diagnostic
from tidegate.types import Type

EXACT = Context(prec=200, rounding=ROUND_HALF_UP)
LIMITS = {name: 2**bits for name, bits in (("TINYINT", 7), ("SMALLINT", 15), ("INT", 31), ("BIGINT", 63))}
RECURSION = 8_000
"""How deep calls may go: an expression of the deepest statement that is read is followed by several at each of its levels."""
sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION))

LONGEST_TEXT = 1 << 24
"""How many characters a function may give: a row travels, and is kept, as a whole."""


def overflow(what: str) -> Diagnostic:
    return Diagnostic("ARITHMETIC_OVERFLOW", what, help="cast to a wider type first")


def divide_by_zero() -> Diagnostic:
    help = "guard the divisor: CASE WHEN d <> 0 THEN n / d END"
    return Diagnostic("DIVIDE_BY_ZERO", "division by zero", help=help)


def short_enough(length: int) -> int:
    """The length of a text that is about to be made, if it may be made."""
    if length <= LONGEST_TEXT:
        return length
    help = f"a value holds at most {LONGEST_TEXT} characters"
    raise Diagnostic("TEXT_TOO_LONG", f"a text of {length} characters is too long", help=help)


def single(value: float) -> float:
    """The nearest single-precision number.

    >>> single(0.1)
    0.10000000149011612
    """
    return c_float(value).value


def fitted(value: Decimal, type: Type) -> Decimal:
    """The value with the scale of the type, rounded half up; too many digits are an error.

    >>> from tidegate.types import decimal
    >>> fitted(Decimal("2.345"), decimal(5, 2))
    Decimal('2.35')
    """
    precision, scale = type.params
    try:
        rounded = value.quantize(Decimal(1).scaleb(-scale), context=EXACT)
    except InvalidOperation:
        raise overflow(f"{value} does not fit {type}") from None
    if rounded and rounded.adjusted() + 1 > precision - scale:
        raise overflow(f"{value} does not fit {type}")
    return rounded if rounded else abs(rounded)


def checked(value: int, type: Type) -> int:
    """The integer itself, if the type holds it."""
    limit = LIMITS[type.name]
    if -limit <= value < limit:
        return value
    raise overflow(f"{value} does not fit {type}")
