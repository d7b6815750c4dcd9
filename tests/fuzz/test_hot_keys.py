"""Generated joins of streams in which few keys have most rows: in two parts, over epochs, in some partitions and then in others, kernels = reference."""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import polars as pl
import pytest

from tests.fuzz.players import answerable, described
from tests.fuzz.queries import Case
from tests.fuzz.streams import INTEGERS, TIMESTAMPS, Arrival, Streams, generate
from tests.fuzz.test_band_joins import item
from tests.fuzz.test_partitions import COUNTS, check
from tidegate.algebra import operators as op
from tidegate.optimizer import hot_keys
from tidegate.optimizer.cost import Costs
from tidegate.optimizer.hot_keys import spread_hot_keys
from tidegate.optimizer.statistics import ColumnStatistics, SourceStatistics, frequent
from tidegate.physical.plan import SourceRows
from tidegate.runtime.jobs import planned
from tidegate.storage import Storage
from tidegate.types import INT, Row, Value

CASES = int(os.environ.get("TIDEGATE_FUZZ_CASES", "24"))
FIRST = int(os.environ.get("TIDEGATE_FUZZ_SEED", "1300000"))

KINDS = ("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
SKEWED = ("S", "R", "O", "T")
"""Streams whose first column is INT a."""


def skewed(streams: Streams, dice: random.Random) -> Streams:
    """Most rows of some streams have one key, perhaps NULL."""
    hot: Value = dice.choice((1, 2, 2, None))
    some = [n for n in SKEWED if dice.random() < 0.7]

    def changed(name: str, row: Row) -> Row:
        return (hot, *row[1:]) if name in some and dice.random() < 0.7 else row

    raw = {n: [Arrival(changed(n, a.row), a.t, a.batch) for a in rows] for n, rows in streams.raw.items()}
    return replace(streams, raw=raw, table=[changed("T", r) for r in streams.table])


def known(streams: Streams) -> Costs:
    """Statistics of the first columns, as they are."""
    rows = {n: [a.row[0] for a in rows] for n, rows in streams.raw.items()} | {
        "T": [r[0] for r in streams.table]
    }
    found = {}
    for name in SKEWED:
        keys = pl.Series(rows[name], dtype=pl.Int32)
        nulls = keys.null_count() / max(1, len(keys))
        column = ColumnStatistics(max(1, keys.n_unique()), nulls=nulls, frequent=frequent(keys, INT))
        found[name] = SourceStatistics(1.0, max(1, len(keys)), 20.0, columns={"a": column})
    return Costs(found)


def drawn(seed: int) -> Case:
    dice = random.Random(seed)
    mode = dice.choice((INTEGERS, INTEGERS, TIMESTAMPS))
    unit = " SECONDS" if mode == TIMESTAMPS else ""
    items = []
    while len(items) < 3:
        text, columns = item(dice, "pqr"[len(items)], unit)
        if any(c.endswith(".a") for c in columns["INT"]) and not text.startswith(("K", "N")):
            items.append((text, [c for cs in columns.values() for c in cs]))
    kind = dice.choice(KINDS)
    (one, left), (other, right), (third, more) = items
    shown = [*left] if "SEMI" in kind or "ANTI" in kind else [*left, *right]
    equal = dice.choice(("p.a = q.a", "p.a = q.a", "p.a <=> q.a"))
    rest = f" AND {dice.choice(left)} IS NOT NULL" if dice.random() < 0.2 else ""
    text = f"{one} {kind} {other} ON {equal}{rest}"
    if dice.random() < 0.4:
        text += f" JOIN {third} ON {'q' if kind == 'RIGHT JOIN' else 'p'}.a = r.a"
        shown += more
    columns_ = ", ".join(f"{c} AS o{i}" for i, c in enumerate(dice.sample(shown, 3)))
    streams = skewed(generate(dice, mode, sizes=(9, 14)), dice)
    return Case(seed, streams, f"SELECT {columns_} FROM {text}")


@pytest.fixture(autouse=True)
def _few_rows_are_many() -> object:
    with patch.object(hot_keys, "ROWS", 0.0), patch.object(hot_keys, "COPIED", 1e9):
        yield


@pytest.mark.parametrize("block", range(2))
def test_joins_in_two_parts_go_on_in_other_partitions(block: int, tmp_path: Path) -> None:
    size = CASES // 2
    split: Counter[str] = Counter()
    for seed in range(FIRST + block * size, FIRST + (block + 1) * size):
        case = drawn(seed)
        plan = spread_hot_keys(case.optimized, known(case.streams))
        if plan == case.optimized or not answerable(case):
            continue
        storage = Storage(str(tmp_path / str(seed))) if seed % 3 == 0 else None
        found = check(case, plan, COUNTS[seed % len(COUNTS)], random.Random(seed), storage)
        assert found is None, f"seed {seed}, {found}\n{described(case)}\n{plan}"
        split.update({n.kind for n in plan.walk() if isinstance(n, op.Join) and n.spread is not None})
    assert split.total() >= size // 3, split


def hot(text: str) -> tuple[op.Node, op.Node]:
    """A plan before and after, where 1 is the key of most rows of S."""
    case = Case(0, generate(random.Random(0), INTEGERS), text)
    columns = {"a": ColumnStatistics(100.0, frequent=((1, 0.9),))}
    few = {n: SourceStatistics(1.0, 1e3, 1e3) for n in ("R", "T")}
    costs = Costs({"S": SourceStatistics(1e3, 1e6, 1e3, columns=columns), **few})
    return case.optimized, spread_hot_keys(case.optimized, costs)


SPREAD = {
    "SELECT p.b, q.c FROM S WINDOW(RANGE 5) p JOIN R WINDOW(RANGE 5) q ON p.a = q.a": 0,
    "SELECT p.b, q.c FROM R WINDOW(RANGE 5) q JOIN S WINDOW(RANGE 5) p ON p.a = q.a": 1,
    "SELECT p.b, q.c FROM S WINDOW(RANGE 5) p LEFT JOIN R WINDOW(RANGE 5) q ON p.a = q.a AND p.b < q.c": 0,
    "SELECT p.b, q.c FROM R WINDOW(RANGE 5) q RIGHT JOIN S WINDOW(RANGE 5) p ON p.a = q.a": 1,
    "SELECT p.b FROM S WINDOW(RANGE 5) p WHERE p.a IN (SELECT a FROM R WINDOW(RANGE 9))": 0,
    "SELECT p.b FROM S WINDOW(RANGE 5) p LEFT ANTI JOIN R WINDOW(RANGE 9) q ON p.a = q.a": 0,
    # Its partners must all be seen by each row of the other side.
    "SELECT p.b, q.c FROM R WINDOW(RANGE 5) q LEFT JOIN S WINDOW(RANGE 5) p ON p.a = q.a": None,
    "SELECT p.b, q.c FROM S WINDOW(RANGE 5) p FULL JOIN R WINDOW(RANGE 5) q ON p.a = q.a": None,
    # What is above needs the key's rows together anyway.
    "SELECT p.a, COUNT(*) FROM S WINDOW(RANGE 5) p JOIN R WINDOW(RANGE 5) q ON p.a = q.a GROUP BY p.a": None,
    "SELECT p.a, q.c, COUNT(*) FROM S WINDOW(RANGE 5) p JOIN R WINDOW(RANGE 5) q ON p.a = q.a GROUP BY p.a, q.c": 0,
    # Rows have been brought together by the key below.
    "SELECT p.n, q.c FROM (SELECT a, COUNT(*) AS n FROM S WINDOW(RANGE 5) GROUP BY a) p JOIN R WINDOW(RANGE 5) q ON p.a = q.a": None,
    "SELECT p.b, q.c FROM S WINDOW(RANGE 5) p JOIN R WINDOW(RANGE 5) q ON p.b = q.c": None,
    "SELECT p.b, q.c FROM S WINDOW(RANGE 5) p JOIN R WINDOW(RANGE 5) q ON p.a = q.a AND p.b = q.c": None,
}  # fmt: skip


@pytest.mark.parametrize("text", SPREAD)
def test_which_side_of_which_join_is_spread(text: str) -> None:
    before, after = hot(text)
    spread = {n.spread for n in after.walk() if isinstance(n, op.Join)} - {None}
    assert spread == ({SPREAD[text]} - {None})
    assert (after == before) == (not spread)


def test_rows_of_a_hot_key_are_spread_from_the_source_and_met_by_copies() -> None:
    _, plan = hot("SELECT p.b, q.c FROM S WINDOW(RANGE 5) p JOIN R WINDOW(RANGE 5) q ON p.a = q.a")
    ways = {}
    for entry in planned({"q": plan}, {}).inputs.values():
        assert isinstance(entry.origin, SourceRows)
        (condition,) = entry.origin.predicates
        cold = "NOT" in condition.sql()
        ways[(entry.origin.name, cold)] = "everywhere" if entry.broadcast else len(entry.key or ())
    # By its key and time, everywhere, and both by the key alone.
    assert ways == {("S", False): 2, ("R", False): "everywhere", ("S", True): 1, ("R", True): 1}


def test_three_joins_on_one_key_are_split_together() -> None:
    text = "SELECT p.b, q.c, T.name FROM S WINDOW(RANGE 5) p JOIN R WINDOW(RANGE 5) q ON p.a = q.a JOIN T ON q.a = T.a"
    _, plan = hot(text)
    joins = [n for n in plan.walk() if isinstance(n, op.Join)]
    assert sorted(str(j.spread) for j in joins) == ["0", "0", "None", "None"]
    assert planned({"q": plan}, {}).depth == 1


def test_few_rows_and_many_copies_are_not_worth_it() -> None:
    text = "SELECT p.b, q.c FROM S WINDOW(RANGE 5) p JOIN R WINDOW(RANGE 5) q ON p.a = q.a"
    for name, value in (("ROWS", 1e6), ("COPIED", 1e-9), ("SHARE", 0.95)):
        with patch.object(hot_keys, name, value):
            before, after = hot(text)
            assert before == after
