"""ISTREAM, DSTREAM, RSTREAM, scalar sub-queries and programs of several parts."""

from __future__ import annotations

from collections import Counter

import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.conftest import HORIZON
from tidegate.algebra.modify import Since
from tidegate.algebra.operators import (
    Distinct,
    Dstream,
    Filter,
    Istream,
    Join,
    OneRow,
    Project,
    Rstream,
    SingleRow,
    UnionAll,
    Window,
)  # fmt: skip
from tidegate.algebra.windows import TimeWindow
from tidegate.errors import Diagnostic
from tidegate.physical.lowering import compile_plan
from tidegate.reference.snapshots import Reference, Validity
from tidegate.time import MAX, MIN
from tidegate.types import INT, Field

FEW = max(6, settings().max_examples // 4)
"""Per combination: there are many, and the fuzz profile wants more."""


@pytest.mark.parametrize("kind", [Istream, Dstream])
@settings(max_examples=FEW)
@given(data=st.data())
def test_changes(kind, data, tools, streams):
    rows = data.draw(streams.physical)

    def expected(t):
        now, before = tools.bag(rows, t), tools.bag(rows, t - 1)
        return now - before if kind is Istream else before - now

    tools.agree(
        kind(tools.scan("L")),
        {"L": tools.frame(rows)},
        data.draw(streams.boundaries),
        expected,
        data.draw(st.booleans()),
    )


@settings(max_examples=3 * FEW)
@given(data=st.data())
def test_since_when_rows_are_there(data, tools, streams):
    """Counted tick by tick: what comes stands in a queue, what goes is taken from its head."""
    rows = data.draw(streams.physical)
    there, answers, before = {}, {}, Counter()
    for t in HORIZON:
        now = tools.bag(rows, t)
        for e, n in (now - before).items():
            there.setdefault(e, []).extend([t] * n)
        for e, n in (before - now).items():
            del there[e][:n]
        before = now
        answers[t] = Counter((*e, u) for e, all_ in there.items() for u in all_)
    plan = Since(tools.scan("L"))
    reference = Reference({"L": Validity(rows)})
    assert all(reference.snapshot(plan, t) == answers[t] for t in HORIZON)
    tools.agree(
        plan,
        {"L": tools.frame(rows)},
        data.draw(streams.boundaries),
        answers.__getitem__,
        data.draw(st.booleans()),
    )


@settings(max_examples=FEW)
@given(data=st.data())
def test_rstream(data, tools, streams):
    rows = data.draw(streams.finite)
    period = data.draw(st.integers(1, 4))
    tools.agree(
        Rstream(tools.scan("L"), period), {"L": tools.frame(rows)}, data.draw(streams.boundaries),
        lambda t: Counter() if t % period else tools.bag(rows, t), data.draw(st.booleans()),
    )  # fmt: skip


@settings(max_examples=FEW)
@given(data=st.data())
def test_single_row(data, tools, streams):
    rows = data.draw(streams.physical)
    instants = sorted({t for r in rows for t in r[1:3]} - {MAX})

    def crowded(t):
        parts = Counter(e[0] for e in tools.bag(rows, t).elements())
        return any(n > 1 for n in parts.values())

    plan = SingleRow(tools.scan("L"), (0,), (3, 9))
    arguments = (plan, {"L": tools.frame(rows)}, data.draw(streams.boundaries))
    if any(crowded(t) for t in instants):
        with pytest.raises(Diagnostic) as caught:
            tools.play(*arguments, restoring=data.draw(st.booleans()))
        assert caught.value.condition == "SCALAR_SUBQUERY_ROWS"
        assert caught.value.span == (3, 9)
    else:
        tools.agree(*arguments, lambda t: tools.bag(rows, t), data.draw(st.booleans()))


@pytest.mark.parametrize("restoring", [False, True])
def test_one_row_is_there_from_the_beginning_and_once(restoring, tools):
    plan = Project(OneRow(), (sqlglot.parse_one("7"),), (Field("a", INT),))
    assert tools.play(plan, {}, [3, 6, MAX], restoring) == [((7,), MIN, MAX, 1)]


@settings(max_examples=FEW)
@given(data=st.data())
def test_a_table_joins_like_any_stream(data, tools, streams):
    arrivals = data.draw(streams.arrivals)
    relation = [((0, "p"), MIN, MAX, 1), ((1, "q"), MIN, MAX, 2)]
    window = Window(tools.scan("L", relation=False), TimeWindow(4))
    plan = Join(window, tools.scan("T", tools.other), "left", sqlglot.parse_one("c0 = c2"))

    def expected(t):
        result = Counter()
        for e, u in arrivals:
            if u <= t < u + 4:
                found = [r for r in relation if r[0][0] == e[0]]
                for r in found:
                    result[e + r[0]] += r[3]
                if not found:
                    result[(*e, None, None)] += 1
        return result

    sources = {"L": tools.raw(arrivals), "T": tools.frame(relation, tools.other)}
    tools.agree(plan, sources, data.draw(streams.boundaries), expected, data.draw(st.booleans()))


def test_equal_parts_of_a_plan_are_computed_once(tools):
    part = Distinct(Filter(tools.scan("L"), sqlglot.parse_one("c0 > 0")))
    again = Distinct(Filter(tools.scan("L"), sqlglot.parse_one("c0 > 0")))
    program = compile_plan(UnionAll(part, again))
    assert [o.name for o in program.operators] == ["Filter", "Sweep", "Union"]
    _, sweep, union = program.operators
    assert union.inputs == (sweep.id, sweep.id)
    result = tools.play(UnionAll(part, again), {"L": tools.frame([((1, "p"), 0, 5, 3)])}, [2, MAX])
    assert [tools.bag(result, t)[(1, "p")] for t in (0, 4, 5)] == [2, 2, 0]


def test_ids_depend_on_the_plan_only(tools):
    def plan():
        join = Join(
            tools.scan("L"), tools.scan("R", tools.other), "full", sqlglot.parse_one("c0 = c2 AND c1 < c3")
        )
        return Distinct(join)

    first, second = compile_plan(plan()), compile_plan(plan())
    assert [o.id for o in first.operators] == [o.id for o in second.operators]
    assert list(first.initial()) == list(second.initial())
