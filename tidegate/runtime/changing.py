"""What changes about running queries between two epochs, as a part of the graph: their plans (`runtime.migration`) and the values of their quality ranges (`runtime.quality`)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from tidegate.algebra.operators import Node
from tidegate.algebra.quality import Knob
from tidegate.language.catalog import StreamDefinition
from tidegate.optimizer.cost import Costs
from tidegate.physical.plan import Plan, united
from tidegate.physical.spark_columns import outsource
from tidegate.runtime.choosing import remembered
from tidegate.runtime.figures import Figures
from tidegate.runtime.jobs import Physical
from tidegate.runtime.ledger import Ledger, after
from tidegate.runtime.live_statistics import measured_costs
from tidegate.runtime.migration import not_alone, not_begun, released, switched
from tidegate.runtime.neighbours import Moment, Neighbours
from tidegate.runtime.quality import changes_to, knobs_in
from tidegate.runtime.queries import Joining, Query, brought
from tidegate.runtime.reoptimizing import Reoptimizer
from tidegate.spark.typing import ask_spark
from tidegate.time import MIN


class Changing:
    """A graph whose queries may be answered by other plans than they began with."""

    spark: SparkSession
    lock: threading.RLock
    ledger: Ledger
    definitions: dict[str, StreamDefinition]
    functions: dict[str, Any]
    tables: dict[str, Any]
    figures: Figures
    reoptimize: Callable[[], bool] = staticmethod(lambda: False)
    """Whether plans are replaced when streams are not as they were expected to be."""
    reoptimizer: Reoptimizer
    _queries: Mapping[str, Query]
    _left: list[Query]
    _folded: dict[str, Query]
    _neighbours: Neighbours
    _physical: Physical | None

    def query(self, name: str) -> Query:
        raise NotImplementedError

    def hold(self) -> None:
        raise NotImplementedError

    def _instant(self, tick: int) -> int:
        raise NotImplementedError

    def _moment(self) -> Moment:
        raise NotImplementedError

    def _publish(self) -> None:
        raise NotImplementedError

    def change(
        self, name: str, plan: Node, same: bool = True, joining: Joining | None = None
    ) -> Query | None:
        """Let another plan answer a running query: one that means the `same` takes over without a gap; None: it cannot, or it is the one that runs.

        A plan of another meaning is the query's successor from the first instant on at which its answer is complete.
        """
        joining = joining or Joining()
        with self.lock:
            old, latest = self.query(name), self.ledger.latest
            if old.as_one is not None:
                raise not_alone(name)
            if not old.has_run(latest):
                raise not_begun(name)
            definitions, functions = brought(
                joining, self._queries.values(), self.definitions, self.functions
            )
            asked = outsource(plan, functions, ask_spark(lambda: self.spark))
            neighbours, moment = self._neighbours, self._moment()
            if same:
                found = neighbours.taken_over(old, asked, functions, moment)
            else:
                found = neighbours.succeeding(name, asked, functions, moment)
            if found is None:
                return None
            answer, known, until = found
            meaning = old.known.meaning if same else ""
            known = remembered(replace(known, owner=old.known.owner), asked, asked, meaning)
            key = old.key if same else joining.key
            new = Query(
                name, asked, answer.physical, known, old.sinks, key, views=answer.views, computed=answer.runs
            )
            self.definitions, self.functions = definitions, functions
            tables = {n: r for n, r in joining.data.items() if n in definitions and definitions[n].table}
            self.tables |= tables
            self._left = [*self._left, old]
            new = switched(old, new, until, same, latest.upto)
            self._replace(old, new)
            return new

    def adjust(self, values: Mapping[str, int], since: int | None = None) -> int:
        """Choose values for knobs, by their names, that hold for rows from an instant on (None: from the watermark); which instant that is."""
        with self.lock:
            self.hold()
            passed = self._instant(self.ledger.latest.upto)
            if changes := changes_to(values, self.knobs(), self.ledger.settings, passed, since):
                self.ledger.commit(after(self.ledger.latest, (), settings=changes))
                self._publish()
            return passed if since is None else since

    def knobs(self) -> dict[str, Knob]:
        """What can be chosen for the queries, by name."""
        return knobs_in(self._plans)

    @property
    def _plans(self) -> list[Node]:
        return [box.plan for q in self._queries.values() for box in q.boxes]

    def reconsider(self) -> None:
        """Replace plans that have become much dearer than others, if that was asked for and a look is due."""
        epoch = self.ledger.latest.epoch
        if not self.reoptimize() or self.ledger.latest.finished or not self.reoptimizer.is_due(epoch):
            return
        for query in list(self._queries.values()):
            found = self.reoptimizer.proposed(query, epoch, self._measured)
            if found is not None:
                new = self.change(query.name, found.plan)
                until = None if new is None else new.known.before[-1].until
                self.reoptimizer.note(query.name, epoch, until, found)

    def _measured(self) -> Costs | None:
        return measured_costs(self.figures, self.definitions)

    def _replace(self, old: Query, new: Query) -> None:
        """Go on with a query as it is planned now."""
        self._neighbours.remove(old, [q for q in self._queries.values() if q is not old])
        self._queries = {**self._queries, new.name: new}
        self._folded[new.known.owner] = new
        self._neighbours.add(new)
        self._neighbours.change()
        self._physical = None
        self._publish()

    def _release(self) -> None:
        """Let plans go whose instants have passed."""
        latest = self.ledger.latest
        for query in [q for q in self._queries.values() if q.known.before]:
            left = released(query, latest.upto, self.ledger.horizon)
            if (left.leaving, left.known) != (query.leaving, query.known):
                self._left = [*self._left, query]
                self._replace(query, left)

    @property
    def changes(self) -> bool:
        """Whether the next epoch runs other plans than the last one, or lets some go whose instants have passed."""
        latest, queries = self.ledger.latest, self._queries.values()
        if latest.queries != {q.name: q.known for q in queries}:
            return True
        leaving = [q for q in queries if q.leaving]
        return not latest.finished and any(
            released(q, latest.upto, MIN).leaving != q.leaving for q in leaving
        )

    def _settled(self) -> list[Query]:
        """The queries of the last epoch, those among them that have left since included: their operators' states are there."""
        latest = self.ledger.latest
        return [*self._left, *(q for q in self._queries.values() if q.has_run(latest))]

    def _running(self) -> Plan:
        """What they compute, with the columns that they bring."""
        return united((q.whole for q in self._settled()), self.ledger.latest.columns)
