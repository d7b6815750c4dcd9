"""The rows of all sources that an epoch takes, as one frame."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from tidegate.connectors.sources import RawStream, Shape
from tidegate.exchange.lanes import Feed, Lane, Slots
from tidegate.runtime.jobs import told
from tidegate.runtime.promises import Seen


@dataclass(frozen=True)
class Batch:
    """Rows that came: one frame, in which `source` tells the streams apart and shapes say what is theirs."""

    frame: DataFrame
    tags: Mapping[str, int]
    shapes: Mapping[str, Shape]

    def feed(self, name: str, lanes: Sequence[Lane]) -> Feed:
        shape = self.shapes[name]
        return Feed(
            name, self.tags[name], shape.columns, tuple(lanes), shape.ts, shape.te, shape.bad, shape.raw
        )

    def look(self, names: Sequence[str]) -> dict[str, Seen]:
        """What the rows of some streams are, told by Spark before anything is done with them."""
        with told():
            found = self.frame.agg(*self.observed(names)).first()
        return self.seen({} if found is None else found.asDict(), names)

    def seen(self, found: Mapping[str, Any], names: Sequence[str]) -> dict[str, Seen]:
        """What was noted, by stream. Of a frame that Spark knows to be empty nothing is."""
        tags = {n: self.tags[n] for n in names}
        return {n: Seen(found.get(f"newest_{tag}"), found.get(f"rows_{tag}", 0)) for n, tag in tags.items()}

    def observed(self, names: Sequence[str]) -> list[Column]:
        """What is to be noted of some streams on the way: their newest instants, and how many rows came."""
        found = []
        for name in names:
            tag, shape = self.tags[name], self.shapes[name]
            good = f"source = {tag} AND {shape.bad} IS NULL"
            found.append(F.expr(f"max(CASE WHEN {good} THEN {shape.ts} END) AS newest_{tag}"))
            found.append(F.expr(f"count(CASE WHEN {self._is_row(name)} THEN 1 END) AS rows_{tag}"))
        return found

    def wanted(self, names: Sequence[str]) -> str:
        """Whether a row belongs to some streams, and is no heartbeat."""
        return " OR ".join(self._is_row(name) for name in names)

    def _is_row(self, name: str) -> str:
        beat = self.shapes[name].beat
        return f"source = {self.tags[name]}" + ("" if beat is None else f" AND NOT coalesce({beat}, false)")


def combine(streams: Sequence[RawStream]) -> Batch:
    """Several sources as one frame: each row tagged with its source, given columns shared by type."""
    slots = Slots[str]()
    places: list[list[int]] = []
    for stream in streams:
        counted: Counter[str] = Counter()
        places.append([slots.take(type_, counted) for type_ in stream.types])
    united: DataFrame | None = None
    for tag, (stream, taken) in enumerate(zip(streams, places, strict=True)):
        mine = {k: i for i, k in enumerate(taken)}
        values = [f"g{mine[k]}" if k in mine else f"CAST(NULL AS {t})" for k, t in enumerate(slots.types)]
        columns = [f"{value} AS x{k}" for k, value in enumerate(values)]
        rows = stream.given.selectExpr(f"{tag} AS source", *columns, "o0", "o1", "o2")
        united = rows if united is None else united.unionAll(rows)
    assert united is not None
    names = [s.definition.name for s in streams]
    return Batch(
        united,
        {n: i for i, n in enumerate(names)},
        {
            s.definition.name: s.shape([f"x{k}" for k in taken])
            for s, taken in zip(streams, places, strict=True)
        },
    )
