"""SET: options of the session, checked before they hold."""

from __future__ import annotations

import pytest

from tidegate.errors import Diagnostic
from tidegate.language.dialect import parse
from tidegate.optimizer.quality_choice import Budget
from tidegate.runtime.snapshots import Ordering
from tidegate.session import connect


def test_options_hold_for_the_session() -> None:
    session = connect()
    session.sql("SET epoch = 0.25; SET retention = '2 seconds'")
    assert (session.epoch, session.retention) == (0.25, 2_000_000)
    session.sql("SET retention = 40; SET epochs = 'driver'")
    assert (session.retention, session.epochs) == (40, "driver")
    session.sql("SET memory = '1.5 GB'; SET work = 0.7; SET admission = 'wait'")
    assert session.resources.budget == Budget(1.5e9, 0.7) == connect(memory=1.5e9, work=0.7).resources.budget
    assert session.resources.admission == "wait"
    session.sql("SET memory = 'unlimited'")
    assert session.resources.budget == Budget(None, 0.7)
    assert connect().epochs is None  # nobody has said anything: whatever its graph runs with will do


@pytest.mark.parametrize(
    ("text", "condition", "column"),
    [
        ("SET retenton = 5", "UNKNOWN_OPTION", 5),
        ("SET epoch = 'soon'", "WRONG_ARGUMENTS", 5),
        ("SET epochs = 'elsewhere'", "WRONG_ARGUMENTS", 5),
        ("SET epoch = 1e400", "WRONG_ARGUMENTS", 5),
        (f"SET retention = {'9' * 1001}", "STATEMENT_TOO_LARGE", 17),
        ("SET retention = 'a while'", "INVALID_PERIOD", 5),
        ("SET memory = '2 heaps'", "WRONG_ARGUMENTS", 5),
        ("SET memory = 0", "WRONG_ARGUMENTS", 5),
        ("SET work = 1.5", "WRONG_ARGUMENTS", 5),
        ("SET work = '1 GB'", "WRONG_ARGUMENTS", 5),
        ("SET admission = 'maybe'", "WRONG_ARGUMENTS", 5),
        ("SET memory = 0.7", "WRONG_ARGUMENTS", 5),
        ("SET memory = -1", "WRONG_ARGUMENTS", 5),
        ("SET work = unlimited", "WRONG_ARGUMENTS", 5),
        ("SET work = NULL", "WRONG_ARGUMENTS", 5),
    ],
)
def test_wrong_options_are_told_and_change_nothing(text: str, condition: str, column: int) -> None:
    session = connect()
    with pytest.raises(Diagnostic) as caught:
        session.sql(text)
    assert caught.value.condition == condition
    assert caught.value.help or condition == "STATEMENT_TOO_LARGE", "what would work is told"
    assert caught.value.position is not None
    assert caught.value.position.column == column
    assert (session.epoch, session.retention, bool(session.resources.budget)) == (None, None, False)


def test_a_view_is_described_whatever_its_name_is() -> None:
    session = connect()
    session.stream("S", [{"a": 1, "t": 0}], ordered_by="t")
    session.sql("CREATE VIEW `a``b` AS SELECT a FROM S")
    assert session.sql("DESCRIBE `a``b`") == [("a", "BIGINT")]


def test_rows_of_a_snapshot_are_ordered_by_columns_that_there_are() -> None:
    for number in ("1.5", "0", "3", "1e2"):
        (term,) = parse(f"SELECT a, b FROM S ORDER BY {number} LIMIT 1")[0].args["order"].expressions
        with pytest.raises(Diagnostic, match="UNKNOWN_COLUMN"):
            Ordering((term,))._place(term.this, ["a", "b"])


@pytest.mark.parametrize(
    ("name", "help"),
    [("tidegate.setting", "did you mean 'tidegate.settings'"), ("shop.orders", "tidegate.decisions")],
)
def test_who_looks_for_a_table_of_the_system_finds_it(name: str, help: str) -> None:
    with pytest.raises(Diagnostic, match=help):
        connect().query(f"SELECT * FROM {name}")
