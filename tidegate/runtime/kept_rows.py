"""Rows that have counted, kept to be read again by a query that is started with its history.

When an epoch counts, the files of its inboxes go to `read/<stream>`: links to files, and the files of rows that were handed in or asked for. Their names then
say what held at that moment: rows before `since` were late, rows after `last` were too far ahead of the clock, and no row of the stream was newer than
`newest`. So whoever reads them again refuses what was refused then.

Hand-ins are many and small: `MANY` files of a level become one of the next, without the rows that were refused. A merged file names those that it
holds, so a program that dies in between leaves nothing that would be read twice. Files whose rows are all older than the horizon of answers are deleted, and it is noted
up to where rows are gone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from tidegate.connectors.raw import CORRUPT, POSITION, REASON, RawStream
from tidegate.language.catalog import StreamDefinition
from tidegate.storage import Storage, name_in_path
from tidegate.time import MAX, MIN
from tidegate.types import BIGINT, INT, TIMESTAMP

MANY = 64
"""So many files of a level are merged."""

_MARK = re.compile(r"[.]at_(-?\d+)_(-?\d+)_(-?\d+)_(\d+)(?=[.]|$)")
_HOLDS, _ROWS = b"tidegate.holds", b"tidegate.rows"
"""In the footer of a merged file: the files that it holds, and how many rows they had."""


@dataclass(frozen=True)
class Entered:
    """What held when files counted; `level`: how often their rows have been merged since."""

    since: int = MIN
    last: int = MAX
    newest: int = MIN
    level: int = 0

    def named(self, name: str) -> str:
        """The name of a file that has counted.

        >>> Entered(3, 99, 7).named("0001-ab.parquet"), Entered(level=1, newest=7).named("5-6-7")
        ('0001-ab.at_3_99_7_0.parquet', '5-6-7.at_-9223372036854775808_9223372036854775807_7_1')
        """
        stem, dot, ending = name.partition(".")
        return f"{stem}.at_{self.since}_{self.last}_{self.newest}_{self.level}{dot}{ending}"

    @classmethod
    def of(cls, name: str) -> Entered:
        """What the name of a file says.

        >>> Entered.of("0001-ab.at_3_99_7_0.parquet"), Entered.of("0001-ab.parquet") == Entered()
        (Entered(since=3, last=99, newest=7, level=0), True)
        """
        found = _MARK.search(name)
        return cls() if found is None else cls(*map(int, found.groups()))


def usable(raw: RawStream) -> DataFrame:
    """The rows of files that have counted, as `RawStream.frame` gives them, without those that were refused then."""
    definition, frame = raw.definition, raw.frame

    def said(place: int, otherwise: int) -> str:
        text = f"regexp_extract(o0, '[.]at_(-?[0-9]+)_(-?[0-9]+)_', {place})"
        # As a text: the least number has no literal.
        return f"coalesce(try_cast({text} AS BIGINT), try_cast('{otherwise}' AS BIGINT))"

    since, last = said(1, MIN), said(2, MAX)
    if definition.stamped:
        # Rows that were handed in after the clock had been set back: see `Shape.since`.
        lifted = f"greatest(ts, {since} + {definition.width}L * least(greatest(coalesce(o2, 0L), 0L), 999L))"
        late = f"CASE WHEN {since} = try_cast('{MIN}' AS BIGINT) THEN ts ELSE {lifted} END"
        stamp = f"c{len(definition.scan.schema) - 1}"
        changed = {"ts": late, stamp: f"timestamp_micros({late} DIV {definition.width}L)"}
        frame = frame.selectExpr(*(f"{changed.get(c, c)} AS {c}" for c in frame.columns))
    return frame.filter(f"bad IS NULL AND ts >= {since} AND ts <= {last}")


@dataclass(frozen=True)
class KeptRows:
    """The files of rows of one stream that were handed in, or asked for, and have counted."""

    storage: Storage
    definition: StreamDefinition

    @property
    def folder(self) -> str:
        return f"read/{name_in_path(self.definition.name)}"

    @property
    def _note(self) -> str:
        return f"forgotten/{name_in_path(self.definition.name)}"

    @property
    def gone_before(self) -> int | None:
        """Rows before this tick are gone; None: all are there."""
        if name_in_path(self.definition.name) not in self.storage.names("forgotten"):
            return None
        return int(self.storage.read(self._note).to_pybytes())

    def names(self) -> list[str]:
        """The files, without those that a merged one holds: these are deleted."""
        names = self.storage.names(self.folder)
        held = {n for name in names if Entered.of(name).level for n in self._held(name)}
        for name in held.intersection(names):
            self.storage.delete(f"{self.folder}/{name}")
        return [name for name in names if name not in held]

    def count(self) -> int:
        """How many rows have counted, whether or not they could be used."""
        return sum(self._rows(name) for name in self.names())

    def forget(self, horizon: int) -> None:
        """Delete what is older than the horizon of answers, if it is worth it."""
        old = [n for n in self.storage.names(self.folder) if Entered.of(n).newest < horizon]
        if len(old) < MANY // 4 and not any(Entered.of(n).level for n in old):
            return
        # What is newer than the horizon of before may have been merged with what is older.
        gone = max(Entered.of(n).newest for n in old) + 1
        self.storage.publish(self._note, str(max(gone, self.gone_before or gone)).encode())
        for name in old:
            self.storage.delete(f"{self.folder}/{name}")

    def merge(self) -> None:
        """Merge files of a level that are many."""
        by_level: dict[int, list[str]] = {}
        for name in self.storage.names(self.folder):
            by_level.setdefault(Entered.of(name).level, []).append(name)
        for level, names in sorted(by_level.items()):
            if len(names) >= MANY and self._is_plain:
                self._merge(names, level)

    @property
    def _is_plain(self) -> bool:
        """Whether a row's time is a column as it stands in the files, so that it can be told which rows were refused for it."""
        d = self.definition
        types = {c.name: c.type for c in d.columns} | ({d.time_column: TIMESTAMP} if d.stamped else {})
        return (
            not d.valid and d.width == 1 and d.beats is None
            and types.get(d.time_column) in (BIGINT, INT, TIMESTAMP)
        )  # fmt: skip

    def _merge(self, names: Sequence[str], level: int) -> None:
        rows = [self._used(name) for name in names]
        if any(r is None or r.schema != rows[0].schema for r in rows):  # type: ignore[union-attr]
            return  # a clock was set back, or the columns of an asked source have changed: they stay as they are
        table = pa.concat_tables(rows)
        place = table.column_names.index(POSITION)
        table = table.set_column(place, POSITION, pa.array(range(table.num_rows), pa.int64()))
        counted = sum(self._rows(name) for name in names)
        held = {_HOLDS: "\n".join(names).encode(), _ROWS: str(counted).encode()}
        sink = pa.BufferOutputStream()
        pq.write_table(table.replace_schema_metadata(held), sink)
        newest = max(Entered.of(name).newest for name in names)
        merged = Entered(newest=newest, level=level + 1).named(f"{names[0].partition('.')[0]}.parquet")
        self.storage.publish(f"{self.folder}/{merged}", sink.getvalue().to_pybytes())
        for name in names:
            self.storage.delete(f"{self.folder}/{name}")

    def _used(self, name: str) -> pa.Table | None:
        """The rows of a file that were not refused for their time; None: their times were changed on entry."""
        entered, table = Entered.of(name), pq.read_table(self._path(name)).replace_schema_metadata()
        if self.definition.time_column not in table.column_names:
            return None  # lines of text, of which only the reader can tell the time
        if REASON in table.column_names:  # what was refused when it came is not read again
            table = table.filter(pc.is_null(table[REASON])).drop_columns([CORRUPT, REASON])
        ticks = table.column(str(self.definition.time_column))
        ticks = ticks.cast(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(ticks.type) else ticks
        ticks = ticks.cast(pa.int64())
        timely = pc.and_(pc.greater_equal(ticks, entered.since), pc.less_equal(ticks, entered.last))
        used = table.filter(timely)
        return None if self.definition.stamped and used.num_rows < table.num_rows else used

    def _held(self, name: str) -> list[str]:
        found: dict[bytes, bytes] = pq.read_schema(self._path(name)).metadata or {}
        return found.get(_HOLDS, b"").decode().split("\n")

    def _rows(self, name: str) -> int:
        found = pq.read_metadata(self._path(name))
        counted = (found.metadata or {}).get(_ROWS)
        return int(counted) if counted is not None else int(found.num_rows)

    def _path(self, name: str) -> str:
        return os.path.join(self.storage.path(self.folder), name)
