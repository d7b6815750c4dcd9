"""Small recorded runs without Spark: files are read as Spark reads them, and answers are those of the reference."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate.connectors.plain_csv import plain_rows
from tidegate.connectors.sources import read_recorded
from tidegate.errors import Diagnostic
from tidegate.language.catalog import StreamDefinition
from tidegate.runtime import engine
from tidegate.runtime.results_here import intervals_here, snapshot_here
from tidegate.session import Session, connect

QUERIES = (
    "SELECT a, s FROM S WHERE a > 2",
    "SELECT s, COUNT(*) AS n, AVG(x) AS m FROM S WINDOW(RANGE 7) GROUP BY s",
    "SELECT COUNT(*) AS n FROM S WINDOW(ROWS 3)",
    "SELECT S.a, R.s FROM S WINDOW(RANGE 5) JOIN R WINDOW(RANGE 9) ON S.s = R.s",
    "SELECT s FROM S WINDOW(RANGE 5) EXCEPT SELECT s FROM R WINDOW(RANGE 4)",
    "SELECT DISTINCT s FROM S WINDOW(RANGE UNBOUNDED)",
    "SELECT s, a FROM S WINDOW(RANGE 9) ORDER BY a DESC LIMIT 2",
    "SELECT a FROM S WINDOW(RANGE 6) WHERE a >= ALL (SELECT a FROM R WINDOW(RANGE 6))",
    "SELECT s, top FROM (SELECT s, MAX(a) AS top FROM S WINDOW(RANGE 8 SLIDE 4) GROUP BY s) WHERE top > 3",
    "ISTREAM(SELECT s FROM S WINDOW(RANGE 3))",
)


def lines(seed: int) -> str:
    """Rows of small numbers, so that they meet; times in any order."""
    chance = random.Random(seed)
    rows = (
        f"{chance.choice('pqr')},{chance.randint(-2, 6)},{chance.randint(0, 40)},{chance.randint(-9, 9) / 4}"
        for _ in range(40)
    )
    return "s,a,t,x\n" + "\n".join(rows) + "\n"


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A session that would start its own Spark, whose recorded runs may not be jobs."""
    assert spark.getActiveSession() is not None

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a job was to run")

    monkeypatch.setattr(engine, "Recording", refuse)
    found = connect()
    for number, name in enumerate(("S", "R")):
        (tmp_path / f"{name}.csv").write_text(lines(number))
        found.sql(
            f"CREATE STREAM {name}(s STRING, a INT, x DOUBLE, t BIGINT) SOURCE csv('{tmp_path}/{name}.csv') ORDERED BY t"
        )
    return found


@pytest.mark.parametrize("text", QUERIES)
def test_answers_are_those_of_the_reference(session: Session, text: str) -> None:
    query = session.query(text)
    result = query.run()
    found = query.verify(result=result)
    assert found, str(found)
    shown = intervals_here(result)
    assert shown is not None
    assert Counter(tuple(r.values()) for r in shown.to_pylist()) == Counter(
        tuple(r) for r in result.intervals().collect()
    )
    for t in (5, 17):
        at = snapshot_here(result, t)
        assert at is not None
        assert Counter(tuple(r.values()) for r in at.to_pylist()) == Counter(
            tuple(r) for r in result.at(t).collect()
        )


def test_rows_that_are_handed_in_need_no_spark_either(session: Session) -> None:
    session.stream("M", [{"v": 1, "t": 1}, {"v": 2, "t": 3}], ordered_by="t")
    shown = intervals_here(session.sql("SELECT v FROM M WINDOW(RANGE 2)"))
    assert shown is not None
    assert [tuple(r.values()) for r in shown.to_pylist()] == [(1, 1, 3), (2, 3, 5)]


def value(chance: random.Random, kind: str) -> str:
    """A value as somebody may write it, mostly plain."""
    plain = {
        "INT": lambda: str(chance.randint(-(2**31), 2**31 - 1)),
        "BIGINT": lambda: str(chance.randint(-(10**17), 10**17)),
        "DOUBLE": lambda: f"{chance.randint(-99999, 99999)}.{chance.randint(0, 999999)}",
        "STRING": lambda: chance.choice(["x", "a b", "é", "NULL", "null", "-", "#", "'q'", "日本", "1"]),
        "BOOLEAN": lambda: chance.choice(["true", "false"]),
        "DATE": lambda: f"{chance.randint(1, 9999):04}-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}",
        "TIMESTAMP": lambda: (
            f"{chance.randint(1, 9999):04}-0{chance.randint(1, 9)}-11 0{chance.randint(0, 9)}:59:00"
            + chance.choice(["", f".{chance.randint(0, 999999):06}"])
        ),
    }
    return plain[kind]()


def test_plain_files_are_read_as_spark_reads_them(spark: SparkSession, tmp_path: Path) -> None:
    chance = random.Random(7)
    kinds = ["INT", "BIGINT", "DOUBLE", "STRING", "BOOLEAN", "DATE", "TIMESTAMP"]
    session, compared = connect(spark=spark), 0
    for number in range(6):
        chosen = [chance.choice(kinds) for _ in range(5)]
        names = [f"v{i}" for i in range(5)]
        order = chance.sample(range(5), 5)
        rows = [[value(chance, k) for k in chosen] for _ in range(60)]
        header = ",".join([*(names[i].upper() if chance.random() < 0.3 else names[i] for i in order), "t"])
        body = [",".join([*(row[i] for i in order), str(n)]) for n, row in enumerate(rows)]
        end = chance.choice(["\n", "\r\n"])
        (tmp_path / f"{number}.csv").write_text(
            end.join([header, *body]) + end * chance.randint(0, 1), newline=""
        )
        columns = ", ".join(f"{n} {k}" for n, k in zip(names, chosen, strict=True))
        session.sql(
            f"CREATE STREAM F{number}({columns}, t BIGINT) SOURCE csv('{tmp_path}/{number}.csv') ORDERED BY t"
        )
        definition = session.catalog.find(f"F{number}")
        assert isinstance(definition, StreamDefinition)
        here, there = plain_rows(definition), read_recorded(spark, definition).frame
        assert here is not None
        compared += here.num_rows
        shown = there.orderBy("o0", "o1", "o2").drop("o0", "o1", "o2", "te", "raw").toArrow()
        assert set(shown.column("bad").to_pylist()) == {None}
        found = [tuple(r.values()) for r in shown.to_pylist()]
        # The scan's columns are the declared ones, the time last; then come its ticks and the reason.
        assert [row[:6] for row in found] == [tuple(r.values()) for r in here.to_pylist()]
    assert compared == 360


def test_what_may_become_much_is_a_job(session: Session) -> None:
    """Few rows may split into all of their instants, or meet each other in many pairs."""
    many = [{"v": i, "t": i} for i in range(2_001)]
    session.stream("M", many, ordered_by="t")
    for text in (
        "RSTREAM(SELECT a FROM S WINDOW(RANGE 9)) EVERY 1",
        "SELECT a.v FROM M a JOIN M b ON a.v < b.v",
    ):
        with pytest.raises(Diagnostic, match="a job was to run"):
            session.sql(text)
    assert session.sql("SELECT v FROM M WHERE v > 1999") is not None
