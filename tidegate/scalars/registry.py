"""What a scalar function is: one entry with its spellings in SQL, its type rule, its meaning and its columnar form.

An expression is read as calls (`Call`: Spark's name and the arguments, whatever class sqlglot has for them), resolved by
type rules into `Resolved` trees in which every implicit cast is explicit, and then evaluated: row by row by the entries'
meanings, or in columns by their forms. The entries stand in one module per family; `library` collects them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl
from sqlglot import exp

from tidegate.errors import Diagnostic
from tidegate.scalars.coercion import can_cast, common_type_of
from tidegate.scalars.expressions import span_of
from tidegate.types import STRING, Row, Type, Value


@dataclass(frozen=True)
class Call:
    """A function or operator with its arguments; `detail`: what is no expression (a type, a unit)."""

    name: str
    args: tuple[exp.Expression, ...]
    detail: Any = None


@dataclass(frozen=True)
class Resolved:
    """An expression with its type, after all implicit casts: a column, a literal, or a call."""

    name: str
    type: Type
    nullable: bool
    node: exp.Expression
    args: tuple[Resolved, ...] = ()
    detail: Any = None
    value: Any = None

    @property
    def is_literal(self) -> bool:
        return self.name == "LITERAL"

    @property
    def is_constant(self) -> bool:
        return self.name not in ("COLUMN", "USER") and all(a.is_constant for a in self.args)


@dataclass(frozen=True)
class Pending:
    """A call whose arguments are resolved, about to get its type."""

    name: str
    args: tuple[Resolved, ...]
    node: exp.Expression
    detail: Any = None

    def done(
        self, type: Type, args: Sequence[Resolved] | None = None, nullable: bool | None = None, **more: Any
    ) -> Resolved:
        args = self.args if args is None else tuple(args)
        if nullable is None:
            nullable = any(a.nullable for a in args)
        return replace(Resolved(self.name, type, nullable, self.node, tuple(args), self.detail), **more)


@dataclass(frozen=True)
class Column:
    """An expression in Polars: its value, its type, and where evaluating it row by row is needed (None: nowhere).

    That is where Spark raises an error, and where Polars is not known to do what Spark does.
    """

    value: pl.Expr
    type: Type
    error: pl.Expr | None = None


Scalar = Callable[[Row], Value]
Reading = str | Callable[[Any], Call | None]
Rule = Callable[[Pending], Resolved]
Form = Callable[[Resolved, Sequence[Column]], Column | None]


@dataclass(frozen=True)
class Function:
    """A scalar function, operator or construct.

    `spelled` says how SQL writes it: a class of sqlglot, or the name of a function that sqlglot does not know, with the names
    of its arguments in order (`*` before one: a list), or with a function that reads the node. `takes` is the fewest and the
    most arguments (None: any number). An entry without `rule` is made by the rules of others.

    `meaning` gives, for a resolved call, the function of its arguments' values; it is not asked where one of them is NULL.
    A `lazy` entry's meaning gets the arguments as functions of the row and decides itself what is evaluated.

    `columns` is the form in Polars; it answers None for arguments outside the set for which it is verified, value by value.
    Where there is none, `by_row` says why.
    """

    name: str
    spelled: Mapping[type[exp.Expression] | str, Reading] = field(default_factory=dict)
    takes: tuple[int, int | None] = (1, 1)
    rule: Rule | None = None
    meaning: Callable[..., Any] | None = None
    columns: Form | None = None
    names: str = ""
    by_row: str = ""
    lazy: bool = False


def each(function: Callable[..., Value]) -> Callable[[Resolved], Callable[..., Value]]:
    """The meaning of a call that does the same whatever its types are."""
    return lambda node: function


# ---------------------------------------------------------------------------------------- type rules


def failure(condition: str, message: str, node: exp.Expression, help: str | None = None) -> Diagnostic:
    return Diagnostic(condition, message, help=help).at(span_of(node))


def mismatch(call: Pending, wanted: str | None = None) -> Diagnostic:
    types = " and ".join(str(a.type) for a in call.args) or "no arguments"
    message = f"{call.name} does not take {types}"
    return failure("TYPE_MISMATCH", message, call.node, f"it takes {wanted}" if wanted else None)


def cast(arg: Resolved, target: Type) -> Resolved:
    """The argument as another type; a string may turn out to be no such value."""
    if arg.type == target:
        return arg
    return Resolved("CAST", target, arg.nullable or may_lose(arg.type, target), arg.node, (arg,))


def may_lose(source: Type, target: Type) -> bool:
    """Whether Spark counts on NULL from a cast of a value that is not NULL."""
    floating = source.name in ("FLOAT", "DOUBLE") and target.name == "DECIMAL"
    return floating or (source == STRING != target)


def implicit(arg: Resolved, target: Type, call: Pending) -> Resolved:
    if not can_cast(arg.type, target):
        raise mismatch(call, str(target))
    return cast(arg, target)


def typed(result: Type, *params: Type, nullable: bool | None = None) -> Rule:
    """A function of given types, with implicit casts; NULL where an argument is, or as `nullable` says."""

    def rule(call: Pending) -> Resolved:
        args = [implicit(a, t, call) for a, t in zip(call.args, params, strict=False)]
        return call.done(result, args, nullable)

    return rule


def unified(call: Pending, args: Sequence[Resolved]) -> list[Resolved]:
    common = common_type_of([a.type for a in args])
    if common is None:
        raise mismatch(replace(call, args=tuple(args)), "values of one type")
    return [cast(a, common) for a in args]
