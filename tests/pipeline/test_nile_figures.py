"""Figures 1 to 6 and 11 of Nile, as far as the paper's text gives their rows: T0, T1, … are the instants 0, 1, …, windows are of five."""

from __future__ import annotations

from collections.abc import Sequence

from tests.language.world import World
from tidegate.optimizer.driver import optimize
from tidegate.pipeline.compiling import compiled
from tidegate.pipeline.elements import Element, Kind, Strategy
from tidegate.pipeline.execution import Execution
from tidegate.pipeline.groups import Aggregated
from tidegate.pipeline.operators import Join, Operator
from tidegate.pipeline.scheduling import RoundRobin
from tidegate.reference.snapshots import Reference, snapshot

Q1 = "SELECT COUNT(*) AS n FROM S WINDOW(RANGE 5) AS S, FavoriteItems F WHERE S.item = F.item"
SALES = ((0, 4), (1, 5), (2, 5), (3, 2), (4, 4), (5, 2), (6, 7), (7, 2), (9, 4), (10, 5))
"""T0 to T4: four favorite items; T5 to T8: none; then again."""


def world() -> World:
    streams = "CREATE STREAM {n}(item BIGINT, price BIGINT, t BIGINT) SOURCE memory('{n}') ORDERED BY t;"
    found = World().run("".join(streams.format(n=n) for n in ("S", "R")))
    return found.run("CREATE TABLE FavoriteItems(item BIGINT) FROM memory('FavoriteItems')").hold(
        "FavoriteItems", [(4,), (5,)]
    )


def execution(known: World, query: str, strategy: Strategy) -> Execution:
    plan = optimize(known.plan(query))[0]
    return Execution(compiled(plan, known.sources, strategy), strategy, RoundRobin())


def noted(run: Execution, kind: type[Operator]) -> tuple[list[Element], list[Element]]:
    """What an operator takes and gives while it runs."""
    operator = next(o for o in run.pipeline.operators if isinstance(o, kind))
    take, taken, given = operator.take, list[Element](), list[Element]()

    def noting(side: int, element: Element) -> list[Element]:
        found = take(side, element)
        taken.append(element)
        given.extend(found)
        return found

    operator.take = noting  # type: ignore[method-assign]
    return taken, given


def favorites(strategy: Strategy, sales: Sequence[tuple[int, int]] = SALES) -> Execution:
    return execution(world().arrive("S", [(t, item, 1) for t, item in sales]), Q1, strategy)


def counts(run: Execution, until: int) -> dict[int, int]:
    """What COUNT had said when T0, T1, … were over: the last value that was known then."""
    known, found = 0, {}
    said = 0
    for t in range(until):
        run.run(t + 1)
        for element in run.answer.elements[said:]:
            if element.kind is Kind.POSITIVE:
                known = element.row[0]  # type: ignore[assignment]
        said = len(run.answer.elements)
        found[t] = known
    return found


RIGHT = {0: 1, 1: 2, 2: 3, 3: 3, 4: 4, 5: 3, 6: 2, 7: 1, 8: 1, 9: 1, 10: 2}
"""C of figures 1 and 2. At T9 an item leaves and another comes."""


def test_the_correct_output_is_the_references() -> None:
    known = world().arrive("S", [(t, item, 1) for t, item in SALES])
    plan = known.plan(Q1)
    judge = Reference(known.sources)
    assert {t: next(iter(judge.snapshot(plan, t)))[0] for t in RIGHT} == RIGHT


def test_figure_1_without_positive_tuples_the_count_stays_what_it_was() -> None:
    found = counts(favorites(Strategy.INPUT), 11)
    assert found == RIGHT | {5: 4, 6: 4, 7: 4, 8: 4}


def test_figure_2_negative_tuples_correct_it_at_once() -> None:
    run = favorites(Strategy.NEGATIVE)
    _, given = noted(run, Join)
    assert counts(run, 11) == RIGHT
    assert [(e.ts, e.row[0]) for e in given if e.kind is Kind.EXPIRED] == [(5, 4), (6, 5), (7, 5), (9, 4)]
    assert all(late == 0 for at, late in run.answer.delays if at >= 0)


def test_figure_3_another_row_takes_the_place_of_one_that_expires() -> None:
    known = world().arrive("S", [(1, 1, 0), (4, 1, 0), (6, 5, 0)]).arrive("R", [(2, 1, 0), (6, 7, 0)])
    query = "SELECT item FROM S WINDOW(RANGE 5) INTERSECT ALL SELECT item FROM R WINDOW(RANGE 5)"
    run = execution(known, query, Strategy.INPUT)
    run.run(7)
    assert [(e.kind, e.row, e.ts, e.ets) for e in run.answer.elements] == [
        (Kind.POSITIVE, (1,), 2, 6),
        (Kind.POSITIVE, (1,), 6, 9),
    ]
    assert [snapshot(run.answer.rows(), t).total() for t in (1, 2, 5, 6)] == [0, 1, 1, 1]


Q2 = "SELECT MAX(R.price) AS top FROM S WINDOW(RANGE 5) AS S, R WINDOW(RANGE 5) AS R WHERE S.item = R.item"


def three_partners(strategy: Strategy) -> Execution:
    """6 at T1 in one stream meets 6 at T2, T3 and T4 in the other."""
    known = world().arrive("S", [(1, 6, 0)]).arrive("R", [(2, 6, 10), (3, 6, 30), (4, 6, 20)])
    return execution(known, Q2, strategy)


def test_figure_4_one_message_stands_for_three_negative_tuples() -> None:
    said = {}
    for strategy in (Strategy.NEGATIVE, Strategy.MESSAGES):
        run = three_partners(strategy)
        _, given = noted(run, Join)
        run.run()
        said[strategy] = [(e.kind, e.ts) for e in given if e.kind is not Kind.POSITIVE]
        tops = [(e.ts, e.row[0]) for e in run.answer.elements if e.kind is Kind.POSITIVE]
        assert tops[:3] == [(2, 10), (3, 30), (4, 30)]
        assert snapshot(run.answer.rows(), 6).total() == 0
    assert said[Strategy.NEGATIVE] == 3 * [(Kind.EXPIRED, 6)]
    assert said[Strategy.MESSAGES] == [(Kind.MESSAGE, 6)]


def test_figure_5_only_the_row_that_ends_first_is_told() -> None:
    known = world().arrive("S", [(1, 6, 0)]).arrive("R", [(3, 6, 10)])
    run = execution(known, Q2, Strategy.MESSAGES)
    taken, given = noted(run, Join)
    run.run()
    assert [e.ts for e in taken if e.kind is Kind.EXPIRED] == [6, 8]
    assert [(e.kind, e.ts) for e in given] == [(Kind.POSITIVE, 3), (Kind.MESSAGE, 6)]


def test_figure_6_a_positive_tuple_carries_what_a_negative_one_would_say() -> None:
    run = favorites(Strategy.PIGGYBACK)
    taken, _ = noted(run, Aggregated)
    assert counts(run, 11) == RIGHT
    quiet = [e for e in taken if 5 <= e.ts <= 8]
    assert [e.kind for e in quiet if e.kind is not Kind.POSITIVE] == 3 * [Kind.MESSAGE]
    (both,) = [e for e in taken if e.ts == 9]
    assert (both.kind, both.since) == (Kind.POSITIVE, 9)


def test_figure_11_a_global_clock_would_say_what_was_never_true() -> None:
    """SUM of 5 at T0, 8 at T2 and 7 at T4; 7 waits in the queue until T7."""
    known = world().arrive("S", [(0, 1, 5), (2, 1, 8), (4, 1, 7)])
    query = "SELECT SUM(price) AS total FROM S WINDOW(RANGE 5)"
    run = execution(known, query, Strategy.INPUT)
    run.run(3)
    run.advance(5)
    (total,) = run.pipeline.operators
    assert len(total.inputs[0]) == 1
    wrong = total.upto(5)  # by the clock, though 7 has not come yet
    assert [(e.kind, e.row, e.ts) for e in wrong] == [(Kind.INVALID, (13,), 5), (Kind.POSITIVE, (8,), 5)]

    right = execution(known, query, Strategy.NEGATIVE)
    right.run(3)
    right.advance(7)
    right.run()
    assert [snapshot(right.answer.rows(), t).most_common(1)[0][0][0] for t in (4, 5, 6)] == [20, 15, 15]
