"""Recorded Parquet files read as columns by the tasks themselves, where nothing is asked of Spark but the exchange.

Spark's reader hands its columns over row by row; for narrow queries that is most of a run. A stream of Parquet files is
read here instead where the files' types are the declared ones, every row has a time, and all that the queries ask of a
row before the first exchange (conditions, expressions, keys) is in the kernels' verified set. Whether that is so is told
by the files' footers; everything else is read by Spark, with the same answer.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from sqlglot import exp

from tidegate.connectors.files import local_files
from tidegate.connectors.raw import REASON
from tidegate.exchange.blocks import key_types, partitions_of
from tidegate.exchange.lanes import Lane
from tidegate.exchange.tagged_rows import parts_of
from tidegate.kernels.combining import combined
from tidegate.kernels.expressions import Scalar
from tidegate.kernels.rows import Frame, normalized
from tidegate.language.catalog import StreamDefinition
from tidegate.physical.plan import SourceRows
from tidegate.scalars.columnar import translate
from tidegate.scalars.columns import dtype
from tidegate.scalars.expressions import references
from tidegate.scalars.total import guarded
from tidegate.spark.values import arrow_type
from tidegate.time import MAX, MIN
from tidegate.types import BIGINT, BOOLEAN, DATE, INT, TIMESTAMP, TIMESTAMP_NTZ, VOID, Field, Schema

ROWS_PER_SPLIT = 1_000_000
LEAST_ROWS = 20_000
"""Fewer rows than this are not worth a task of their own."""
MOST_FILES = 5_000
"""Footers are read by the driver, one after another; more files than this are Spark's."""

_DAYS = (-719_162, 2_932_896)
_MICROSECONDS = (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1)
_CALENDAR = {DATE: _DAYS, TIMESTAMP: _MICROSECONDS, TIMESTAMP_NTZ: _MICROSECONDS}
"""The first and last of the years 1 to 9999, as Parquet counts; what lies outside is refused on entry."""


@dataclass(frozen=True)
class RowGroup:
    """Part of a file: its rows, how many rows of the file come before them, and their first and last instant."""

    number: int
    rows: int
    before: int
    first: int
    last: int


@dataclass(frozen=True)
class Part:
    """Row groups of one file; files are numbered in the order of their paths, which is the order of arrival."""

    path: str
    file: int
    groups: tuple[RowGroup, ...]


@dataclass(frozen=True)
class Columnar:
    """A stream whose files can be read as columns, and the lanes it feeds."""

    definition: StreamDefinition
    parts: tuple[Part, ...]
    lanes: tuple[int, ...]

    @property
    def rows(self) -> int:
        return sum(g.rows for p in self.parts for g in p.groups)

    @property
    def bounds(self) -> tuple[int, int] | None:
        """The first and last instant of the rows, if there are any."""
        groups = [g for p in self.parts for g in p.groups]
        return (min(g.first for g in groups), max(g.last for g in groups)) if groups else None


@dataclass(frozen=True)
class Split:
    """What one task reads at a time."""

    stream: int
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Reading:
    """The rows of an epoch of all streams that are read as columns."""

    streams: tuple[Columnar, ...]
    splits: tuple[Split, ...]
    since: int
    upto: int

    def feeding(self, lanes: Collection[int]) -> Reading:
        """The same rows for some of the lanes only."""
        streams = tuple(replace(s, lanes=tuple(n for n in s.lanes if n in lanes)) for s in self.streams)
        return replace(self, streams=streams, splits=tuple(x for x in self.splits if streams[x.stream].lanes))


def columnar(definition: StreamDefinition, lanes: Sequence[Lane]) -> Columnar | None:
    """The stream's files, if they can be read as columns for these lanes."""
    if definition.last_tick(definition.entered, live=False) is not None or not lanes:
        return None
    paths = parquet_files(definition)
    return None if paths is None else of_files(definition, lanes, paths)


def parquet_files(definition: StreamDefinition) -> list[str] | None:
    """The Parquet files of a stream in their order of arrival, if they lie on this machine and hold all of its columns."""
    if definition.source.function != "parquet" or definition.source.options:
        return None
    place = str(definition.source.arguments[0])
    root = place if "://" in place else os.path.abspath(place)
    paths = local_files(root)
    if not paths or len(paths) > MOST_FILES or any("=" in os.path.relpath(p, root) for p in paths):
        return None
    return list(paths)


def of_files(definition: StreamDefinition, lanes: Sequence[Lane], paths: Sequence[str]) -> Columnar | None:
    """Parquet files with a stream's columns, in their order of arrival, if they can be read as columns for these lanes."""
    if not lanes or any(_origin(x).by_arrival for x in lanes) or not all(map(_can_prepare, lanes)):
        return None
    schema = definition.scan.schema
    found = _parts(definition, {schema[c].name for c in _wanted(lanes)}, paths)
    return None if found is None else Columnar(definition, found, tuple(x.number for x in lanes))


def all_rows(definition: StreamDefinition, paths: Sequence[str]) -> Frame | None:
    """All columns of a stream's scan and `ts`, in the order of arrival, if its files can be read as columns."""
    schema = definition.scan.schema
    found = _parts(definition, {f.name for f in schema}, paths)
    if found is None:
        return None
    read = [_read(part, schema, range(len(schema)), ordered=False) for part in found if part.groups]
    types = {**{f"c{i}": dtype(f.type) for i, f in enumerate(schema)}, "ts": pl.Int64()}
    return pl.concat([pl.DataFrame(schema=types), *read])


def _parts(
    definition: StreamDefinition, needed: Collection[str], paths: Sequence[str]
) -> tuple[Part, ...] | None:
    """The files' parts, if rows with these columns can be read of all of them, and none has to be refused."""
    name, types = definition.time_column, {c.name: c.type for c in definition.columns}
    if definition.table or definition.valid is not None or definition.width != 1 or name not in types:
        return None
    if definition.beats is not None or types[name] not in (TIMESTAMP, TIMESTAMP_NTZ, BIGINT, INT):
        return None
    parts = [_part(path, number, definition, {name, *needed}) for number, path in enumerate(paths)]
    found = tuple(p for p in parts if p is not None)
    return found if len(found) == len(parts) else None


def reading(streams: Sequence[Columnar], since: int, upto: int, tasks: int) -> Reading:
    """The parts of the streams with rows in [since, upto), cut into splits, enough of them for some tasks at once."""
    splits = []
    total = sum(s.rows for s in streams)
    most = min(ROWS_PER_SPLIT, max(LEAST_ROWS, -(-total // tasks)))
    for number, stream in enumerate(streams):
        waiting: list[Part] = []
        rows = 0
        for part in stream.parts:
            for group in part.groups:
                if not (group.rows and group.last >= since and group.first < upto):
                    continue
                if rows and rows + group.rows > most:
                    splits.append(Split(number, tuple(waiting)))
                    waiting, rows = [], 0
                if waiting and waiting[-1].path == part.path:
                    waiting[-1] = replace(part, groups=(*waiting[-1].groups, group))
                else:
                    waiting.append(replace(part, groups=(group,)))
                rows += group.rows
        if waiting:
            splits.append(Split(number, tuple(waiting)))
    return Reading(tuple(streams), tuple(splits), since, upto)


def read_split(
    task: Reading, number: int, lanes: Sequence[Lane], partitions: int
) -> Iterator[tuple[Lane, Frame, pl.Series | None]]:
    """The rows of a split for each lane that its stream feeds, and the partition of each where a key tells it.

    Rows have the columns that travel, `ts` and, where it counts, `o0`: the order of arrival.
    """
    split = task.splits[number]
    stream = task.streams[split.stream]
    fed = [lanes[n] for n in stream.lanes]
    schema = stream.definition.scan.schema
    wanted = _wanted(fed)
    ordered = any(lane.input.ordered for lane in fed)
    for part in split.parts:
        rows = _read(part, schema, wanted, ordered)
        if task.since != MIN or task.upto != MAX:
            rows = rows.filter((pl.col("ts") >= task.since) & (pl.col("ts") < task.upto))
        for lane in fed:
            yield lane, *_prepared(rows, lane, schema, partitions)


def read_here(
    streams: Sequence[Columnar], lanes: Sequence[Lane], partitions: int
) -> dict[int, dict[int, Frame]]:
    """All rows of the streams in this process: partition -> lane -> rows."""
    task = reading(streams, MIN, MAX, 1)
    found: dict[int, dict[int, list[Frame]]] = {}
    for number in range(len(task.splits)):
        for lane, rows, places in read_split(task, number, lanes, partitions):
            for p, part in parts_of(rows, places, lane, 0, partitions):
                found.setdefault(p, {}).setdefault(lane.number, []).append(part)
    return {p: {lane: pl.concat(parts) for lane, parts in fed.items()} for p, fed in found.items()}


def _wanted(lanes: Sequence[Lane]) -> list[int]:
    """The columns of a scan that some lanes need."""
    return sorted({c for lane in lanes for e in _asked(lane) for c in references(e)})


def _asked(lane: Lane) -> list[exp.Expression]:
    """The expressions over a scan's columns whose values a lane needs."""
    origin = _origin(lane)
    return [*origin.predicates, *(origin.expressions[c] for c in lane.columns), *(lane.input.key or ())]


def _origin(lane: Lane) -> SourceRows:
    assert isinstance(lane.input.origin, SourceRows)
    return lane.input.origin


def _can_prepare(lane: Lane) -> bool:
    scan = _origin(lane).scan
    if scan is None or key_types(lane.input.key or (), scan.schema) is None:
        return False
    predicates = [translate(p, scan.schema) for p in _origin(lane).predicates]
    values = {c: translate(_origin(lane).expressions[c], scan.schema) for c in lane.columns}
    return all(p is not None and p.type == BOOLEAN for p in predicates) and all(
        v is not None and v.type in (lane.input.schema[c].type, VOID) for c, v in values.items()
    )


def _part(path: str, number: int, definition: StreamDefinition, needed: Collection[str]) -> Part | None:
    """The file's row groups, or None where Spark's reader is needed to understand it."""
    try:
        metadata = pq.read_metadata(path)
    except (pa.ArrowException, OSError):
        return None
    stored = {f.name: f.type for f in metadata.schema.to_arrow_schema()}
    types = {c.name: arrow_type(c.type) for c in definition.columns if c.name in needed}
    if REASON in stored:  # rows that were refused when they were handed in
        return None
    if any(not _is_same(stored.get(name), type_) for name, type_ in types.items()):
        return None
    names = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
    if REASON in names:
        return None
    place = names.index(str(definition.time_column))
    checked = [c for c in definition.columns if not c.nullable or c.type in _CALENDAR]
    if any(c.name not in names or not _is_same(stored.get(c.name), arrow_type(c.type)) for c in checked):
        return None
    groups, before = [], 0
    for i in range(metadata.num_row_groups):
        group = metadata.row_group(i)
        seen = group.column(place).statistics
        if group.num_rows:
            if seen is None or not seen.has_min_max or not seen.has_null_count or seen.null_count:
                return None
            if seen.min_raw <= MIN or seen.max_raw >= MAX - 1:
                return None
            if not all(
                _fits(group.column(names.index(c.name)).statistics, c, group.num_rows) for c in checked
            ):
                return None
            groups.append(RowGroup(i, group.num_rows, before, int(seen.min_raw), int(seen.max_raw)))
        before += group.num_rows
    return Part(path, number, tuple(groups))


def _fits(seen: Any, column: Field, rows: int) -> bool:
    """Whether no value of a row group has to be refused, as its statistics tell."""
    if seen is None or not seen.has_null_count or (seen.null_count and not column.nullable):
        return False
    if column.type not in _CALENDAR or seen.null_count == rows:
        return True
    low, high = _CALENDAR[column.type]
    return bool(seen.has_min_max and low <= seen.min_raw and seen.max_raw <= high)


def _is_same(stored: pa.DataType | None, declared: pa.DataType) -> bool:
    if stored is None or pa.types.is_nested(declared):
        return False
    plain = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
    return bool(plain.get(stored, stored) == declared)


def _read(part: Part, schema: Schema, wanted: Sequence[int], ordered: bool) -> Frame:
    """The wanted columns of the scan, `ts`, and where rows are ordered `o0`."""
    time = len(schema) - 1
    columns = sorted({*wanted, time})
    source = pl.scan_parquet(part.path, glob=False, hive_partitioning=False)
    file = source.select(pl.col(schema[c].name).alias(f"c{c}") for c in columns)
    frame = pl.concat([file.slice(g.before, g.rows).collect() for g in part.groups])
    types = {f"c{c}": dtype(schema[c].type) for c in columns}
    frame = normalized(frame.cast({c: t for c, t in types.items() if frame.schema[c] != t}))
    extra = [pl.col(f"c{time}").to_physical().cast(pl.Int64).alias("ts")]
    if ordered:
        places = [pl.int_range(g.before, g.before + g.rows, eager=True) for g in part.groups]
        extra.append(pl.lit(pl.concat(places) + (part.file << 40)).alias("o0"))
    return frame.with_columns(extra)


def _prepared(rows: Frame, lane: Lane, schema: Schema, partitions: int) -> tuple[Frame, pl.Series | None]:
    """Filtered, then mapped, as Spark would."""
    origin = _origin(lane)
    for predicate in origin.predicates:
        rows = rows.filter(Scalar(guarded(predicate, schema), schema, BOOLEAN)(rows))
    values = [
        Scalar(origin.expressions[c], schema, lane.input.schema[c].type)(rows).alias(f"c{c}")
        for c in lane.columns
    ]
    order = [rows["o0"]] if lane.input.ordered else []
    key = lane.input.key
    places = partitions_of(rows, key, schema, partitions) if key and partitions > 1 else None
    found = pl.DataFrame([*values, rows["ts"], *order])
    if origin.combine is None:
        return found, places
    found = combined(found if places is None else found.with_columns(p=places), origin.combine)
    return (found, None) if places is None else (found.drop("p"), found["p"])
