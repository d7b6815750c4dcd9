"""Change-data-capture rows: Debezium's JSON envelope as rows of a source with an operation column.

An event is `{"before": {…}, "after": {…}, "op": "c|r|u|d", "ts_ms": …}`, possibly inside `{"schema": …, "payload": …}`. Declared
columns are taken from `after`, of a deletion from `before`; `op`, `ts_ms`, `ts_us` and `ts_ns` come from the envelope unless the
table has columns of that name, `__op`, `__ts_ms`, `__ts_us` and `__ts_ns` always do, and `__source_ts_ms` is the
time of the change in the database. So

    REGISTER SOURCE Log(id INT, name STRING, op STRING, ts_ms BIGINT)
      FROM json('customers.json') ORDERED BY ts_ms WITH (format = 'debezium');
    CREATE STREAM Customers OVER Log KEY id OPERATION op;

has the table's rows as they were at every instant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from tidegate.time import to_datetime
from tidegate.types import Schema, Type, Value

_ENVELOPE = ("op", "ts_ms", "ts_us", "ts_ns")
_OPERATIONS = ("c", "r", "u", "d")
_MICROSECONDS = {"ts_ms": 1_000, "ts_us": 1, "__ts_ms": 1_000, "__ts_us": 1, "__source_ts_ms": 1_000}
_UNITS = {"MicroTimestamp": 1.0, "NanoTimestamp": 0.001, "Timestamp": 1_000.0}
"""Microseconds in one unit of Debezium's and Kafka Connect's timestamp types, by the last part of their names."""

DECIMAL_TEXT = r"[ \t]*[+-]?(?:[0-9]+[.]?[0-9]*|[.][0-9]+)(?:[eE]([+-]?[0-9]+))?[ \t]*"
"""How a decimal is written."""
DECIMAL_PLACES = r"[.]([0-9]*?)0*(?:[eE].*|[ \t]*)$"
"""The digits after its point, without the last zeros."""
_LONGEST = 19
"""No integer has more digits."""
_WRITTEN, _PLACES = re.compile(DECIMAL_TEXT), re.compile(DECIMAL_PLACES)


class UnreadableEventError(Exception):
    """Why an event gives no row."""


@dataclass(frozen=True)
class Rejected:
    """A line for the source's quarantine: its number (from 1), the reason, and its text."""

    line: int
    reason: str
    text: str


@dataclass(frozen=True)
class Decoded:
    rows: list[dict[str, Value]]
    rejected: list[Rejected]


def decode_lines(lines: Iterable[str], columns: Schema) -> Decoded:
    """The rows of a log with one event per line; tombstones and empty lines are no rows.

    >>> from tidegate.types import BIGINT, INT, STRING, Field
    >>> columns = (Field("id", INT), Field("op", STRING), Field("ts_ms", BIGINT))
    >>> log = ['{"before": null, "after": {"id": 7}, "op": "c", "ts_ms": 5}', "null", '{"op": "t", "ts_ms": 6}']
    >>> decoded = decode_lines(log, columns)
    >>> decoded.rows, decoded.rejected[0].reason
    ([{'id': 7, 'op': 'c', 'ts_ms': 5}], "operation 't' changes no single row")
    """
    rows: list[dict[str, Value]] = []
    rejected: list[Rejected] = []
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            row = decode(text, columns)
        except UnreadableEventError as reason:
            rejected.append(Rejected(number, str(reason), text.rstrip("\n")))
        else:
            if row is not None:
                rows.append(row)
    return Decoded(rows, rejected)


def decode(text: str | bytes, columns: Schema) -> dict[str, Value] | None:
    """The row of one event by column name; None for a tombstone."""
    try:
        event = json.loads(text, parse_float=Decimal)
    except ValueError as problem:
        raise UnreadableEventError(f"this is no JSON: {problem}") from None
    logical: dict[str, str] = {}
    if isinstance(event, dict) and "payload" in event and "op" not in event:
        logical = _logical_types(event.get("schema"))
        event = event["payload"]
    if event is None:
        return None
    if not isinstance(event, dict) or "op" not in event:
        raise UnreadableEventError("there is no operation: this is not Debezium's envelope")
    op = event["op"]
    if op not in _OPERATIONS:
        raise UnreadableEventError(f"operation {op!r} changes no single row")
    side = "before" if op == "d" else "after"
    image = event.get(side)
    if not isinstance(image, dict):
        hint = "; a deletion needs the key's old values (REPLICA IDENTITY)" if op == "d" else ""
        raise UnreadableEventError(f"operation {op!r} without {side!r}{hint}")
    return {c.name: _cell(c.name, c.type, image, event, logical) for c in columns}


def _cell(
    name: str, type_: Type, image: Mapping[str, Any], event: Mapping[str, Any], logical: Mapping[str, str]
) -> Value:
    unit = _UNITS.get(logical.get(name, "Timestamp"), 1_000.0)
    if name.startswith("__"):
        outer = event.get("source") or {} if name == "__source_ts_ms" else event
        value = outer.get(name.removeprefix("__source_").removeprefix("__"))
        unit = _MICROSECONDS.get(name, 1_000)
    elif name in image:
        value = image[name]
    elif name in _ENVELOPE:
        value, unit = event.get(name), _MICROSECONDS.get(name, 0.001)
    else:
        value = None  # Debezium leaves out what the database did not log
    if value is None:
        return None
    try:
        return _value(value, type_, unit)
    except (ValueError, TypeError, ArithmeticError, InvalidOperation):
        raise UnreadableEventError(f"column {name!r} is no {type_}: {shown(value)}") from None


def _value(value: Any, type_: Type, unit: float) -> Value:
    if type_.is_integral:
        # Nobody has to write out a number that is beyond every integer.
        beyond = isinstance(value, Decimal) and value.is_finite() and value.adjusted() >= _LONGEST
        if isinstance(value, bool) or beyond or int(value) != value:
            raise ValueError
        return int(value)
    if type_.name in ("FLOAT", "DOUBLE"):
        return float(value)
    if type_.name == "DECIMAL":
        return decimal_of(str(value), *type_.params)
    if type_.name == "BOOLEAN":
        if value not in (True, False):
            raise ValueError
        return bool(value)
    if type_.name == "DATE":
        return (
            date(1970, 1, 1) + timedelta(days=value) if isinstance(value, int) else date.fromisoformat(value)
        )
    if type_.name in ("TIMESTAMP", "TIMESTAMP_NTZ"):
        moment = to_datetime(round(value * unit)) if isinstance(value, int) else datetime.fromisoformat(value)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        return moment if type_.name == "TIMESTAMP" else moment.replace(tzinfo=None)
    if type_.name != "STRING" or not isinstance(value, str):
        raise ValueError
    return value


def decimal_of(text: str, precision: int, scale: int) -> Decimal:
    """The DECIMAL(precision, scale) that a text stands for, in whatever format: exactly that number, or none.

    >>> decimal_of("1.250", 5, 2), decimal_of("12e1", 5, 2)
    (Decimal('1.25'), Decimal('120.00'))
    """
    found = _WRITTEN.fullmatch(text)
    if found is None:
        raise ValueError
    places = _PLACES.search(text)
    after = 0 if places is None else len(places[1])
    exact = Decimal(text.strip())
    if after - int(found[1] or 0) > 38 - precision + scale or (
        exact and exact.adjusted() >= precision - scale
    ):
        raise ValueError
    made = exact.quantize(Decimal(1).scaleb(-scale), context=Context(prec=80))
    if made != exact:
        raise ValueError
    return made


def shown(value: Any) -> str:
    """A value in a reason: as it is written, if it is a text or a number."""
    text = value if isinstance(value, (str, Decimal)) else json.dumps(value, default=str)
    return str(text).encode("utf-8", "backslashreplace").decode()


def _logical_types(schema: Any) -> dict[str, str]:
    """Column -> the last part of its logical type's name, from the schema of the envelope."""
    found: dict[str, str] = {}
    for part in schema.get("fields", []) if isinstance(schema, dict) else []:
        if part.get("field") in ("before", "after"):
            for column in part.get("fields") or []:
                if column.get("name"):
                    found[column["field"]] = column["name"].rsplit(".", 1)[-1]
    return found
