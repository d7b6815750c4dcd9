"""The types of scalar expressions: Spark SQL's, ANSI mode, session time zone UTC.

`resolve` gives every part of an expression its type and makes implicit casts explicit; `infer` is its result.
A function outside the built-in set is typed by `ask`, which is Spark's analyzer where a session has one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from sqlglot import exp

from tidegate.errors import Diagnostic, did_you_mean, internal, unsupported
from tidegate.scalars.calls import FUNCTIONS, Call, call_of, is_nondeterministic, nondeterministic
from tidegate.scalars.coercion import (
    MAX_PRECISION,
    can_cast,
    common_type,
    common_type_of,
    type_from_sql,
    type_to_spark,
    type_to_sqlglot,
)
from tidegate.scalars.expressions import index_of, ref, span_of
from tidegate.scalars.functions import ScalarFunction
from tidegate.scalars.intervals import MONTHS, WHOLE_DAYS
from tidegate.scalars.library import ENTRIES
from tidegate.scalars.registry import Pending, Resolved, failure
from tidegate.scalars.spark_functions import check
from tidegate.time import UNITS
from tidegate.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DOUBLE,
    INT,
    INTERVAL,
    STRING,
    VOID,
    Field,
    Schema,
    Type,
    Value,
    decimal,
)

__all__ = [
    "FUNCTIONS",
    "Typed",
    "can_cast",
    "common_type",
    "common_type_of",
    "infer",
    "resolve",
    "type_from_sql",
    "type_to_spark",
    "type_to_sqlglot",
]


@dataclass(frozen=True)
class Typed:
    """What is known of an expression before any row: its type, and whether it may be NULL."""

    type: Type
    nullable: bool


Ask = Callable[[exp.Expression, Schema], Typed]


def infer(
    expression: exp.Expression,
    schema: Schema,
    functions: Mapping[str, ScalarFunction],
    ask: Ask | None = None,
) -> Typed:
    """The type of a bound expression over rows of `schema`.

    >>> import sqlglot
    >>> from tidegate.types import Field
    >>> schema = (Field("price", decimal(10, 2)), Field("n", INT, nullable=False))
    >>> str(infer(sqlglot.parse_one("c0 * c1", dialect="spark"), schema, {}).type)
    'DECIMAL(21,2)'
    >>> infer(sqlglot.parse_one("c1 + 1", dialect="spark"), schema, {})
    Typed(type=Type(name='INT', params=()), nullable=False)
    """
    resolved = resolve(expression, schema, functions, ask)
    if resolved.type == MONTHS:
        raise _months_alone(resolved.node)
    return Typed(resolved.type, resolved.nullable)


def resolve(
    expression: exp.Expression,
    schema: Schema,
    functions: Mapping[str, ScalarFunction],
    ask: Ask | None = None,
) -> Resolved:
    """The expression with the type of every part; what Spark casts implicitly is a CAST here."""
    return _Resolver(schema, {name.lower(): f for name, f in functions.items()}, ask).visit(expression)


@dataclass(frozen=True)
class _Resolver:
    schema: Schema
    functions: Mapping[str, ScalarFunction]
    ask: Ask | None

    def visit(self, node: exp.Expression) -> Resolved:
        if isinstance(node, (exp.Paren, exp.Alias)):
            return self.visit(node.this)
        if isinstance(node, exp.Column):
            return self._column(node)
        literal = _literal(node)
        if literal is not None:
            return literal
        if is_nondeterministic(node):
            raise _located(nondeterministic(node), node)
        user = self._user_function(node)
        if user is not None:
            return user
        call = call_of(node)
        if call is None:
            return self._unknown(node)
        return self._call(call, node)

    def _column(self, node: exp.Column) -> Resolved:
        index = index_of(node)
        if index is None or index >= len(self.schema):
            raise internal(f"the column {node.sql('spark')} is not bound to a position")
        field = self.schema[index]
        return Resolved("COLUMN", field.type, field.nullable, node, value=index)

    def _user_function(self, node: exp.Expression) -> Resolved | None:
        if isinstance(node, exp.Anonymous):
            function = self.functions.get(node.name.lower())
            args = list(node.expressions)
        elif isinstance(node, exp.Func) and self.functions:
            names = [n.lower() for n in type(node).sql_names()]
            function = next((self.functions[n] for n in names if n in self.functions), None)
            args = list(node.iter_expressions())
        else:
            return None
        if function is None:
            return None
        if function.arity is not None and function.arity != len(args):
            message = f"{function.name} takes {function.arity} arguments, not {len(args)}"
            raise failure("WRONG_NUMBER_OF_ARGUMENTS", message, node)
        resolved = tuple(self.visit(a) for a in args)
        return Resolved("USER", function.returns, True, node, resolved, detail=function)

    def _unknown(self, node: exp.Expression) -> Resolved:
        for part in node.find_all(exp.Expression):
            if is_nondeterministic(part):
                raise _located(nondeterministic(part), part)
        if self.ask is not None:
            asked, schema = self._without_user_functions(node)
            check(asked)
            typed = self.ask(asked, schema)
            return Resolved("ASKED", typed.type, typed.nullable, node)
        if isinstance(node, (exp.Anonymous, exp.Func)):
            name = node.name if isinstance(node, exp.Anonymous) else node.sql("spark").partition("(")[0]
            if name.upper() in FUNCTIONS:
                raise _located(unsupported(f"{node.sql('spark')} is evaluated by Spark only"), node)
            existing = [*FUNCTIONS, *(f.name for f in self.functions.values())]
            help = did_you_mean(name, existing, "functions")
            raise failure("UNKNOWN_FUNCTION", f"there is no function '{name}'", node, help)
        message = f"{node.sql('spark')} is not a scalar expression of the built-in set"
        raise _located(unsupported(message), node)

    def _without_user_functions(self, node: exp.Expression) -> tuple[exp.Expression, Schema]:
        """The expression over more columns, with one in the place of each call that only the user can type."""
        schema = list(self.schema)
        known = len(schema)

        def visit(part: exp.Expression) -> exp.Expression:
            user = self._user_function(part)
            if user is None:
                return part
            schema.append(Field("", user.type, user.nullable))
            return ref(len(schema) - 1, part)

        found = node.copy().transform(visit, copy=False)
        return (found, tuple(schema)) if len(schema) > known else (node, self.schema)

    def _call(self, call: Call, node: exp.Expression) -> Resolved:
        args = tuple(self.visit(a) for a in call.args)
        entry = ENTRIES[call.name]
        assert entry.rule is not None
        fewest, most = entry.takes
        if len(args) < fewest or (most is not None and len(args) > most):
            upto = "" if fewest == most else " or more" if most is None else f" to {most}"
            message = f"{call.name} takes {fewest}{upto} arguments, not {len(args)}"
            raise failure("WRONG_NUMBER_OF_ARGUMENTS", message, node)
        return entry.rule(Pending(call.name, args, node, call.detail))


def _located(diagnostic: Diagnostic, node: exp.Expression) -> Diagnostic:
    return diagnostic.at(span_of(node))


# ------------------------------------------------------------------------------------------- literals


def _literal(node: exp.Expression) -> Resolved | None:
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return _number("-" + node.this.name, node)
    if isinstance(node, exp.Literal):
        if node.is_string:
            return _constant(STRING, node.name, node)
        return _number(node.name, node)
    if isinstance(node, exp.Boolean):
        return _constant(BOOLEAN, bool(node.this), node)
    if isinstance(node, exp.Null):
        return Resolved("LITERAL", VOID, True, node)
    if isinstance(node, exp.HexString):
        return _constant(BINARY, bytes.fromhex(node.name.zfill(len(node.name) + len(node.name) % 2)), node)
    if isinstance(node, exp.Interval):
        return _interval(node)
    return None


def _constant(type: Type, value: Value, node: exp.Expression) -> Resolved:
    return Resolved("LITERAL", type, False, node, value=value)


def _number(text: str, node: exp.Expression) -> Resolved:
    if "e" in text.lower():
        return _constant(DOUBLE, float(text), node)
    if "." not in text and len(text) <= 20:
        number = int(text)
        if -(2**31) <= number < 2**31:
            return _constant(INT, number, node)
        if -(2**63) <= number < 2**63:
            return _constant(BIGINT, number, node)
    value = Decimal(text)
    _, digits, exponent = value.as_tuple()
    scale = -int(exponent)
    precision = max(len(digits), scale)
    if precision > MAX_PRECISION:
        raise failure("TYPE_MISMATCH", f"{text} has more than {MAX_PRECISION} digits", node)
    return _constant(decimal(precision, scale), value, node)


_SPANS = {"DAY": 86_400_000_000, "HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000}
_MONTHS = {"YEAR": 12, "YEARS": 12, "MONTH": 1, "MONTHS": 1}
_AMOUNT = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*([A-Za-z]+)")


def _interval(node: exp.Interval) -> Resolved:
    """A day-time literal as a timedelta; one of years or months only beside a date or timestamp."""
    if not isinstance(node.this, exp.Literal):
        raise _located(unsupported(f"{node.sql('spark')} is not a constant interval"), node)
    text, unit = node.this.name.strip(), node.args.get("unit")
    if isinstance(unit, exp.IntervalSpan):
        return _interval_span(text, unit.this.name.upper(), unit.expression.name.upper(), node)
    pairs = [(text, unit.name)] if unit is not None else _AMOUNT.findall(text)
    leftover = "" if unit is not None else _AMOUNT.sub("", text).strip()
    if not pairs or leftover:
        raise failure("INVALID_INTERVAL", f"'{text}' is not an interval", node)
    if all(name.upper() in _MONTHS for _, name in pairs):
        months = sum(_amount(number, node) * _MONTHS[name.upper()] for number, name in pairs)
        return Resolved("LITERAL", MONTHS, False, node, value=int(months))
    ticks = Decimal(0)
    for number, name in pairs:
        if name.upper() not in UNITS:
            raise failure("INVALID_INTERVAL", f"'{name}' is not a unit of a day-time interval", node)
        ticks += _amount(number, node) * UNITS[name.upper()]
    whole = all(name.upper() in ("DAY", "DAYS", "WEEK", "WEEKS") for _, name in pairs)
    return _timedelta(int(ticks), whole, node)


def _amount(text: str, node: exp.Expression) -> Decimal:
    if not re.fullmatch(r"[+-]?\d+(\.\d+)?", text):
        raise failure("INVALID_INTERVAL", f"'{text}' is not a number of units", node)
    return Decimal(text)


def _interval_span(text: str, first: str, last: str, node: exp.Interval) -> Resolved:
    if (first, last) == ("YEAR", "MONTH"):
        match = re.fullmatch(r"([+-]?)(\d+)-(\d+)", text)
        if match is None:
            raise failure("INVALID_INTERVAL", f"'{text}' is not YEAR TO MONTH", node)
        months = int(match[2]) * 12 + int(match[3])
        return Resolved("LITERAL", MONTHS, False, node, value=-months if match[1] == "-" else months)
    names = list(_SPANS)
    if first not in names or last not in names or names.index(first) >= names.index(last):
        raise failure("INVALID_INTERVAL", f"{first} TO {last} is not a span of a day-time interval", node)
    units = names[names.index(first) : names.index(last) + 1]
    separators = ["" if i == 0 else r"\s+" if units[i - 1] == "DAY" else ":" for i in range(len(units))]
    fraction = r"(?:\.\d{1,9})?"
    numbers = [rf"(\d+{fraction})" if u == "SECOND" else r"(\d+)" for u in units]
    parts = [s + n for s, n in zip(separators, numbers, strict=True)]
    match = re.fullmatch("([+-]?)" + "".join(parts), text)
    if match is None:
        raise failure("INVALID_INTERVAL", f"'{text}' is not {first} TO {last}", node)
    ticks = sum(int(Decimal(match[i + 2]) * _SPANS[u]) for i, u in enumerate(units))
    return _timedelta(-ticks if match[1] == "-" else ticks, False, node)


def _timedelta(ticks: int, whole_days: bool, node: exp.Expression) -> Resolved:
    try:
        value = timedelta(microseconds=ticks)
    except OverflowError:
        raise failure("INVALID_INTERVAL", "the interval is too long", node) from None
    return Resolved("LITERAL", INTERVAL, False, node, detail=WHOLE_DAYS if whole_days else None, value=value)


def _months_alone(node: exp.Expression) -> Diagnostic:
    help = "write it beside the date or timestamp it moves: ts + INTERVAL '1' MONTH"
    return _located(unsupported("an interval of months has no length of its own", help=help), node)
