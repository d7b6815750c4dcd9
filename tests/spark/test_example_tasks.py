"""The tasks of examples/: each script gives the answers that were worked out by hand from its data."""

from __future__ import annotations

import re
import runpy
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.test_examples import EXAMPLES, answers, rows

HERE = Path(__file__)


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES.parent)


def at(text: str) -> datetime:
    """A moment of the day that the examples are of."""
    return datetime.fromisoformat(f"2026-03-01 {text}")


def just(text: str) -> tuple[datetime, datetime]:
    """The validity of one instant."""
    return at(text), at(text).replace(microsecond=1)


def as_rows(*given: tuple[Any, ...]) -> Counter[tuple[Any, ...]]:
    return Counter(given)


def test_sensor_gaps(spark: SparkSession) -> None:
    silent, verified = answers(spark, "sensor_gaps.sql")
    # s1 speaks at 8:01 and 8:06, s2 at 8:03:10 (at the very moment at which it would be missed) and last at 8:04
    assert rows(silent) == as_rows(
        ("s1", at("08:04"), at("08:06")), ("s2", at("08:07"), None), ("s1", at("08:09"), None)
    )
    assert verified


def test_stays_hot(spark: SparkSession) -> None:
    hot, verified = answers(spark, "stays_hot.sql")
    # m1 is hot from 9:00 to 9:07; m2 from 9:01 to 9:04, which is too short, and again from 9:05 on
    assert rows(hot) == as_rows(("m1", at("09:05"), at("09:07")), ("m2", at("09:10"), None))
    assert verified


def test_top_per_hour(spark: SparkSession) -> None:
    top, verified = answers(spark, "top_per_hour.sql")
    # from 9 to 10: milk 3 + 3, tea 5, bread 4; from 10 to 11: bread 6, tea 1
    ten, eleven, twelve = at("10:00"), at("11:00"), at("12:00")
    assert rows(top) == as_rows(
        ("milk", 6, ten, eleven), ("tea", 5, ten, eleven), ("bread", 6, eleven, twelve), ("tea", 1, eleven, twelve)
    )  # fmt: skip
    assert verified


def test_sessions(spark: SparkSession) -> None:
    over, here = answers(spark, "sessions.sql")
    # bob's clicks are exactly 30 minutes apart: two sessions
    assert rows(over) == as_rows(
        ("ann", at("09:00"), 3, *just("10:00")),
        ("bob", at("09:15"), 1, *just("09:45")),
        ("bob", at("09:45"), 1, *just("10:15")),
        ("ann", at("10:30"), 1, *just("11:00")),
    )
    assert rows(here) == as_rows(("ann", 2), ("bob", 1))


def test_velocity(spark: SparkSession) -> None:
    often, far, verified = answers(spark, "velocity.sql")
    # 10 + 20 + 30 until the 10 is a minute old; 20 + 30 + 15 from 12:01:10 until the 20 is
    assert rows(often) == as_rows(
        ("c1", 3, 60, at("12:00:50"), at("12:01:00")), ("c1", 3, 65, at("12:01:10"), at("12:01:20"))
    )
    assert rows(far) == as_rows(("c2", "Oslo", "Rome", *just("12:08:00")))
    assert verified


def test_payments(spark: SparkSession) -> None:
    paid, unpaid, verified = answers(spark, "payments.sql")
    # order 2 is paid a minute too late, order 3 never
    assert rows(paid) == as_rows((1, 30, 30, *just("10:04:00")))
    assert rows(unpaid) == as_rows((2, *just("10:12:00")), (3, *just("10:15:00")))
    assert verified


def test_moving_average(spark: SparkSession) -> None:
    average, of_three, verified = answers(spark, "moving_average.sql")
    times = [at(f"10:{minute}") for minute in ("00", "01", "03", "05", "06", "08", "11")]
    # 100; 100, 102; 100, 102, 104; 102, 104; 104, 100; 100
    values = (100.0, 101.0, 102.0, 103.0, 102.0, 100.0)
    assert rows(average) == Counter(zip(values, times, times[1:], strict=False))
    assert rows(of_three) == as_rows(
        (100, 100.0, *just("10:00:00")),
        (102, 101.0, *just("10:01:00")),
        (104, 102.0, *just("10:03:00")),
        (100, 102.0, *just("10:06:00")),
    )
    assert verified


def test_change_capture(spark: SparkSession) -> None:
    history, cities, verified = answers(spark, "change_capture.sql")
    assert rows(history) == as_rows(
        (1, "Ada", "Lyon", 1000, 3000), (2, "Bob", "Lyon", 2000, 4000), (1, "Ada", "Oslo", 3000, None)
    )
    assert rows(cities) == as_rows(("Lyon", 2))
    assert verified


def test_table_join(spark: SparkSession) -> None:
    sales, turnover, verified = answers(spark, "table_join.sql")
    assert rows(sales) == as_rows(("tea", 12, 1, 2), ("milk", 10, 2, 3), (None, None, 3, 4), ("tea", 4, 4, 5))
    # tea: 12 in [1, 4), 4 in [4, 7); milk: 10 in [2, 5)
    assert rows(turnover) == as_rows(("tea", 12, 1, 4), ("milk", 10, 2, 5), ("tea", 4, 4, 7))
    assert verified


def test_late_rows(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    assert spark.getActiveSession() is not None
    runpy.run_path(str(EXAMPLES / "late_rows.py"), run_name="__main__")
    *totals, refused = capsys.readouterr().out.splitlines()
    # 1 of 10, 4 of 17, 2 of 20, 16 of 30; 8 of 3 came too late
    assert totals == ["from 10 on: 1", "from 17 on: 5", "from 20 on: 7", "from 30 on: 23"]
    assert refused.startswith("refused: ")
    assert refused.endswith("(later than promised)")
    assert re.search(r"\b8\b.*\b3\b", refused)


def test_every_file_is_tested_and_in_the_list() -> None:
    tests = HERE.read_text(encoding="utf-8") + HERE.with_name("test_examples.py").read_text(encoding="utf-8")
    tested = {
        *re.findall(r'answers\(spark, "([\w.]+)"\)', tests),
        *re.findall(r'EXAMPLES / "(\w+\.py)"', tests),
    }
    present = {p.name for p in EXAMPLES.iterdir() if p.suffix in (".sql", ".py")}
    listed = re.findall(r"\]\((\w+\.(?:sql|py))\)", (EXAMPLES / "README.md").read_text(encoding="utf-8"))
    assert tested == present
    assert sorted(listed) == sorted(present)
