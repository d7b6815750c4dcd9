"""Plans as plain data and back, so that a manifest can keep them. Where an expression stood in a text is not kept."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from sqlglot import exp

from tidegate.algebra import modify, operators, points, quality, sequences, windows
from tidegate.errors import internal
from tidegate.types import Field, Type

_MODULES = (operators, modify, windows, quality, sequences, points)
_CLASSES: dict[str, type] = {
    name: found
    for module in _MODULES
    for name, found in vars(module).items()
    if isinstance(found, type) and is_dataclass(found) and found.__module__ in {m.__name__ for m in _MODULES}
} | {"Field": Field, "Type": Type}


def to_plain(value: Any) -> Any:
    """A plan, or a part of one, as lists, texts and numbers.

    >>> from sqlglot import parse_one
    >>> plan = operators.Filter(operators.OneRow(), parse_one("c0 > 1"))
    >>> from_plain(to_plain(plan)) == plan
    True
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, exp.Expression):
        return ["expression", type(value).__name__, {k: _argument(v) for k, v in value.args.items()}]
    if isinstance(value, tuple):
        return ["tuple", *map(to_plain, value)]
    if type(value).__name__ in _CLASSES:
        kept = [f.name for f in fields(value) if f.compare]
        return [type(value).__name__, {name: to_plain(getattr(value, name)) for name in kept}]
    raise internal(f"a {type(value).__name__} cannot be written")


def from_plain(data: Any) -> Any:
    """What `to_plain` was given."""
    if not isinstance(data, list):
        return data
    kind, *rest = data
    if kind == "tuple":
        return tuple(map(from_plain, rest))
    if kind == "expression":
        return _expression(*rest)
    found = _CLASSES.get(kind)
    if found is None:
        raise internal(f"a plan has no {kind}")
    return found(**{name: from_plain(value) for name, value in rest[0].items()})


def _argument(value: Any) -> Any:
    if isinstance(value, Enum):
        return ["type", value.name]
    if isinstance(value, list):
        return ["list", *map(_argument, value)]
    return to_plain(value)


def _expression(kind: str, arguments: dict[str, Any]) -> exp.Expression:
    found = getattr(exp, kind, None)
    if not isinstance(found, type) or not issubclass(found, exp.Expression):
        raise internal(f"an expression has no {kind}")
    made: exp.Expression = found(**{name: _read(value) for name, value in arguments.items()})
    return made


def _read(data: Any) -> Any:
    if isinstance(data, list) and data[0] == "type":
        return exp.DataType.Type[data[1]]
    if isinstance(data, list) and data[0] == "list":
        return [_read(v) for v in data[1:]]
    return from_plain(data)
