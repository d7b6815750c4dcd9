"""Windows over RSTREAM: an answer repeated at points, also one that has no end."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fuzz.players import frames, play
from tidegate.language.binder import bind
from tidegate.language.catalog import Catalog, SourceCall, StreamDefinition
from tidegate.language.dialect import parse
from tidegate.reference.snapshots import Arrivals, Reference, snapshot
from tidegate.time import MAX
from tidegate.types import BIGINT, INT, Field

ROWS = [((1, 0), 1), ((2, 1), 2), ((3, 0), 2), ((4, 1), 7), ((5, 0), 11)]


def catalog() -> Catalog:
    fields = (Field("v", INT), Field("k", INT), Field("t", BIGINT, False))
    return Catalog().with_definition(
        StreamDefinition("S", fields, SourceCall("memory", ("S",)), ordered_by="t")
    )


def kept(size: int | None, t: int) -> list[int]:
    return [v for (v, _), at in ROWS if at <= t and (size is None or t - size < at)]


@pytest.mark.parametrize("inner", [None, 4])
@pytest.mark.parametrize(("every", "size", "slide"), [(2, 4, 1), (3, 3, 1), (2, 6, 5), (1, 3, 2), (5, 5, 2)])
def test_by_definition(inner: int | None, every: int, size: int, slide: int) -> None:
    """At d, the latest multiple of the slide, the answers at all points of (d - size, d], united."""
    inside = f"RANGE {'UNBOUNDED' if inner is None else inner}"
    text = (
        f"SELECT v FROM RSTREAM(SELECT v FROM S WINDOW({inside})) EVERY {every} "
        f"WINDOW(RANGE {size} SLIDE {slide}) r"
    )
    plan = bind(parse(text)[0], catalog(), text).plan
    given = {"S": Arrivals([((*e, t), t) for e, t in ROWS])}
    judge = Reference(given)
    answers = [play(plan, frames(plan, given), ends) for ends in ([MAX], [4, 9, MAX], [*range(30), MAX])]
    last = None
    for t in range(40):
        d = t // slide * slide
        points = [u for u in range(d + 1) if u % every == 0 and d - size < u]
        wanted = Counter((v,) for u in points for v in kept(inner, u))
        assert judge.snapshot(plan, t) == wanted, t
        for answer in answers:
            assert snapshot(answer, t) == wanted, t
        assert wanted == last or t in judge.change_points(plan) or not t, t
        last = wanted


def test_counted() -> None:
    text = (
        "SELECT COUNT(*) AS n FROM RSTREAM(SELECT v FROM S WINDOW(RANGE UNBOUNDED)) EVERY 2 WINDOW(RANGE 4)"
    )
    plan = bind(parse(text)[0], catalog(), text).plan
    given = {"S": Arrivals([((*e, t), t) for e, t in ROWS])}
    answer = play(plan, frames(plan, given), [5, MAX])
    assert [list(snapshot(answer, t)) for t in (1, 2, 4, 8, 12, 100)] == [
        [],
        [(3,)],
        [(6,)],
        [(7,)],
        [(9,)],
        [(10,)],
    ]
