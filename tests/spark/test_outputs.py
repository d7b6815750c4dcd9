"""What sinks get: changes in the order in which they can be applied, or complete answers."""

from __future__ import annotations

import csv
import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidegate.connectors.console import ConsoleSink
from tidegate.connectors.sinks import make_sink, open_sink
from tidegate.errors import Diagnostic
from tidegate.language.catalog import SourceCall
from tidegate.reference.snapshots import Arrivals, Reference
from tidegate.runtime.places import EPOCHS
from tidegate.runtime.running import LiveQuery
from tidegate.session import Session, connect

Line = tuple[str, tuple[Any, ...], int]

KEYED = "SELECT STREAMED k, MAX(v) AS op, COUNT(*) AS ts FROM S WINDOW(RANGE 6) GROUP BY k"
"""Its columns have the names that sinks give their own."""
KEYLESS = "SELECT STREAMED v, k FROM S WINDOW(ROWS 3)"


def rows_of(seed: str) -> list[tuple[int, int, int]]:
    dice = random.Random(seed)
    return [(dice.randrange(3), dice.randrange(4), dice.randrange(30)) for _ in range(80)]


def ordered(rows: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    return sorted(rows, key=lambda r: r[2])


def applied(lines: Sequence[Line], key: tuple[int, ...] | None) -> dict[int, Counter[tuple[Any, ...]]]:
    """The table after each instant, made line by line. A line that cannot be applied is an error."""
    table: Counter[tuple[Any, ...]] = Counter()
    found = {}
    for op, row, ts in lines:
        assert not found or ts >= max(found), "lines go back in time"
        if op == "+":
            table[row] += 1
        elif op == "-":
            assert table[row] > 0, f"{row} is not there at {ts}"
            table[row] -= 1
        else:
            assert key is not None
            (old,) = (r for r in +table if [r[i] for i in key] == [row[i] for i in key])
            table[old] -= 1
            table[row] += 1
        found[ts] = +table
    return found


@pytest.mark.parametrize("text", [KEYED, KEYLESS])
@pytest.mark.parametrize("kind", ["csv", "json", "console", "function"])
def test_changes_applied_line_by_line_give_every_snapshot(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, kind: str
) -> None:
    rows = ordered(rows_of(text + kind))
    taken: list[Line] = []
    session = connect(spark, state=str(tmp_path / "state"), partitions=3)
    session.stream("S", rows[:0], ordered_by="t", schema="k INT, v INT, t BIGINT")

    def write(epoch: int, changes: DataFrame) -> None:
        taken.extend((r[0], tuple(r[1:-1]), r[-1]) for r in changes.collect())

    session.sink("shelf", write)
    calls = {
        "csv": SourceCall("csv", (f"{tmp_path}/out",)),
        "json": SourceCall("json", (f"{tmp_path}/out",)),
        "console": SourceCall("console"),
        "function": SourceCall("shelf", connector=session.catalog.sinks["shelf"]),
    }
    query = session.query(text)
    live = query.start("q", sink=open_sink(calls[kind]), begin=False)
    dice, coming = random.Random(kind), list(rows)
    capsys.readouterr()
    while coming:
        take = dice.randint(3, 20)
        live.run.graph.epochs.asked = dice.choice(EPOCHS)
        live.run.graph.advance({"S": coming[:take]})
        del coming[:take]
    live.run.graph.finish()
    lines = taken or written(tmp_path / "out", kind, capsys.readouterr().out)
    found = applied(lines, query.key)
    # among rows of one instant, a row window takes them in their order of arrival, which sorting has kept
    reference = Reference({"S": Arrivals([(r, r[2]) for r in rows])})
    points = [t for t in reference.change_points(query.bound.plan) if t < 10**9]
    assert len(points) > 15
    table: Counter[tuple[Any, ...]] = Counter()
    for t in points:
        table = found.get(t, table)
        assert table == reference.snapshot(query.bound.plan, t), f"at {t}"
    session.close()


def written(folder: Path, kind: str, printed: str) -> list[Line]:
    """The lines of a sink, in the order of its epochs and files."""
    if kind == "console":
        found = []
        for line in printed.splitlines():
            op, rest = line.split(" ", 1)
            values, ts = rest.split(" @ ")
            found.append((op, tuple(int(v) for v in values.split(", ")), int(ts)))
        return found
    epochs = sorted(folder.glob("epoch=*"), key=lambda p: int(p.name.split("=")[1]))
    files = [f for e in epochs for f in sorted(e.glob(f"*.{kind}"))]
    lines: list[Line] = []
    for file in files:
        with file.open(encoding="utf8") as opened:
            if kind == "csv":
                _, *body = list(csv.reader(opened))
                lines += [(r[0], tuple(int(v) for v in r[1:-1]), int(r[-1])) for r in body]
            else:
                objects = [list(json.loads(line).values()) for line in opened]
                lines += [(o[0], tuple(o[1:-1]), o[-1]) for o in objects]
    return lines


def test_where_streams_have_batches_the_console_names_the_time(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    session = connect(spark, partitions=2)
    rows = [(2, 5, 1), (1, 5, 0), (3, 7, 0)]
    session.stream("S", rows, ordered_by="t", batch="b", schema="v INT, t BIGINT, b INT")
    capsys.readouterr()
    session.sql("INSERT INTO console() SELECT STREAMED v FROM S WINDOW(ROWS 2)")
    assert capsys.readouterr().out.splitlines() == ["+ 1 @ 5", "+ 2 @ 5", "- 1 @ 7", "+ 3 @ 7"]
    # the one row of ROWS 1 needs no key to take the place of another
    session.sql("INSERT INTO console() SELECT STREAMED v FROM S WINDOW(ROWS 1)")
    assert capsys.readouterr().out.splitlines() == ["+ 1 @ 5", "u 2 @ 5", "u 3 @ 7"]


def test_a_function_gets_each_epoch_once_over_failures_and_restarts(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It fails now and then; whoever goes on hands in what it has not taken, and nothing again."""
    rows = ordered(rows_of("over restarts"))
    taken: list[Line] = []
    epochs: list[int] = []
    full = [False]

    def write(epoch: int, changes: DataFrame, shelf: str) -> None:
        if full[0]:
            raise ValueError("the shelf is full")
        epochs.append(epoch)
        taken.extend((r[0], tuple(r[1:-1]), r[-1]) for r in changes.collect())

    def begun() -> LiveQuery:
        session = connect(spark, state=str(tmp_path), partitions=1)
        session.stream("S", rows[:0], ordered_by="t", schema="k INT, v INT, t BIGINT")
        session.sink("shelf", write)
        sink = open_sink(SourceCall("shelf", ("x",), connector=session.catalog.sinks["shelf"]))
        live = session.query(KEYLESS).start("q", sink=sink, begin=False)
        live.run.graph.epochs.asked = "driver"
        live.run.graph.files_limit = 2
        return live

    live = begun()
    for number, start in enumerate(range(0, len(rows), 10)):
        full[0] = number in (3, 5)
        if full[0]:
            with pytest.raises(Diagnostic, match=r"SINK_FAILED.*shelf.*the shelf is full"):
                live.run.graph.advance({"S": rows[start : start + 10]})
        else:
            live.run.graph.advance({"S": rows[start : start + 10]})
        if number in (1, 3, 6):
            live.stop()
            live = begun()
    live.run.graph.finish()
    assert epochs == sorted(set(epochs))
    query = live.running._asked["q"]
    reference = Reference({"S": Arrivals([(r, r[2]) for r in rows])})
    found, table = applied(taken, None), Counter[tuple[Any, ...]]()
    for t in (t for t in reference.change_points(query.written) if t < 10**9):
        table = found.get(t, table)
        assert table == reference.snapshot(query.written, t), f"at {t}"
    live.stop()


COMPLETE = "SELECT COMPLETE a FROM S WINDOW(RANGE 2)"


def played(session: Session, sink: Any) -> None:
    session.stream("S", [(0, 0)][:0], ordered_by="t", schema="a INT, t BIGINT")
    live = session.query(COMPLETE).start("q", sink=sink, begin=False)
    for rows, upto in (([(1, 1)], 2), ([(2, 2)], 3), ([(4, 4)], 5)):
        live.run.graph.advance({"S": rows}, upto)
    session.close()


def test_a_complete_answer_takes_the_place_of_the_one_before(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    sink = open_sink(SourceCall("json", (str(out),)), complete=True)
    session = connect(spark, state=str(tmp_path / "state"), partitions=2)
    played(session, sink)
    (epoch,) = out.glob("epoch=*")
    assert epoch.name == "epoch=3"
    rows = [json.loads(line)["a"] for f in epoch.glob("*.json") for line in f.read_text().splitlines()]
    assert rows == [4]
    assert all(sink.has(e) for e in (1, 2, 3))
    assert not sink.has(4)


def test_insert_of_a_complete_answer(spark: SparkSession, tmp_path: Path) -> None:
    session = connect(spark, partitions=2)
    session.stream("S", [(1, 1), (2, 2), (3, 3)], ordered_by="t", schema="a INT, t BIGINT")
    session.sql(f"INSERT INTO json('{tmp_path}/out') {COMPLETE}")
    (file,) = (tmp_path / "out").glob("epoch=*/*.json")
    assert sorted(json.loads(line)["a"] for line in file.read_text().splitlines()) == [2, 3]
    answers: list[list[int]] = []
    session.sink("shelf", lambda epoch, rows: answers.append(sorted(r.a for r in rows.collect())))
    session.sql(f"INSERT INTO shelf() {COMPLETE}")
    assert answers == [[2, 3]]


def test_complete_answers_on_the_console(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    played(connect(spark, partitions=1), ConsoleSink(form="complete"))
    first, one, second, *rest = capsys.readouterr().out.splitlines()
    assert (first, one, second) == ("the answer after epoch 1:", "1", "the answer after epoch 2:")
    assert sorted(rest[:2]) == ["1", "2"]
    assert rest[2:] == ["the answer after epoch 3:", "4"]


@pytest.mark.parametrize("sink", ["noop()", "csv('out') WITH (answer = 'changes')"])
def test_a_sink_of_changes_refuses_complete_answers(spark: SparkSession, sink: str) -> None:
    session = connect(spark, partitions=1)
    session.stream("S", [(1, 1)], ordered_by="t", schema="a INT, t BIGINT")
    with pytest.raises(Diagnostic) as caught:
        session.sql(f"INSERT INTO {sink} {COMPLETE}")
    assert caught.value.condition == "SINK_FORM"


def test_sinks_by_name_hold_what_their_option_says(tmp_path: Path) -> None:
    forms = {
        a: make_sink("csv", (str(tmp_path),), [("answer", a)]) for a in ("changes", "complete", "latest")
    }
    assert {a: s.form for a, s in forms.items()} == {
        "changes": "changes",
        "complete": "complete",
        "latest": "complete",
    }
