"""Identity by content: what an operator computes, as a short text that is the same in every process and after every restart.

    identity(operator) = digest(kind, parameters, identities of its inputs, birth)

Parameters are the fields of frozen dataclasses that count for their equality. Names that only people read (of columns, of
aggregates), places in a query's text and comments do not count; the code of a user's function does.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Any

from sqlglot import exp

from tidegate.algebra.operators import Aggregation, Node, Project
from tidegate.errors import internal
from tidegate.scalars.expressions import index_of
from tidegate.scalars.functions import AggregateFunction, ScalarFunction, code_identity
from tidegate.types import Field, Type

Identity = str


def identity_of(kind: str, *parts: object) -> Identity:
    """A digest of what the parts say.

    >>> from tidegate.types import INT
    >>> identity_of("rows", (Field("a", INT),)) == identity_of("rows", (Field("b", INT),))
    True
    >>> identity_of("rows", (Field("a", INT),)) == identity_of("rows", (Field("a", INT, False),))
    False
    """
    text = json.dumps([kind, *map(content_of, parts)], separators=(",", ":"), ensure_ascii=True)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


@lru_cache(maxsize=4_096)
def plan_identity(plan: Node) -> Identity:
    """What a whole logical plan says. Of user functions it knows the names only."""
    known: dict[int, Identity] = {}
    for node in plan.walk():
        if isinstance(node, Project) and node.only_names:
            known[id(node)] = known[id(node.input)]
        else:
            known[id(node)] = identity_of("plan", node, [known[id(i)] for i in node.inputs])
    return known[id(plan)]


def content_of(value: Any) -> Any:
    """A value as nested lists of texts and numbers, equal where the values mean the same.

    >>> import sqlglot
    >>> content_of(sqlglot.parse_one("c0 + 1 /* one */")) == content_of(sqlglot.parse_one("c0  +  1"))
    True
    >>> content_of(sqlglot.parse_one("mine(c0)")) == content_of(sqlglot.parse_one("MINE(c0)"))
    True
    >>> content_of(sqlglot.parse_one("c0 = c1 AND (c2 > 3 AND c4)")) == content_of(sqlglot.parse_one("c4 AND c1 = c0 AND c2 > 3"))
    True
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Type):
        return str(value)
    if isinstance(value, Field):
        return [str(value.type), value.nullable]
    if isinstance(value, exp.Expression):
        return _expression(value)
    if isinstance(value, ScalarFunction | AggregateFunction):
        return [value.name, str(value.returns), value.arity, code_identity(value)]
    if isinstance(value, Node):
        return [type(value).__name__, *(_field(value, f.name) for f in fields(value) if f.compare)]
    if isinstance(value, Enum):
        return [type(value).__name__, value.name]
    if is_dataclass(value):
        skipped = {"name"} if isinstance(value, Aggregation) else set()
        counted = [f.name for f in fields(value) if f.compare and f.name not in skipped]
        return [type(value).__name__, *(content_of(getattr(value, name)) for name in counted)]
    if isinstance(value, tuple | list):
        return [content_of(v) for v in value]
    if isinstance(value, frozenset | set):
        return sorted((content_of(v) for v in value), key=json.dumps)
    if isinstance(value, Mapping):
        return sorted(([content_of(k), content_of(v)] for k, v in value.items()), key=json.dumps)
    if isinstance(value, float | Decimal | date | datetime | timedelta | bytes):
        return [type(value).__name__, repr(value)]
    raise internal(f"a {type(value).__name__} has no identity")


def _field(node: Node, name: str) -> Any:
    """Of an operator's input only the types of its columns count: what it computes is said by its own identity."""
    value = getattr(node, name)
    return content_of(value.schema) if isinstance(value, Node) else content_of(value)


def _expression(expression: exp.Expression) -> Any:
    index = index_of(expression)
    if index is not None:
        return ["column", index]
    if isinstance(expression, exp.Paren):
        return _expression(expression.this)
    if isinstance(expression, exp.And | exp.Or):
        parts = [_expression(part) for part in _operands(expression, type(expression))]
        return [type(expression).__name__, *sorted(parts, key=json.dumps)]
    if isinstance(expression, exp.EQ | exp.NEQ | exp.NullSafeEQ):
        sides = (_expression(expression.this), _expression(expression.expression))
        return [type(expression).__name__, *sorted(sides, key=json.dumps)]
    if isinstance(expression, exp.Anonymous):
        return ["call", expression.name.lower(), *map(_argument, expression.expressions)]
    args = [
        [name, _argument(value)]
        for name, value in sorted(expression.args.items())
        if value is not None and value is not False and value != []
    ]
    return [type(expression).__name__, *args]


def _operands(expression: exp.Expression, kind: type[exp.Expression]) -> list[exp.Expression]:
    """The operands of an associative operator, however it was bracketed."""
    found: list[exp.Expression] = []
    todo = [expression]
    while todo:
        part = todo.pop()
        while isinstance(part, exp.Paren):
            part = part.this
        if isinstance(part, kind):
            todo += [part.expression, part.this]
        else:
            found.append(part)
    return found


def _argument(value: Any) -> Any:
    if isinstance(value, list):
        return [_argument(v) for v in value]
    if isinstance(value, exp.Expression):
        return _expression(value)
    if isinstance(value, Enum):
        return value.name
    return value if isinstance(value, bool | int | str) else repr(value)
