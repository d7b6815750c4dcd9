"""Rules (9)-(15) of PIPES section 6.3 on generated streams: both sides have the same snapshot at every instant."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp, parse_one

from tidegate.algebra import operators as op
from tidegate.algebra.windows import TimeWindow
from tidegate.reference.snapshots import Arrivals, Reference, Source, Validity
from tidegate.time import MAX
from tidegate.types import INT, STRING, Field, Row

FIELDS = (Field("a", INT), Field("b", STRING))
NAMES = ("S1", "S2", "S3")

tuples: st.SearchStrategy[Row] = st.tuples(
    st.sampled_from([0, 1, 2, None]), st.sampled_from(["p", "q", None])
)
instants = st.integers(-3, 12)


@st.composite
def validities(draw: st.DrawFn) -> Source:
    """Intervals with multiplicities, some of them in change form."""
    rows = []
    for e in draw(st.lists(tuples, max_size=6)):
        ts, length, n = draw(instants), draw(st.integers(1, 5)), draw(st.integers(1, 3))
        if draw(st.booleans()):
            rows.append((e, ts, ts + length, n))
        else:
            rows += [(e, ts, MAX, n), (e, ts + length, MAX, -n)]
    return Validity(rows)


arrivals: st.SearchStrategy[Source] = st.builds(Arrivals, st.lists(st.tuples(tuples, instants), max_size=8))
streams: st.SearchStrategy[dict[str, Source]] = st.fixed_dictionaries(
    {name: st.one_of(arrivals, validities()) for name in NAMES}
)
"""Raw and physical streams, empty ones too."""

predicates = st.sampled_from(
    ["c0 = 1", "c0 > 0 OR c1 = 'p'", "c0 IS NULL", "c1 <> 'q'", "NULL", "FALSE", "NOT (c0 = 1 AND c1 = 'p')"]
).map(parse_one)
maps = st.sampled_from(
    [("c1", "c0"), ("c0 + 1", "c1"), ("c0", "c0"), ("CASE WHEN c0 = 1 THEN c1 END", "0")]
).map(lambda texts: tuple(parse_one(t) for t in texts))
sizes = st.integers(1, 6)


def scan(name: str, sources: dict[str, Source]) -> op.Scan:
    return op.Scan(name, FIELDS, relation=isinstance(sources[name], Validity))


def scans(sources: dict[str, Source]) -> tuple[op.Scan, op.Scan, op.Scan]:
    return scan("S1", sources), scan("S2", sources), scan("S3", sources)


def equivalent(sources: dict[str, Source], left: op.Node, right: op.Node) -> None:
    """Definition 6.5, at every instant at which either side can change, and around it."""
    reference = Reference(sources)
    changes = {*reference.change_points(left), *reference.change_points(right), 0}
    for t in sorted({p + d for p in changes for d in (-1, 0, 1)}):
        assert reference.snapshot(left, t) == reference.snapshot(right, t), t


def mapped(input: op.Node, expressions: tuple[exp.Expression, ...]) -> op.Node:
    return op.Project(input, expressions, tuple(Field(f"x{i}", STRING) for i in range(len(expressions))))


@given(streams)
def test_rule_9_products_are_associative(sources: dict[str, Source]) -> None:
    s1, s2, s3 = scans(sources)
    equivalent(sources, op.Join(op.Join(s1, s2), s3), op.Join(s1, op.Join(s2, s3)))


@given(streams, predicates)
def test_rule_10_filters_commute_with_union(sources: dict[str, Source], p: exp.Expression) -> None:
    s1, s2, _ = scans(sources)
    equivalent(sources, op.Filter(op.UnionAll(s1, s2), p), op.UnionAll(op.Filter(s1, p), op.Filter(s2, p)))


@given(streams)
def test_rule_11_duplicate_elimination_commutes_with_product(sources: dict[str, Source]) -> None:
    s1, s2, _ = scans(sources)
    equivalent(sources, op.Distinct(op.Join(s1, s2)), op.Join(op.Distinct(s1), op.Distinct(s2)))


@given(streams)
def test_rule_12_now_windows_are_the_identity(sources: dict[str, Source]) -> None:
    s1, s2, _ = scans(sources)
    equivalent(sources, op.Window(s1, TimeWindow(1)), s1)
    equivalent(
        sources, op.Window(op.Distinct(op.UnionAll(s1, s2)), TimeWindow(1)), op.Distinct(op.UnionAll(s1, s2))
    )


@given(streams, predicates, sizes)
def test_rule_13_windows_commute_with_filters(sources: dict[str, Source], p: exp.Expression, w: int) -> None:
    s1, _, _ = scans(sources)
    equivalent(
        sources, op.Filter(op.Window(s1, TimeWindow(w)), p), op.Window(op.Filter(s1, p), TimeWindow(w))
    )


@given(streams, maps, sizes)
def test_rule_14_windows_commute_with_maps(
    sources: dict[str, Source], f: tuple[exp.Expression, ...], w: int
) -> None:
    s1, _, _ = scans(sources)
    equivalent(sources, mapped(op.Window(s1, TimeWindow(w)), f), op.Window(mapped(s1, f), TimeWindow(w)))


@given(streams, sizes)
def test_rule_15_windows_commute_with_union(sources: dict[str, Source], w: int) -> None:
    s1, s2, _ = scans(sources)
    windows = op.UnionAll(op.Window(s1, TimeWindow(w)), op.Window(s2, TimeWindow(w)))
    equivalent(sources, windows, op.Window(op.UnionAll(s1, s2), TimeWindow(w)))


def test_what_does_not_commute() -> None:
    """The comparison can fail: a window does not commute with duplicate elimination, nor with a product."""
    sources: dict[str, Source] = {
        "S1": Arrivals([((1, "p"), 1), ((1, "p"), 2)]),
        "S2": Arrivals([((1, "p"), 3)]),
        "S3": Arrivals([]),
    }
    s1, s2, _ = scans(sources)
    window: Callable[[op.Node], op.Node] = lambda node: op.Window(node, TimeWindow(3))  # noqa: E731
    reference = Reference(sources)
    one, two = op.Distinct(window(s1)), window(op.Distinct(s1))
    assert (reference.snapshot(one, 2).total(), reference.snapshot(two, 2).total()) == (1, 2)
    one, two = op.Join(window(s1), window(s2)), window(op.Join(s1, s2))
    assert (reference.snapshot(one, 3).total(), reference.snapshot(two, 3).total()) == (2, 0)
