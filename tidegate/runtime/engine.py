"""The engine: plans in, answers out."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import uuid
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from tidegate.algebra.operators import Node
from tidegate.algebra.properties import has_timestamps, properties
from tidegate.algebra.quality import Settings
from tidegate.connectors.sinks import Sink
from tidegate.errors import Diagnostic, internal
from tidegate.language.catalog import StreamDefinition
from tidegate.object_store import Access
from tidegate.optimizer.cost import Costs
from tidegate.physical.printing import describe, describe_estimates
from tidegate.physical.spark_columns import outsource
from tidegate.runtime.activities import MeasuredEpoch, RunMetrics
from tidegate.runtime.graph import LiveGraph
from tidegate.runtime.jobs import Progress, physical, planned, source_names
from tidegate.runtime.ledger import Ledger
from tidegate.runtime.live import LiveRun
from tidegate.runtime.places import Epochs
from tidegate.runtime.previews import Heads
from tidegate.runtime.queries import Joining
from tidegate.runtime.recorded import Recording
from tidegate.runtime.results import Result
from tidegate.runtime.small_runs import run_small
from tidegate.spark.typing import ask_spark
from tidegate.storage import Storage, name_in_path
from tidegate.types import Type


class Engine:
    """Runs plans on a Spark session; `state_uri` is where runs keep their files (default: a temporary directory).

    `partitions` says into how many parts state and work are cut (default: as existing state is, or one per core, or more
    where many recorded rows are read). `spark` may be a function that gives the session when it is needed; with `small_here`, small
    recorded runs do without it.
    """

    def __init__(
        self,
        spark: SparkSession | Callable[[], SparkSession],
        state_uri: str | None = None,
        partitions: int | None = None,
        small_here: bool = False,
        conf: Mapping[str, str] | None = None,
    ) -> None:
        self._spark, self.small_here = spark, small_here
        temporary = state_uri is None
        if state_uri is None:
            place = tempfile.mkdtemp(prefix="tidegate-")
            weakref.finalize(self, shutil.rmtree, place, ignore_errors=True)
            state_uri = place
        check_place(state_uri)
        told = {**spark.conf.getAll, **(conf or {})} if isinstance(spark, SparkSession) else conf or {}
        self.storage = Storage(state_uri, temporary=temporary, access=_access(state_uri, told))
        self.partitions = partitions
        self.measured: tuple[MeasuredEpoch, ...] = ()
        """The metrics of the last recorded run."""

    @property
    def spark(self) -> SparkSession:
        return self._spark if isinstance(self._spark, SparkSession) else self._spark()

    def run(
        self,
        name: str,
        plan: Node,
        definitions: Mapping[str, StreamDefinition],
        functions: Mapping[str, Any] | None = None,
        data: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
        boundaries: Sequence[int] | None = None,
        partitions: int | None = None,
        settings: Settings | None = None,
    ) -> Result:
        """The answer to a query over recorded sources, complete.

        `definitions` are the streams and tables that the plan scans, by the name in the scan; `functions` the user's functions by
        name; `data` the rows of `memory` sources by the name of the stream. `boundaries` (ticks) cut the run into epochs; the
        answer does not depend on them, nor on the number of partitions. `settings` are in force for windows with quality ranges; of
        all else, the best quality.
        """
        answers = self.run_all(
            {name: plan}, definitions, functions, data, progress, boundaries, partitions, settings=settings
        )
        return answers[name]

    def run_all(
        self,
        plans: Mapping[str, Node],
        definitions: Mapping[str, StreamDefinition],
        functions: Mapping[str, Any] | None = None,
        data: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
        boundaries: Sequence[int] | None = None,
        partitions: int | None = None,
        heads: Heads | None = None,
        settings: Settings | None = None,
    ) -> dict[str, Result]:
        """The answers to several queries at once: sources are read once, equal sub-plans are computed once. With `heads`, of those rows only."""
        plans = {n: self.prepared(p, functions or {}) for n, p in plans.items()}
        plan = planned(plans, functions or {})
        graph = physical(plan, functions or {})
        used = _used(plans, definitions)
        run = self._place(next(iter(plans)) if len(plans) == 1 else "all")
        ledger = Ledger(run)
        asked = partitions or self.partitions
        metrics = RunMetrics(graph, width(used))
        plain = self.small_here and asked is None and boundaries is None and heads is None
        if not (plain and run_small(ledger, graph, used, data or {}, metrics, settings)):
            recording = Recording(
                self.spark, graph, used, data or {}, asked, heads, metrics=metrics, settings=settings or {}
            )
            recording.run(ledger, boundaries, progress)
        self._note(metrics, used)
        return {
            name: Result(
                lambda: self.spark,
                run,
                name,
                root.schema,
                time_type(_used({name: root}, definitions)),
                partial(ledger.parts, plan.answers[name]),
                lambda: ledger.latest,
                keep=self,
                width=width(used),
                instants=properties(root).chronon,
                measured=lambda: metrics.epochs,
                settings=lambda: settings or {},
            )
            for name, root in plans.items()
        }

    def discard(
        self,
        name: str,
        plan: Node,
        definitions: Mapping[str, StreamDefinition],
        functions: Mapping[str, Any] | None = None,
        data: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Make the answer as `run` does, every change of it, and throw it away in the tasks that made it; how many rows it had."""
        plan = self.prepared(plan, functions or {})
        graph = physical(planned({name: plan}, functions or {}), functions or {})
        used = _used({name: plan}, definitions)
        metrics = RunMetrics(graph, width(used))
        recording = Recording(
            self.spark, graph, used, data or {}, self.partitions, keep_answers=False, metrics=metrics
        )
        rows = recording.run(Ledger(self._place(name)), None, progress)
        self._note(metrics, used)
        return rows

    def _note(self, metrics: RunMetrics, used: Mapping[str, StreamDefinition]) -> None:
        """Keep what a run has measured, unless it only asked how things are."""
        if not any(definition.is_system for definition in used.values()):
            self.measured = metrics.epochs

    def _place(self, label: str) -> Storage:
        """Where a run over recorded sources keeps its files."""
        return self.storage.below(f"runs/{name_in_path(label)}-{uuid.uuid4().hex[:8]}")

    def start(
        self,
        queries: Mapping[str, Node],
        definitions: Mapping[str, StreamDefinition],
        functions: Mapping[str, Any] | None = None,
        data: Mapping[str, Any] | None = None,
        sinks: Mapping[str, Sequence[Sink]] | None = None,
        every: float | None = None,
        graph: str = "live",
        retention: int | None = None,
        partitions: int | None = None,
        begin: bool = True,
        epochs: Epochs = "auto",
    ) -> LiveRun:
        """A live graph that answers some queries; one of the same name on the same storage goes on where it stopped.

        `data` are rows of tables, and first rows of `memory` streams (more can be pushed). `every` seconds an epoch begins, as
        soon as the one before is done. `retention` (ticks) says how long answers are kept. With `begin` False the graph
        does not run by itself: call `drain`, or the graph's `advance`. `epochs`: where they run, see `runtime.places`.
        """
        live = LiveGraph(
            self.spark,
            self.storage.below(f"graphs/{name_in_path(graph)}"),
            definitions,
            functions,
            partitions or self.partitions,
            retention=retention,
            epochs=epochs,
        )
        run = LiveRun(live, every)
        joining = Joining(definitions, functions or {}, data or {})
        try:
            for name, plan in queries.items():
                run.add(name, plan, (sinks or {}).get(name, ()), joining)
            if begin:
                run.start()
        except BaseException:
            run.stop()
            raise
        return run

    def explain(
        self,
        name: str,
        plan: Node,
        functions: Mapping[str, Any] | None = None,
        costs: Costs | None = None,
    ) -> str:
        """The physical plan, as people read it; with `costs`, what is expected of each of its operators."""
        prepared = self.prepared(plan, functions or {})
        physical = planned({name: prepared}, functions or {})
        text = describe(physical, functions or {})
        if costs is None:
            return text
        return f"{text}\n\n== Estimates\n{describe_estimates(physical, costs, has_timestamps(plan))}"

    def prepared(self, plan: Node, functions: Mapping[str, Any]) -> Node:
        """The plan as it runs: what kernels cannot evaluate is Spark's."""
        return outsource(plan, functions, ask_spark(lambda: self.spark))


def _access(state_uri: str, conf: Mapping[str, str]) -> Access | None:
    return Access.of(conf) if state_uri.startswith(("s3a://", "s3://")) else None


def check_place(state_uri: str | None) -> None:
    """Refuse a state directory that cannot be one; no Spark is needed to tell."""
    if state_uri is None or "://" in state_uri:
        return
    place = os.path.abspath(state_uri)
    if (wild := re.search(r"[*?{}\[\]\\]", place)) is not None:
        raise Diagnostic(
            "STATE_PLACE",
            f"Spark would take {place} for a pattern, and read what other directories hold",
            help=f"choose a state directory without '{wild[0]}' in its path",
        )
    there = place
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    if not os.path.isdir(there) or not os.access(there, os.W_OK | os.X_OK):
        problem = "may not be written to" if os.path.isdir(there) else "is no directory"
        raise Diagnostic("STATE_PLACE", f"{there} {problem}", help="choose another state directory")


def width(definitions: Mapping[str, StreamDefinition]) -> int:
    """How many ticks an instant has: more than one where streams have batches."""
    return max((d.width for d in definitions.values()), default=1)


def time_type(definitions: Mapping[str, StreamDefinition]) -> Type | None:
    """The time domain of a query: that of its streams; tables have none."""
    return next((d.time_type for d in definitions.values() if d.time_type is not None), None)


def _used(
    roots: Mapping[str, Node], definitions: Mapping[str, StreamDefinition]
) -> dict[str, StreamDefinition]:
    found = {}
    for scan in sorted(source_names(roots)):
        match = next((d for d in definitions.values() if d.name.lower() == scan.lower()), None)
        if match is None:
            raise internal(f"the plan reads '{scan}', which is not defined")
        found[scan] = match
    return found
