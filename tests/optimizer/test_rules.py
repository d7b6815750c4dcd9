"""Every rule keeps every snapshot: optimized and original plans of generated queries, through the reference."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import pytest

from tests.fuzz.players import INSTANTS, answerable, canonical, described
from tests.fuzz.queries import Case, Generator
from tests.fuzz.streams import catalog
from tidegate.algebra import operators as op
from tidegate.algebra.modify import Sync
from tidegate.algebra.printing import details
from tidegate.errors import Diagnostic
from tidegate.language.binder import bind
from tidegate.language.dialect import parse
from tidegate.optimizer.driver import optimize
from tidegate.scalars.expressions import ref
from tidegate.types import INT, Field

BLOCKS = 5


@dataclass(frozen=True)
class Optimized:
    """A generated query, before and after, with the rules that fired."""

    seed: int
    case: Case
    better: op.Node
    rules: tuple[str, ...]


@cache
def generated(block: int) -> tuple[Optimized, ...]:
    found = []
    for seed in range(200_000 + block * 40, 200_000 + (block + 1) * 40):
        case = Generator(seed).case()
        better, trace = optimize(case.plan)
        found.append(Optimized(seed, case, better, tuple(firing.rule for firing in trace)))
    return tuple(found)


def fired() -> set[str]:
    """The rules that fire on generated queries."""
    return {rule for block in range(BLOCKS) for made in generated(block) for rule in made.rules}


@pytest.mark.parametrize("block", range(BLOCKS))
def test_optimized_plans_mean_the_same(block: int) -> None:
    for made in generated(block):
        case = made.case
        if not answerable(case):
            continue
        for t in INSTANTS:
            tick = t * case.streams.unit * case.width
            ours = canonical(case.reference.snapshot(made.better, tick).elements())
            theirs = canonical(case.reference.snapshot(case.plan, tick).elements())
            assert ours == theirs, f"seed {made.seed} at {tick}\n{described(case)}"


def test_relational_rules_fired_on_the_way() -> None:
    from tidegate.optimizer.rules import relational

    names = [
        n
        for n, f in vars(relational).items()
        if callable(f) and getattr(f, "__module__", "") == relational.__name__
    ]
    public = {n for n in names if not n.startswith("_")}
    rare = {"drop_distinct_below_distinct", "merge_filters", "remove_identity_project"}
    assert public - rare <= fired(), public - fired()


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


@pytest.mark.parametrize(
    ("window", "found"),
    [
        ("RANGE 6 GRANULARITY 2", "RANGE 6 SLIDE 2"),
        ("RANGE 6 SLIDE 2 GRANULARITY 4", "RANGE 6 SLIDE 4"),
        ("RANGE 6 SLIDE 4 GRANULARITY 2", "RANGE 6 SLIDE 4"),
        ("RANGE 6 SLIDE 3 GRANULARITY 2", None),
        ("RANGE 6 SLIDE 4 STARTING AT 1 GRANULARITY 4", None),
        ("ROWS 6 GRANULARITY 2", None),
    ],
)
def test_a_granularity_becomes_the_slide_of_a_window_in_time(window: str, found: str | None) -> None:
    text = f"SELECT a FROM S WINDOW({window})"
    better, trace = optimize(bind(parse(text)[0], catalog("integers"), text).plan)
    synchronized = any(isinstance(n, Sync) for n in better.walk())
    rules = {f.rule for f in trace} & {"merge_sync_into_window", "drop_sync_of_coarser_rows"}
    assert synchronized == (found is None)
    assert len(rules) == (found is not None)
    if found is not None:
        (shown,) = [n for n in better.walk() if isinstance(n, op.Window)]
        assert details(shown) == found


def test_quantifiers_compare_with_the_extreme_only() -> None:
    """Fires on generated queries as well; here the form is pinned."""
    assert "compare_with_extreme" in fired()
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
