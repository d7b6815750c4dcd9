"""The index of keyed state: lookups give what the whole log stands for, at a price that does not follow the rows there are."""

from __future__ import annotations

import random
from collections import Counter
from datetime import date
from decimal import Decimal

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.kernels.index import Index, Run, in_force, latest
from tidegate.kernels.rows import accumulate, consolidate, from_rows, to_rows
from tidegate.time import MAX
from tidegate.types import DATE, DOUBLE, INT, NAN, STRING, Field, decimal

KEYS = st.sampled_from([0, 1, 2, 3, None])


def keyed(rows):
    return pl.DataFrame(rows, schema={"c0": pl.Int64, "c1": pl.Int64, "n": pl.Int64}, orient="row")


def standing(log):
    """The last row of each key, unless it says that the key is gone."""
    return {r for r in {r[0]: r for frame in log for r in frame.rows()}.values() if r[-1] != 0}


def empty(frame):
    return Index(("c0",), (Run(frame.clear(), ("c0",)),))


@given(
    epochs=st.lists(
        st.dictionaries(KEYS, st.tuples(st.integers(0, 5), st.integers(0, 1)), max_size=5), max_size=12
    ),
    wanted=st.sets(KEYS, min_size=1),
)
def test_the_latest_row_of_a_key_is_found(epochs, wanted):
    log = [keyed([])]
    index = empty(log[0])
    for rows in epochs:
        delta = keyed([(k, v, n) for k, (v, n) in rows.items()])
        log.append(delta)
        index = index.added(delta, latest(["c0"])) if delta.height else index
        table = standing(log)
        asked = keyed([(k, 0, 1) for k in wanted])
        expected = {r for r in table if r[0] in wanted}
        assert {r for r in in_force(index, asked).rows() if r[0] in wanted} == expected
        assert standing([index.rows]) == table


@given(
    epochs=st.lists(
        st.lists(st.tuples(KEYS, st.integers(0, 2), st.sampled_from([1, 1, -1])), max_size=6), max_size=12
    ),
    wanted=st.sets(KEYS, min_size=1),
)
def test_signed_rows_add_up(epochs, wanted):
    log = [keyed([])]
    index = empty(log[0])
    for rows in epochs:
        delta = consolidate(keyed(rows))
        log.append(delta)
        index = index.added(delta, lambda a, b, _: accumulate(a, b)) if delta.height else index
        expected = {r for r in consolidate(pl.concat(log)).rows() if r[0] in wanted}
        found = consolidate(index.find(keyed([(k, 0, 1) for k in wanted])))
        assert {r for r in found.rows() if r[0] in wanted} == expected


def test_a_thousand_small_changes_leave_few_runs_and_are_copied_a_few_times():
    copied = 0

    def merge(older, newer, oldest):
        nonlocal copied
        copied += older.height + newer.height
        return latest(["c0"])(older, newer, oldest)

    index = empty(keyed([])).added(keyed([(k, 0, 1) for k in range(10_000)]), merge)
    for epoch in range(1_000):
        index = index.added(keyed([(k, epoch, 1) for k in range(10 * epoch, 10 * epoch + 10)]), merge)
        assert len(index.runs) <= 12
    assert copied < 20 * 10_000, "each row is copied about as often as there are runs, not once per epoch"
    assert in_force(index, keyed([(4_321, 0, 1)])).rows() == [(4_321, 432, 1)]


def test_runs_that_are_over_are_dropped_whole_and_a_few_rows_are_not_worth_a_copy():
    rows = keyed([(1, 5, 1), *((k, 9, 1) for k in range(2, 9))]).rename({"c1": "te"})
    index = empty(rows).added(rows, lambda a, b, _: pl.concat([a, b]))
    assert index.expired(8) is index, "one of eight"
    assert index.expired(9).rows.height == 0
    lasting = index.added(rows.with_columns(te=MAX), lambda a, b, _: pl.concat([a, b]))
    assert lasting.expired(8) is lasting
    assert lasting.expired(9).rows["te"].to_list() == [MAX] * 8


def test_a_lookup_does_not_change_what_was_there():
    """A step that fails is repeated on the state before it."""
    before = empty(keyed([])).added(keyed([(1, 7, 1), (2, 8, 1), (3, 9, 1)]), latest(["c0"]))
    after = before.added(keyed([(1, 0, 0)]), latest(["c0"]))
    wanted = keyed([(1, 0, 1)])
    assert in_force(after, wanted).rows() == []
    assert in_force(before, wanted).rows() == [(1, 7, 1)]


@given(
    epochs=st.lists(
        st.lists(st.tuples(KEYS, st.integers(0, 9), st.sampled_from([1, 1, -1])), max_size=9), max_size=9
    )
)
def test_accumulating_leaves_nothing_that_cancels_out(epochs):
    """Rows of either sign may wait for their opposite, so either may meet it: a table restored from its log must not keep both."""
    table = keyed([])
    log = [table]
    for rows in epochs:
        delta = consolidate(keyed(rows))
        log.append(delta)
        table = accumulate(table, delta)
        sums = consolidate(pl.concat(log)).rows()
        assert (table["n"] != 0).all()
        by_row = {}
        for *row, n in table.rows():
            by_row.setdefault(tuple(row), []).append(n)
        assert {(*row, sum(ns)) for row, ns in by_row.items()} == {*sums}
        assert all(len({n > 0 for n in ns}) == 1 for ns in by_row.values()), "a row and its opposite"


@pytest.mark.parametrize("colliding", [False, True], ids=["", "hashes collide"])
def test_many_rows_of_any_type_add_up(colliding, monkeypatch):
    dice = random.Random(5)
    schema = (
        Field("a", INT),
        Field("b", STRING),
        Field("c", DOUBLE),
        Field("d", decimal(20, 2)),
        Field("e", DATE),
    )
    values = [
        (dice.choice([None, 1, 2]), dice.choice([None, "", "é"]), dice.choice([None, NAN, 0.5]),
         dice.choice([None, Decimal("1.50"), Decimal("-99999999999999999.99")]), dice.choice([None, date(1, 1, 1)]))
        for _ in range(6000)
    ]  # fmt: skip
    signs = [dice.choice([-1, 1, 2]) for _ in values]
    frame = from_rows(values, schema, [(0, 9, n) for n in signs])
    if colliding:
        monkeypatch.setattr(
            pl.DataFrame,
            "hash_rows",
            lambda self, seed: pl.repeat(7, self.height, dtype=pl.UInt64, eager=True),
        )
    expected = Counter()
    for row, n in zip(values, signs, strict=True):
        expected[row] += n
    found = consolidate(frame)
    assert dict(zip(to_rows(found, schema), found["n"].to_list(), strict=True)) == {
        r: n for r, n in expected.items() if n
    }


def test_rows_that_have_ended_are_a_quarter_at_most() -> None:
    """However long rows are valid: as they come, and after windows became shorter."""
    dice, index, alive = random.Random(3), Index(("c0",), (Run(ends([]), ("c0",)),)), list[int]()
    for now in range(400):
        lasting = 100 if now < 150 else 10
        index = index.expired(now)
        alive = [te for te in alive if te > now]
        fresh = [now + lasting for _ in range(dice.randint(0, 6))]
        index = index.added(ends(fresh), lambda a, b, _: pl.concat([a, b]).filter(pl.col("te") > now))  # noqa: B023
        alive += fresh
        found = index.rows["te"].to_list()
        assert sorted(te for te in found if te > now) == sorted(alive)
        assert len(found) <= 4 / 3 * len(alive) + 12


def ends(values: list[int]) -> pl.DataFrame:
    return pl.DataFrame({"c0": [1] * len(values), "te": values}, schema={"c0": pl.Int64, "te": pl.Int64})
