"""Change-data-capture events as rows: Debezium's envelope, decoded in the workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from tidegate.connectors.debezium import UnreadableEventError, decode
from tidegate.spark.values import arrow_type, quote, schema_ddl, unfit
from tidegate.types import Schema, Value

DEBEZIUM = "debezium"
"""The name of the format in `WITH (format = …)`."""


def decoded_events(columns: Schema, text: DataFrame, column: str, unreadable: str, reason: str) -> DataFrame:
    """The rows of events, one per line of text; other columns stay. Tombstones are no rows.

    An event that gives no row keeps its text in `unreadable` and says why in `reason`.
    """
    others = [f for f in text.schema if f.name != column]
    kept = ", ".join(f"{quote(f.name)} {f.dataType.simpleString()}" for f in others)
    schema = f"{kept}, {schema_ddl(columns)}, {unreadable} STRING, {reason} STRING"
    decoder = _Decoder(columns, column, tuple(f.name for f in others), unreadable, reason)
    return text.mapInArrow(decoder, schema)


@dataclass(frozen=True)
class _Decoder:
    columns: Schema
    column: str
    others: tuple[str, ...]
    unreadable: str
    reason: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield self._decoded(batch)

    def _row(self, line: bytes) -> tuple[dict[str, Value] | None, str | None]:
        """The row of an event, or why there is none; whatever an event holds, only it is refused."""
        try:
            row = decode(line.decode(), self.columns)
        except UnicodeDecodeError:
            return {}, "this is no UTF-8"
        except UnreadableEventError as why:
            return {}, str(why)
        except (RecursionError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as why:
            return {}, f"this is not Debezium's envelope: {type(why).__name__}"
        problem = None if row is None else unfit([row.get(c.name) for c in self.columns], self.columns)
        return (row, None) if problem is None else ({}, problem)

    def _decoded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        places: list[int] = []
        rows: list[dict[str, Value]] = []
        texts: list[str | None] = []
        reasons: list[str | None] = []
        # Spark hands on the bytes of a line, whatever they are.
        for place, line in enumerate(batch.column(self.column).cast(pa.binary()).to_pylist()):
            if line is None or not line.strip():
                continue
            row, problem = self._row(line)
            if row is None:
                continue
            places.append(place)
            rows.append(row)
            texts.append(None if problem is None else line.decode(errors="replace"))
            reasons.append(problem)
        kept = batch.take(pa.array(places, pa.int64()))
        arrays = [kept.column(name) for name in self.others]
        arrays += [pa.array([r.get(c.name) for r in rows], arrow_type(c.type)) for c in self.columns]
        arrays += [pa.array(texts, pa.string()), pa.array(reasons, pa.string())]
        names = [*self.others, *(c.name for c in self.columns), self.unreadable, self.reason]
        return pa.RecordBatch.from_arrays(arrays, names=names)
