"""PREVIEW: the first rows of an answer, of the first rows that the streams hold.

Of each stream so many rows are read, in their order of arrival, and the run goes as far as these streams promise, as that of a live query would that
has read no more. What it says is final for streams that keep their promise (`slack`); tables are read whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from tidegate.connectors.sources import RawStream, read_recorded
from tidegate.language.catalog import StreamDefinition
from tidegate.time import MAX, MIN

SIZES = (1_000, 50_000)
"""So many rows of each stream are tried, one after the other; where they give too little of an answer, all are read."""


@dataclass(frozen=True)
class Heads:
    """The first rows of some streams, and how far they promise to reach."""

    streams: Mapping[str, RawStream]
    upto: int

    @property
    def whole(self) -> bool:
        """Whether nothing was left out."""
        return self.upto == MAX


def heads_of(
    spark: Any, definitions: Mapping[str, StreamDefinition], data: Mapping[str, Any], rows: int
) -> Heads:
    """The first rows of every stream, and tables."""
    streams, upto = {}, MAX
    for name, definition in definitions.items():
        raw = read_recorded(spark, definition, data.get(name))
        if not definition.table:
            raw, reached = _head(spark, raw, rows)
            upto = min(upto, reached)
        streams[name] = raw
    return Heads(streams, upto)


def _head(spark: Any, raw: RawStream, rows: int) -> tuple[RawStream, int]:
    """The first rows of a stream, and the instant before which it promises to hold no others."""
    moments = {name for name, kind in raw.given.dtypes if kind == "timestamp"}
    # Through Python, a moment would pass the machine's time zone.
    numbers = raw.given.selectExpr(
        *(f"unix_micros({n}) AS {n}" if n in moments else n for n in raw.given.columns)
    )
    taken = numbers.take(rows + 1)
    if len(taken) <= rows:
        return raw, MAX
    first = spark.createDataFrame(taken[:rows], numbers.schema)
    given = first.selectExpr(*(f"timestamp_micros({n}) AS {n}" if n in moments else n for n in first.columns))
    head, definition = replace(raw, given=given), raw.definition
    found = head.frame.filter("bad IS NULL").agg(F.max("ts")).first()
    if found is None or found[0] is None:
        return head, MIN
    width = definition.width
    return head, (found[0] // width - definition.slack) * width
