"""A running plan is replaced by another that means the same: at every instant the answer is the reference's, whoever gives it."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence

from tests.fuzz.graph_runs import GraphRun
from tests.fuzz.players import answerable, described
from tests.fuzz.queries import Case, Generator
from tests.fuzz.test_joining import different, family
from tests.fuzz.test_partitions import QUERIES, VIEWS, dense
from tidegate.algebra import operators as op
from tidegate.errors import Diagnostic
from tidegate.optimizer.cost import Costs
from tidegate.optimizer.expiration import with_told_ends
from tidegate.optimizer.rules import ALTERNATIVES, JOIN_ORDER
from tidegate.optimizer.search import Budget, search
from tidegate.physical.identity import plan_identity
from tidegate.time import MAX

MIGRATIONS = int(os.environ.get("TIDEGATE_MIGRATIONS", "16"))
FIRST = int(os.environ.get("TIDEGATE_FUZZ_SEED", "900000"))


def somewhere(plan: op.Node, dice: random.Random) -> op.Node:
    """The plan with an alternative, of those that cost decides about, at one place."""
    places = list(plan.walk())
    dice.shuffle(places)
    for place in places:
        found = [other for a in (*ALTERNATIVES, *JOIN_ORDER) for other in a(place)]
        if found:
            return _with(plan, place, dice.choice(found))
    return plan


def _with(plan: op.Node, old: op.Node, new: op.Node) -> op.Node:
    if plan is old:
        return new
    inputs = [_with(i, old, new) for i in plan.inputs]
    same = all(a is b for a, b in zip(inputs, plan.inputs, strict=True))
    return plan if same else plan.with_inputs(*inputs)


def ways(case: Case, dice: random.Random) -> list[op.Node]:
    """Plans that mean the same: as written, by the rules, by a search, with alternatives, with windows that tell each row that leaves."""
    best = case.optimized
    found = [
        best,
        case.plan,
        search(best, Costs({}), budget=Budget(200, seconds=0.1)).plan,
        with_told_ends(best),
    ]
    for _ in range(3):
        best = somewhere(best, dice)
        found.append(best)
    return list({plan_identity(p): p for p in found}.values())


def check(cases: Mapping[str, Case], dice: random.Random, partitions: int) -> tuple[str | None, int, int]:
    """Queries run together, come and go, and change their plans; what is wrong, how many plans were replaced, and how many could not be."""
    first = next(iter(cases.values()))
    run = GraphRun(
        first.streams.sources(first.width), partitions, {**first.catalog.functions, **first.catalog.aggregates},
        first.streams.unit, first.width,
    )  # fmt: skip
    plans: dict[str, Sequence[op.Node]] = {n: ways(c, dice) for n, c in cases.items()}
    ends = [t * run.instant for t in sorted(dice.choices(range(-2, 24), k=12))]
    waiting, said, replaced, refused = list(cases), [], 0, 0
    for i, upto in enumerate([*ends, MAX]):
        if waiting and (i == 0 or dice.random() < 0.4):
            name = waiting.pop(0)
            run.add(name, dice.choice(plans[name]))
            said.append(f"{name} from {run.since}")
        elif len(run.members) > 1 and dice.random() < 0.15:
            name = dice.choice(list(run.members))
            found = different(cases[name], run.members[name], run.answer(run.members[name]), run.since)
            if found is not None:
                return f"{name} of {said}, epochs {ends}, {partitions} partitions: {found}", replaced, refused
            run.drop(name)
            waiting.append(name)
            said.append(f"without {name} from {run.since}")
        for name in [n for n in run.members if n in run.settled and dice.random() < 0.6]:
            if run.members[name] is run.settled[name]:
                number = dice.randrange(len(plans[name]))
                if run.migrate(name, plans[name][number]):
                    replaced += 1
                    said.append(
                        f"{name} by plan {number} from {run.since}, until {run.members[name].known.before[-1].until}"
                    )
                else:
                    refused += plan_identity(plans[name][number]) != plan_identity(run.members[name].root)
        run.graph_epoch(upto)
    for name, member in run.members.items():
        found = different(cases[name], member, run.answer(member), MAX)
        if found is not None:
            return f"{name} of {said}, epochs {ends}, {partitions} partitions: {found}", replaced, refused
    run.release()
    assert not any(m.leaving for m in run.members.values() if run.since == MAX)
    return None, replaced, refused


def case_of(number: int) -> Case:
    """A query of those that keep state in all ways, or a generated one."""
    if number % 2:
        return Generator(FIRST + number).case(slack=0)
    names = list(QUERIES)
    return Case(number, dense(number), QUERIES[names[number // 2 % len(names)]], views=VIEWS)


def play(number: int) -> tuple[int, int]:
    """How many plans were replaced, and how many could not be, in a graph of a query and others over it."""
    case, dice = case_of(number), random.Random(FIRST + number)
    try:
        every = {n: c for n, c in family(case, dice).items() if c.optimized and c.width == case.width}
    except Diagnostic:
        return 0, 0
    if not answerable(case):
        return 0, 0
    cases = {n: every[n] for n in list(every)[:3]}
    found, replaced, refused = check(cases, dice, 1 + number % 3)
    assert found is None, f"number {number}, {found}\n{described(case)}"
    return replaced, refused


def test_plans_are_replaced() -> None:
    number = replaced = refused = 0
    while replaced < MIGRATIONS:
        more = play(number)
        replaced, refused, number = replaced + more[0], refused + more[1], number + 1
    print(f"\n{replaced} plans replaced, {refused} could not be, in {number} graphs")
