"""A run goes on with another number of partitions: its state is cut anew, once, before the next epoch.

That is an epoch of its own, in which no time passes: tasks write the new partitions' state, and one manifest makes it count.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from pyspark.sql import SparkSession

from tidegate.errors import Diagnostic, Kind
from tidegate.runtime.faults import reach
from tidegate.runtime.jobs import MESSAGES, Physical, collected
from tidegate.runtime.ledger import Ledger, Manifest
from tidegate.worker.repartition import Cut, MoveTask, moves_of
from tidegate.worker.tasks import Log, unpack


def repartition(
    spark: SparkSession, graph: Physical, ledger: Ledger, partitions: int, queries: Collection[str] = ()
) -> None:
    """Cut the state of the graph's stages into so many partitions; `queries` are those that it runs.

    What cannot be cut is refused before anything is changed.
    """
    before = ledger.latest
    if before.partitions in (0, partitions) or before.finished:
        return
    known = {name: query for name, query in before.queries.items() if name in queries}
    _refuse_if_impossible(graph, {q["label"]: name for name, q in known.items()}, before, partitions)
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
    logs = {m["place"]: Log(tuple(m["segments"]), m["rows"]) for m in collected(tasks)}
    reach("moved state")
    ledger.commit(
        replace(before, epoch=before.epoch + 1, partitions=partitions, queries=known, logs=logs, results=())
    )


def _refuse_if_impossible(
    graph: Physical, names: Mapping[str, str], before: Manifest, partitions: int
) -> None:
    unpacked = unpack(graph.packed)
    for stage, group in zip(graph.stages, graph.groups, strict=True):
        program = unpacked.programs[stage.number]
        moves = moves_of(stage, program, unpacked.plan.functions)
        if not moves.unknown or (names and group not in names):
            continue
        operators = ", ".join(step.split(":")[-1] for step in moves.unknown)
        raise Diagnostic(
            "STATE_NOT_DIVISIBLE",
            f"the state of '{names.get(group, group)}' cannot be moved from {before.partitions} to {partitions} partitions: "
            f"rows of {operators} no longer have the values by which they were exchanged",
            help=f"go on with {before.partitions} partitions, or keep the columns that are joined or grouped by in the query",
            kind=Kind.UNSUPPORTED,
        )
