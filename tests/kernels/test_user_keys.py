"""Rows are exchanged by columns: what a user's function computes is one before it becomes a key."""

from __future__ import annotations

import pytest

from tidegate.language.binder import bind
from tidegate.language.catalog import Catalog, SourceCall, StreamDefinition
from tidegate.language.dialect import parse
from tidegate.optimizer.driver import optimize
from tidegate.physical.plan import Birth, Input
from tidegate.physical.planning import plan_query
from tidegate.physical.spark_columns import calls_user, outsource
from tidegate.scalars.functions import ScalarFunction
from tidegate.scalars.typing import Typed
from tidegate.types import BIGINT, Field

COLUMNS = tuple(Field(name, BIGINT) for name in "abt")
CATALOG = (
    Catalog()
    .with_definition(StreamDefinition("S", COLUMNS, SourceCall("memory", ("S",)), "t"))
    .with_function(ScalarFunction("f", lambda x: x, BIGINT, 1))
)


def inputs(text: str) -> list[Input]:
    plan = optimize(bind(parse(text)[0], CATALOG, text).plan)[0]
    prepared = outsource(plan, CATALOG.functions, lambda e, s: Typed(BIGINT, True))
    return list(plan_query("q", prepared, CATALOG.functions, Birth()).inputs.values())


SPREAD = {
    "grouped": "SELECT f(a) AS k, COUNT(*) AS n FROM S WINDOW(RANGE 9) GROUP BY f(a)",
    "grouped twice": "SELECT k, COUNT(*) AS n FROM (SELECT f(a) AS k, b FROM S WINDOW(RANGE 9) WHERE b > 0) GROUP BY k",
    "different": "SELECT DISTINCT f(a) AS k FROM S WINDOW(RANGE 9)",
    "joined": "SELECT x.a FROM S WINDOW(RANGE 9) x JOIN S WINDOW(RANGE 9) y ON f(x.a) = y.b",
    "joined on both": "SELECT x.a FROM S WINDOW(RANGE 9) x JOIN S WINDOW(RANGE 9) y ON f(x.a) = f(y.b) AND x.b < y.b",
    "outer": "SELECT x.a, y.b FROM S WINDOW(RANGE 9) x LEFT JOIN S WINDOW(RANGE 9) y ON f(x.a) + 1 = y.b AND y.b IN (1, 2)",
    "subtracted": "SELECT f(a) AS k FROM S WINDOW(RANGE 9) EXCEPT SELECT b FROM S WINDOW(RANGE 9)",
    "top of each": "SELECT k, b FROM (SELECT f(a) AS k, b FROM S WINDOW(RANGE 9))"
    " QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY b) <= 2",
}


@pytest.mark.parametrize("name", SPREAD)
def test_keys_are_columns_and_work_is_spread(name: str) -> None:
    found = inputs(SPREAD[name])
    keys = [e for entry in found for e in entry.key or ()]
    assert keys
    assert not any(calls_user(e, {"f"}) for e in keys)
    assert all(entry.key != () for entry in found)


def test_rows_that_are_counted_as_they_arrive_stay_in_order() -> None:
    (entry,) = inputs("SELECT k, b FROM (SELECT f(a) AS k, b FROM S) WINDOW(PARTITION BY k ROWS 2)")
    assert entry.ordered
    assert entry.key == ()


def test_what_needs_no_function_is_exchanged_as_ever() -> None:
    (entry,) = inputs("SELECT b, MAX(f(a)) AS m FROM S WINDOW(RANGE 9) GROUP BY b")
    assert [e.sql() for e in entry.key or ()] == ["c1"]
