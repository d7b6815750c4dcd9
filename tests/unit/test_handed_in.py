"""Rows that a program hands in: as they are, or refused with what is wrong. Nothing is cut off, left out or guessed."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tidegate.connectors.functions import rows_of
from tidegate.connectors.raw import REASON
from tidegate.errors import Diagnostic
from tidegate.language.catalog import SourceCall, StreamDefinition
from tidegate.session import connect
from tidegate.spark.values import infer_columns
from tidegate.types import BIGINT, DATE, INT, Field, Type, array

NESTED = Type("STRUCT", (("p", INT), ("q", array(INT))))
CUT = [
    (1.5, INT),
    (Decimal("1.5"), INT),
    ([1, 1.5], array(INT)),
    ({"p": 1, "q": [1.5]}, NESTED),
    ((1, [1.5]), NESTED),
    ({"k": 1.5}, Type("MAP", (INT, INT))),
    (datetime(2024, 1, 1, 5), DATE),
]
WHOLE = [(2.0, INT, 2), ([2.0], array(INT), [2]), (datetime(2024, 1, 1), DATE, datetime(2024, 1, 1).date())]


@pytest.mark.parametrize(("value", "type_"), CUT)
def test_what_would_be_cut_off_is_refused(value: Any, type_: Type) -> None:
    columns = (Field("a", type_), Field("t", BIGINT))
    with pytest.raises(Diagnostic, match=r"TYPE_MISMATCH.*'a'"):
        infer_columns([{"a": value, "t": 1}], columns)
    stream = StreamDefinition("S", columns, SourceCall("f"), "t")
    (reason,) = rows_of(stream, [(value, 1)])[REASON].to_pylist()
    assert reason.startswith("column 'a' is no ")


@pytest.mark.parametrize(("value", "type_", "kept"), WHOLE)
def test_what_fits_is_used(value: Any, type_: Type, kept: Any) -> None:
    _, table = infer_columns([{"a": value}], (Field("a", type_),))
    assert table["a"].to_pylist() == [kept]


@pytest.mark.parametrize(
    ("rows", "condition"),
    [
        ([(1,)], "COLUMN_COUNT"),
        ([(1, 2, 3)], "COLUMN_COUNT"),
        ([7], "COLUMN_COUNT"),
        ([None], "COLUMN_COUNT"),
        ([{"aa": 1, "t": 1}], "COLUMN_MISSING"),
        ([{"a": "\ud800", "t": 1}], "TYPE_MISMATCH"),
    ],
)
def test_what_is_no_row_is_told(rows: list[Any], condition: str) -> None:
    with pytest.raises(Diagnostic) as caught:
        connect().stream("S", rows, ordered_by="t", schema="a STRING, t BIGINT")
    assert caught.value.condition == condition


def test_a_dict_may_leave_a_column_out() -> None:
    _, table = infer_columns([{"t": 1}], (Field("a", INT), Field("t", BIGINT)))
    assert table.to_pylist() == [{"a": None, "t": 1}]


@pytest.mark.parametrize(
    "rows",
    [[{"a": 1, "A": 2, "t": 1}], pa.table([pa.array([1])] * 3, names=["a", "a", "t"]), [{1: 2, "t": 3}]],
)
def test_columns_have_names_of_their_own(rows: Any) -> None:
    with pytest.raises(Diagnostic, match=r"DUPLICATE_COLUMN|COLUMNS_UNNAMED"):
        connect().stream("S", rows, ordered_by="t")


def test_what_holds_no_rows_is_told() -> None:
    with pytest.raises(Diagnostic, match="NOT_ROWS"):
        connect().stream("S", 5, ordered_by="t")


def test_a_type_that_is_none_is_told() -> None:
    with pytest.raises(Diagnostic, match=r"TYPE_MISMATCH.*FOO"):
        connect().function("f", abs, "FOO")


def test_rows_that_nobody_would_take_are_not_taken() -> None:
    session = connect()
    session.stream("S", [{"a": 1, "t": 1}], ordered_by="t")
    with pytest.raises(Diagnostic, match="NOT_READ"):
        session.push("S", [{"a": 2, "t": 2}])
    with pytest.raises(Diagnostic, match="NOT_READ"):
        session.advance("S", 5)
