"""Aggregate calls in SQL to `Aggregation`s: which function, on which columns, of which type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from tidegate.errors import Diagnostic
from tidegate.language.limits import LARGEST
from tidegate.scalars.expressions import span_of
from tidegate.scalars.functions import AggregateFunction
from tidegate.types import BIGINT, DOUBLE, Type, array, decimal

_CLASSES: dict[type[exp.Expression], str] = {
    exp.Count: "COUNT",
    exp.CountIf: "COUNT_IF",
    exp.Sum: "SUM",
    exp.Min: "MIN",
    exp.Max: "MAX",
    exp.Avg: "AVG",
    exp.Variance: "VAR_SAMP",
    exp.VariancePop: "VAR_POP",
    exp.Stddev: "STDDEV_SAMP",
    exp.StddevSamp: "STDDEV_SAMP",
    exp.StddevPop: "STDDEV_POP",
    exp.Median: "MEDIAN",
    exp.Quantile: "QUANTILE",
    exp.First: "FIRST",
    exp.FirstValue: "FIRST",
    exp.Last: "LAST",
    exp.LastValue: "LAST",
    exp.ArgMin: "ARG_MIN",
    exp.ArgMax: "ARG_MAX",
}
_NAMED = {"top_k": "TOP_K", "mean": "AVG"}

SQL_AGGREGATES = (
    "COUNT", "COUNT_IF", "SUM", "MIN", "MAX", "AVG", "MEAN", "VARIANCE", "VAR_SAMP", "VAR_POP", "STDDEV",
    "STDDEV_SAMP", "STDDEV_POP", "MEDIAN", "QUANTILE", "PERCENTILE", "FIRST", "LAST", "ARG_MIN", "ARG_MAX",
    "MIN_BY", "MAX_BY", "TOP_K",
)  # fmt: skip
"""The aggregates that SQL may name."""

_FLAT_ARITY = {"SUM": 1, "MIN": 1, "MAX": 1, "AVG": 1, "VAR_SAMP": 1, "VAR_POP": 1, "STDDEV_SAMP": 1,
               "STDDEV_POP": 1, "MEDIAN": 1, "FIRST": 1, "LAST": 1, "ARG_MIN": 2, "ARG_MAX": 2}  # fmt: skip


_READ = ("this", "expression", "quantile")


@dataclass(frozen=True)
class Call:
    """An aggregate call as written: its arguments are still names."""

    function: str
    arguments: tuple[exp.Expression, ...]
    distinct: bool = False
    where: exp.Expression | None = None
    parameter: float | int | None = None


def asks_arrival(query: exp.Expression) -> bool:
    """Whether a query asks somewhere which row came first or last."""
    return query.find(exp.First, exp.FirstValue, exp.Last, exp.LastValue) is not None


def is_aggregate(node: exp.Expression, user: Mapping[str, AggregateFunction]) -> bool:
    """Whether a node is an aggregate call (or one with FILTER)."""
    if isinstance(node, exp.Filter):
        return True
    if isinstance(node, (exp.Anonymous, exp.AnonymousAggFunc)):
        return node.name.lower() in _NAMED or node.name.lower() in user
    if node.key in user:
        return True
    return isinstance(node, exp.AggFunc) and not isinstance(node.parent, (exp.Window, exp.WithinGroup))


def read_call(node: exp.Expression, user: Mapping[str, AggregateFunction]) -> Call:
    """The parts of an aggregate call."""
    where = None
    whole = node
    if isinstance(node, exp.Filter):
        where = node.expression.this
        node = node.this
    name = _CLASSES.get(type(node))
    if isinstance(node, (exp.Anonymous, exp.AnonymousAggFunc)):
        arguments = list(node.expressions)
        name = _NAMED.get(node.name.lower(), node.name.lower())
    elif node.key in user:
        name, arguments = node.key, list(node.iter_expressions())
    else:
        arguments = [a for k in _READ if (a := node.args.get(k)) is not None]
        arguments += node.args.get("expressions") or []
        # A call that says more than is read must not be taken for the plain one.
        further = [v for k, v in node.args.items() if isinstance(v, exp.Expression) and k not in _READ]
        if name in _FLAT_ARITY and further:
            raise _arity(name, _FLAT_ARITY[name], len(arguments) + len(further), whole)
    if name is None or (name.islower() and name not in user):
        raise Diagnostic(
            "UNKNOWN_AGGREGATE",
            f"there is no aggregate '{node.sql(dialect='spark').split('(')[0]}'",
            help="aggregates: " + ", ".join(SQL_AGGREGATES),
        ).at(span_of(whole))
    distinct = bool(arguments) and isinstance(arguments[0], exp.Distinct)
    if distinct:
        arguments = [*arguments[0].expressions, *arguments[1:]]
    if name == "COUNT_IF":
        condition = arguments[0]
        where = (
            condition if where is None else exp.And(this=exp.paren(where), expression=exp.paren(condition))
        )
        return Call("COUNT", (condition,) if distinct else (), distinct, where)
    if name == "COUNT" and not arguments:
        raise _arity(name, 1, 0, whole)
    if name == "COUNT" and not distinct and len(arguments) == 1 and isinstance(arguments[0], exp.Star):
        arguments = []
    parameter: float | int | None = None
    if name in ("QUANTILE", "TOP_K"):
        if len(arguments) != 2:
            raise _arity(name, 2, len(arguments), whole)
        parameter = _parameter(name, arguments.pop(), whole)
    expected = _FLAT_ARITY.get(name, 1 if name in ("QUANTILE", "TOP_K") else None)
    function = user.get(name)
    if function is not None:
        expected = function.arity
    if expected is not None and len(arguments) != expected:
        raise _arity(name, expected, len(arguments), whole)
    if name == "MEDIAN":
        name, parameter = "QUANTILE", 0.5
    return Call(name, tuple(arguments), distinct, where, parameter)


def _arity(name: str, expected: int, found: int, node: exp.Expression) -> Diagnostic:
    return Diagnostic(
        "WRONG_ARGUMENTS", f"{name} takes {expected} argument{'s' * (expected != 1)}, found {found}"
    ).at(span_of(node))


def _parameter(name: str, node: exp.Expression, whole: exp.Expression) -> float | int:
    try:
        value = float(node.this) if isinstance(node, exp.Literal) else None
    except ValueError:
        value = None
    if name == "QUANTILE" and value is not None and 0 <= value <= 1:
        return value
    if name == "TOP_K" and value is not None and value.is_integer() and 1 <= value <= LARGEST:
        return int(value)
    wanted = "a constant between 0 and 1" if name == "QUANTILE" else "a positive whole constant"
    raise Diagnostic("WRONG_ARGUMENTS", f"the last argument of {name} must be {wanted}").at(
        span_of(node) or span_of(whole)
    )


def result_type(call: Call, types: tuple[Type, ...], user: Mapping[str, AggregateFunction]) -> Type:
    """Spark's result types.

    >>> str(result_type(Call("AVG", ()), (decimal(10, 2),), {}))
    'DECIMAL(14,6)'
    """
    name = call.function
    if name in user:
        return user[name].returns
    if name == "COUNT":
        return BIGINT
    first = types[0]
    if name in ("MIN", "MAX", "ARG_MIN", "ARG_MAX", "TOP_K"):
        compared = types[-1]
        if not compared.is_orderable or compared.name == "VOID":
            raise Diagnostic("TYPE_MISMATCH", f"{name} needs values that can be ordered, found {compared}")
        return array(first) if name == "TOP_K" else first
    if not first.is_numeric and not (name == "SUM" and first.name == "INTERVAL"):
        raise Diagnostic("TYPE_MISMATCH", f"{name} needs a number, found {first}")
    if name == "SUM":
        if first.name == "DECIMAL":
            return decimal(min(38, first.params[0] + 10), first.params[1])
        return BIGINT if first.is_integral else first if first.name == "INTERVAL" else DOUBLE
    if name == "AVG" and first.name == "DECIMAL":
        precision, scale = first.params
        scale_out = min(38, scale + 4)
        return decimal(min(38, precision + 4), scale_out)
    return DOUBLE
