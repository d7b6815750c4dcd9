"""Rows that come by HTTP: JSON lines or a JSON array, read by the declared types. What is no row of the stream goes to its quarantine with the reason."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from tidegate.errors import Diagnostic
from tidegate.language.catalog import StreamDefinition
from tidegate.session import Session
from tidegate.spark.values import infer_columns
from tidegate.types import Type

Refused = list[tuple[str, str]]


def pushed(session: Session, name: str, body: bytes) -> dict[str, int]:
    """Hand rows to a stream: how many were accepted and refused. They are on the disk when this returns."""
    definition = session.catalog.find(name)
    if not isinstance(definition, StreamDefinition) or definition.table:
        raise Diagnostic("UNKNOWN_STREAM", f"there is no stream '{name}'")
    if definition.source.function != "memory":
        raise Diagnostic(
            "NOT_MEMORY",
            f"'{definition.name}' reads from {definition.source.function}; rows cannot be handed in",
            help=f"CREATE STREAM …(…) SOURCE memory('{definition.name}') …",
        )
    rows, refused = split(definition, body)
    if rows:
        session.running.push(definition.name, rows)
    if refused:
        session.running.refuse(definition.name, refused)
    return {"accepted": len(rows), "refused": len(refused)}


def split(definition: StreamDefinition, body: bytes) -> tuple[list[dict[str, Any]], Refused]:
    """The rows of a body, and what is none with the reason."""
    rows: list[dict[str, Any]] = []
    refused: Refused = []
    readers = {c.name: _reader(c.type) for c in definition.columns}
    for raw, item in _items(body):
        try:
            rows.append(_row(item, readers))
        except (ValueError, TypeError, ArithmeticError, KeyError, OverflowError) as problem:
            refused.append(
                (
                    json.dumps(item) if raw is None else raw,
                    str(problem.args[0]) if problem.args else type(problem).__name__,
                )
            )
    try:
        infer_columns(rows, definition.columns)
    except Diagnostic:
        return _one_by_one(definition, rows, refused)
    return rows, refused


def _one_by_one(
    definition: StreamDefinition, rows: list[dict[str, Any]], refused: Refused
) -> tuple[list[dict[str, Any]], Refused]:
    kept = []
    for row in rows:
        try:
            infer_columns([row], definition.columns)
            kept.append(row)
        except Diagnostic as problem:
            refused.append((json.dumps(row, default=str), problem.message))
    return kept, refused


class _Unreadable:
    """What is no JSON."""


def _items(body: bytes) -> list[tuple[str | None, Any]]:
    """What was sent, item by item, each with its text where that is no other than the item's."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise Diagnostic("WRONG_ARGUMENTS", "rows are sent as UTF-8 text") from None
    if text.lstrip().startswith("["):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            raise Diagnostic(
                "WRONG_ARGUMENTS",
                "this is no JSON array",
                help="send [{…}, {…}], or one object on each line",
            ) from None
        return [(None, item) for item in found]
    lines = [line for line in text.splitlines() if line.strip()]
    return [(line, _parsed(line)) for line in lines]


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return _Unreadable()


def _row(item: Any, readers: dict[str, Callable[[Any], Any]]) -> dict[str, Any]:
    if isinstance(item, _Unreadable):
        raise ValueError("this is no JSON object")
    if not isinstance(item, dict):
        raise ValueError(f"a row is an object, not {type(item).__name__}")
    if unknown := [n for n in item if n not in readers]:
        raise ValueError(f"there is no column '{unknown[0]}'")
    found = {}
    for name, reader in readers.items():
        try:
            value = item.get(name)
            found[name] = None if value is None else reader(value)
        except (ValueError, TypeError, ArithmeticError, KeyError, OverflowError):
            raise ValueError(f"column '{name}' cannot be {json.dumps(item[name])[:80]}") from None
    return found


def _reader(type_: Type) -> Callable[[Any], Any]:
    """How JSON's values become a type's; what does not fit is left for the check of types."""
    if type_.name in ("TIMESTAMP", "TIMESTAMP_NTZ"):
        return _moment if type_.name == "TIMESTAMP" else lambda v: datetime.fromisoformat(_text(v))
    if type_.name == "DATE":
        return lambda v: date.fromisoformat(_text(v))
    if type_.name == "DECIMAL":
        return lambda v: Decimal(str(v))
    if type_.name == "BINARY":
        return lambda v: base64.b64decode(_text(v), validate=True)
    if type_.name == "STRING":
        return _text
    if type_.name == "BOOLEAN":
        return _boolean
    if type_.name in ("DOUBLE", "FLOAT"):
        return _real
    if type_.is_integral:
        return _whole
    if type_.name == "ARRAY":
        inner = _reader(type_.params[0])
        return lambda v: [None if x is None else inner(x) for x in _list(v)]
    return lambda v: v


def _moment(value: Any) -> datetime:
    found = datetime.fromisoformat(_text(value))
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("no text")
    value.encode("utf-8")  # half of a pair of surrogates is none
    return value


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("neither true nor false")
    return value


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise ValueError("no whole number")
    return int(value)


def _real(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("no number")
    return float(value)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("no array")
    return value
