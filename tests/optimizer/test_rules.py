"""Every rule keeps every snapshot: optimized and original plans of generated queries, through the reference."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fuzz.players import INSTANTS, answerable, canonical, described
from tests.fuzz.queries import Generator
from tests.fuzz.streams import catalog
from tidegate.algebra import operators as op
from tidegate.errors import Diagnostic
from tidegate.language.binder import bind
from tidegate.language.dialect import parse
from tidegate.optimizer.driver import optimize
from tidegate.scalars.expressions import ref
from tidegate.types import INT, Field

FIRED: Counter[str] = Counter()


@pytest.mark.parametrize("block", range(5))
def test_optimized_plans_mean_the_same(block: int) -> None:
    for seed in range(200_000 + block * 40, 200_000 + (block + 1) * 40):
        case = Generator(seed).case()
        better, trace = optimize(case.plan)
        FIRED.update(firing.rule for firing in trace)
        if not answerable(case):
            continue
        for t in INSTANTS:
            tick = t * case.streams.unit * case.width
            ours = canonical(case.reference.snapshot(better, tick).elements())
            theirs = canonical(case.reference.snapshot(case.plan, tick).elements())
            assert ours == theirs, f"seed {seed} at {tick}\n{described(case)}"


def test_relational_rules_fired_on_the_way() -> None:
    from tidegate.optimizer.rules import relational

    if not FIRED:
        pytest.fail("run the whole module: this test looks at what the others made fire")
    names = [
        n
        for n, f in vars(relational).items()
        if callable(f) and getattr(f, "__module__", "") == relational.__name__
    ]
    public = {n for n in names if not n.startswith("_")}
    rare = {"drop_distinct_below_distinct", "merge_filters", "remove_identity_project"}
    assert public - rare <= set(FIRED), public - set(FIRED)


def test_the_driver_names_a_rule_that_breaks_a_schema() -> None:
    scan = op.Scan("S", (Field("a", INT), Field("b", INT)))

    def lose_a_column(node: op.Node) -> op.Node | None:
        return op.Scan("S", node.schema[:1]) if isinstance(node, op.Scan) and len(node.schema) > 1 else None

    with pytest.raises(Diagnostic, match="lose_a_column"):
        optimize(op.Distinct(scan), (lose_a_column,))


def test_the_driver_stops_rules_that_run_in_circles() -> None:
    scan = op.Scan("S", (Field("a", INT),))

    def wrap(node: op.Node) -> op.Node | None:
        return op.Distinct(node) if isinstance(node, op.Distinct) else None

    with pytest.raises(Diagnostic, match="circles"):
        optimize(op.Distinct(scan), (wrap,))


def test_distinct_of_distinct_and_filters_of_filters_merge() -> None:
    text = "SELECT DISTINCT a FROM (SELECT DISTINCT a FROM S WINDOW(RANGE 5))"
    better, _ = optimize(bind(parse(text)[0], catalog("integers"), text).plan)
    assert sum(isinstance(n, op.Distinct) for n in better.walk()) == 1
    text = "SELECT a FROM (SELECT a, b FROM S WINDOW(RANGE 5) WHERE a > 0) WHERE b > 1"
    better, trace = optimize(bind(parse(text)[0], catalog("integers"), text).plan)
    assert sum(isinstance(n, op.Filter) for n in better.walk()) == 1
    assert "merge_filters" in [f.rule for f in trace]


def test_quantifiers_compare_with_the_extreme_only() -> None:
    """Fired by the generated queries above as well; here the form is pinned."""
    assert FIRED["compare_with_extreme"], "run the whole module: this test looks at what the others made fire"
    text = "SELECT x FROM (SELECT COUNT(*) AS x FROM S WINDOW(RANGE 5) GROUP BY a) WHERE x >= ALL " + (
        "(SELECT COUNT(*) FROM R WINDOW(RANGE 5) GROUP BY a)"
    )
    better, _ = optimize(bind(parse(text)[0], catalog("integers"), text).plan)
    join = next(n for n in better.walk() if isinstance(n, op.Join))
    assert isinstance(join.right, op.Aggregate)
    assert [a.function for a in join.right.aggregations] == ["MAX"]
    assert not join.right.keys


def test_a_projection_that_changes_nothing_goes() -> None:
    scan = op.Scan("S", (Field("a", INT), Field("b", INT)))
    better, trace = optimize(op.Distinct(op.Project(scan, (ref(0), ref(1)), scan.schema)))
    assert better == op.Distinct(scan)
    assert [f.rule for f in trace] == ["remove_identity_project"]
