"""User-defined functions: plain Python, named in SQL.

What a function does wrong (it raises, ends the process by `sys.exit`, gives a value that is not of the declared type) is a
`Diagnostic` with the function's name and the values that it was called with.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from types import CodeType
from typing import Any

from tidegate.errors import Diagnostic
from tidegate.types import Row, Type, Value, normalize


@dataclass(frozen=True)
class ScalarFunction:
    """A function of a row's values. It must be deterministic: an answer has one meaning."""

    name: str
    call: Callable[..., Value]
    returns: Type
    arity: int | None = None

    def __call__(self, *values: Value) -> Value:
        return conformed(self.name, self.returns, called(self.name, self.call, *values), values)


@dataclass(frozen=True)
class AggregateFunction:
    """An aggregate by PIPES' three functions (section 7.5.2), and perhaps a fourth.

    `init(element)` makes the partial aggregate of one row, `merge(partial, element)` adds a row to one, `evaluate(partial)` gives
    the answer. The element is the call's arguments, one after the other: `f(a, b)` calls `init(a, b)` and
    `merge(partial, a, b)`. Rows are merged in ascending order of their arguments (NULLs first), so that the answer is determined
    whatever merge does. Rows whose arguments are NULL are passed too: the function decides what NULL means.

    `combine(partial, partial)` joins the partial aggregates of two parts, of which the first holds the lesser rows, and changes
    neither: `combine(p, init(e)) = merge(p, e)`, and it is associative. With it a change costs a logarithm of the rows, without
    it all of them.
    """

    name: str
    init: Callable[..., Value]
    merge: Callable[..., Value]
    evaluate: Callable[[Value], Value]
    returns: Type
    arity: int | None = None
    combine: Callable[[Value, Value], Value] | None = None

    def folded(self, rows: Iterable[tuple[Row, int]]) -> Value:
        """The partial aggregate of rows in their order, each so many times; there is at least one."""
        partial: Value = None
        fresh = True
        for row, times in rows:
            for _ in range(times):
                if fresh:
                    partial, fresh = called(f"{self.name}.init", self.init, *row), False
                else:
                    partial = called(f"{self.name}.merge", self.merge, partial, *row)
        return partial

    def combined(self, left: Value, right: Value) -> Value:
        assert self.combine is not None
        return called(f"{self.name}.combine", self.combine, left, right)

    def evaluated(self, partial: Value) -> Value:
        name = f"{self.name}.evaluate"
        return conformed(name, self.returns, called(name, self.evaluate, partial), (partial,))


def called(name: str, function: Callable[..., Value], *values: Value) -> Value:
    """What a user's function gives. What it raises is its failure, and so is that it wants to end the process."""
    try:
        return function(*values)
    except Diagnostic:
        raise
    except (Exception, SystemExit) as problem:
        raise Diagnostic(
            "USER_FUNCTION_FAILED",
            f"{name}{shown(values)} raised {type(problem).__name__}: {' '.join(str(problem).split())}",
            help="it is called with every row's values, NULLs (None) included",
        ) from problem


def shown(values: Iterable[Value]) -> str:
    """Arguments for a message, on one line and of bounded length.

    >>> shown((1, "two", None))
    "(1, 'two', None)"
    """
    text = ", ".join(repr(v) for v in values)
    return f"({text})" if len(text) <= 200 else f"({text[:199]}…)"


# values ------------------------------------------------------------------------------------------------------------


def conformed(name: str, type_: Type, value: Value, values: Row) -> Value:
    """A user function's result in the form that columns of its declared type hold; another value is an error.

    >>> conformed("f", Type("DOUBLE"), 3, ())
    3.0
    >>> conformed("f", Type("INT"), 1.5, (7,))
    Traceback (most recent call last):
    tidegate.errors.Diagnostic: error[USER_FUNCTION_RESULT]: f(7) returned 1.5, which is no INT
    help: it was registered as returning INT: return such a value, or register it with the type that it returns
    """
    try:
        return _conform(value, type_)
    except (ValueError, TypeError, OverflowError, InvalidOperation):
        raise Diagnostic(
            "USER_FUNCTION_RESULT",
            f"{name}{shown(values)} returned {shown((value,))[1:-1]}, which is no {type_}",
            help=f"it was registered as returning {type_}: return such a value, or register it with the type that it returns",
        ) from None


def _conform(value: Value, type_: Type) -> Value:
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()
    if value is None:
        return None
    check = _CHECKS.get(type_.name)
    if check is None:
        raise ValueError
    return check(value, type_)


def _kind(*kinds: type) -> Callable[[Value, Type], Value]:
    def check(value: Value, type_: Type) -> Value:
        if type(value) not in kinds:
            raise ValueError
        return value

    return check


def _whole(value: Value, type_: Type) -> Value:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError
    limit = 1 << {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}[type_.name]
    if not -limit <= value < limit:
        raise OverflowError
    return int(value)


def _real(value: Value, type_: Type) -> Value:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError
    real = float(value)
    if type_.name == "FLOAT" and math.isfinite(real):
        (real,) = struct.unpack("<f", struct.pack("<f", real))
    return normalize(real)


def _decimal(value: Value, type_: Type) -> Value:
    if not isinstance(value, int | Decimal) or isinstance(value, bool):
        raise ValueError
    precision, scale = type_.params
    wide = Context(prec=2 * precision + 40)
    fitting = Decimal(value).quantize(Decimal(1).scaleb(-scale), context=wide)
    if fitting != value or abs(fitting) >= Decimal(10) ** (precision - scale):
        raise ValueError
    return fitting


def _text(value: Value, type_: Type) -> Value:
    if not isinstance(value, str):
        raise ValueError
    value.encode()  # a lone surrogate is no character of a STRING
    return str(value)


def _binary(value: Value, type_: Type) -> Value:
    if not isinstance(value, bytes | bytearray):
        raise ValueError
    return bytes(value)


def _instant(value: Value, type_: Type) -> Value:
    """A TIMESTAMP is an instant (without a zone: in UTC), a TIMESTAMP_NTZ has no zone."""
    if not isinstance(value, datetime) or (type_.name == "TIMESTAMP_NTZ" and value.tzinfo is not None):
        raise ValueError
    if type_.name == "TIMESTAMP_NTZ":
        return value
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _members(value: Value, type_: Type) -> Value:
    if not isinstance(value, list | tuple):
        raise ValueError
    return tuple(_conform(v, type_.params[0]) for v in value)


def _fields(value: Value, type_: Type) -> Value:
    names = [name for name, _ in type_.params]
    if isinstance(value, dict) and set(value) == set(names):
        value = tuple(value[name] for name in names)
    if not isinstance(value, list | tuple) or len(value) != len(names):
        raise ValueError
    return tuple(_conform(v, t) for v, (_, t) in zip(value, type_.params, strict=True))


def _entries(value: Value, type_: Type) -> Value:
    key, item = type_.params
    pairs = dict(value).items() if isinstance(value, dict | list | tuple) else None
    if pairs is None or any(k is None for k, _ in pairs):
        raise ValueError
    return tuple((_conform(k, key), _conform(v, item)) for k, v in pairs)


_CHECKS: Mapping[str, Callable[[Value, Type], Value]] = {
    "BOOLEAN": _kind(bool),
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), _whole),
    **dict.fromkeys(("FLOAT", "DOUBLE"), _real),
    "DECIMAL": _decimal,
    "STRING": _text,
    "BINARY": _binary,
    "DATE": _kind(date),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_NTZ"), _instant),
    "INTERVAL": _kind(timedelta),
    "ARRAY": _members,
    "STRUCT": _fields,
    "MAP": _entries,
}


# identity ----------------------------------------------------------------------------------------------------------


def code_identity(function: Any) -> str:
    """What a function does, as a text that another body, constant, default or captured value changes.

    Where it stands (file, line, its own name) does not count. Captured values count where they are plain data or functions, and so do
    plain data and functions of the same module that the body names globally; other objects count by their type only.

    >>> code_identity(lambda x: x + 1) == code_identity(lambda x: x + 1)
    True
    >>> code_identity(lambda x: x + 1) == code_identity(lambda x: x + 2)
    False
    """
    return hashlib.sha256(repr(_described(function, ())).encode()).hexdigest()[:32]


def _described(value: Any, above: tuple[int, ...]) -> Any:
    """A value as nested tuples of texts; what stands above itself is a place to return to."""
    if id(value) in above:
        return ("again", len(above) - above.index(id(value)))
    above = (*above, id(value))
    if isinstance(value, CodeType):
        return _code(value, above)
    if isinstance(value, ScalarFunction | AggregateFunction):
        parts = vars(value)
        return (type(value).__name__, *((k, _described(parts[k], above)) for k in sorted(parts)))
    if value is None or isinstance(
        value, bool | int | float | complex | str | bytes | Decimal | date | timedelta | Type
    ):
        return (type(value).__name__, repr(value))
    if isinstance(value, list | tuple):
        return (type(value).__name__, *(_described(v, above) for v in value))
    if isinstance(value, set | frozenset):
        return (type(value).__name__, *sorted(repr(_described(v, above)) for v in value))
    if isinstance(value, dict):
        return ("dict", *sorted(repr((_described(k, above), _described(v, above))) for k, v in value.items()))
    return _callable(value, above)


_KIND = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR | inspect.CO_COROUTINE
"""The flags of a body that do not depend on what is around it."""


def _code(code: CodeType, above: tuple[int, ...]) -> Any:
    constants = tuple(_described(c, above) for c in code.co_consts)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & _KIND)
    return ("code", code.co_code.hex(), constants, names, counts)


def _callable(value: Any, above: tuple[int, ...]) -> Any:
    code = getattr(value, "__code__", None)
    if isinstance(code, CodeType):
        cells = getattr(value, "__closure__", None) or ()
        captured = tuple(_described(_content(c), above) for c in cells)
        defaults = (_described(value.__defaults__, above), _described(value.__kwdefaults__, above))
        bound = _described(getattr(value, "__self__", None), above)
        return ("function", _code(code, above), captured, defaults, _globals(value, code, above), bound)
    if hasattr(value, "func") and hasattr(value, "keywords"):
        return ("partial", *(_described(v, above) for v in (value.func, value.args, value.keywords)))
    kind = value if isinstance(value, type) else type(value)
    call = None if isinstance(value, type) else vars(kind).get("__call__")
    own = (
        None
        if call is None
        else (_described(call, above), _described(getattr(value, "__dict__", None), above))
    )
    return ("object", kind.__module__, kind.__qualname__, getattr(value, "__name__", None), own)


def _globals(function: Any, code: CodeType, above: tuple[int, ...]) -> Any:
    """What the body names globally, as far as it is plain data or a function of the same module."""
    space = getattr(function, "__globals__", {})
    named = [n for n in _global_names(code) if n in space]
    plain = (bool, int, float, str, bytes, Decimal, tuple, frozenset, date, timedelta)
    seen = [
        n
        for n in named
        if isinstance(space[n], plain)
        or (hasattr(space[n], "__code__") and space[n].__module__ == function.__module__)
    ]
    return tuple((n, _described(space[n], above)) for n in seen)


def _global_names(code: CodeType) -> list[str]:
    inner = [n for c in code.co_consts if isinstance(c, CodeType) for n in _global_names(c)]
    return sorted({*code.co_names, *inner})


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None
