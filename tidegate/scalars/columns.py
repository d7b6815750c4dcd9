"""Values as Polars columns, and what the columnar forms of functions have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
import polars as pl

from tidegate.scalars.limits import LIMITS
from tidegate.scalars.registry import Column, Form, Resolved
from tidegate.types import INTEGRAL, Type, Value, normalize

_SIMPLE: dict[str, pl.DataType] = {
    "VOID": pl.Null(),
    "BOOLEAN": pl.Boolean(),
    "TINYINT": pl.Int8(),
    "SMALLINT": pl.Int16(),
    "INT": pl.Int32(),
    "BIGINT": pl.Int64(),
    "FLOAT": pl.Float32(),
    "DOUBLE": pl.Float64(),
    "STRING": pl.String(),
    "BINARY": pl.Binary(),
    "DATE": pl.Date(),
    "TIMESTAMP": pl.Datetime("us", "UTC"),
    "TIMESTAMP_NTZ": pl.Datetime("us"),
    "INTERVAL": pl.Duration("us"),
    "INTERVAL YEAR TO MONTH": pl.Int32(),
}


def dtype(type_: Type) -> pl.DataType:
    """The Polars type that holds a Spark SQL type; a MAP is a list of key-value pairs.

    >>> dtype(Type("ARRAY", (Type("INT"),)))
    List(Int32)
    """
    if type_.name == "DECIMAL":
        return pl.Decimal(type_.params[0], type_.params[1])
    if type_.name == "ARRAY":
        return pl.List(dtype(type_.params[0]))
    if type_.name == "STRUCT":
        return pl.Struct([pl.Field(name, dtype(t)) for name, t in type_.params])
    if type_.name == "MAP":
        key, value = type_.params
        return pl.List(pl.Struct([pl.Field("key", dtype(key)), pl.Field("value", dtype(value))]))
    return _SIMPLE[type_.name]


def column_values(series: pl.Series, type_: Type) -> list[object]:
    """A column as a list of `tidegate.types.Value`s."""
    return [value_of(v, type_) for v in series.to_list()]


def column_from_values(name: str, values: Sequence[object], type_: Type) -> pl.Series:
    """The inverse of `column_values`."""
    return pl.Series(name, [plain(v, type_) for v in values], dtype=dtype(type_), strict=False)


def value_of(value: Any, t: Type) -> object:
    """What Polars hands out, as a payload value."""
    if value is None:
        return None
    if t.name == "ARRAY":
        return tuple(value_of(v, t.params[0]) for v in value)
    if t.name == "STRUCT":
        return tuple(value_of(value[name], m) for name, m in t.params)
    if t.name == "MAP":
        key, item = t.params
        return tuple((value_of(p["key"], key), value_of(p["value"], item)) for p in value)
    return normalize(value)


def plain(value: Any, t: Type) -> object:
    """A payload value as Polars takes it."""
    if value is None:
        return None
    if t.name == "ARRAY":
        return [plain(v, t.params[0]) for v in value]
    if t.name == "STRUCT":
        return {name: plain(v, m) for (name, m), v in zip(t.params, value, strict=True)}
    if t.name == "MAP":
        key, item = t.params
        pairs = value.items() if isinstance(value, dict) else value
        return [{"key": plain(k, key), "value": plain(v, item)} for k, v in pairs]
    return value


def literal(value: Value, type_: Type) -> Column:
    """A constant beside columns."""
    if type_.params and type_.name != "DECIMAL":
        return Column(pl.lit(column_from_values("value", [value], type_)).first(), type_)
    return Column(pl.lit(value, dtype=dtype(type_)), type_)


# ------------------------------------------------------------------------------------------ errors


def either_error(*errors: pl.Expr | None) -> pl.Expr | None:
    present = [e for e in errors if e is not None]
    return reduce(or_, present) if present else None


def masked(mask: pl.Expr, error: pl.Expr | None) -> pl.Expr | None:
    return None if error is None else mask.fill_null(False) & error


def errors_of(columns: Sequence[Column]) -> pl.Expr | None:
    return either_error(*(c.error for c in columns))


# -------------------------------------------------------------------------------------------- forms

Kind = str | tuple[str, ...]
TICKING = ("TIMESTAMP", "TIMESTAMP_NTZ")
COMPARABLE = (*INTEGRAL, "BOOLEAN", "FLOAT", "DOUBLE", "STRING", "BINARY", "DATE", *TICKING, "INTERVAL")
ATOMIC = (*COMPARABLE, "DECIMAL")


def holds(kind: Kind, type_: Type) -> bool:
    return type_.name == kind or (isinstance(kind, tuple) and type_.name in kind)


def form(
    apply: Callable[..., pl.Expr | None],
    *kinds: Kind,
    fails: Callable[..., pl.Expr] | None = None,
    constants: Sequence[int] = (),
) -> Form:
    """A form for arguments of the given kinds, of which the last one holds for all that follow.

    The arguments at `constants` must be literals and are handed over as values. `fails` says on which rows the call must be
    evaluated row by row. `apply` answers None for literals outside the verified set.
    """

    def make(node: Resolved, args: Sequence[Column]) -> Column | None:
        verified = all(
            holds(kinds[min(i, len(kinds) - 1)], a.type) and (i not in constants or node.args[i].is_literal)
            for i, a in enumerate(args)
        )
        if not verified:
            return None
        given = [node.args[i].value if i in constants else a.value for i, a in enumerate(args)]
        value = apply(*given)
        if value is None:
            return None
        failed = fails(*given).fill_null(False) if fails is not None else None
        return Column(value.cast(dtype(node.type)), node.type, either_error(errors_of(args), failed))

    return make


def first_of(*forms: Form) -> Form:
    """The first form that is verified for the arguments."""

    def make(node: Resolved, args: Sequence[Column]) -> Column | None:
        return next((c for f in forms if (c := f(node, args)) is not None), None)

    return make


def checked_column(value: pl.Expr, type_: Type, errors: pl.Expr | None) -> Column:
    """A wider number brought into an integer type, an error where it does not fit."""
    limit = LIMITS[type_.name]
    out = ((value < -limit) | (value >= limit)).fill_null(False)
    return Column(value.cast(dtype(type_), strict=False), type_, either_error(errors, out))


def quotient(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    """The nearest number to a / b. Polars multiplies by the reciprocal where the divisor is a constant."""

    def divide(sides: Sequence[pl.Series]) -> pl.Series:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return pl.Series(sides[0].to_numpy() / sides[1].to_numpy(), dtype=pl.Float64())

    divided = pl.map_batches([a, b], divide, return_dtype=pl.Float64(), is_elementwise=True)
    return pl.when(a.is_not_null() & b.is_not_null()).then(divided)
