"""The examples in docstrings of public functions are run: over integer time, over moments, and on a query that runs."""

from __future__ import annotations

import inspect
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import matplotlib as mpl
import polars as pl
import pytest
from pyspark.sql import SparkSession

import tidegate
from tests.unit.test_public_face import public_functions
from tidegate.session import Session

ROWS = [("a", 75, 1), ("b", 90, 3), ("a", 85, 4), ("c", 60, 6)]
BEGIN = datetime(2026, 1, 1, 11, 59, 55, tzinfo=UTC)


def hot(moments: bool) -> str:
    return (
        f"SELECT room, degrees FROM Temp WINDOW(RANGE {'5 SECONDS' if moments else '5'}) WHERE degrees > 80"
    )


def examples() -> dict[str, str]:
    """Every different example, by the function that it stands at first."""
    found: dict[str, str] = {}
    for name, function in public_functions():
        text = inspect.getdoc(function) or ""
        example = text[text.index("Example: ") :]
        if example not in found.values():
            found[name] = example
    return found


def code(example: str) -> tuple[list[str], str | None]:
    """The statements of an example, and what the last one gives, if that is said."""
    said = re.findall(r"`([^`]+)`", example)
    return (said[:1], said[1]) if "` gives `" in example else (said, None)


def session(spark: SparkSession, moments: bool) -> Session:
    """The streams that examples speak of."""
    tg = tidegate.connect(spark=spark)
    rows = [
        {"room": room, "degrees": degrees, "t": BEGIN + timedelta(seconds=t) if moments else t}
        for room, degrees, t in ROWS
    ]
    tg.stream("Temp", rows, ordered_by="t")
    tg.stream("Bid", [{"item": 1, "t": 1}], ordered_by="t")
    return tg


def world(spark: SparkSession, example: str) -> dict[str, Any]:
    """What an example takes as given."""
    if "rooms.sql" in example:
        return {"tg": tidegate.connect(spark=spark)}
    moments = "2026-" in example
    tg = session(spark, moments)
    for view in ("Hot", "Cold"):
        if f"FROM {view}" in example:
            tg.sql(f"CREATE VIEW {view} AS {hot(moments)}")
    query = tg.query(hot(moments))
    given: dict[str, Any] = {"tidegate": tidegate, "pl": pl, "tg": tg, "q": query}
    if re.search(r"\br\b", example):
        given["r"] = query.run()
    return given


def run(example: str, given: dict[str, Any]) -> None:
    statements, result = code(example)
    assert statements
    for statement in statements if result is None else ():
        exec(statement, given)
    if result is not None:
        assert eval(statements[0], given) == eval(result, given), example


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(Path(__file__).parents[2] / "examples")
    mpl.use("agg")


def is_live(name: str, example: str) -> bool:
    return re.search(r"\bh\b|`tg\.(queries|push|advance|graph)", example) is not None or name == "Query.start"


@pytest.mark.parametrize(("name", "example"), [(n, e) for n, e in examples().items() if not is_live(n, e)])
def test_an_example_runs(spark: SparkSession, name: str, example: str) -> None:
    given = world(spark, example)
    run(example, given)
    given["tg"].close()


LAST = ("LiveQuery.finish", "LiveQuery.subscribe", "LiveQuery.wait", "LiveQuery.stop")
"""What ends the query comes after all others."""


def test_examples_of_running_queries_run(spark: SparkSession) -> None:
    live = {n: e for n, e in examples().items() if is_live(n, e)}
    makes = {n: e for n, e in live.items() if re.search(r"\bh = (?!h\b)", e)}
    for example in makes.values():
        given = world(spark, example)
        run(example, given)
        given["tg"].close()
    for moments in (False, True):
        asked = {n: e for n, e in live.items() if n not in makes and ("2026-" in e) == moments}
        tg = session(spark, moments)
        given = {"tg": tg, "pl": pl, "h": tg.query(hot(moments)).start("hot", epoch=0.05)}
        tg.advance("Temp", BEGIN + timedelta(seconds=30) if moments else 50)
        given["h"].catch_up(seconds=60)
        for name in sorted(asked, key=lambda n: (LAST.index(n) if n in LAST else -1, n)):
            run(asked[name], given)
        tg.close()
