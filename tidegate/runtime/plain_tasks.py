"""The waves of an epoch as plain lists of tasks, where nothing but names of files has to travel between them.

Where all tasks run on one machine, rows that tasks read or emit as columns lie in files (`exchange.blocks`). Spark then has nothing to plan and nothing to
exchange: it is given one list of tasks after the other, and the driver passes on what they say. A job of frames with its exchanges costs one to two
processor seconds whatever it does, a list of tasks a tenth of that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyarrow import ipc
from pyspark import SparkContext
from pyspark.sql import SparkSession


class Task(Protocol):
    """What is done in a partition with the rows that arrive there."""

    def run(self, partition: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]: ...


def context_of(spark: SparkSession) -> SparkContext | None:
    """Who takes lists of tasks; a session at a distance does not."""
    try:
        return spark.sparkContext
    except Exception:
        return None


def run_tasks(
    context: SparkContext, task: Task, given: Sequence[Sequence[pa.RecordBatch]]
) -> list[pa.RecordBatch]:
    """What a task says of the rows of each partition. Partitions without rows share one task of Spark's."""
    idle = [(p, b"") for p, batches in enumerate(given) if not batches]
    groups = [[(p, _packed(batches))] for p, batches in enumerate(given) if batches]
    groups += [idle] if idle else []
    said = context.parallelize(groups, len(groups)).mapPartitions(_Calls(task)).collect()
    return [batch for data in said for batch in _unpacked(data)]


@dataclass(frozen=True)
class _Calls:
    """A task as Spark calls it."""

    task: Task

    def __call__(self, groups: Iterable[list[tuple[int, bytes]]]) -> Iterator[bytes]:
        for group in groups:
            for partition, data in group:
                found = list(self.task.run(partition, _unpacked(data)))
                yield _packed(found)


def _packed(batches: Sequence[pa.RecordBatch]) -> bytes:
    if not batches:
        return b""
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _unpacked(data: bytes) -> list[pa.RecordBatch]:
    return list(ipc.open_stream(data)) if data else []
