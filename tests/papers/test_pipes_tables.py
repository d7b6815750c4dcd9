"""The tables of PIPES as data: Tables I-IV (logical streams), VI-IX (physical streams), and what Fig. 3 says."""

from __future__ import annotations

from collections import Counter

import pytest
from sqlglot import parse_one

from tests.papers.playing import bag, intervals, snapshots
from tidegate.algebra import operators as op
from tidegate.algebra.windows import TimeWindow
from tidegate.reference.snapshots import (
    Arrivals,
    PhysicalRow,
    Source,
    Validity,
    first_difference,
    snapshot,
    to_logical,
)
from tidegate.scalars.functions import AggregateFunction
from tidegate.time import MAX
from tidegate.types import STRING, Field

LETTER = (Field("letter", STRING),)

# Example 6, as the paper writes it: (tuple, instant, multiplicity)
S1 = [
    ("c", 1, 1), ("a", 2, 3), ("a", 3, 3), ("b", 3, 1), ("a", 4, 3), ("b", 4, 1), ("c", 4, 1), ("b", 5, 2), ("b", 6, 2),
]  # fmt: skip
S2 = [
    ("b", 2, 2), ("b", 3, 2), ("a", 4, 1), ("b", 4, 1), ("c", 4, 1), ("a", 5, 2), ("b", 5, 1), ("a", 6, 1), ("c", 6, 2),
]  # fmt: skip

SUM = AggregateFunction("letters", lambda e: (e,), lambda p, e: tuple(sorted((*p, e))), "+".join, STRING, 1)
"""The sum of letters: a sum does not depend on the order of its parts, so they are written in order."""


def total(text: str) -> str:
    return "+".join(sorted(text.replace(" ", "").split("+")))


def as_arrivals(stream: list[tuple[str, int, int]]) -> Source:
    return Arrivals([((e,), t) for e, t, n in stream for _ in range(n)])


def as_validity(stream: list[tuple[str, int, int]]) -> Source:
    return Validity([((e,), t, t + 1, n) for e, t, n in stream])


@pytest.fixture(params=["arrivals", "validity"])
def form(request: pytest.FixtureRequest) -> str:
    """A logical stream can come as a raw stream or as rows with their validity; it means the same."""
    return str(request.param)


def streams(form: str) -> dict[str, Source]:
    make = as_arrivals if form == "arrivals" else as_validity
    return {"S1": make(S1), "S2": make(S2)}


def scan(name: str, form: str) -> op.Scan:
    return op.Scan(name, LETTER, relation=form == "validity")


def test_table_1_logical_streams(form: str) -> None:
    assert snapshots(scan("S1", form), streams(form), range(8)) == {
        0: bag(),
        1: bag("c"),
        2: bag("a", "a", "a"),
        3: bag("a", "a", "a", "b"),
        4: bag("a", "a", "a", "b", "c"),
        5: bag("b", "b"),
        6: bag("b", "b"),
        7: bag(),
    }
    assert snapshots(scan("S2", form), streams(form), range(8)) == {
        0: bag(),
        1: bag(),
        2: bag("b", "b"),
        3: bag("b", "b"),
        4: bag("a", "b", "c"),
        5: bag("a", "a", "b"),
        6: bag("a", "c", "c"),
        7: bag(),
    }


def test_table_2_cartesian_product(form: str) -> None:
    pairs = op.Join(scan("S1", form), scan("S2", form))
    plan = op.Project(pairs, (parse_one("c0 || '∘' || c1", read="spark"),), (Field("pair", STRING),))
    assert snapshots(plan, streams(form), range(1, 8)) == {
        1: bag(),
        2: bag("a∘b", "a∘b", "a∘b", "a∘b", "a∘b", "a∘b"),
        3: bag("a∘b", "a∘b", "a∘b", "a∘b", "a∘b", "a∘b", "b∘b", "b∘b"),
        4: bag("a∘a", "a∘b", "a∘c", "a∘a", "a∘b", "a∘c", "a∘a", "a∘b", "a∘c", "b∘a", "b∘b", "b∘c", "c∘a", "c∘b", "c∘c"),
        5: bag("b∘a", "b∘a", "b∘b", "b∘a", "b∘a", "b∘b"),
        6: bag("b∘a", "b∘c", "b∘c", "b∘a", "b∘c", "b∘c"),
        7: bag(),
    }  # fmt: skip


def summed(input: op.Node) -> op.Node:
    return op.Aggregate(input, (), (op.Aggregation("letters", (0,), STRING, "sum"),))


def test_table_3_scalar_aggregation(form: str) -> None:
    plan = summed(scan("S1", form))
    assert snapshots(plan, streams(form), range(8), {"letters": SUM}) == {
        0: bag(),
        1: bag("c"),
        2: bag("a+a+a"),
        3: bag("a+a+a+b"),
        4: bag("a+a+a+b+c"),
        5: bag("b+b"),
        6: bag("b+b"),
        7: bag(),
    }


def test_table_4_time_window_of_2(form: str) -> None:
    plan = op.Window(scan("S1", form), TimeWindow(2))
    assert snapshots(plan, streams(form), range(9)) == {
        0: bag(),
        1: bag("c"),
        2: bag("a", "a", "a", "c"),
        3: bag("a", "a", "a", "a", "a", "a", "b"),
        # The printed row has seven a, but (5) gives n = 3 + 3: three at instant 3 and three at instant 4.
        4: bag("a", "a", "a", "a", "a", "a", "b", "b", "c"),
        5: bag("a", "a", "a", "b", "b", "b", "c"),
        6: bag("b", "b", "b", "b"),
        7: bag("b", "b"),
        8: bag(),
    }


# Table VI
P1: list[PhysicalRow] = [
    (("c",), 1, 8, 1), (("a",), 5, 11, 1), (("d",), 6, 14, 1), (("a",), 9, 10, 1), (("b",), 12, 17, 1),
]  # fmt: skip
P2: list[PhysicalRow] = [
    (("b",), 1, 7, 1), (("d",), 3, 9, 1), (("a",), 4, 5, 1), (("b",), 7, 15, 1), (("e",), 10, 18, 1),
]  # fmt: skip
PHYSICAL: dict[str, Source] = {"S1": Validity(P1), "S2": Validity(P2)}


def test_table_7_equijoin_of_intervals() -> None:
    joined = op.Join(op.Scan("S1", LETTER, True), op.Scan("S2", LETTER, True), "inner", parse_one("c0 = c1"))
    # "the concatenation function is a projection to the first argument"
    plan = op.Project(joined, (parse_one("c0"),), LETTER)
    assert intervals(plan, PHYSICAL) == [(("d",), 6, 9, 1), (("b",), 12, 15, 1)]


def test_table_8_aggregation_over_intervals() -> None:
    answer = intervals(summed(op.Scan("S1", LETTER, True)), PHYSICAL, {"letters": SUM})
    assert answer == [
        ((total(e),), ts, te, 1)
        for e, ts, te in [
            ("c", 1, 5),
            ("c + a", 5, 6),
            ("c + a + d", 6, 8),
            ("a + d", 8, 9),
            ("a + d + a", 9, 10),
            ("a + d", 10, 11),
            ("d", 11, 12),
            ("d + b", 12, 14),
            ("b", 14, 17),
        ]
    ]


def test_table_9_window_of_50() -> None:
    s3 = [("b", 1), ("a", 3), ("c", 4), ("a", 7), ("b", 10)]
    expected = [
        (("b",), 1, 51, 1),
        (("a",), 3, 53, 1),
        (("c",), 4, 54, 1),
        (("a",), 7, 57, 1),
        (("b",), 10, 60, 1),
    ]
    for form, source in (
        ("arrivals", Arrivals([((e,), t) for e, t in s3])),
        ("validity", Validity([((e,), t, t + 1, 1) for e, t in s3])),
    ):
        plan = op.Window(scan("S3", form), TimeWindow(50))
        answer = intervals(plan, {"S3": source})
        assert first_difference(answer, expected) is None
        # equal tuples overlap in the paper's rows and are counted in ours: one stream, two ways to write it
        assert answer == [
            (("b",), 1, 10, 1), (("a",), 3, 7, 1), (("c",), 4, 54, 1), (("a",), 7, 53, 2), (("b",), 10, 51, 2),
            (("b",), 51, 60, 1), (("a",), 53, 57, 1),
        ]  # fmt: skip


def test_figure_3_two_physical_streams_one_logical_stream() -> None:
    """A chronon stream and a stream of longer intervals map to the same multiset of (e, t, n)."""
    chronons: list[PhysicalRow] = [
        (("a",), 1, 2, 1), (("a",), 2, 3, 1), (("b",), 2, 3, 1), (("a",), 3, 4, 1), (("a",), 3, 4, 1),
        (("b",), 3, 4, 1), (("a",), 4, 5, 1), (("c",), 5, 6, 1),
    ]  # fmt: skip
    coalesced: list[PhysicalRow] = [
        (("a",), 1, 4, 1),
        (("b",), 2, 4, 1),
        (("a",), 3, 5, 1),
        (("c",), 5, 6, 1),
    ]
    logical = {
        (("a",), 1, 1), (("a",), 2, 1), (("b",), 2, 1), (("a",), 3, 2), (("b",), 3, 1), (("a",), 4, 1), (("c",), 5, 1),
    }  # fmt: skip
    assert to_logical(chronons) == to_logical(coalesced) == logical
    assert first_difference(chronons, coalesced) is None
    for rows in (chronons, coalesced):
        for t in range(7):
            assert snapshot(rows, t) == Counter({e: n for e, u, n in logical if u == t})
    # one element less is another logical stream, and the first instant that shows it is named
    assert first_difference(chronons, coalesced[:2] + coalesced[3:]) == 3


def test_change_form_is_the_same_stream() -> None:
    """(e, [a, b), +1) and (e, [a, MAX), +1), (e, [b, MAX), -1) are equal (SPEC section 2)."""
    changes = [part for e, ts, te, n in P1 for part in ((e, ts, MAX, n), (e, te, MAX, -n))]
    assert first_difference(P1, changes) is None
    plan = summed(op.Scan("S1", LETTER, True))
    sources: dict[str, Source] = {"S1": Validity(changes)}
    assert intervals(plan, sources, {"letters": SUM}) == intervals(plan, PHYSICAL, {"letters": SUM})
