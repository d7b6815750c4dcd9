"""Comparison, logic and conditions: what NULL means, and what is not evaluated."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Any

import polars as pl
from sqlglot import exp

from tidegate.errors import Diagnostic
from tidegate.scalars.coercion import common_type, common_type_of
from tidegate.scalars.columns import (
    ATOMIC,
    column_from_values,
    either_error,
    errors_of,
    form,
    literal,
    masked,
)
from tidegate.scalars.registry import (
    Call,
    Column,
    Form,
    Function,
    Pending,
    Resolved,
    Scalar,
    cast,
    each,
    mismatch,
    unified,
)
from tidegate.types import BOOLEAN, STRING, VOID, Row, Type, Value

# ---------------------------------------------------------------------------------------- type rules


def comparable(type: Type) -> bool:
    """Whether = and < exist: everything but maps, at any depth."""
    if type.name == "STRUCT":
        return all(comparable(t) for _, t in type.params)
    return type.name != "MAP" and all(comparable(t) for t in type.params if isinstance(t, Type))


def _compare(call: Pending) -> Resolved:
    left, right = call.args
    common = common_type(left.type, right.type)
    if common is None or not comparable(common):
        raise mismatch(call, "two values of one type")
    nullable = False if call.name == "<=>" else None
    return call.done(BOOLEAN, [cast(left, common), cast(right, common)], nullable)


def _logical(call: Pending) -> Resolved:
    types = [a.type for a in call.args]
    two_strings = len(types) == 2 and STRING in types and BOOLEAN not in types
    if two_strings or any(t not in (BOOLEAN, STRING, VOID) for t in types):
        raise mismatch(call, "BOOLEAN")
    return call.done(BOOLEAN, [cast(a, BOOLEAN) for a in call.args])


def _in_rule(call: Pending) -> Resolved:
    common = common_type_of([a.type for a in call.args])
    if common is None or not comparable(common):
        raise mismatch(call, "values of one type")
    return call.done(BOOLEAN, [cast(a, common) for a in call.args])


def _condition(call: Pending, arg: Resolved) -> Resolved:
    if arg.type not in (BOOLEAN, VOID):
        raise mismatch(call, "BOOLEAN as a condition")
    return cast(arg, BOOLEAN)


def _case_rule(call: Pending) -> Resolved:
    """CASE and IF: condition, value, condition, value, …, and perhaps a last value."""
    pairs = len(call.args) // 2
    conditions = [_condition(call, a) for a in call.args[0 : 2 * pairs : 2]]
    values = unified(call, [*call.args[1 : 2 * pairs : 2], *call.args[2 * pairs :]])
    args = [a for pair in zip(conditions, values, strict=False) for a in pair] + values[pairs:]
    nullable = len(values) == pairs or any(v.nullable for v in values)
    return replace(call, name="CASE").done(values[0].type, args, nullable)


def _coalesce_rule(call: Pending) -> Resolved:
    args = unified(call, call.args)
    return call.done(args[0].type, args, all(a.nullable for a in args))


def _extreme_rule(call: Pending) -> Resolved:
    kinds = {a.type == STRING for a in call.args if a.type != VOID}
    if len(kinds) == 2:
        raise mismatch(call, "values of one type")
    resolved = _coalesce_rule(call)
    if not comparable(resolved.type):
        raise mismatch(call, "values that have an order")
    return resolved


# ------------------------------------------------------------------------------------------ meaning


def key_of(type: Type) -> Callable[[Value], Any] | None:
    """What to compare instead of the value; None where Python compares as Spark does.

    NaN equals itself and is greater than every number; in arrays and structs NULL comes first.

    >>> from tidegate.types import DOUBLE
    >>> key_of(DOUBLE)(float("nan")) > key_of(DOUBLE)(float("inf"))
    True
    """
    if type.name in ("FLOAT", "DOUBLE"):
        return lambda v: (1, 0.0) if v != v else (0, v)
    if type.name == "ARRAY":
        member = _nulls_first(key_of(type.params[0]))
        return lambda v: tuple(map(member, v))
    if type.name == "STRUCT":
        members = [_nulls_first(key_of(t)) for _, t in type.params]
        return lambda v: tuple(m(x) for m, x in zip(members, v, strict=True))
    return None


def key_or_self(type: Type) -> Callable[[Value], Any]:
    return key_of(type) or (lambda v: v)


def _nulls_first(key: Callable[[Value], Any] | None) -> Callable[[Value], Any]:
    return lambda v: (0,) if v is None else (1, v if key is None else key(v))


def _comparison(compare: Callable[[Any, Any], bool]) -> Callable[[Resolved], Callable[[Any, Any], bool]]:
    def meaning(node: Resolved) -> Callable[[Any, Any], bool]:
        key = key_of(node.args[0].type)
        return compare if key is None else lambda a, b: compare(key(a), key(b))

    return meaning


def _connective(decides: bool) -> Callable[[Resolved, Sequence[Scalar]], Scalar]:
    """AND, which False decides, and OR, which True does: what follows is not evaluated then."""

    def meaning(node: Resolved, args: Sequence[Scalar]) -> Scalar:
        left, right = args

        def run(row: Row) -> Value:
            a = left(row)
            if a is decides:
                return decides
            b = right(row)
            if b is decides:
                return decides
            return None if a is None or b is None else not decides

        return run

    return meaning


def _null_safe_equal(node: Resolved, args: Sequence[Scalar]) -> Scalar:
    left, right = args
    key = key_or_self(node.args[0].type)

    def run(row: Row) -> bool:
        a, b = left(row), right(row)
        return a is b if a is None or b is None else bool(key(a) == key(b))

    return run


def _in(node: Resolved, args: Sequence[Scalar]) -> Scalar:
    this, *options = args
    key = key_or_self(node.args[0].type)
    if all(a.is_constant for a in node.args[1:]):
        try:
            return _in_constants(this, key, [o(()) for o in options])
        except (Diagnostic, TypeError):
            pass

    def run(row: Row) -> Value:
        a = this(row)
        if a is None:
            return None
        sought, unknown = key(a), False
        for option in options:
            b = option(row)
            if b is None:
                unknown = True
            elif key(b) == sought:
                return True
        return None if unknown else False

    return run


def _in_constants(this: Scalar, key: Callable[[Value], Any], values: Sequence[Value]) -> Scalar:
    keys = frozenset(key(v) for v in values if v is not None)
    missing = None if None in values else False

    def run(row: Row) -> Value:
        a = this(row)
        return None if a is None else True if key(a) in keys else missing

    return run


def _case(node: Resolved, args: Sequence[Scalar]) -> Scalar:
    branches = list(zip(args[0::2], args[1::2], strict=False))
    default = args[-1] if len(args) % 2 else (lambda row: None)

    def run(row: Row) -> Value:
        for condition, value in branches:
            if condition(row):
                return value(row)
        return default(row)

    return run


def _coalesce(node: Resolved, args: Sequence[Scalar]) -> Scalar:
    return lambda row: next((v for a in args if (v := a(row)) is not None), None)


def _nullif(node: Resolved, args: Sequence[Scalar]) -> Scalar:
    equal, value = args
    return lambda row: None if equal(row) else value(row)


def _extreme(pick: Callable[..., Value]) -> Callable[[Resolved, Sequence[Scalar]], Scalar]:
    def meaning(node: Resolved, args: Sequence[Scalar]) -> Scalar:
        key = key_of(node.type)

        def run(row: Row) -> Value:
            values = [v for a in args if (v := a(row)) is not None]
            return pick(values, key=key) if values else None

        return run

    return meaning


# -------------------------------------------------------------------------------------------- forms


def _connective_form(decides: bool) -> Form:
    def make(node: Resolved, args: Sequence[Column]) -> Column | None:
        a, b = args
        needed = ~a.value.fill_null(False) if decides else a.value.fill_null(True)
        error = either_error(a.error, masked(needed, b.error))
        return Column(a.value | b.value if decides else a.value & b.value, BOOLEAN, error)

    return make


def _in_form(node: Resolved, args: Sequence[Column]) -> Column | None:
    if args[0].type.name not in ATOMIC:
        return None
    sought, *items = (c.value for c in args)
    options, type_ = node.args[1:], node.args[0].type
    if type_.name in ("FLOAT", "DOUBLE") or not all(o.is_literal for o in options):
        # OR of equalities: a NULL among the items makes "no match" unknown, as SQL has it.
        return Column(reduce(or_, [sought == item for item in items]), BOOLEAN, errors_of(args))
    known = [o.value for o in options if o.value is not None]
    found = sought.is_in(column_from_values("", known, type_).implode())
    return Column(found if len(known) == len(options) else pl.when(found).then(True), BOOLEAN, args[0].error)


def _choice(conditions: Sequence[Column], values: Sequence[Column], type: Type) -> Column:
    """The value of the first condition that is true; the last value is for the others."""
    chosen, error = values[-1].value, values[-1].error
    for condition, value in reversed(list(zip(conditions, values, strict=False))):
        taken = condition.value.fill_null(False)
        chosen = pl.when(taken).then(value.value).otherwise(chosen)
        error = either_error(condition.error, masked(taken, value.error), masked(~taken, error))
    return Column(chosen, type, error)


def _case_form(node: Resolved, args: Sequence[Column]) -> Column | None:
    if node.type == VOID:
        return None
    default = args[-1] if len(args) % 2 else literal(None, node.type)
    pairs = len(args) // 2
    return _choice(args[0 : 2 * pairs : 2], [*args[1 : 2 * pairs : 2], default], node.type)


def _coalesce_form(node: Resolved, args: Sequence[Column]) -> Column | None:
    present = [Column(a.value.is_not_null(), BOOLEAN, a.error) for a in args[:-1]]
    return _choice(present, args, node.type)


def _nullif_form(node: Resolved, args: Sequence[Column]) -> Column | None:
    equal, value = args
    return _choice([equal], [literal(None, node.type), value], node.type)


def _extreme_form(better: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Form:
    def pick(a: pl.Expr, b: pl.Expr) -> pl.Expr:
        return pl.when(b.is_null() | better(a, b).fill_null(False)).then(a).otherwise(b)

    return form(lambda *args: reduce(pick, args), ATOMIC)


# ------------------------------------------------------------------------------------------ entries


def _read_between(node: exp.Between) -> Call:
    low = exp.GTE(this=node.this, expression=node.args["low"])
    return Call("AND", (low, exp.LTE(this=node.this, expression=node.args["high"])))


def _read_is(node: exp.Is) -> Call | None:
    if isinstance(node.expression, exp.Null):
        return Call("ISNULL", (node.this,))
    return Call("<=>", (node.this, node.expression)) if isinstance(node.expression, exp.Boolean) else None


def _read_distinct(node: exp.NullSafeNEQ) -> Call:
    return Call("NOT", (exp.NullSafeEQ(this=node.this, expression=node.expression),))


def _read_in(node: exp.In) -> Call | None:
    if node.args.get("query") or node.args.get("unnest") or node.args.get("field"):
        return None
    return Call("IN", (node.this, *node.expressions))


def _read_case(node: exp.Case) -> Call:
    args: list[exp.Expression] = []
    for branch in node.args["ifs"]:
        equal = exp.EQ(this=node.this, expression=branch.this) if node.this else branch.this
        args += [equal, branch.args["true"]]
    if node.args.get("default"):
        args.append(node.args["default"])
    return Call("CASE", tuple(args))


def _read_nullif(node: exp.Nullif) -> Call:
    return Call("NULLIF", (exp.EQ(this=node.this, expression=node.expression), node.this))


def _read_nvl2(node: exp.Nvl2) -> Call:
    present = exp.Not(this=exp.Is(this=node.this, expression=exp.Null()))
    return Call("IF", (present, node.args["true"], node.args.get("false") or exp.Null()))


_SIDES, _LIST = "this expression", "this *expressions"


def _compares(name: str, spelled: type[exp.Expression], compare: Callable[[Any, Any], Any]) -> Function:
    return Function(name, {spelled: _SIDES}, (2, 2), _compare, _comparison(compare), form(compare, ATOMIC))


def _tests_null(name: str, apply: Callable[[pl.Expr], pl.Expr], **more: Any) -> Function:
    wanted = name == "ISNULL"

    def meaning(node: Resolved, args: Sequence[Scalar]) -> Scalar:
        (arg,) = args
        return lambda row: (arg(row) is None) is wanted

    def columns(node: Resolved, args: Sequence[Column]) -> Column:
        return Column(apply(args[0].value), BOOLEAN, args[0].error)

    def rule(call: Pending) -> Resolved:
        return call.done(BOOLEAN, nullable=False)

    return Function(name, rule=rule, meaning=meaning, columns=columns, names=name, lazy=True, **more)


ENTRIES = (
    _compares("=", exp.EQ, operator.eq),
    _compares("<>", exp.NEQ, operator.ne),
    _compares("<", exp.LT, operator.lt),
    _compares("<=", exp.LTE, operator.le),
    _compares(">", exp.GT, operator.gt),
    _compares(">=", exp.GTE, operator.ge),
    Function("<=>", {exp.NullSafeEQ: _SIDES, exp.Is: _read_is}, (2, 2), _compare, _null_safe_equal,
        form(lambda a, b: a.eq_missing(b), ATOMIC), lazy=True),
    Function("AND", {exp.And: _SIDES, exp.Between: _read_between}, (2, 2), _logical, _connective(False),
        _connective_form(False), lazy=True),
    Function("OR", {exp.Or: _SIDES}, (2, 2), _logical, _connective(True), _connective_form(True), lazy=True),
    Function("NOT", {exp.Not: "this", exp.NullSafeNEQ: _read_distinct}, (1, 1), _logical, each(operator.not_),
        form(operator.invert, "BOOLEAN")),
    Function("IN", {exp.In: _read_in}, (2, None), _in_rule, _in, _in_form, lazy=True),
    _tests_null("ISNULL", lambda a: a.is_null(), spelled={"ISNULL": "*expressions"}),
    _tests_null("ISNOTNULL", lambda a: a.is_not_null(), spelled={"ISNOTNULL": "*expressions"}),
    Function("CASE", {exp.Case: _read_case}, (2, None), _case_rule, _case, _case_form, lazy=True),
    Function("IF", {exp.If: "this true false", exp.Nvl2: _read_nvl2}, (3, 3), _case_rule, names="IF NVL2",
        lazy=True),
    Function("COALESCE", {exp.Coalesce: _LIST}, (1, None), _coalesce_rule, _coalesce, _coalesce_form,
        names="COALESCE IFNULL NVL", lazy=True),
    Function("NULLIF", {exp.Nullif: _read_nullif}, (2, 2),
        lambda call: call.done(call.args[1].type, nullable=True), _nullif, _nullif_form, names="NULLIF",
        lazy=True),
    Function("GREATEST", {exp.Greatest: _LIST}, (2, None), _extreme_rule, _extreme(max),
        _extreme_form(operator.ge), names="GREATEST", lazy=True),
    Function("LEAST", {exp.Least: _LIST}, (2, None), _extreme_rule, _extreme(min), _extreme_form(operator.le),
        names="LEAST", lazy=True),
)  # fmt: skip
