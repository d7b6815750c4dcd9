"""Every rule keeps every snapshot: original and rewritten plans of generated and chosen queries, through reference and kernels."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from functools import cache

import pytest

from tests.fuzz.players import INSTANTS, answerable, canonical, described, difference, frames, play
from tests.fuzz.queries import Case, Generator
from tests.fuzz.streams import IN_BATCHES, INTEGERS, catalog, generate
from tests.optimizer.families import (
    ALTERNATIVE_QUERIES,
    RULE_QUERIES,
    made_plans,
    plan_of,
    replaced,
    unmade_plans,
    variants,
)
from tidegate.algebra import operators as op
from tidegate.algebra.modify import Sync
from tidegate.algebra.printing import details
from tidegate.algebra.windows import TimeWindow
from tidegate.errors import Diagnostic
from tidegate.language.binder import bind
from tidegate.language.dialect import parse
from tidegate.optimizer.driver import Rule, broken, optimize
from tidegate.optimizer.rules import ALTERNATIVES, JOIN_ORDER, RULES
from tidegate.scalars.expressions import ref
from tidegate.time import MAX
from tidegate.types import INT, Field

CASES = int(os.environ.get("TIDEGATE_FUZZ_CASES", "120"))
FIRST = int(os.environ.get("TIDEGATE_FUZZ_SEED", "200000"))
BLOCKS = 5
ROUNDS = max(1, CASES // 200)
"""How often every chosen query is played, each time over other rows."""

EVERY = {**RULE_QUERIES, **ALTERNATIVE_QUERIES}


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
    size = CASES // BLOCKS
    for seed in range(FIRST + block * size, FIRST + (block + 1) * size):
        case = Generator(seed).case()
        better, trace = optimize(case.plan)
        found.append(Optimized(seed, case, better, tuple(firing.rule for firing in trace)))
    return tuple(found)


def same_snapshots(case: Case, plan: op.Node, others: list[tuple[str, op.Node]]) -> None:
    for t in INSTANTS:
        tick = t * case.streams.unit * case.width
        expected = canonical(case.reference.snapshot(plan, tick).elements())
        for name, other in others:
            found = canonical(case.reference.snapshot(other, tick).elements())
            assert found == expected, f"{name}, seed {case.seed} at {tick}\n{described(case)}"


@pytest.mark.parametrize("block", range(BLOCKS))
def test_optimized_plans_of_generated_queries_mean_the_same(block: int) -> None:
    """Rules all together, and after them each alternative by itself (some of them: their number grows with the query)."""
    for made in generated(block):
        if not answerable(made.case):
            continue
        others = [("optimized", made.better), *alternatives(made.better, made.seed, 4)]
        same_snapshots(made.case, made.case.plan, others)


def alternatives(plan: op.Node, seed: int, most: int) -> list[tuple[str, op.Node]]:
    """Plans that differ from one by an alternative, some of them."""
    found = [*variants(plan)]
    for name, node, other in found:
        problem = broken(node, other)
        assert problem is None, f"{name} {problem}"
    chosen = random.Random(seed).sample(found, min(len(found), most))
    return [(name, replaced(plan, node, other)) for name, node, other in chosen]


def case_of(text: str, seed: int) -> Case:
    """A query over generated streams; where it has windows over derived streams, these have no batches."""
    dice = random.Random(seed)
    derived = text.count(") WINDOW(") > 0
    mode = IN_BATCHES if seed % 3 == 2 and not derived else INTEGERS
    return Case(seed, generate(dice, mode, dice.choice((0, 3))), text)


@pytest.mark.parametrize("name", EVERY)
def test_chosen_queries_mean_the_same(name: str) -> None:
    """On queries for each rule and alternative: reference and kernels, before and after."""
    for number, text in enumerate(EVERY[name][0]):
        for seed in range(ROUNDS):
            case = case_of(text, FIRST + number * 31 + seed)
            if answerable(case):
                _same_everywhere(case, case.plan)


@pytest.mark.parametrize("name", made_plans())
def test_made_plans_mean_the_same(name: str) -> None:
    for seed in range(ROUNDS + 1):
        _same_everywhere(case_of("SELECT a FROM S", FIRST + 3 * seed), made_plans()[name])


def _same_everywhere(case: Case, plan: op.Node) -> None:
    better, _ = optimize(plan)
    others = alternatives(better, case.seed, 12)
    same_snapshots(case, plan, [("optimized", better), *others])
    functions = {**case.catalog.functions, **case.catalog.aggregates}
    span = case.streams.unit * case.width
    epochs = [t * span for t in sorted(random.Random(case.seed).sample(INSTANTS, 3))]
    for name, other in [("optimized", better), *others]:
        chunks = frames(plan, case.streams.sources(case.width))
        answer = play(other, chunks, [*epochs, MAX], functions)
        problem = difference(case.reference, plan, answer)
        assert problem is None, f"{name}: {problem}\n{described(case)}"


@pytest.mark.parametrize("name", EVERY)
def test_rules_fire_where_they_should_and_only_there(name: str) -> None:
    assert EVERY[name][1], "a rule needs queries that it must leave alone"
    for texts, expected in zip(EVERY[name], (True, False), strict=True):
        for text in texts:
            assert fires(name, plan_of(text)) == expected, text
    if not EVERY[name][0]:
        assert fires(name, made_plans()[name])
        assert not fires(name, unmade_plans()[name])


def fires(name: str, plan: op.Node) -> bool:
    better, trace = optimize(plan)
    return name in {f.rule for f in trace} | {n for n, *_ in variants(better)}


def test_every_rule_has_its_queries() -> None:
    assert [*RULE_QUERIES] == [r.__name__ for r in RULES]
    assert [*ALTERNATIVE_QUERIES] == [a.__name__ for a in (*ALTERNATIVES, *JOIN_ORDER)]


OFTEN = {
    "fold_constants", "merge_filters", "turn_outer_join_inner", "push_filter_below_project", "push_filter_below_union",
    "push_filter_below_window", "push_filter_below_changes", "push_filter_below_modify", "push_filter_into_join",
    "push_join_conditions_down", "compare_with_extreme", "merge_projects", "push_projection_below_window",
    "pull_sync_above_rowwise",
}  # fmt: skip
"""Rules that few queries at random are enough for; the others have queries of their own above."""


def test_rules_fire_on_generated_queries() -> None:
    fired = {rule for block in range(BLOCKS) for made in generated(block) for rule in made.rules}
    wanted = {r.__name__ for r in RULES} - NEVER_WRITTEN if CASES >= 5000 else OFTEN
    assert wanted <= fired, wanted - fired


NEVER_WRITTEN = {"drop_now_window", "push_filter_below_single_row"}
"""Rules about what queries do not say, or the binder has seen to."""


# What the driver does not let pass ------------------------------------------------------------------------------------

SCAN = op.Scan("S", (Field("a", INT), Field("b", INT)))
OTHER = op.Scan("R", SCAN.schema)


def distinct_to(other: op.Node) -> Rule:
    def wrong_rule(node: op.Node) -> op.Node | None:
        return other if isinstance(node, op.Distinct) else None

    return wrong_rule


@pytest.mark.parametrize(
    ("plan", "other", "problem"),
    [
        (op.Distinct(SCAN), op.Scan("S", SCAN.schema[:1]), "changed the schema"),
        (op.Distinct(SCAN), op.Project(SCAN, (ref(0), ref(1)), (SCAN.schema[0], Field("z", INT))), "changed the schema"),
        (op.Distinct(SCAN), op.Project(SCAN, (ref(0), ref(1)), (SCAN.schema[0], Field("b", INT, hidden=True))), "changed the schema"),
        (op.Distinct(SCAN), op.Distinct(OTHER), "reads R, which was not read before"),
        (op.Distinct(SCAN), SCAN, "lost the key"),
        (op.Distinct(op.Window(SCAN, TimeWindow(5))), op.Distinct(op.Window(SCAN, TimeWindow(9))), "made Properties"),
        (op.Distinct(op.Window(SCAN, TimeWindow(8, 4))), op.Distinct(op.Window(SCAN, TimeWindow(8))), "made Properties"),
        (op.Distinct(op.Window(SCAN, TimeWindow(None))), op.Distinct(op.Window(SCAN, TimeWindow(9))), "made Properties"),
    ],
    ids=["column", "name", "hidden", "stream", "key", "bound", "granularity", "append-only"],
)  # fmt: skip
def test_the_driver_names_a_rule_that_breaks_a_promise(plan: op.Node, other: op.Node, problem: str) -> None:
    with pytest.raises(Diagnostic, match=f"wrong_rule {problem}"):
        optimize(plan, (distinct_to(other),), strict=True)


def test_a_rule_that_forgets_a_key_is_not_followed() -> None:
    assert optimize(op.Distinct(SCAN), (distinct_to(SCAN),)) == (op.Distinct(SCAN), ())


def test_the_driver_stops_rules_that_run_in_circles() -> None:
    def wrap(node: op.Node) -> op.Node | None:
        return op.Distinct(node) if isinstance(node, op.Distinct) else None

    with pytest.raises(Diagnostic, match="circles"):
        optimize(op.Distinct(SCAN), (wrap,))


# Forms ----------------------------------------------------------------------------------------------------------------


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
    text = "SELECT x FROM (SELECT COUNT(*) AS x FROM S WINDOW(RANGE 5) GROUP BY a) WHERE x >= ALL " + (
        "(SELECT COUNT(*) FROM R WINDOW(RANGE 5) GROUP BY a)"
    )
    better, _ = optimize(bind(parse(text)[0], catalog("integers"), text).plan)
    join = next(n for n in better.walk() if isinstance(n, op.Join))
    assert isinstance(join.right, op.Aggregate)
    assert [a.function for a in join.right.aggregations] == ["MAX"]
    assert not join.right.keys


def test_what_is_empty_takes_all_above_it_along() -> None:
    better, _ = optimize(
        plan_of(
            "SELECT l.a, COUNT(*) AS n FROM S WINDOW(RANGE 5) l JOIN K r ON l.a = r.a WHERE l.b > 3 AND l.b < 2 GROUP BY l.a"
        )
    )
    kinds = {type(n) for n in better.walk()}
    assert kinds == {op.Project, op.Filter, op.Scan}


def test_conditions_that_may_fail_stay_behind_their_guards() -> None:
    """A division is not asked about rows that a join, a ranking or another condition kept away."""
    guarded = "SELECT a FROM (SELECT l.a, l.b FROM S WINDOW(RANGE 5) l JOIN R WINDOW(RANGE 5) r ON l.a = r.a AND l.b <> r.c) WHERE 10 / b > 1 AND a > 0"
    better, _ = optimize(plan_of(guarded))
    for node in better.walk():
        if isinstance(node, op.Filter):
            assert "/" not in node.predicate.sql(), "a division below the join"
