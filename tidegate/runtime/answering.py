"""How a query is answered beside others: by itself, or over what runs already, whichever adds less work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tidegate.algebra.operators import Node
from tidegate.algebra.points import points_of
from tidegate.algebra.printing import details, expression_text, title
from tidegate.algebra.writing import from_plain, to_plain
from tidegate.optimizer.compensation import Over
from tidegate.optimizer.lifting import Lifted, lifted
from tidegate.optimizer.views import Reading, Views
from tidegate.physical.estimates import Expectations
from tidegate.physical.identity import plan_identity
from tidegate.physical.joining import Company, plan_joining
from tidegate.physical.plan import Birth, Plan
from tidegate.physical.planning import plan_query
from tidegate.runtime.alike import mark
from tidegate.runtime.ledger import KnownQuery


@dataclass(frozen=True)
class Answer:
    """How a query is answered: the plan that is computed for it, of which `views` run already and are to stay as they are."""

    runs: Node
    physical: Plan
    views: tuple[Node, ...] = ()
    readings: tuple[Reading, ...] = ()
    as_one: Lifted | None = None
    """If the plan is computed for all that are alike: the query's own answer is a condition on it."""


def by_itself(company: Company, name: str, root: Node, functions: Mapping[str, Any], birth: Birth) -> Answer:
    return Answer(root, plan_joining(company, name, root, functions, birth))


def answers(
    company: Company,
    name: str,
    root: Node,
    functions: Mapping[str, Any],
    birth: Birth,
    views: Views,
    expected: Expectations,
) -> list[Answer]:
    """The ways in which a query can be answered, the one that adds least to what all others compute first."""
    found = [by_itself(company, name, root, functions, birth)]
    for over in views.rewritings(root):
        mine = plan_joining(company, name, over.plan, functions, birth, over.views)
        found.append(Answer(over.plan, mine, over.views, over.readings))
    if len(found) == 1:
        return found
    there = (company.together, company.running)
    return sorted(found, key=lambda a: expected.added(a.physical, there).weight)


def begun(
    name: str, plan: Node, functions: Mapping[str, Any], known: KnownQuery, kept: Mapping[str, Any]
) -> Answer:
    """A query that has run before, over what it was answered from when it began."""
    alike = lifted(plan) if known.as_one else None
    runs = plan if alike is None else alike.general
    over = Views({v: from_plain(kept[v]) for v in known.reads}).rewritten(runs) if known.reads else None
    if over is not None:
        runs = over.plan
    views = () if over is None else over.views
    mine = plan_query(name, runs, functions, known.birth, known.shared, views)
    return Answer(runs, mine, views, as_one=alike)


def goes_on(name: str, answer: Answer, known: KnownQuery) -> bool:
    """Whether a query is the one that has run before under its name."""
    which = "" if answer.as_one is None else mark(answer.as_one)
    return answer.physical.answers[name] == known.answer and which == known.as_one


def written(views: Iterable[Node]) -> dict[str, Any]:
    """Plans as a manifest keeps them, by what they compute."""
    return {plan_identity(view): _plain(view) for view in views}


@lru_cache(maxsize=4_096)
def _plain(view: Node) -> Any:
    """Every epoch writes the same plans."""
    return to_plain(view)


# For EXPLAIN.


def told(answer: Answer, plan: Node, views: Views) -> list[str]:
    """Which running operators answer a query, what is done above them, and which nearly would have."""
    lines = []
    if answer.as_one is not None:
        found = [expression_text(c, answer.as_one.general.schema) for c in answer.as_one.conditions]
        lines.append(
            f"one of many alike: of the answer that runs for all of them, rows with {' and '.join(found)}"
        )
    for reading in answer.readings:
        users = ", ".join(f"'{u}'" for u in views.users(reading.view)[:3])
        whole = "it" if reading.part == plan else _named(reading.part)
        lines.append(
            f"{users} answers {whole} with {_named(reading.view)}{_done(reading.over, reading.view)}"
        )
    if not answer.readings and answer.as_one is None:
        for view, reason in views.misses(plan):
            users = ", ".join(f"'{u}'" for u in views.users(view)[:3])
            lines.append(f"{users} nearly answers with {_named(view)}: {reason}")
    return lines


def _named(node: Node) -> str:
    return f"{title(node)} {details(node)}".strip()


def _done(found: Over, view: Node) -> str:
    steps = [expression_text(c, view.schema) for c in found.conditions]
    steps += [f"rows of the last {f.size} ticks" for f in found.fresh]
    if found.rollup is not None:
        keys = ", ".join(expression_text(k, view.schema) for k in found.rollup.keys)
        steps.append(f"grouped by {keys}" if keys else "grouped again")
    if found.having:
        steps.append("filtered after that")
    if found.begins is not None:
        steps.append(f"from {found.begins} on")
    if found.points is not None:
        steps.append(f"seen {points_of(found.points)}")
    return f", then {'; '.join(steps)}" if steps else ""
