"""A running plan is replaced by another without a gap (PIPES' GenMig).

Both plans are black boxes that mean the same. After the epoch that ended before W the new one begins like a query that joins the graph: with what running operators
show, and with the rows that come. From an instant T on nothing is missing in it that is not missing in the old one, so

    answer(t) = old(t) for t < T, new(t) for t >= T

T = W where all that begins stands on what can be told; otherwise windows over streams have to fill, and T follows from their sizes. Up to T both run, the old one for those
who read the answer. When the watermark has passed T the old one is released, as a query is that was dropped. A query's answer is thereby a row of **turns**, each with the instants for which
it counts (`ledger.Turn`): whoever reads the answer reads of each turn the rows of its instants (`within`). Nobody who stands on operators of either plan has to know.

What a relation shows (a KEY stream, the last rows) depends on all that came. There the new plan reads the operator that has it in the old one, whatever key that is exchanged by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tidegate.algebra.operators import Node
from tidegate.algebra.writing import from_plain
from tidegate.errors import Diagnostic, internal
from tidegate.optimizer.views import Views, is_relation
from tidegate.physical.identity import plan_identity
from tidegate.physical.joining import Company, plan_joining, shares
from tidegate.physical.plan import Birth, Plan
from tidegate.runtime.answering import Answer, begun, by_itself, goes_on
from tidegate.runtime.beginnings import Others, beginning, birth_of
from tidegate.runtime.ledger import KnownQuery, Manifest, ResultPart, Turn
from tidegate.runtime.queries import Query
from tidegate.time import MAX, MIN
from tidegate.types import Schema

Takeover = tuple[Answer, KnownQuery, int]
"""How a plan runs that takes over, what is remembered of it, and from which instant on it answers."""


def taken_over(
    name: str,
    root: Node,
    functions: Mapping[str, Any],
    before: Manifest,
    company: Company,
    others: Others,
    width: int,
    old: tuple[Node, Plan, KnownQuery],
) -> Takeover | None:
    """How a plan takes over from one that runs and means the same, as early as possible; None: it never could, or it is that one."""
    runs, beside, known = old
    found = []
    others = [(p, k) for p, k in others if k.complete is not None or k == known]
    company = _without_gaps(company, others)
    for answer in _ways(name, root, functions, Birth(before.epoch), company, runs):
        mine = answer.physical
        if mine.answers[name] == known.answer:
            continue
        birth = birth_of(mine, Birth(before.epoch))
        since, at = beginning(answer.runs, mine, birth, before, others, width, beside)
        if at is not None:
            _, complete = beginning(answer.runs, mine, birth, before, others, width)
            reads = tuple(plan_identity(v) for v in answer.views)
            made = KnownQuery(
                birth, since, mine.answers[name], known.owner, shares(mine, birth), complete, reads
            )
            found.append((answer, made, max(at, before.upto)))
    return min(
        found,
        key=lambda f: (f[2], len({*f[0].physical.operators} - {*company.running.operators})),
        default=None,
    )


def _without_gaps(company: Company, others: Others) -> Company:
    """What runs of which it is known from when on nothing is missing."""
    ids = {id_ for plan, _ in others for id_ in (*plan.inputs, *plan.operators)}
    running = company.running
    inputs = {i: entry for i, entry in running.inputs.items() if i in ids}
    operators = {i: entry for i, entry in running.operators.items() if i in ids}
    answers = {n: i for n, i in running.answers.items() if i in ids}
    return replace(company, running=Plan(inputs, operators, answers))


def _ways(
    name: str, root: Node, functions: Mapping[str, Any], birth: Birth, company: Company, runs: Node
) -> Iterator[Answer]:
    """The new plan by itself, and over the relations that the old one keeps."""
    yield by_itself(company, name, root, functions, birth)
    over = Views({"": runs}, is_relation).rewritten(root)
    if over is not None:
        mine = plan_joining(company, name, over.plan, functions, birth, over.views)
        yield Answer(over.plan, mine, over.views, over.readings)


def refuse_others(name: str, before: Schema, after: Schema, same_time: bool) -> None:
    """Whoever reads an answer knows its columns and its kind of time: they stay."""
    if not same_time:
        raise Diagnostic(
            "OTHER_TIME",
            f"'{name}' is over another kind of time",
            help="stop it, and start the new text: queries of different times run apart",
        )
    old, new = ([(f.name, f.type) for f in s if not f.hidden] for s in (before, after))
    if old != new:
        said = [", ".join(f"{n} {t}" for n, t in columns) for columns in (old, new)]
        raise Diagnostic(
            "OTHER_COLUMNS",
            f"'{name}' has the columns {said[0]}, and the new text has {said[1]}",
            help="let the text have the same columns, or stop the query and start the text under another name",
        )


def not_alone(name: str) -> Diagnostic:
    return Diagnostic(
        "RUNS_AS_ONE",
        f"'{name}' is one of many queries that are equal up to constants, and is answered together with them",
        help="stop it, and start another under a name of its own",
    )


def not_begun(name: str) -> Diagnostic:
    return Diagnostic(
        "NOT_BEGUN",
        f"'{name}' has not begun yet",
        help="stop it and start it as it is to be, or wait for its first rows",
    )


def label(name: str, plan: KnownQuery) -> str:
    """How a plan is called that answers a query up to an instant: several may do so up to the same one."""
    return f"{name} by {plan.answer}"


def left_behind(old: Query) -> Query:
    """A query by the plan that leaves: it is known by another name, and its plan is kept for restarts."""
    known = replace(
        old.known,
        plan=plan_identity(old.plan),
        meaning=old.known.meaning or plan_identity(old.plan),
        before=(),
    )
    physical = replace(old.physical, answers={label(old.name, known): known.answer})
    return replace(old, known=known, physical=physical, leaving=(), sinks=(), history=False)


def switched(old: Query, new: Query, until: int, same: bool, upto: int) -> Query:
    """The query by its new plan, with the old one for the instants before `until`, or before it is known that both have what came before."""
    box = left_behind(old)
    turns = turns_after(old.known, box.known, until, same)
    leaving = (*old.leaving, box) if turns[-1].until > upto else old.leaving
    return replace(new, known=replace(new.known, before=turns), leaving=leaving)


def turns_after(known: KnownQuery, plan: KnownQuery, until: int, same: bool) -> tuple[Turn, ...]:
    """The turns of a query after the plan that runs is replaced, from `until` on, by one in which nothing else is missing (`same`), or that is complete.

    Of a plan that has not begun to answer yet, what is missing is missing in one that means the same, too: its turn begins no earlier.

    >>> waits = KnownQuery(Birth(), 0, "b", before=(Turn(KnownQuery(Birth(), 0, "a"), 20),))
    >>> [[(t.plan.answer, t.until) for t in turns_after(waits, waits, 15, same)] for same in (True, False)]
    [[('a', 20), ('b', 20)], [('a', 15), ('b', 15)]]
    """
    if same:
        until = max([until, *(t.until for t in known.before)])
    earlier = (replace(t, until=min(t.until, until)) for t in known.before)
    return *earlier, Turn(plan, until, same)


def released(query: Query, upto: int, horizon: int) -> Query:
    """A query without the plans whose instants have passed, and without turns of which nothing is kept."""
    until = {t.plan.answer: t.until for t in query.known.before}
    leaving = tuple(b for b in query.leaving if until[b.known.answer] > upto)
    before = tuple(t for t in query.known.before if t.until > max(horizon, MIN))
    known = query.known if len(before) == len(query.known.before) else replace(query.known, before=before)
    return replace(query, leaving=leaving, known=known)


def left_running(
    name: str, known: KnownQuery, functions: Mapping[str, Any], kept: Mapping[str, Any], upto: int
) -> tuple[Query, ...]:
    """After a restart: the plans whose instants have not passed."""
    found = []
    for turn in known.before:
        if turn.until > upto:
            plan = from_plain(kept[turn.plan.plan])
            answer = begun(name, plan, functions, turn.plan, kept)
            if not goes_on(name, answer, turn.plan):
                raise internal(f"the plan that answers '{name}' until {turn.until} is planned otherwise now")
            query = Query(name, plan, answer.physical, turn.plan, views=answer.views, computed=answer.runs)
            found.append(left_behind(query))
    return tuple(found)


def parts_of(known: KnownQuery, parts: Callable[[str], Sequence[ResultPart]]) -> list[ResultPart]:
    """Where the rows of an answer are, of each turn those that count for its instants.

    >>> from tidegate.exchange.messages import RowCounts
    >>> rows = lambda answer: [ResultPart(answer, None, RowCounts(2, 0, 0, 1, 8, 20))]
    >>> both = KnownQuery(Birth(), 0, "new", before=(Turn(KnownQuery(Birth(), 0, "old"), 9),))
    >>> [(p.file, p.within, p.counts.min_ts, p.counts.max_te) for p in parts_of(both, rows)]
    [('old', (-9223372036854775808, 9), 1, 9), ('new', (9, 9223372036854775807), 9, 20)]
    """
    if not known.before:
        return list(parts(known.answer))
    found, low = [], MIN
    for answer, high in (*((t.plan.answer, t.until) for t in known.before), (known.answer, MAX)):
        found += [p for part in parts(answer) if (p := _within(part, low, high)) is not None]
        low = max(low, high)
    return found


def _within(part: ResultPart, low: int, high: int) -> ResultPart | None:
    counts = part.counts
    if counts.min_ts >= high or counts.max_te <= low:
        return None
    clipped = replace(
        counts,
        min_ts=max(counts.min_ts, low),
        max_ts=min(max(counts.max_ts, low), high),
        max_te=min(counts.max_te, high),
    )
    return replace(part, counts=clipped, within=(low, high))
