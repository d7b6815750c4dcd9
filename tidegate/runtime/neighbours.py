"""What the queries of a graph have in common, for one that joins them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tidegate.algebra.operators import Node
from tidegate.optimizer.cost import Cost, Costs
from tidegate.optimizer.search import Whole
from tidegate.optimizer.views import Views
from tidegate.physical.estimates import Expectations
from tidegate.physical.identity import Identity
from tidegate.physical.joining import Company, plan_joining
from tidegate.physical.plan import Birth, Plan, united
from tidegate.runtime.alike import Alike, mark
from tidegate.runtime.answering import Answer, told
from tidegate.runtime.beginnings import Others, joined
from tidegate.runtime.ledger import KnownQuery, Manifest
from tidegate.runtime.migration import Takeover, taken_over
from tidegate.runtime.queries import Query


@dataclass(frozen=True)
class Moment:
    """A graph between two epochs."""

    before: Manifest
    settled: Callable[[], list[Query]]
    """The queries of the last epoch, whose states are there."""
    kept: Callable[[Identity], bool]
    """Whether there are answers of an operator."""
    width: int
    costs: Callable[[], Costs]
    """What estimates of what runs rest on."""


class Neighbours:
    """The queries of a graph as others see them: what they compute together, which parts can be read, which are alike."""

    def __init__(self) -> None:
        self.together = Plan()
        self._views = Views()
        self._alike = Alike()
        self._met: tuple[Manifest, Plan, Others, Expectations] | None = None

    def add(self, query: Query) -> None:
        self.together = united([self.together, query.whole])
        self._views.add(query.name, query.runs)
        self._alike.add(query)

    def remove(self, query: Query, rest: Iterable[Query]) -> None:
        self._views.remove(query.name, query.runs)
        if not self._alike.remove(query):
            self.together = united(q.whole for q in rest)

    def change(self) -> None:
        """Others have run, or have been found again, than was known."""
        self._met = None

    def answer(
        self, name: str, plan: Node, functions: Mapping[str, Any], moment: Moment
    ) -> tuple[Answer, KnownQuery]:
        """How a query is answered that joins, and what the graph is to remember of it."""
        alike = self._alike.general(plan)
        if alike is not None and (same := self._alike.example(alike)) is not None:
            # What runs for them, or for one that is the same, runs for one more.
            mine = replace(same.physical, answers={name: same.known.answer})
            as_one, which = (None, "") if same.as_one is None else (alike, mark(alike))
            known = replace(same.known, owner=uuid.uuid4().hex, as_one=which)
            return Answer(same.runs, mine, same.views, as_one=as_one), known
        running, others, expected = self._who(moment)
        company = Company(self.together, running, moment.kept)
        return joined(
            name, plan, functions, moment.before, company, others, moment.width, self._views, alike, expected
        )

    def adding(self, functions: Mapping[str, Any], moment: Moment, costs: Costs) -> Whole:
        """What a plan is expected to add to what runs."""
        running, _, _ = self._who(moment)
        company, expected = Company(self.together, running, moment.kept), Expectations(costs)

        def added(plan: Node) -> Cost:
            physical = plan_joining(company, "", plan, functions, Birth(moment.before.epoch))
            return expected.added(physical, (company.together, company.running))

        return added

    def taken_over(
        self, query: Query, plan: Node, functions: Mapping[str, Any], moment: Moment
    ) -> Takeover | None:
        """How a plan takes over from that of a query that has run, if it can."""
        running, others, _ = self._who(moment)
        company = Company(self.together, running, moment.kept)
        old = query.runs, query.physical, query.known
        return taken_over(query.name, plan, functions, moment.before, company, others, moment.width, old)

    def succeeding(self, name: str, plan: Node, functions: Mapping[str, Any], moment: Moment) -> Takeover:
        """How a plan of another meaning follows one that has run: as a query that joins, from when on it is complete."""
        running, others, expected = self._who(moment)
        company = Company(self.together, running, moment.kept)
        answer, known = joined(
            name, plan, functions, moment.before, company, others, moment.width, self._views, None, expected
        )
        begins = known.since if known.complete is None else known.complete
        return answer, known, max(begins, moment.before.upto)

    def folded(
        self, query: Query, others: Mapping[str, Query], functions: Mapping[str, Any], moment: Moment
    ) -> list[Query]:
        """Those that are alike with a query that runs as one with all that follow, and that have not run yet: as one, too."""
        found = []
        for other in self._alike.alone(query):
            if not other.history and other.name not in moment.before.queries:
                self.remove(other, [q for n, q in others.items() if n != other.name])
                answer, known = self.answer(other.name, other.plan, functions, moment)
                before = other.known
                known = replace(known, owner=before.owner, meaning=before.meaning, plan=before.plan)
                found.append(
                    replace(
                        other, physical=answer.physical, known=known, views=answer.views, as_one=answer.as_one,
                        computed=answer.runs,
                    )
                )  # fmt: skip
                self.add(found[-1])
        return found

    def told(self, answer: Answer, plan: Node) -> list[str]:
        """For EXPLAIN: who answers, or why nobody does."""
        return told(answer, plan, self._views)

    def _who(self, moment: Moment) -> tuple[Plan, Others, Expectations]:
        """What ran in the last epoch, for whom, and what it is expected to cost: the same for all that join after it."""
        if self._met is None or self._met[0] is not moment.before:
            settled = moment.settled()
            running = united((q.whole for q in settled), moment.before.columns)
            # Of those that have one answer, one stands for all.
            boxes = [box for q in settled for box in q.boxes]
            answers = {q.known.answer: (q.physical, q.known) for q in reversed(boxes)}
            self._met = moment.before, running, list(answers.values()), Expectations(moment.costs())
        return self._met[1:]
