"""Debezium's envelope, event by event."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from tidegate.connectors.debezium import UnreadableEventError, decimal_of, decode, decode_lines
from tidegate.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, Field, decimal

COLUMNS = (Field("id", INT), Field("name", STRING), Field("op", STRING), Field("ts_ms", BIGINT))


def event(op, before=None, after=None, **more):
    return json.dumps({"before": before, "after": after, "op": op, "ts_ms": 17, **more})


@pytest.mark.parametrize(
    ("text", "row"),
    [
        (event("c", after={"id": 1, "name": "x"}), {"id": 1, "name": "x", "op": "c", "ts_ms": 17}),
        (event("u", {"id": 1, "name": "x"}, {"id": 1, "name": "y"}), {"id": 1, "name": "y", "op": "u", "ts_ms": 17}),
        (event("d", before={"id": 1}), {"id": 1, "name": None, "op": "d", "ts_ms": 17}),
        (json.dumps({"schema": {}, "payload": json.loads(event("r", after={"id": 2, "name": "z"}))}),
         {"id": 2, "name": "z", "op": "r", "ts_ms": 17}),
        ("null", None),
        ('{"schema": null, "payload": null}', None),
    ],
)  # fmt: skip
def test_an_event_is_a_row(text, row):
    assert decode(text, COLUMNS) == row


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "no JSON"),
        ("[]", "not Debezium's envelope"),
        ('{"id": 1}', "not Debezium's envelope"),
        (event("t"), "changes no single row"),
        (event("u", before={"id": 1}), "without 'after'"),
        (event("d"), "REPLICA IDENTITY"),
        (event("c", after={"id": "one"}), "column 'id'"),
        (event("c", after={"id": 1.5}), "column 'id'"),
        (event("c", after={"id": 1, "name": 7}), "column 'name'"),
        # written out, it would keep a worker busy for longer than anybody waits
        ('{"op": "c", "ts_ms": 17, "after": {"id": 1e20000}}', r"column 'id' is no INT: 1E\+20000"),
    ],
)
def test_an_event_that_gives_no_row_says_why(text, words):
    with pytest.raises(UnreadableEventError, match=words):
        decode(text, COLUMNS)
    (rejected,) = decode_lines(["", text], COLUMNS).rejected
    assert rejected.line == 2
    assert rejected.text == text


def test_values_by_declared_and_logical_type():
    after = {"price": "19.90", "ratio": 2, "ok": True, "day": 19783, "at": 1709251200000000, "op": "own"}
    schema = {
        "fields": [{"field": "after", "fields": [{"field": "at", "name": "io.debezium.time.MicroTimestamp"}]}]
    }
    text = json.dumps(
        {"schema": schema, "payload": json.loads(event("c", after=after, source={"ts_ms": 1709251201500}))}
    )
    columns = (
        Field("price", decimal(10, 2)), Field("ratio", DOUBLE), Field("ok", BOOLEAN), Field("day", DATE),
        Field("at", TIMESTAMP), Field("op", STRING), Field("__op", STRING), Field("__source_ts_ms", TIMESTAMP),
        Field("ts_ms", TIMESTAMP),
    )  # fmt: skip
    assert decode(text, columns) == {
        "price": Decimal("19.90"), "ratio": 2.0, "ok": True, "day": date(2024, 3, 1),
        "at": datetime(2024, 3, 1, tzinfo=UTC), "op": "own", "__op": "c",
        "__source_ts_ms": datetime(2024, 3, 1, 0, 0, 1, 500000, tzinfo=UTC),
        "ts_ms": datetime(1970, 1, 1, 0, 0, 0, 17000, tzinfo=UTC),
    }  # fmt: skip


@pytest.mark.parametrize(
    "text", ["1234567890123456789012345678901234.56", "0.00", "-7e2", " 1.5 ", ".5", "5."]
)
def test_a_wide_decimal_is_what_was_written(text):
    assert decimal_of(text, 38, 2) == Decimal(text.strip())


@pytest.mark.parametrize(
    "text",
    [
        "NaN",
        "Infinity",
        "1_0",
        "٣",
        "",
        ".",
        "1e",
        "1 2",
        "1e99999999999999999999",
        "1e-999999999",
        "0x1",
        "1,5",
    ],
)
def test_what_is_no_decimal_is_refused(text):
    with pytest.raises((ValueError, ArithmeticError)):
        decimal_of(text, 38, 2)
