"""Aggregate calls in SQL to `Aggregation`s: which function, on which columns, of which type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from tidegate.errors import Diagnostic, unsupported
from tidegate.language.limits import LARGEST
from tidegate.scalars.expressions import span_of
from tidegate.scalars.functions import AggregateFunction
from tidegate.types import BIGINT, BOOLEAN, DOUBLE, VOID, Type, array, decimal

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
    exp.ArrayAgg: "COLLECT",
    exp.ArrayUniqueAgg: "COLLECT_SET",
    exp.ApproxDistinct: "COUNT_DISTINCT",
    exp.LogicalAnd: "BOOL_AND",
    exp.LogicalOr: "BOOL_OR",
    exp.AnyValue: "ANY_VALUE",
    exp.Corr: "CORR",
    exp.CovarPop: "COVAR_POP",
    exp.CovarSamp: "COVAR_SAMP",
}
_NAMED = {
    "top_k": "TOP_K", "mean": "AVG", "every": "BOOL_AND", "some": "BOOL_OR", "histogram": "HISTOGRAM",
}  # fmt: skip
_COMPUTED = {"BOOL_AND": "MIN", "BOOL_OR": "MAX", "ANY_VALUE": "MIN"}
"""Aggregates that are others by another name."""
PAIRS = ("CORR", "COVAR_POP", "COVAR_SAMP")
"""Aggregates of two DOUBLEs."""

SQL_AGGREGATES = (
    "COUNT", "COUNT_IF", "SUM", "MIN", "MAX", "AVG", "MEAN", "VARIANCE", "VAR_SAMP", "VAR_POP", "STDDEV",
    "STDDEV_SAMP", "STDDEV_POP", "MEDIAN", "QUANTILE", "PERCENTILE", "FIRST", "LAST", "ARG_MIN", "ARG_MAX",
    "MIN_BY", "MAX_BY", "TOP_K", "COLLECT_LIST", "COLLECT_SET", "ARRAY_AGG", "STRING_AGG", "LISTAGG", "HISTOGRAM",
    "APPROX_COUNT_DISTINCT", "BOOL_AND", "BOOL_OR", "EVERY", "SOME", "ANY_VALUE", "CORR", "COVAR_POP", "COVAR_SAMP",
)  # fmt: skip
"""The aggregates that SQL may name."""

_FLAT_ARITY = {"SUM": 1, "MIN": 1, "MAX": 1, "AVG": 1, "VAR_SAMP": 1, "VAR_POP": 1, "STDDEV_SAMP": 1,
               "STDDEV_POP": 1, "MEDIAN": 1, "FIRST": 1, "LAST": 1, "ARG_MIN": 2, "ARG_MAX": 2, "COLLECT": 1, "HISTOGRAM": 1,
               "BOOL_AND": 1, "BOOL_OR": 1, "ANY_VALUE": 1, "CORR": 2, "COVAR_POP": 2, "COVAR_SAMP": 2}  # fmt: skip


_READ = ("this", "expression", "quantile")


@dataclass(frozen=True)
class Call:
    """An aggregate call as written: its arguments are still names."""

    function: str
    arguments: tuple[exp.Expression, ...]
    distinct: bool = False
    where: exp.Expression | None = None
    parameter: float | int | None = None

    @property
    def computed(self) -> str:
        """The aggregate of the algebra that it is."""
        return _COMPUTED.get(self.function, self.function)


def asks_arrival(query: exp.Expression) -> bool:
    """Whether a query asks somewhere which row came first or last."""
    return query.find(exp.First, exp.FirstValue, exp.Last, exp.LastValue, exp.Lag) is not None


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
    name, arguments = _name_and_arguments(node, user, whole)
    descending = False
    if arguments and isinstance(arguments[0], exp.Order):
        arguments[0], descending = _ordered(name, arguments[0], whole)
    distinct = bool(arguments) and isinstance(arguments[0], exp.Distinct)
    if distinct:
        arguments = [*arguments[0].expressions, *arguments[1:]]
    if name == "COUNT_DISTINCT":  # exact, so that how close it is asked to be does not matter
        return Call("COUNT", tuple(arguments), True, where)
    if name == "COLLECT_SET":
        name, distinct = "COLLECT", True
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
    parameter: float | int | None = -1 if descending else None
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


def _name_and_arguments(
    node: exp.Expression, user: Mapping[str, AggregateFunction], whole: exp.Expression
) -> tuple[str, list[exp.Expression]]:
    name = _CLASSES.get(type(node))
    if isinstance(node, (exp.Anonymous, exp.AnonymousAggFunc)):
        arguments = list(node.expressions)
        named = node.name.lower()
        name = named if named in user else _NAMED.get(named, named)
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
    return name, arguments


def _ordered(name: str, order: exp.Expression, whole: exp.Expression) -> tuple[exp.Expression, bool]:
    """What is collected, and whether in descending order: values are in their own order, so that an answer is one."""
    collected = order.this
    (value,) = collected.expressions if isinstance(collected, exp.Distinct) else (collected,)
    if name != "COLLECT" or len(order.expressions) != 1 or order.expressions[0].this != value:
        raise unsupported(
            "an aggregate collects values in their own order",
            help=f"say ORDER BY {value.sql(dialect='spark')}, with DESC or without, or leave it out",
        ).at(span_of(whole))
    return collected, bool(order.expressions[0].args.get("desc"))


def expanded(node: exp.Expression) -> exp.Expression | None:
    """STRING_AGG and LISTAGG as what they are made of: the values in their order as texts, NULL where there are none."""
    inner = node.this if isinstance(node, exp.Filter) else node
    if not isinstance(inner, exp.GroupConcat):
        return None

    def filtered(call: exp.Expression) -> exp.Expression:
        return exp.Filter(this=call, expression=node.expression.copy()) if inner is not node else call

    value = inner.this
    while isinstance(value, (exp.Order, exp.Distinct)):
        value = value.this if isinstance(value, exp.Order) else value.expressions[0]
    separator = inner.args.get("separator") or exp.Literal.string("")
    values = filtered(exp.ArrayAgg(this=inner.this.copy()))
    joined = exp.ConcatWs(expressions=[separator.copy(), values])
    some = exp.GT(this=filtered(exp.Count(this=value.copy())), expression=exp.Literal.number(0))
    return exp.Case(ifs=[exp.If(this=some, true=joined)])


def may_be_null(call: Call, nullable: bool, user: Mapping[str, AggregateFunction]) -> bool:
    """Whether an aggregate may be NULL, of arguments of which one may be, or where rows may be left out."""
    if call.function in ("COUNT", "COLLECT", "HISTOGRAM"):
        return False
    return nullable or call.function.endswith("_SAMP") or call.function == "CORR" or call.function in user


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
    if name in PAIRS:
        return DOUBLE
    if name in ("BOOL_AND", "BOOL_OR"):
        if first not in (BOOLEAN, VOID):
            raise Diagnostic("TYPE_MISMATCH", f"{name} needs a condition, found {first}")
        return BOOLEAN
    if name in ("COLLECT", "HISTOGRAM"):
        if not first.is_orderable or first.name == "VOID":
            raise Diagnostic("TYPE_MISMATCH", f"{name} needs values that can be ordered, found {first}")
        counted = Type("STRUCT", (("value", first), ("count", BIGINT)))
        return array(first if name == "COLLECT" else counted)
    if name in ("ANY_VALUE", "MIN", "MAX", "ARG_MIN", "ARG_MAX", "TOP_K"):
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
