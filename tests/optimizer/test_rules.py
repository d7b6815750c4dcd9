"""Every rule keeps every snapshot: original and rewritten plans of generated and chosen queries, through reference and kernels."""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import dataclass
from functools import cache

import pytest
from sqlglot import parse_one

from tests.fuzz.players import INSTANTS, answerable, canonical, described, difference, frames, play
from tests.fuzz.queries import Case, Generator
from tests.fuzz.streams import IN_BATCHES, INTEGERS, catalog, generate
from tests.optimizer.compositions import EVERY, Composer, case_of
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
from tidegate.algebra.modify import Modify, Sync
from tidegate.algebra.printing import details
from tidegate.algebra.windows import TimeWindow
from tidegate.errors import Diagnostic
from tidegate.kernels.machine_code import few_rows
from tidegate.language.binder import bind
from tidegate.language.dialect import parse
from tidegate.optimizer.driver import Rule, broken, optimize
from tidegate.optimizer.rules import ALTERNATIVES, JOIN_ORDER, RULES
from tidegate.scalars.expressions import ref
from tidegate.time import MAX
from tidegate.types import INT, STRING, Field

CASES = int(os.environ.get("TIDEGATE_FUZZ_CASES", "60"))
FIRST = int(os.environ.get("TIDEGATE_FUZZ_SEED", "200000"))
BLOCKS = 5
COMPOSED = int(os.environ.get("TIDEGATE_RULE_CASES", "2"))
"""How many larger queries are made for each rule and alternative, each over other rows."""


@dataclass
class Compared:
    """Which rules and alternatives had fired in cases whose answers were compared, how often, and how many cases had no answer."""

    fired: Counter[str]
    cases: int = 0
    refused: int = 0


def compare(case: Case, plan: op.Node, seen: Compared, most: int) -> set[str]:
    """Reference and kernels, before and after: as written, optimized, and by some alternatives. Which of them fired, if there is an answer."""
    if plan is case.plan and not has_answer(case):
        seen.refused += 1
        return set()
    better, trace = optimize(plan)
    others = [("optimized", better), *alternatives(better, case.seed, most)]
    same_snapshots(case, plan, others)
    functions = {**case.catalog.functions, **case.catalog.aggregates}
    span = case.streams.unit * case.width
    cuts = random.Random(case.seed).sample(INSTANTS, 2 * (case.seed % 4 == 0))
    chunks = frames(plan, case.streams.sources(case.width))
    for name, other in [("as written", plan), *others]:
        try:
            with few_rows():
                answer = play(other, chunks, [*(t * span for t in sorted(cuts)), MAX], functions)
        except Diagnostic as problem:
            if problem.condition != "SYNC_POINTS_RARE":
                raise
            seen.refused += 1
            return set()
        wrong = difference(case.reference, plan, answer)
        assert wrong is None, f"{name}: {wrong}\nseed {case.seed}\n{described(case)}"
    fired = {f.rule for f in trace} | {name for name, _ in others[1:]}
    seen.fired.update(fired)
    seen.cases += 1
    return fired


def has_answer(case: Case) -> bool:
    """Whether a query has an answer as it was written; if it has, no other plan may fail."""
    try:
        return answerable(case)
    except Diagnostic as problem:
        if problem.condition not in ("DIVIDE_BY_ZERO", "CAST_INVALID_INPUT"):
            raise
        return False


def same_snapshots(case: Case, plan: op.Node, others: list[tuple[str, op.Node]]) -> None:
    for t in INSTANTS:
        tick = t * case.streams.unit * case.width
        expected = canonical(case.reference.snapshot(plan, tick).elements())
        for name, other in others:
            found = canonical(case.reference.snapshot(other, tick).elements())
            assert found == expected, f"{name}, seed {case.seed} at {tick}\n{described(case)}"


def alternatives(plan: op.Node, seed: int, most: int) -> list[tuple[str, op.Node]]:
    """Plans that differ from one by an alternative, some of them: of each kind one before any kind has two."""
    dice = random.Random(seed)
    found = [*variants(plan)]
    for name, node, other in found:
        problem = broken(node, other)
        assert problem is None, f"{name} {problem}"
    dice.shuffle(found)
    turns: Counter[str] = Counter()
    ranked = []
    for name, node, other in found:
        ranked.append((turns[name], len(ranked), name, node, other))
        turns[name] += 1
    return [
        (name, replaced(plan, node, other))
        for _, _, name, node, other in sorted(ranked, key=lambda r: r[:2])[:most]
    ]


@cache
def generated(block: int) -> Compared:
    """Queries at random, compared."""
    size = CASES // BLOCKS
    seen = Compared(Counter())
    for seed in range(FIRST + block * size, FIRST + (block + 1) * size):
        case = Generator(seed).case()
        compare(case, case.plan, seen, 4)
    return seen


@pytest.mark.parametrize("block", range(BLOCKS))
def test_optimized_plans_of_generated_queries_mean_the_same(block: int) -> None:
    """Rules all together, and after them each alternative by itself (some of them: their number grows with the query)."""
    assert generated(block).refused <= CASES // BLOCKS // 6


@pytest.mark.parametrize("name", EVERY)
def test_queries_made_for_a_rule_mean_the_same(name: str) -> None:
    """The queries on which it must fire, and larger ones made of them; it has fired in most of those that were compared."""
    seen = Compared(Counter())
    for number, text in enumerate(EVERY[name][0]):
        case = case_of(text, FIRST + number * 31)
        fired = compare(case, case.plan, seen, 12)
        assert name in fired or not fired or case.streams.mode == IN_BATCHES
    for seed in range(FIRST, FIRST + COMPOSED):
        if name in made_plans():
            case = case_of("SELECT a FROM S", seed)
            compare(case, Composer(name, seed).made_plan(), seen, 4)
        else:
            case = Composer(name, seed).case()
            compare(case, case.plan, seen, 6)
    assert seen.fired[name] > seen.cases / 4, f"{name} fired in {seen.fired[name]} of {seen.cases} queries"
    assert seen.cases > 3 * seen.refused


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
"""Rules that few queries at random are enough for; for the others, and for these, there are queries made for them above."""

NEVER_WRITTEN = {"drop_now_window", "push_filter_below_single_row"}
"""Rules about what queries do not say, or the binder has seen to."""

SELDOM = {
    "drop_redundant_single_row", "filter_sides_by_or", "pull_window_above_union", "push_window_below_union", "push_distinct_below_join",
}  # fmt: skip
"""What thousands of queries at random may not have: those made for it have it."""


def test_rules_fire_on_generated_queries() -> None:
    fired = {name for block in range(BLOCKS) for name in generated(block).fired}
    wanted = (
        {r.__name__ for r in (*RULES, *ALTERNATIVES, *JOIN_ORDER)} - NEVER_WRITTEN - SELDOM
        if CASES >= 2500
        else OFTEN
    )
    assert wanted <= fired, wanted - fired


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


def test_a_filter_on_other_columns_deletes_where_an_update_leaves_it() -> None:
    """`σ_p(modify_k(S))` = modify_k of S whose rows delete their key where p is not true; below, p would keep rows that were updated."""
    filtered = next(n for n in plan_of("SELECT a, b FROM K WHERE b > 0").walk() if isinstance(n, op.Filter))
    modify = filtered.input
    assert isinstance(modify, Modify)
    assert optimize(filtered)[0] == filtered
    schema = modify.schema
    operation = parse_one(f"CASE WHEN {filtered.predicate.sql()} THEN 'u' ELSE 'd' END", dialect="spark")
    told = op.Project(
        modify.input, (*map(ref, range(len(schema))), operation), (*schema, Field("op", STRING))
    )
    deleting = op.Project(Modify(told, modify.key, len(schema)), tuple(map(ref, range(len(schema)))), schema)
    below = Modify(op.Filter(modify.input, filtered.predicate), modify.key)
    differ = 0
    for seed in range(FIRST, FIRST + 30):
        case = Case(seed, generate(random.Random(seed), INTEGERS), "SELECT a FROM S")
        for t in INSTANTS:
            shown, same, other = (
                canonical(case.reference.snapshot(p, t).elements()) for p in (filtered, deleting, below)
            )
            assert shown == same, f"seed {seed} at {t}\n{case.streams.raw['S']}"
            differ += shown != other
    assert differ
