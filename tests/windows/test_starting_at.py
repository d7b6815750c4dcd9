"""`SLIDE s STARTING AT t0`: slides begin at an instant of the user's, and so does the stream that the window sees."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from tests.fuzz.partition_runs import Partitioned
from tests.fuzz.players import frames, play
from tidegate.algebra import operators as op
from tidegate.algebra.printing import tree
from tidegate.errors import Diagnostic
from tidegate.language.binder import bind
from tidegate.language.catalog import Catalog, SourceCall, StreamDefinition
from tidegate.language.dialect import parse, text_of
from tidegate.optimizer.driver import optimize
from tidegate.reference.snapshots import Arrivals, Reference, snapshot
from tidegate.time import MAX, to_ticks
from tidegate.types import BIGINT, INT, TIMESTAMP, Field, Type

Rows = list[tuple[tuple[int, int], int]]


def catalog(time: Type = BIGINT) -> Catalog:
    fields = (Field("k", INT), Field("v", INT), Field("t", time, False))
    source = SourceCall("memory", ("S",))
    return Catalog().with_definition(StreamDefinition("S", fields, source, ordered_by="t"))


def planned(text: str, time: Type = BIGINT) -> op.Node:
    return optimize(bind(parse(text)[0], catalog(time), text).plan)[0]


def arrivals(seed: int) -> Rows:
    dice = random.Random(seed)
    return [((dice.randrange(2), i), t) for i, t in enumerate(sorted(dice.randrange(24) for _ in range(14)))]


def by_time(rows: Rows, size: int, slide: int, start: int, t: int) -> list[tuple[int, int]]:
    if t < start:
        return []
    point = start + (t - start) // slide * slide
    return [e for e, at in rows if start <= at and point - size < at <= point]


def by_rows(rows: Rows, size: int, slide: int, start: int, t: int) -> list[tuple[int, int]]:
    come = [e for e, at in rows if start <= at <= t]
    shown = len(come) // slide * slide
    return come[max(0, shown - size) : shown]


def rows_by_time(rows: Rows, size: int, slide: int, start: int, t: int) -> list[tuple[int, int]]:
    if t < start:
        return []
    point = start + (t - start) // slide * slide
    return [e for e, at in rows if start <= at <= point][-size:]


def time_by_rows(rows: Rows, size: int, slide: int, start: int, t: int) -> list[tuple[int, int]]:
    come = [at for _, at in rows if start <= at <= t]
    shown = len(come) // slide * slide
    if not shown:
        return []
    point = come[shown - 1]
    return [e for e, at in rows if start <= at and point - size < at <= point]


FORMS = {
    "RANGE {w} SLIDE {s}": by_time,
    "ROWS {w} SLIDE {s}": by_rows,
    "ROWS {w} SLIDE {s} TICKS": rows_by_time,
    "RANGE {w} SLIDE {s} ROWS": time_by_rows,
}


@pytest.mark.parametrize("form", FORMS)
def test_by_definition(form: str) -> None:
    for seed, (w, s, start) in enumerate([(4, 3, 5), (3, 5, 2), (6, 2, -1), (5, 5, 8), (2, 4, 30)]):
        rows = arrivals(seed)
        window = f"{form.format(w=w, s=s)} STARTING AT {start}"
        plan = planned(f"SELECT k, v FROM S WINDOW({window})")
        given = {"S": Arrivals([((*e, t), t) for e, t in rows])}
        judge = Reference(given)
        run = Partitioned(plan, 3)
        for upto in (4, 9, 15, MAX):
            run.epoch(frames(plan, given), upto)
        answers = [run.answer]
        answers += [play(plan, frames(plan, given), ends) for ends in ([MAX], [*range(40), MAX])]
        for t in range(-2, 40):
            wanted = Counter(FORMS[form](rows, w, s, start, t))
            assert judge.snapshot(plan, t) == wanted, (window, t)
            for answer in answers:
                assert snapshot(answer, t) == wanted, (window, t)


def test_partitions_start_together() -> None:
    rows = arrivals(3)
    plan = planned("SELECT k, v FROM S WINDOW(PARTITION BY k ROWS 2 SLIDE 2 STARTING AT 6)")
    given = {"S": Arrivals([((*e, t), t) for e, t in rows])}
    answer = play(plan, frames(plan, given), [8, MAX])
    for t in range(30):
        wanted = [e for k in (0, 1) for e in by_rows([r for r in rows if r[0][0] == k], 2, 2, 6, t)]
        assert snapshot(answer, t) == Counter(wanted) == Reference(given).snapshot(plan, t)


def test_over_a_derived_stream() -> None:
    """At every point the rows of (point - 4, point], each as often as it was valid there, from the start on."""
    rows = arrivals(5)
    plan = planned(
        "SELECT n FROM (SELECT COUNT(*) AS n FROM S WINDOW(RANGE 3)) WINDOW(RANGE 4 SLIDE 3 STARTING AT 7)"
    )
    given = {"S": Arrivals([((*e, t), t) for e, t in rows])}
    counts = {t: sum(t - 3 < at <= t for _, at in rows) for t in range(60)}
    answer = play(plan, frames(plan, given), [6, 11, MAX])
    for t in range(40):
        point = 7 + (t - 7) // 3 * 3
        seen = range(max(7, point - 3), point + 1) if t >= 7 else range(0)
        wanted = Counter((counts[u],) for u in seen if counts[u])
        assert snapshot(answer, t) == wanted == Reference(given).snapshot(plan, t), t


def test_timestamps() -> None:
    first = datetime(2026, 1, 1, 9, 7, tzinfo=UTC)
    text = "SELECT k, v FROM S WINDOW(RANGE 10 MINUTES SLIDE 10 MINUTES STARTING AT TIMESTAMP '2026-01-01 09:07:00')"
    plan = planned(text, TIMESTAMP)
    moments = [first + timedelta(minutes=m) for m in (-5, 0, 4, 11, 26)]
    given = {"S": Arrivals([((1, i, m), to_ticks(m)) for i, m in enumerate(moments)])}
    answer = play(plan, frames(plan, given), [MAX])
    shown = {
        m: sorted(v for _, v in snapshot(answer, to_ticks(first + timedelta(minutes=m))))
        for m in (-1, 0, 9, 10, 20, 30, 40)
    }
    assert shown == {-1: [], 0: [1], 9: [1], 10: [2], 20: [3], 30: [4], 40: []}


def test_it_is_printed_as_it_is_written() -> None:
    for window in (
        "RANGE 5 SLIDE 3 STARTING AT 1",
        "ROWS 2 SLIDE 4 STARTING AT 7",
        "ROWS 2 SLIDE 4 MINUTES STARTING AT 7",
    ):
        text = f"SELECT k FROM S WINDOW({window})"
        assert text_of(parse(text)[0]) == text
    assert "RANGE 5 SLIDE 3 STARTING AT 1" in tree(
        planned("SELECT k FROM S WINDOW(RANGE 5 SLIDE 3 STARTING AT 7)")
    )


@pytest.mark.parametrize(
    ("window", "message", "help"),
    [
        ("RANGE 5 STARTING AT 3", "expected SLIDE, GRANULARITY or )", "STARTING AT says where slides begin"),
        ("RANGE 5 DELAY 2", "expected SLIDE, GRANULARITY or )", "a DELAY belongs to a sequence"),
        ("RANGE 5 SLIDE 2 DELAY 2", "expected STARTING AT, GRANULARITY or )", "a DELAY belongs to a sequence"),
        ("ROWS 5 SLIDE 2 STARTING AT k", "there is no 'k' in a window's bounds", None),
        ("ROWS 5 SLIDE 2 STARTING AT i", "the start is a constant", None),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(window: str, message: str, help: str | None) -> None:
    with pytest.raises(Diagnostic) as caught:
        planned(f"SELECT k FROM S WINDOW({window})")
    assert message in caught.value.message
    assert "unit" not in str(caught.value)
    assert help is None or help in (caught.value.help or "")
