"""Arrays, structs and maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import polars as pl
from sqlglot import exp

from tidegate.errors import Diagnostic
from tidegate.scalars.coercion import common_type
from tidegate.scalars.columns import ATOMIC, either_error, errors_of, form
from tidegate.scalars.logic import comparable, key_or_self
from tidegate.scalars.registry import (
    Call,
    Column,
    Function,
    Pending,
    Resolved,
    Scalar,
    cast,
    each,
    failure,
    implicit,
    mismatch,
    unified,
)
from tidegate.types import BIGINT, BOOLEAN, INT, STRING, VOID, Type, Value, array

# ---------------------------------------------------------------------------------------- type rules


def _subscript(call: Pending) -> Resolved:
    container, key = call.args
    kind = container.type.name
    if kind == "STRUCT" and call.name == "SUBSCRIPT" and key.is_literal and key.type == STRING:
        return _field(replace(call, name="FIELD", args=(container,), detail=key.value))
    if kind == "MAP":
        key_type, value_type = container.type.params
        return call.done(value_type, [container, implicit(key, key_type, call)], True)
    if kind != "ARRAY" or not (key.type.is_integral or key.type == VOID):
        raise mismatch(call, "an ARRAY with an integer position or a MAP with a key")
    return call.done(container.type.params[0], [container, cast(key, BIGINT)], True)


def _field(call: Pending) -> Resolved:
    """The member of a struct, by name, in any case of letters."""
    (struct,) = call.args
    members = struct.type.params if struct.type.name == "STRUCT" else ()
    for index, (name, type) in enumerate(members):
        if name.lower() == call.detail.lower():
            return call.done(type, nullable=True, detail=index)
    names = ", ".join(name for name, _ in members)
    help = f"existing fields: {names}" if members else "only a STRUCT has fields"
    raise failure("UNKNOWN_FIELD", f"{struct.type} has no field '{call.detail}'", call.node, help)


def _size(call: Pending) -> Resolved:
    if call.args[0].type.name not in ("ARRAY", "MAP", "VOID"):
        raise mismatch(call, "an ARRAY or a MAP")
    return call.done(INT)


def _array(call: Pending) -> Resolved:
    args = unified(call, call.args)
    return call.done(array(args[0].type if args else VOID), args, False)


def _struct(call: Pending) -> Resolved:
    members = tuple((n, a.type) for n, a in zip(call.detail, call.args, strict=True))
    return call.done(Type("STRUCT", members), nullable=False)


def _array_contains(call: Pending) -> Resolved:
    container, value = call.args
    if container.type.name != "ARRAY" or value.type == VOID:
        raise mismatch(call, "an ARRAY and a value")
    element = container.type.params[0]
    common = common_type(element, value.type)
    if common is None or (element == STRING) != (value.type == STRING) or not comparable(common):
        raise mismatch(call, f"an ARRAY and a value of type {element}")
    return call.done(BOOLEAN, [cast(container, array(common)), cast(value, common)], True)


# ------------------------------------------------------------------------------------------ meaning


def _member(node: Resolved) -> Callable[[Any, Any], Value]:
    """The element at a position (which ELEMENT_AT counts from 1, or from -1 at the end), or the value of a key."""
    if node.args[0].type.name == "MAP":
        key = key_or_self(node.args[0].type.params[0])
        return lambda entries, wanted: next((v for k, v in entries if key(k) == key(wanted)), None)
    from_one = node.name == "ELEMENT_AT"

    def at(values: Sequence[Value], index: int) -> Value:
        position = index
        if from_one:
            position = index - 1 if index > 0 else len(values) + index if index < 0 else -1
        if 0 <= position < len(values):
            return values[position]
        counted = "from 1, or from -1 at the end" if from_one else "from 0"
        message = f"there is no element {index} in an array of {len(values)}"
        raise Diagnostic("INVALID_ARRAY_INDEX", message, help=f"positions count {counted}")

    return at


def _contains(node: Resolved) -> Callable[[Sequence[Value], Value], bool | None]:
    key = key_or_self(node.args[1].type)

    def contains(values: Sequence[Value], wanted: Value) -> bool | None:
        sought = key(wanted)
        if any(v is not None and key(v) == sought for v in values):
            return True
        return None if None in values else False

    return contains


def _members(node: Resolved, args: Sequence[Scalar]) -> Scalar:
    return lambda row: tuple([a(row) for a in args])


# -------------------------------------------------------------------------------------------- forms


def _member_form(node: Resolved, args: Sequence[Column]) -> Column | None:
    values, index = args
    if values.type.name != "ARRAY":
        return None
    size, at = values.value.list.len().cast(pl.Int64), index.value
    out = ((at == 0) | (at > size) | (at < -size)) if node.name == "ELEMENT_AT" else ((at < 0) | (at >= size))
    position = pl.when(at > 0).then(at - 1).otherwise(at) if node.name == "ELEMENT_AT" else at
    found = values.value.list.get(position, null_on_oob=True)
    return Column(found, node.type, either_error(errors_of(args), out.fill_null(False)))


def _field_form(node: Resolved, args: Sequence[Column]) -> Column | None:
    (struct,) = args
    name = struct.type.params[node.detail][0]
    return Column(struct.value.struct.field(name), node.type, struct.error)


def _struct_form(node: Resolved, args: Sequence[Column]) -> Column | None:
    names = [name for name, _ in node.type.params]
    if not names or len(set(names)) < len(names):
        return None
    members = [c.value.alias(n) for c, n in zip(args, names, strict=True)]
    return Column(pl.struct(members), node.type, errors_of(args))


def _contains_form(node: Resolved, args: Sequence[Column]) -> Column | None:
    values, wanted = args
    if wanted.type.name not in ATOMIC or wanted.type.name in ("FLOAT", "DOUBLE"):
        return None
    found = values.value.list.contains(wanted.value, nulls_equal=False)
    unknown = values.value.list.eval(pl.element().is_null().any()).list.first()
    present = values.value.is_not_null() & wanted.value.is_not_null()
    value = pl.when(present).then(pl.when(found).then(True).when(~unknown.fill_null(False)).then(False))
    return Column(value, BOOLEAN, errors_of(args))


# ------------------------------------------------------------------------------------------ entries


def _read_bracket(node: exp.Bracket) -> Call | None:
    name = "ELEMENT_AT" if node.args.get("offset") == 1 else "SUBSCRIPT"
    return Call(name, (node.this, *node.expressions)) if len(node.expressions) == 1 else None


def _read_dot(node: exp.Dot) -> Call | None:
    named = isinstance(node.expression, (exp.Identifier, exp.Column, exp.Var))
    return Call("FIELD", (node.this,), node.expression.name) if named else None


def _read_struct(node: exp.Struct) -> Call:
    names, args = [], []
    for number, member in enumerate(node.expressions, 1):
        if isinstance(member, (exp.PropertyEQ, exp.Alias)):
            named = isinstance(member, exp.PropertyEQ)
            names.append(member.this.name if named else member.alias)
            args.append(member.expression if named else member.this)
        else:
            names.append(member.name if isinstance(member, exp.Column) else f"col{number}")
            args.append(member)
    return Call("STRUCT", tuple(args), tuple(names))


ENTRIES = (
    Function("SUBSCRIPT", {exp.Bracket: _read_bracket}, (2, 2), _subscript, _member, _member_form),
    Function("ELEMENT_AT", {}, (2, 2), _subscript, _member, _member_form, names="ELEMENT_AT"),
    Function("FIELD", {exp.Dot: _read_dot}, (1, 1), _field, lambda node: lambda value: value[node.detail],
        _field_form),
    Function("SIZE", {exp.ArraySize: "this", "CARDINALITY": "*expressions"}, (1, 1), _size, each(len),
        form(lambda a: a.list.len(), ("ARRAY", "MAP")), names="SIZE ARRAY_SIZE CARDINALITY"),
    Function("ARRAY", {exp.Array: "*expressions"}, (0, None), _array, _members,
        form(lambda *parts: pl.concat_list(parts), ATOMIC), names="ARRAY", lazy=True),
    Function("STRUCT", {exp.Struct: _read_struct}, (0, None), _struct, _members, _struct_form,
        names="STRUCT NAMED_STRUCT", lazy=True),
    Function("ARRAY_CONTAINS", {exp.ArrayContains: "this expression"}, (2, 2), _array_contains, _contains,
        _contains_form, names="ARRAY_CONTAINS"),
    Function("CONCAT_ARRAYS", meaning=each(lambda *parts: tuple(member for part in parts for member in part)),
        columns=form(lambda *parts: pl.concat_list(parts), "ARRAY")),
    Function("REVERSE_ARRAY", meaning=each(lambda members: members[::-1]),
        columns=form(lambda a: a.list.reverse(), "ARRAY")),
)  # fmt: skip
