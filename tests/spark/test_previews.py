"""PREVIEW stops early and says what is true; snapshots keep the order that was asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidegate.errors import Diagnostic
from tidegate.language.dialect import parse
from tidegate.session import Session, connect


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return [tuple(row) for row in frame.collect()]


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path) -> Session:
    """3,000 rows, one per tick, of which the last but one cannot be read: who gets there stops."""
    lines = [f"{i},{i}" for i in range(3_000)]
    lines[2_998] = "hot,2998"
    (tmp_path / "long.csv").write_text("a,t\n" + "\n".join(lines) + "\n")
    (tmp_path / "rooms.csv").write_text("room,degrees,t\nb,90,1\na,85,1\nc,81,1\nd,85,1\n")
    found = connect(spark=spark)
    found.sql(
        f"CREATE STREAM S(a INT, t BIGINT) SOURCE csv('{tmp_path}/long.csv') ORDERED BY t WITH (on_error = 'stop');"
        f"CREATE STREAM Temp(room STRING, degrees INT, t BIGINT) SOURCE csv('{tmp_path}/rooms.csv') ORDERED BY t"
    )
    return found


def test_a_preview_reads_no_more_than_it_needs(session: Session) -> None:
    with pytest.raises(Diagnostic, match="ROW_REFUSED"):
        session.sql("SELECT a FROM S WINDOW(RANGE 5)")
    # A row of tick i is valid in [i, i + 5).
    found = rows(session.sql("PREVIEW 3 SELECT a FROM S WINDOW(RANGE 5)"))
    assert found == [(0, 0, 5), (1, 1, 6), (2, 2, 7)]
    # Of five ticks, as many rows as have come: 1 at 0, 2 at 1, ... 5 from 4 on, and no change is told where nothing changes.
    counted = rows(session.sql("PREVIEW 4 SELECT COUNT(*) AS n FROM S WINDOW(RANGE 5)"))
    assert counted == [(1, 0, 1), (2, 1, 2), (3, 2, 3), (4, 3, 4)]


def test_where_the_first_rows_do_not_tell_more_are_read(session: Session) -> None:
    """Nothing of the first thousand is an answer; the next size holds all rows, so that one is met that stops the run."""
    with pytest.raises(Diagnostic, match="ROW_REFUSED"):
        session.sql("PREVIEW 1 SELECT a FROM S WHERE a > 2000")
    assert rows(session.sql("PREVIEW SELECT room FROM Temp WHERE degrees > 85")) == [("b", 1, 2)]


def test_a_preview_of_what_has_no_end_is_refused(session: Session) -> None:
    session.sql("CREATE STREAM R(n BIGINT, at TIMESTAMP) SOURCE rate(5) ORDERED BY at")
    with pytest.raises(Diagnostic, match="SOURCE_LIVE"):
        session.sql("PREVIEW 5 SELECT n FROM R")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT room FROM Temp ORDER BY room DESC AS OF 1", ["d", "c", "b", "a"]),
        ("SELECT room FROM Temp ORDER BY degrees DESC, room AS OF 1", ["b", "a", "d", "c"]),
        ("SELECT room FROM Temp ORDER BY degrees, room DESC LIMIT 3 AS OF 1", ["c", "d", "a"]),
        ("SELECT t2.room FROM Temp t2 ORDER BY abs(t2.degrees - 84), 1 AS OF 1", ["a", "d", "c", "b"]),
        ("SELECT room AS x FROM Temp ORDER BY x AS OF 1", ["a", "b", "c", "d"]),
        (
            "SELECT MIN(room) AS m FROM Temp GROUP BY degrees ORDER BY COUNT(*) DESC, degrees AS OF 1",
            ["a", "c", "b"],
        ),
    ],
)
def test_snapshots_keep_their_order(session: Session, text: str, expected: list[str]) -> None:
    found = session.sql(text)
    assert len(found.columns) == 1
    assert [row[0] for row in found.collect()] == expected


def test_previews_are_written_before_the_query() -> None:
    (statement,) = parse("PREVIEW 7 SELECT a FROM S")
    assert int(statement.args["rows"].this) == 7
    with pytest.raises(Diagnostic, match="expected a query"):
        parse("PREVIEW 7")
    for behind in ("SELECT a FROM S PREVIEW 7", "SELECT a FROM S WHERE a > 1 PREVIEW 7"):
        with pytest.raises(Diagnostic, match="PREVIEW stands before the query"):
            parse(behind)
