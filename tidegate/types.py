"""Types and schemas: Spark SQL's types, as values that can be compared and hashed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

Value = Any
"""A payload value: None, bool, int, float, Decimal, str, bytes, date, datetime, timedelta, or a tuple
(ARRAY and STRUCT hold their members, MAP holds (key, value) pairs in order of arrival)."""

Row = tuple[Value, ...]


@dataclass(frozen=True)
class Type:
    """A Spark SQL type.

    `params` holds (precision, scale) for DECIMAL, (element,) for ARRAY, (key, value) for MAP and
    ((name, type), …) for STRUCT.

    >>> str(Type("ARRAY", (Type("DECIMAL", (10, 2)),)))
    'ARRAY<DECIMAL(10,2)>'
    """

    name: str
    params: tuple[Any, ...] = ()

    def __str__(self) -> str:
        if self.name == "DECIMAL":
            return f"DECIMAL({self.params[0]},{self.params[1]})"
        if self.name == "STRUCT":
            return "STRUCT<" + ", ".join(f"{n}: {t}" for n, t in self.params) + ">"
        if self.params:
            return f"{self.name}<{', '.join(map(str, self.params))}>"
        return self.name

    @property
    def is_integral(self) -> bool:
        return self.name in INTEGRAL

    @property
    def is_numeric(self) -> bool:
        return self.name in NUMERIC

    @property
    def is_orderable(self) -> bool:
        if self.name in ("ARRAY", "STRUCT"):
            members = self.params if self.name == "ARRAY" else [t for _, t in self.params]
            return all(t.is_orderable for t in members)
        return self.name not in ("MAP", "INTERVAL")


INTEGRAL = ("TINYINT", "SMALLINT", "INT", "BIGINT")
NUMERIC = (*INTEGRAL, "FLOAT", "DOUBLE", "DECIMAL")

VOID = Type("VOID")
BOOLEAN = Type("BOOLEAN")
TINYINT = Type("TINYINT")
SMALLINT = Type("SMALLINT")
INT = Type("INT")
BIGINT = Type("BIGINT")
FLOAT = Type("FLOAT")
DOUBLE = Type("DOUBLE")
STRING = Type("STRING")
BINARY = Type("BINARY")
DATE = Type("DATE")
TIMESTAMP = Type("TIMESTAMP")
TIMESTAMP_NTZ = Type("TIMESTAMP_NTZ")
INTERVAL = Type("INTERVAL")
"""A day-time interval (a Python timedelta)."""


def decimal(precision: int, scale: int) -> Type:
    return Type("DECIMAL", (precision, scale))


def array(element: Type) -> Type:
    return Type("ARRAY", (element,))


@dataclass(frozen=True)
class Field:
    """A column of a stream. A hidden one can be named but is not part of `*`."""

    name: str
    type: Type
    nullable: bool = True
    hidden: bool = False


Schema = tuple[Field, ...]

NAN = float("nan")
"""The only NaN in payloads: one object, so that NaN = NaN as Spark groups and joins it."""


def normalize(value: Value) -> Value:
    """The one representative of a value: NaN is `NAN`, -0.0 is 0.0, members are tuples."""
    if isinstance(value, float):
        return NAN if math.isnan(value) else value + 0.0
    if isinstance(value, (list, tuple)):
        return tuple(normalize(v) for v in value)
    if isinstance(value, dict):
        return tuple((normalize(k), normalize(v)) for k, v in value.items())
    return value
