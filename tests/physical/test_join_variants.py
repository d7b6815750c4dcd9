"""Where the rows of a join meet: by equal keys, beside copies of one side, or all in one place."""

from __future__ import annotations

import pytest

from tidegate.language.binder import bind
from tidegate.language.catalog import Catalog, SourceCall, StreamDefinition
from tidegate.language.dialect import parse
from tidegate.optimizer.driver import optimize
from tidegate.physical.plan import Plan, SourceRows
from tidegate.runtime.jobs import planned
from tidegate.types import BIGINT, STRING, Field

COLUMNS = (Field("k", STRING), Field("v", BIGINT), Field("w", STRING), Field("t", BIGINT))


def plan(text: str) -> Plan:
    catalog = Catalog()
    for name in ("S", "R"):
        catalog = catalog.with_definition(StreamDefinition(name, COLUMNS, SourceCall("memory", (name,)), "t"))
    return planned({"q": optimize(bind(parse(text)[0], catalog, text).plan)[0]}, {})


def sent(found: Plan) -> dict[str, str]:
    """How the rows of each source travel."""
    ways = {}
    for entry in found.inputs.values():
        assert isinstance(entry.origin, SourceRows)
        kind = "one place" if entry.key == () else "apart"
        ways[entry.origin.name] = "everywhere" if entry.broadcast else kind
    return ways


JOINS = {
    ("JOIN", 9, 5): {"S": "apart", "R": "everywhere"},
    ("JOIN", 5, 9): {"S": "everywhere", "R": "apart"},
    ("LEFT JOIN", 5, 9): {"S": "apart", "R": "everywhere"},
    ("LEFT SEMI JOIN", 5, 9): {"S": "apart", "R": "everywhere"},
    ("LEFT ANTI JOIN", 5, 9): {"S": "apart", "R": "everywhere"},
    ("RIGHT JOIN", 9, 5): {"S": "everywhere", "R": "apart"},
    ("FULL JOIN", 9, 5): {"S": "one place", "R": "one place"},
}


@pytest.mark.parametrize("join", JOINS, ids=str)
def test_one_side_is_spread_and_the_other_copied(join: tuple[str, int, int]) -> None:
    """The smaller one is copied, unless its rows must be in the answer without a partner."""
    kind, left, right = join
    text = f"SELECT x.k FROM S WINDOW(RANGE {left}) x {kind} R WINDOW(RANGE {right}) y ON x.v * y.v < 7"
    assert sent(plan(text)) == JOINS[join]


def test_rows_go_apart_by_columns_that_are_read_and_by_their_time() -> None:
    found = plan("SELECT x.k FROM S WINDOW(RANGE 9) x JOIN R WINDOW(RANGE 5) y ON x.v * y.v < 7")
    (left,) = (i for i in found.inputs.values() if not i.broadcast)
    assert {COLUMNS[c].name for c in left.needed} == {"k", "v", "t"}


WHYS = {
    "x.v < y.v": "a range of values is searched in sorted order",
    "x.v BETWEEN y.v - 1 AND y.v + 1": "a band of values is searched in sorted order",
    "x.v <> y.v": "all pairs are compared",
    "x.k = y.k AND ABS(x.v - y.v) < 5": "rows meet by equal keys; of many, a band of values is searched in sorted order",
    "x.k = y.k": "rows meet by equal keys",
}


@pytest.mark.parametrize("condition", WHYS)
def test_a_join_says_which_pairs_it_looks_at(condition: str) -> None:
    found = plan(f"SELECT x.k FROM S WINDOW(RANGE 9) x JOIN R WINDOW(RANGE 5) y ON {condition}")
    (why,) = (o.why for o in found.operators.values() if o.name == "Join")
    assert why.endswith(WHYS[condition])
