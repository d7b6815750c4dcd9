"""Functions that kernels do not know: computed by Spark wherever they stand in a query, recorded and live, and verified."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.fuzz.players import difference
from tidegate.algebra.operators import Node
from tidegate.errors import Diagnostic
from tidegate.query import Query
from tidegate.reference.snapshots import Arrivals, Reference
from tidegate.runtime.verification import SparkScalars, signed_rows
from tidegate.session import Session, connect

V = [
    (1, "Robert", 1),
    (2, "Rupert", 3),
    (3, "Ashcraft", 4),
    (4, "Ann", 4),
    (5, None, 7),
    (6, "Robert", 9),
    (7, "Honey", 14),
]
W = [("Rubin", 2, 2), ("Ashcroft", 4, 5), ("Rupert", 6, 8), (None, 3, 8), ("Anna", 9, 15)]

QUERIES = {
    "above a row window": "SELECT a, soundex(CAST(a AS STRING)) x, soundex(s) y FROM V WINDOW(ROWS 2)",
    "above an aggregate": "SELECT soundex(m) x, hex(n) h FROM"
    " (SELECT MAX(s) m, COUNT(*) n, a % 2 g FROM V WINDOW(RANGE 6) GROUP BY a % 2)",
    "in having": "SELECT a % 2 g, MIN(s) m FROM V WINDOW(RANGE 6) GROUP BY a % 2 HAVING soundex(MIN(s)) <> 'A261'",
    "grouped by": "SELECT soundex(s) x, COUNT(*) n FROM V WINDOW(ROWS 4) GROUP BY soundex(s)",
    "both sides of a join": "SELECT V.a, W.q FROM V WINDOW(RANGE 9) JOIN W WINDOW(RANGE 7)"
    " ON soundex(V.s) = soundex(W.s)",
    "pairs of a join": "SELECT V.a, W.q FROM V WINDOW(RANGE 9) JOIN W WINDOW(RANGE 7)"
    " ON V.a < W.q AND hypot(V.a, W.q) < 6",
    "pairs of an outer join": "SELECT V.a, W.q FROM V WINDOW(RANGE 9) FULL JOIN W WINDOW(RANGE 7)"
    " ON hypot(V.a, W.q) < 6",
    "rows without a partner": "SELECT a FROM V WINDOW(RANGE 9) WHERE NOT EXISTS"
    " (SELECT 1 FROM W WINDOW(RANGE 7) WHERE hypot(V.a, W.q) < 6)",
    "one inside the other": "SELECT DISTINCT hex(soundex(twice(upper(m)))) x FROM"
    " (SELECT MIN(s) m FROM V WINDOW(RANGE 6) GROUP BY a % 3)",
    "a map": "SELECT map('k', n)['k'] v, try_divide(n, n - 2) d FROM (SELECT COUNT(*) n FROM V WINDOW(RANGE 5))",
}


def twice(text: str | None) -> str | None:
    return None if text is None else text + text


@pytest.fixture(scope="module")
def session(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Session:
    tg = connect(spark, state=str(tmp_path_factory.mktemp("scalars")), partitions=3)
    tg.stream("V", V, ordered_by="t", schema="a INT, s STRING, t BIGINT")
    tg.stream("W", W, ordered_by="t", schema="s STRING, q INT, t BIGINT")
    tg.function("twice", twice, "STRING")
    return tg


def reference(session: Session, query: Query) -> Reference:
    sources = {n: Arrivals([(r, r[-1]) for r in rows]) for n, rows in (("V", V), ("W", W))}
    functions = query.bound.catalog.functions
    return Reference(sources, functions, {}, SparkScalars(lambda: session.spark, functions))


@pytest.mark.parametrize("name", QUERIES)
def test_recorded_answers_are_verified(session: Session, name: str) -> None:
    query = session.query(QUERIES[name])
    result = query.run(boundaries=[6])
    assert len(signed_rows(result, query.schema)) > 2
    verification = query.verify(result=result)
    assert verification, str(verification)
    assert verification.instants > 4


def test_live_epochs_give_the_same(session: Session) -> None:
    asked = {n.replace(" ", "_"): session.query(q) for n, q in QUERIES.items()}
    plans: dict[str, Node] = {n: q.plan for n, q in asked.items()}
    functions = {n: f for q in asked.values() for n, f in q.functions.items()}
    definitions = {n: d for q in asked.values() for n, d in q.definitions.items()}
    run = session.engine.start(plans, definitions, functions, graph="scalars", begin=False)
    arrivals = sorted([(r[-1], n, r) for n, rows in (("V", V), ("W", W)) for r in rows], key=lambda a: a[0])
    for first in range(0, len(arrivals), 2):
        batch: dict[str, list[tuple[Any, ...]]] = {}
        for _, name, row in arrivals[first : first + 2]:
            batch.setdefault(name, []).append(row)
        run.graph.advance(batch)
    run.graph.finish()
    for name, query in asked.items():
        found = difference(reference(session, query), query.plan, signed_rows(run.result(name), query.schema))
        assert found is None, (name, found)


def test_values_are_sparks(session: Session) -> None:
    rows = session.query(QUERIES["above a row window"]).run().at(4).collect()
    # American Soundex, by its published rules: Ashcraft is A261 because h does not part s and c
    assert Counter((r.a, r.y) for r in rows) == {(3, "A261"): 1, (4, "A500"): 1}


def test_what_has_only_nulls_is_answered(session: Session) -> None:
    """Spark's type of such a function is VOID."""
    query = session.query("SELECT a, assert_true(a > 0) AS x FROM V WHERE a > 5")
    assert Counter(tuple(r) for r in query.run().intervals().collect()) == Counter(
        [(6, None, 9, 10), (7, None, 14, 15)]
    )


@pytest.mark.parametrize("given", ["make_ym_interval(1, a)", "array(make_ym_interval(1, a))"])
def test_intervals_of_months_are_refused_where_they_are_made(session: Session, given: str) -> None:
    text = f"SELECT {given} AS x FROM V"
    with pytest.raises(Diagnostic) as raised:
        session.query(text)
    assert raised.value.condition == "UNSUPPORTED"
    assert raised.value.position is not None
    assert text[raised.value.position.start :].startswith("make_ym_interval")
