"""NaN and both zeros as keys through Spark: recorded and live runs give the reference's answer in any number of partitions."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.kernels.test_nan_keys import catalog, difference, planned, sources
from tidegate.language.catalog import StreamDefinition
from tidegate.runtime.engine import Engine
from tidegate.runtime.verification import signed_rows
from tidegate.time import MAX
from tidegate.types import DOUBLE, Type, array

LIVE = ("distinct", "group", "left", "not in", "except all", "rows", "session", "key stream since", "rank")


@pytest.fixture(scope="module")
def engine(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return Engine(spark, str(tmp_path_factory.mktemp("nan")), partitions=2)


def definitions(type_: Type) -> dict[str, StreamDefinition]:
    known = {name: catalog(type_).find(name) for name in ("S", "R")}
    return {n: d for n, d in known.items() if isinstance(d, StreamDefinition)}


@pytest.mark.parametrize(
    ("type_", "rows", "partitions"), [(DOUBLE, 1, 1), (DOUBLE, 7, 5), (array(DOUBLE), 7, 3)]
)
def test_live(engine: Engine, type_: Type, rows: int, partitions: int) -> None:
    given = sources(type_, rows, seed=7)
    plans = {query.replace(" ", "-"): planned(query, type_) for query in LIVE}
    graph = f"{type_.name}-{rows}-{partitions}"
    run = engine.start(plans, definitions(type_), graph=graph, partitions=partitions, begin=False)
    for since, upto in ((0, 4), (4, 8), (8, 12)):
        come = {n: [e for e, t in a.rows if since <= t < upto] for n, a in given.items()}
        run.graph.advance({n: rows for n, rows in come.items() if rows})
    run.graph.finish()
    for name, plan in plans.items():
        found = difference(given, plan, signed_rows(run.result(name), plan.schema))
        assert found is None, f"{name}: {found}\n{given}"


@pytest.mark.parametrize("partitions", [1, 5])
@pytest.mark.parametrize("query", ["distinct", "rows", "session", "key stream"])
def test_recorded(engine: Engine, query: str, partitions: int) -> None:
    for rows in (1, 7) if partitions == 1 else (7,):
        given = sources(DOUBLE, rows, seed=rows)
        plan = planned(query, DOUBLE)
        data = {n: [e for e, _ in a.rows] for n, a in given.items()}
        name = f"{query}-{partitions}-{rows}".replace(" ", "-")
        result = engine.run(
            name, plan, definitions(DOUBLE), data=data, boundaries=[5, MAX], partitions=partitions
        )
        found = difference(given, plan, signed_rows(result, plan.schema))
        assert found is None, f"{query}: {found}\n{given}"
