"""A plan is replaced if another has been much cheaper for some time, and then left alone."""

from __future__ import annotations

from dataclasses import replace

from tidegate.connectors import registry
from tidegate.language.binder import bind
from tidegate.language.dialect import parse
from tidegate.language.statements import define
from tidegate.optimizer.cost import Costs, cost
from tidegate.optimizer.driver import optimize
from tidegate.optimizer.statistics import SourceStatistics, assumed_column
from tidegate.physical.plan import Birth, Plan
from tidegate.runtime.equivalence import equivalent
from tidegate.runtime.ledger import KnownQuery
from tidegate.runtime.queries import Query
from tidegate.runtime.reoptimizing import CONFIRMED, EVERY, FACTOR, PATIENCE, Reoptimizer
from tidegate.types import INT

COLUMNS = {"A": {"k": 2, "v": 9}, "B": {"k": 2, "m": 20_000}, "C": {"m": 20_000, "v": 9}}
"""A and B meet often, B and C seldom."""
TEXT = "SELECT a.v, b.m, c.v AS u FROM A WINDOW(RANGE 6) a JOIN B WINDOW(RANGE 6) b ON a.k = b.k JOIN C WINDOW(RANGE 6) c ON b.m = c.m"


def query() -> Query:
    catalog = registry.catalog()
    for name, columns in COLUMNS.items():
        said = ", ".join(f"{c} INT" for c in columns)
        text = f"CREATE STREAM {name}({said}, t BIGINT) SOURCE memory('{name}') ORDERED BY t"
        catalog = define(parse(text)[0], catalog, text)
    plan = optimize(bind(parse(TEXT)[0], catalog, TEXT).plan)[0]
    return Query("q", plan, Plan(), KnownQuery(Birth(), 0, ""))


def costs(rate: float) -> Costs:
    """What is known where every stream has so many rows a tick."""
    found = {}
    for name, columns in COLUMNS.items():
        known = {c: replace(assumed_column(INT), distinct=float(n)) for c, n in columns.items()}
        found[name] = SourceStatistics(rate, rate * 100, 1e13, 1.0, known)
    return Costs(found, epoch=2.0)


def test_a_plan_that_is_much_cheaper_is_proposed_after_some_looks() -> None:
    mine, looks = query(), Reoptimizer()
    for number in range(1, CONFIRMED):
        assert looks.proposed(mine, number * EVERY, lambda: costs(1_000)) is None
    epoch = CONFIRMED * EVERY
    found = looks.proposed(mine, epoch, lambda: costs(1_000))
    assert found is not None
    assert cost(mine.plan, costs(1_000)).weight > FACTOR * cost(found.plan, costs(1_000)).weight
    assert equivalent(found.plan, mine.plan)
    looks.note("q", epoch, 50, found)
    assert [(r.query, r.epoch, r.until) for r in looks.replaced] == [("q", epoch, 50)]
    # It is left alone for some time, then looked at again, and the next time for longer.
    assert looks.proposed(mine, epoch + PATIENCE - 1, lambda: costs(1_000)) is None
    for number in range(CONFIRMED):
        again = looks.proposed(mine, epoch + PATIENCE + number, lambda: costs(1_000))
    assert again is not None
    looks.note("q", epoch + PATIENCE, None, again)
    assert len(looks.replaced) == 1
    assert looks.proposed(mine, epoch + 2 * PATIENCE, lambda: costs(1_000)) is None


def test_a_plan_that_is_little_cheaper_or_only_for_a_moment_is_not() -> None:
    mine, looks = query(), Reoptimizer()
    for number in range(5):
        assert looks.proposed(mine, number * EVERY, lambda: costs(12)) is None
    for number in range(6):
        rate = 1_000 if number % 2 else 12
        assert looks.proposed(mine, number * EVERY, lambda r=rate: costs(r)) is None  # type: ignore[misc]
    assert looks.proposed(mine, EVERY, lambda: None) is None
