"""From when on the answer of a query that joins a running graph holds, and from when on nothing is missing in it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from pyspark.sql import DataFrame

from tidegate.algebra.operators import Dstream, Istream, Node, Scan, Window
from tidegate.algebra.points import Points
from tidegate.algebra.properties import properties
from tidegate.errors import Diagnostic
from tidegate.kernels.endpoints import ExpireKernel, SplitKernel, TimeWindowKernel
from tidegate.kernels.modify import InsertsKernel, ModifyKernel
from tidegate.kernels.rows import Kernel
from tidegate.kernels.rowwise import OneRowKernel
from tidegate.kernels.standing import can_begin
from tidegate.kernels.streams import ChangesKernel
from tidegate.kernels.sync import SyncEventsKernel, SyncTicksKernel
from tidegate.optimizer.cost import Costs
from tidegate.optimizer.lifting import Lifted
from tidegate.optimizer.views import Views
from tidegate.physical.estimates import Expectations
from tidegate.physical.flow import Bound
from tidegate.physical.identity import Identity, plan_identity
from tidegate.physical.joining import Company, shares
from tidegate.physical.plan import Birth, OperatorRows, Plan, SourceRows
from tidegate.runtime.alike import mark
from tidegate.runtime.answering import Answer, answers, by_itself
from tidegate.runtime.ledger import KnownQuery, Manifest
from tidegate.time import MIN, add, shown

Others = Sequence[tuple[Plan, KnownQuery]]
"""The queries that have run."""

NAMED = 8
"""So many queries are named with which another shares."""

REMEMBERING = (ModifyKernel, InsertsKernel, SyncEventsKernel)
"""What they show may depend on everything that came before."""


def joined(
    name: str,
    root: Node,
    functions: Mapping[str, Any],
    before: Manifest,
    company: Company,
    others: Others,
    width: int,
    views: Views | None = None,
    alike: Lifted | None = None,
    expected: Expectations | None = None,
) -> tuple[Answer, KnownQuery]:
    """How a query is answered that joins others after an epoch, and what the graph is to remember of it."""
    begin = Birth(before.epoch)
    found: list[tuple[Answer, KnownQuery]] = []
    runs = root if alike is None else alike.general
    costs = expected or Expectations(Costs({}))
    for way in answers(company, name, runs, functions, begin, views or Views(), costs):
        answer = replace(way, as_one=alike)
        mine = answer.physical
        birth = birth_of(mine, begin)
        since, complete = beginning(answer.runs, mine, birth, before, others, width)
        reads = tuple(plan_identity(v) for v in answer.views)
        which = "" if alike is None else mark(alike)
        known = KnownQuery(
            birth, since, mine.answers[name], uuid.uuid4().hex, shares(mine, birth), complete, reads, which
        )
        found.append((answer, known))
    # What is complete first; of those that are so from the same instant on, what adds least.
    return min(found, key=lambda f: (f[1].complete is None, f[1].complete or 0))


def apart(
    name: str, root: Node, functions: Mapping[str, Any], before: Manifest, together: Plan
) -> tuple[Answer, KnownQuery]:
    """The same for a query that shares nothing, because it is to be told all that came before."""
    begins = Birth(before.epoch, whole=True)
    answer = by_itself(Company(together), name, root, functions, begins)
    mine = answer.physical
    return answer, KnownQuery(birth_of(mine, begins), MIN, mine.answers[name], uuid.uuid4().hex)


def birth_of(mine: Plan, begins: Birth) -> Birth:
    """When the inputs began that a plan has for itself."""
    own = (i.birth for i in mine.inputs.values() if i.birth.epoch == begins.epoch)
    return next(own, begins)


def beginning(
    root: Node,
    mine: Plan,
    birth: Birth,
    before: Manifest,
    others: Others,
    width: int,
    beside: Plan | None = None,
) -> tuple[int, int | None]:
    """The first instant of a new query's answer, and that from which nothing is missing (None: not known).

    `beside` a plan that runs and means the same: nothing is missing that is not missing there, either.

    It begins with what the operators that it shares show, so only they say what is missing in that. Of a stream that it reads by itself, rows at
    or before the newest one that the graph has seen may be missing; windows must fill, and a relation (KEY, VALID) never does.
    """
    (answer,) = mine.answers.values()
    for _, known in others:
        if known.answer == answer:
            return known.since, known.complete
    own = _read_anew(mine, birth)
    newest = [before.sources[s].newest for s in own if s in before.sources]
    since = max([before.upto, *(add(t // width * width, width) for t in newest if t != MIN)])
    if since == MIN:
        return MIN, MIN
    known_there = {*beside.inputs, *beside.operators} if beside is not None else set()
    whole = [since if id_ in known_there else _complete(id_, others) for id_ in _shared(mine, others)]
    filled = _filled(root, own, since)
    if filled is None and (back := _looks_back(mine, others)) is not None:
        filled = add(since, back)
    whole.append(None if _remembers(mine, birth, others) else filled)
    found = [t for t in whole if t is not None]
    if len(found) < len(whole):
        return since, None
    return since, _at_points(mine, others, max([since, *found]))


def _at_points(mine: Plan, others: Others, complete: int) -> int | None:
    """When an answer is complete whose rows are seen at ticks: what came before it begins is not seen as of earlier ones."""
    running = {id_ for plan, _ in others for id_ in plan.operators}
    for operator in mine.operators.values():
        kernel = operator.kernel
        if isinstance(kernel, SyncTicksKernel) and operator.id not in running and complete != MIN:
            tick = Points(kernel.ticks).next_tick(-(-complete // kernel.width))
            if tick is None:
                return None
            complete = max(complete, tick * kernel.width)
    return complete


def not_kept(stream: str, before: str | None = None) -> DataFrame:
    """Refuse to read again what came before, or of that what came before an instant."""
    raise Diagnostic(
        "HISTORY_GONE",
        f"rows of '{stream}' before {before} are gone: they are kept as long as answers are"
        if before is not None
        else f"rows of '{stream}' that came before cannot be read again",
        help="without history the query sees what comes"
        if before is not None
        else "files of this machine and rows that were handed in can, unless Spark's own stream follows them; without history the query sees what comes",
    )


def not_read(stream: str) -> None:
    """Refuse to let a stream begin after its rows."""
    raise Diagnostic(
        "HISTORY_LATE",
        f"no running query reads '{stream}', and time has passed where they run: its first rows would be late",
        help="start the query before the others, or on a state directory of its own",
    )


def shared_with(mine: Plan, others: Mapping[str, Plan]) -> list[str]:
    """Which operators of a plan run already, for whom; what is left begins."""
    lines = []
    for name, plan in others.items():
        if common := [o.part_of for o in mine.operators.values() if o.id in plan.operators]:
            whole = " and answers it" if set(mine.answers.values()) & set(plan.answers.values()) else ""
            lines.append(f"'{name}' runs {', '.join(dict.fromkeys(common))}{whole}")
    if len(lines) > NAMED:
        lines = [*lines[:NAMED], f"and {len(lines) - NAMED} more queries"]
    running = {id_ for plan in others.values() for id_ in plan.operators}
    begins = [o.part_of for o in mine.operators.values() if o.id not in running]
    streams = sorted(
        i.origin.name
        for i in mine.inputs.values()
        if isinstance(i.origin, SourceRows)
        and i.origin.name is not None
        and not any(i.id in plan.inputs for plan in others.values())
    )
    if begins:
        lines.append(f"begins: {', '.join(dict.fromkeys(begins))}")
    if streams:
        lines.append(f"read anew: {', '.join(dict.fromkeys(streams))}")
    return lines


def complete_line(known: KnownQuery, moments: bool, width: int) -> str:
    """From when on nothing would be missing, as people read it."""
    if known.complete is None:
        return "complete: not known, as what came before is not kept"
    if known.complete == MIN:
        return "complete from the beginning"
    return f"complete from {shown(-(-known.complete // width), moments)}"


def _read_anew(mine: Plan, birth: Birth) -> set[str]:
    """The streams of which a query reads rows that come through an exchange of its own; tables are always whole."""
    anew = (i for i in mine.inputs.values() if i.birth == birth and i.rows.bound != Bound.TABLE)
    return {i.origin.name for i in anew if isinstance(i.origin, SourceRows) and i.origin.name is not None}


def _remembers(mine: Plan, birth: Birth, others: Others) -> bool:
    """Whether something begins that would have to know all that came before: relations, and what waits for points."""
    running = {id_ for plan, _ in others for id_ in plan.operators}
    kernels = (o.kernel for o in mine.operators.values() if o.id not in running)
    lasting = (
        i
        for i in mine.inputs.values()
        if i.birth == birth and isinstance(i.origin, SourceRows) and i.rows.form == "intervals"
    )
    return any(isinstance(k, REMEMBERING) for k in kernels) or any(
        i.rows.bound != Bound.TABLE for i in lasting
    )


def _shared(mine: Plan, others: Others) -> set[Identity]:
    """The running operators and inputs that the query's own read, or that answer it."""
    running: set[Identity] = set()
    for plan, _ in others:
        running.update(plan.inputs, plan.operators)
    read = {i for o in mine.operators.values() if o.id not in running for i in o.inputs}
    for i in mine.inputs.values():
        if i.id not in running and isinstance(i.origin, OperatorRows):
            read.add(i.origin.operator)
    return (read | set(mine.answers.values())) & running


def _complete(id_: Identity, others: Others) -> int | None:
    """From when on nothing is missing in what an operator gives: whoever has its whole answer from it knows."""
    users = (known.complete for plan, known in others if id_ in plan.operators or id_ in plan.inputs)
    return min((t for t in users if t is not None), default=None)


def _filled(root: Node, own: set[str], since: int) -> int | None:
    """When the windows over streams that are read anew have filled: what stands on a window sees back as far as both together."""
    back: dict[int, int | None] = {}
    for node in root.walk():
        below = [back[id(i)] for i in node.inputs]
        far = None if None in below else max((b for b in below if b is not None), default=0)
        step = _sees_back(node) if own.intersection(_streams(node)) else 0
        back[id(node)] = None if far is None or step is None else far + step
    found = back[id(root)]
    return None if found is None else add(since, found)


def _sees_back(node: Node) -> int | None:
    """How many ticks before an instant an operator looks at, of its input; None: there is no bound."""
    if isinstance(node, Istream | Dstream):
        return 1
    if not isinstance(node, Window):
        return 0
    mine, below = properties(node).bounded, properties(node.input).bounded
    return None if mine is None or below is None else mine - below


def _looks_back(mine: Plan, others: Others) -> int | None:
    """How many ticks before an instant the operators look at that begin; None: there is no bound that is known of each of them."""
    running = {id_ for plan, _ in others for id_ in (*plan.inputs, *plan.operators)}

    @cache
    def far(id_: Identity) -> int | None:
        if id_ in running:
            return 0
        if (entry := mine.inputs.get(id_)) is not None:
            return far(entry.origin.operator) if isinstance(entry.origin, OperatorRows) else 0
        operator = mine.operators[id_]
        below, step = [far(i) for i in operator.inputs], _ticks_back(operator.kernel)
        known = [b for b in below if b is not None]
        return None if step is None or len(known) < len(below) else max(known, default=0) + step

    (answer,) = mine.answers.values()
    return far(answer)


def _ticks_back(kernel: Kernel) -> int | None:
    """How many ticks before an instant a kernel looks at, of its inputs; None: there is no bound, or none that follows from its size alone."""
    if isinstance(kernel, TimeWindowKernel):
        return None if kernel.size is None else (kernel.size + kernel.slide) * kernel.width
    if isinstance(kernel, ChangesKernel):
        return 1
    return 0 if can_begin(kernel) or isinstance(kernel, ExpireKernel | SplitKernel | OneRowKernel) else None


def _streams(node: Node) -> set[str]:
    return {n.name for n in node.walk() if isinstance(n, Scan)}
