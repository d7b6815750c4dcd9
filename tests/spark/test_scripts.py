"""Scripts: queries over the same recorded streams are run in one go, and everything else is as if they had been run one by one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidegate import cli, query
from tidegate.errors import Diagnostic
from tidegate.runtime.results import Result
from tidegate.session import Session, connect

ROWS = [{"k": i % 3, "v": (i * 7) % 11, "t": i // 2} for i in range(20)]
COUNTS = "SELECT k, COUNT(*) AS n FROM F WINDOW(RANGE 4) GROUP BY k"


class Feed:
    """A source that counts how often it is read."""

    def __init__(self, spark: SparkSession) -> None:
        self.reads = 0
        self.tg: Session = connect(spark=spark, partitions=2)
        self.tg.source("feed", self._rows, again=True)
        self.tg.sql("CREATE STREAM F(k INT, v INT, t BIGINT) SOURCE feed() ORDERED BY t")

    def _rows(self) -> Iterator[dict[str, Any]]:
        self.reads += 1
        return iter(ROWS)


def answers(result: Any) -> list[tuple[Any, ...]]:
    frame = result.intervals() if isinstance(result, Result) else result
    return sorted((tuple(r) for r in frame.collect()), key=repr)


def test_a_source_is_read_once_for_queries_that_follow_each_other(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed, texts = Feed(spark), [
        COUNTS,
        f"SELECT n, COUNT(*) AS c FROM ({COUNTS}) GROUP BY n",
        "CREATE VIEW Few AS SELECT k, n FROM Counts WHERE n < 2",
        "SELECT COMPLETE k, v FROM F WINDOW(ROWS 2)",
        f"INSERT INTO parquet('{tmp_path}/together') SELECT STREAMED k, n FROM Few",
    ]  # fmt: skip
    feed.tg.sql(f"CREATE VIEW Counts AS {COUNTS}")
    found = list(feed.tg.results(";\n".join(texts)))
    assert feed.reads == 1
    kinds = (Result, Result, type(None), DataFrame, Result)
    assert [isinstance(f, kind) for f, kind in zip(found, kinds, strict=True)] == [True] * 5
    alone = Feed(spark)
    alone.tg.sql(f"CREATE VIEW Counts AS {COUNTS}")
    for text, answer in zip(texts, found, strict=True):
        one = alone.tg.sql(text.replace("together", "alone"))
        if answer is not None:
            assert answers(answer) == answers(one) != [], text
    assert alone.reads == 4
    written = [answers(spark.read.parquet(f"{tmp_path}/{n}/epoch=*")) for n in ("together", "alone")]
    assert written[0] == written[1] != []
    # What was asked last is what `sql` gives.
    assert answers(feed.tg.sql(f"{COUNTS}; SELECT v FROM F")) == answers(feed.tg.sql("SELECT v FROM F"))


def test_what_stands_before_an_error_is_answered(spark: SparkSession) -> None:
    feed = Feed(spark)
    whole = answers(feed.tg.sql(COUNTS))
    for wrong, condition, place in (
        ("SELECT 100 DIV (v - v) AS x FROM F", "DIVIDE_BY_ZERO", "100 DIV (v - v"),
        ("SELECT w FROM F", "UNKNOWN_COLUMN", "w"),
        ("CREATE VIEW V AS SELECT w FROM F", "UNKNOWN_COLUMN", "w"),
        ("INSERT INTO nowhere() SELECT k FROM F", "UNKNOWN_SINK", "nowhere"),
    ):
        script = f"SELECT v FROM F;\n{COUNTS};\n{wrong};\nSELECT k FROM F"
        results = feed.tg.results(script)
        assert isinstance(next(results), Result)
        assert answers(next(results)) == whole, wrong
        with pytest.raises(Diagnostic, match=condition) as raised:
            next(results)
        assert raised.value.position is not None
        assert script[raised.value.position.start : raised.value.position.end] == place


def test_a_query_that_may_read_what_another_writes_is_run_after_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tg = connect(spark=spark, partitions=2)
    tg.stream("S", ROWS, ordered_by="t")
    groups: list[int] = []
    run = query.run_together

    def counted(queries: Any, progress: Any = None) -> Any:
        groups.append(len(queries))
        return run(queries, progress)

    monkeypatch.setattr("tidegate.script.run_together", counted)
    out = tmp_path / "out"
    script = f"""
        SELECT k FROM S;
        INSERT INTO json('{out}') SELECT k FROM S;
        SELECT v FROM S;
        CREATE STREAM Back(op STRING, k INT, ts BIGINT) SOURCE json('{out}/epoch=1') ORDERED BY ts;
        SELECT k FROM Back WHERE op = '+';
        SELECT op FROM Back
    """
    found = list(tg.results(script))
    assert groups == [3, 2]
    # k is 0 at 0, 1, 3, 4, 6, 7, 9, is 1 at 0, 2, 3, 5, 6, 8, 9, is 2 at 1, 2, 4, 5, 7, 8: it begins so often.
    assert len(answers(found[4])) == 4 + 4 + 3
    # Two that write to one place: the second is refused, and the first has written.
    both = (
        f"INSERT INTO json('{tmp_path}/b') SELECT k FROM S; INSERT INTO json('{tmp_path}/b') SELECT v FROM S"
    )
    with pytest.raises(Diagnostic, match="SINK_TAKEN"):
        tg.sql(both)
    assert len(list((tmp_path / "b").glob("epoch=1/*.json"))) > 0


def test_the_command_shows_each_answer_in_its_place(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rows.csv").write_text("k,t\n1,1\n2,2\n")
    script = tmp_path / "script.sql"
    script.write_text(
        f"CREATE STREAM S(k INT, t BIGINT) SOURCE csv('{tmp_path}/rows.csv') ORDERED BY t;\n"
        "SELECT k AS first FROM S;\nSELECT k + 1 AS second FROM S;\nSHOW STREAMS;\nSELECT 1 DIV (k - 2) AS third FROM S;\n"
    )
    monkeypatch.setattr(sys, "argv", ["tidegate", "run", str(script)])
    with pytest.raises(SystemExit):
        cli.main()
    said = capsys.readouterr()
    shown = [w for w in said.out.replace("┃", " ").split() if w in ("first", "second", "S", "third")]
    assert shown == ["first", "second", "S"]
    assert "DIVIDE_BY_ZERO" in said.err
    assert "1 DIV (k - 2" in said.err
