"""How a query joins a running graph: it reads what runs already, and begins with what that shows (SPEC section 5).

Inputs of equal content are shared, and so is all that is computed from them alike. What the query adds may stand on a running operator if
it can begin with what the operator shows (`kernels.standing`). Where it cannot, the query gets inputs of its own and sees rows from now on:
there, one that counts rows or measures time has to fill first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from tidegate.algebra.operators import Node
from tidegate.kernels.standing import can_begin, can_stand
from tidegate.physical.identity import Identity
from tidegate.physical.plan import Birth, OperatorRows, Plan, united
from tidegate.physical.planning import plan_query


@dataclass(frozen=True)
class Company:
    """What a query meets in a graph."""

    together: Plan = field(default_factory=Plan)
    """What all queries compute that are there for the next epoch."""
    running: Plan = field(default_factory=Plan)
    """What was computed in the last one: of that, states are there."""
    once_kept: Callable[[Identity], bool] = lambda _: False
    """Whether there are answers of an operator: if nobody asks for them now, they have gaps."""


def plan_joining(
    company: Company,
    name: str,
    root: Node,
    functions: Mapping[str, Any],
    birth: Birth,
    views: Sequence[Node] = (),
) -> Plan:
    """The plan of a query that joins others; it shares what it can, unless operators would wait for themselves."""
    births: dict[Identity, list[Birth]] = {}
    for entry in company.running.inputs.values():
        births.setdefault(entry.content, []).append(entry.birth)
    for found in births.values():
        found.sort(key=lambda b: (not b.whole, b.epoch, b.by_wave), reverse=True)
    while True:
        # The oldest first: it has seen most.
        shared = {content: found[-1] for content, found in births.items() if found}
        plan = plan_query(name, root, functions, birth, shared, views)
        unfit = {plan.inputs[i].content for i in _unfit(company, plan, name)} & set(shared)
        if not unfit:
            break
        for content in unfit:
            births[content].pop()
    if united([company.together, plan]).is_circular:
        return plan_query(name, root, functions, replace(birth, by_wave=True), views=views)
    return plan


def shares(plan: Plan, birth: Birth) -> dict[Identity, Birth]:
    """What a plan shares with others, to make it again: see `plan_query`."""
    return {i.content: i.birth for i in plan.inputs.values() if i.birth != birth}


def beginners(running: Plan, together: Plan) -> frozenset[Identity]:
    """The inputs and operators that begin in an epoch, beside others that have run before."""
    if not running.inputs:
        return frozenset()
    return frozenset([*together.inputs, *together.operators]).difference(running.inputs, running.operators)


def _unfit(company: Company, plan: Plan, name: str) -> Iterator[Identity]:
    """The inputs that a plan must not share."""
    running = company.running
    stands = cache(lambda id_: _stands(plan, id_))
    for entry in plan.inputs.values():
        known = running.inputs.get(entry.id)
        if known is None and isinstance(entry.origin, OperatorRows):
            # It begins to bring the rows of an operator.
            if entry.origin.operator in running.operators and not stands(entry.origin.operator):
                yield from _below(plan, entry.origin.operator)
        # Rows that wait, or that operators keep, have only the columns that somebody needed.
        if known is None or not entry.needed <= known.needed:
            yield entry.id
    for operator in plan.operators.values():
        if operator.id in running.operators:
            continue
        if not can_begin(operator.kernel):
            # It would take what is shown for what has come just now.
            yield from _below(plan, operator.id)
        for i in operator.inputs:
            if (i in running.operators or i in running.inputs) and not stands(i):
                yield from _brought_to(plan, i)
    answer = plan.answers[name]
    if answer not in running.answers.values():
        runs = answer in running.operators or answer in running.inputs
        if company.once_kept(answer) or (runs and not stands(answer)):
            yield from _brought_to(plan, answer)


def _stands(plan: Plan, id_: Identity) -> bool:
    """Whether it can be told what an operator or input shows."""
    if id_ in plan.inputs:
        return plan.inputs[id_].rows.form == "instants"
    operator = plan.operators[id_]
    return can_stand(operator.kernel, [_stands(plan, i) for i in operator.inputs])


def _brought_to(plan: Plan, id_: Identity) -> Iterator[Identity]:
    """The inputs that bring rows to an operator's own partition: if others do, the operator begins, with what they begin with."""
    todo = [id_]
    while todo:
        current = todo.pop()
        if current in plan.inputs:
            yield current
        else:
            todo += plan.operators[current].inputs


def _below(plan: Plan, id_: Identity) -> Iterator[Identity]:
    """The inputs that rows come through: to an operator all of them, of an exchange itself."""
    if id_ in plan.inputs:
        yield id_
        return
    todo = [id_]
    while todo:
        current = todo.pop()
        entry = plan.inputs.get(current)
        if entry is None:
            todo += plan.operators[current].inputs
            continue
        yield current
        if isinstance(entry.origin, OperatorRows):
            todo.append(entry.origin.operator)
