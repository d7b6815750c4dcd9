"""Answers, diagnostics and instants as they travel: JSON for everybody, Arrow inside it for those who want the types."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Any, Literal

import pyarrow as pa

from tidegate.errors import Diagnostic, Kind
from tidegate.runtime.results import Result
from tidegate.runtime.running import LiveQuery
from tidegate.runtime.verification import Verification
from tidegate.runtime.waiting import WaitingQuery
from tidegate.terminal.answers import Rows, plain, rows_of

Format = Literal["json", "arrow"]

_STATUS = {
    "UNKNOWN_QUERY": 404,
    "UNKNOWN_STREAM": 404,
    "NAME_EXISTS": 409,
    "NOT_ALLOWED": 403,
    "FUNCTION_NOT_ALLOWED": 403,
    "ROLE_NEEDED": 403,
    "TOKEN_NEEDED": 401,
    "TOO_MANY_STREAMS": 429,
}


def status_of(diagnostic: Diagnostic) -> int:
    """HTTP's word for it."""
    return _STATUS.get(diagnostic.condition, 500 if diagnostic.kind is Kind.INTERNAL else 400)


def told(diagnostic: Diagnostic) -> dict[str, Any]:
    """A diagnostic: what a program asks for, and the text with its caret for people."""
    where = diagnostic.position
    return {
        "condition": diagnostic.condition,
        "kind": diagnostic.kind.value,
        "message": diagnostic.message,
        "help": diagnostic.help,
        "line": None if where is None else where.line,
        "column": None if where is None else where.column,
        "start": None if where is None else where.start,
        "end": None if where is None else where.end,
        "text": str(diagnostic),
    }


def table(rows: pa.Table, form: Format, more: bool = False) -> dict[str, Any]:
    """Rows with their columns; `more`: there are others behind them."""
    if form == "arrow":
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        return {
            "kind": "rows",
            "arrow": base64.b64encode(sink.getvalue().to_pybytes()).decode(),
            "more": more,
        }
    columns = [{"name": f.name, "type": str(f.type)} for f in rows.schema]
    values = [c.to_pylist() for c in rows.columns]
    listed = (
        [[plain(v) for v in row] for row in zip(*values, strict=True)] if values else [[]] * rows.num_rows
    )
    return {"kind": "rows", "columns": columns, "rows": listed, "more": more}


def answer(result: Any, form: Format, limit: int) -> dict[str, Any]:
    """What a statement gave."""
    if result is None:
        return {"kind": "done"}
    if isinstance(result, LiveQuery | WaitingQuery):
        return {"kind": "query", "name": result.name}
    if isinstance(result, Verification):
        return {"kind": "verification", "text": str(result), "holds": bool(result)}
    if isinstance(result, str):
        return {"kind": "text", "text": result}
    if isinstance(result, list):
        found = rows_of(result)
        return table(_as_texts(found), form)
    if isinstance(result, Result):
        found = rows_of(result, limit)
        return table(_as_texts(found), form, found.more)
    if not isinstance(result, pa.Table):
        result = result.limit(limit + 1).toArrow()
    return table(result.slice(0, limit), form, result.num_rows > limit)


def _as_texts(found: Rows) -> pa.Table:
    columns = [pa.array([row[i] for row in found.values]) for i in range(len(found.columns))]
    return pa.table(columns, names=list(found.columns))


def instant(said: str | None) -> int | str | None:
    """An instant as it stands in an address: a whole number, or a moment."""
    if said is None:
        return None
    text = said.strip()
    if text.lstrip("-").isdecimal() and text.isascii():
        return int(text)
    try:
        datetime.fromisoformat(text)
    except ValueError:
        raise Diagnostic(
            "WRONG_ARGUMENTS", f"'{text}' is no instant", help="a whole number, or as 2026-01-01 12:00:00"
        ) from None
    return text
