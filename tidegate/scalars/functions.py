"""User-defined functions: plain Python, named in SQL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidegate.types import Type, Value


@dataclass(frozen=True)
class ScalarFunction:
    """A function of a row's values. It must be deterministic: an answer has one meaning."""

    name: str
    call: Callable[..., Value]
    returns: Type
    arity: int | None = None


@dataclass(frozen=True)
class AggregateFunction:
    """An aggregate by PIPES' three functions (section 7.5.2).

    `init(value…)` makes the partial aggregate of one row, `merge(partial, partial)` joins two (it must
    be associative and commutative), `evaluate(partial)` gives the answer. Rows whose arguments are
    all NULL are passed too: the function decides what NULL means.
    """

    name: str
    init: Callable[..., Value]
    merge: Callable[[Value, Value], Value]
    evaluate: Callable[[Value], Value]
    returns: Type
    arity: int | None = None
