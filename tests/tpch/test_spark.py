"""The 22 queries on Spark, in one run over the same streams, and in their order as snapshots."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.tpch.comparing import difference, same
from tests.tpch.rows import Made
from tests.tpch.world import INSTANTS, QUERIES, WINDOWED, Judge, register, text_of, tick
from tidegate.language.dialect import parse
from tidegate.query import run_together
from tidegate.runtime.results_here import snapshot_here
from tidegate.runtime.snapshots import without_order
from tidegate.session import Session, connect


@pytest.fixture(scope="module")
def session(spark: SparkSession, made: Made) -> Session:
    session = connect(spark=spark, partitions=2)
    register(session, made)
    return session


def test_all_in_one_run(session: Session, judge: Judge) -> None:
    queries = []
    for name in QUERIES:
        views, text = text_of(name, WINDOWED)
        if views:
            session.sql(views.replace("CREATE VIEW", "CREATE OR REPLACE VIEW"))
        queries.append(session.bound_query(without_order(parse(text)[0])[0], text))
    for name, result in zip(QUERIES, run_together(queries), strict=True):
        for instant in INSTANTS:
            shown = snapshot_here(result, tick(instant))
            assert shown is not None
            rows = [tuple(row.values()) for row in shown.to_pylist()]
            assert difference(rows, judge.at(name, instant)) is None, (name, instant)


@pytest.mark.parametrize("name", ["q09", "q15"])
def test_snapshots_have_the_order_of_the_text(name: str, session: Session, judge: Judge) -> None:
    views, text = text_of(name, WINDOWED)
    if views:
        session.sql(views.replace("CREATE VIEW", "CREATE OR REPLACE VIEW"))
    instant = INSTANTS[2]
    found = session.sql(f"{text} AS OF TIMESTAMP '{instant:%Y-%m-%d %H:%M:%S}'").collect()
    expected = judge.at(name, instant)
    assert len(found) == len(expected) > 0
    assert all(same(tuple(row), wanted) for row, wanted in zip(found, expected, strict=True))
