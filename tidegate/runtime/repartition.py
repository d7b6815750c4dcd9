"""A run goes on with another number of partitions: its state is cut anew, once, before the next epoch.

That is an epoch of its own, in which no time passes: tasks write the new partitions' state, and one manifest makes it count.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from pyspark.sql import SparkSession

from tidegate.errors import Diagnostic, Kind
from tidegate.exchange.messages import Moved
from tidegate.runtime.faults import reach
from tidegate.runtime.jobs import MESSAGES, Physical, collected
from tidegate.runtime.ledger import Ledger
from tidegate.worker.repartition import Cut, MoveTask, moves_of
from tidegate.worker.tasks import unpack


def repartition(
    spark: SparkSession, graph: Physical, ledger: Ledger, partitions: int, queries: Collection[str] = ()
) -> None:
    """Cut the state of the graph's operators into so many partitions; `queries` are those that it runs.

    What cannot be cut is refused before anything is changed.
    """
    before = ledger.latest
    if before.partitions in (0, partitions) or before.finished:
        return
    known = {name: query for name, query in before.queries.items() if name in queries}
    _refuse_if_impossible(graph, before.partitions, partitions)
    cut = Cut(
        graph.packed,
        before.epoch + 1,
        before.upto,
        ledger.storage,
        before.logs,
        before.partitions,
        partitions,
    )
    tasks = spark.range(0, partitions, 1, partitions).mapInArrow(MoveTask(cut), MESSAGES)
    logs = {m.place: m.log for m in collected(tasks) if isinstance(m, Moved)}
    reach("moved state")
    ledger.commit(
        replace(
            before,
            epoch=before.epoch + 1,
            partitions=partitions,
            queries=known,
            logs=logs,
            results=(),
            layout=graph.layout,
        )
    )


def _refuse_if_impossible(graph: Physical, old: int, new: int) -> None:
    plan = unpack(graph.packed)
    for wave, program in plan.programs.items():
        inputs = [lane.input for lane in plan.lanes if lane.wave == wave]
        moves = moves_of(inputs, program, plan.functions)
        if not moves.unknown:
            continue
        names = {o.id: o.name for o in program.operators}
        operators = ", ".join(sorted({names.get(id_, "rows that wait") for id_ in moves.unknown}))
        raise Diagnostic(
            "STATE_NOT_DIVISIBLE",
            f"the state cannot be moved from {old} to {new} partitions: "
            f"rows of {operators} no longer have the values by which they were exchanged",
            help=f"go on with {old} partitions, or keep the columns that are joined or grouped by in the query",
            kind=Kind.UNSUPPORTED,
        )
