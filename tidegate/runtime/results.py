"""Answers, read back: rows with their validity, changes, and snapshots (SPEC section 7).

Result files hold signed rows (payload, [ts, te), n). An answer that was closed later than it was opened is there twice: open,
and its closing. Readers see neither: `intervals` matches them, `changes` and `at` add them up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

from tidegate.algebra.quality import Settings
from tidegate.errors import Diagnostic
from tidegate.exchange.messages import RowCounts
from tidegate.kernels.rows import Frame, equijoin, to_arrow
from tidegate.runtime import metrics
from tidegate.runtime.activities import MeasuredEpoch
from tidegate.runtime.alike import Selection
from tidegate.runtime.ledger import Manifest, ResultPart
from tidegate.runtime.notebook import html_of
from tidegate.runtime.quarantines import refused_rows
from tidegate.runtime.tables import Readable
from tidegate.spark.values import arrow_type, ddl, quote, table_of
from tidegate.storage import Storage
from tidegate.time import MAX, MIN, shown, ticks_of, widened
from tidegate.types import BIGINT, TIMESTAMP, Field, Schema, Type
from tidegate.worker.result_files import assure, read_section


@dataclass(frozen=True)
class Result(Readable):
    """The answer of one query as far as it is known.

    `parts` and `manifest` are asked each time, so that a running query's answer grows.
    """

    session: Callable[[], SparkSession]
    storage: Storage
    name: str
    schema: Schema
    time_type: Type | None
    parts: Callable[[], Sequence[ResultPart]]
    manifest: Callable[[], Manifest]
    complete: int | None = MIN
    """The instant from which nothing is missing; None: not known."""
    key: tuple[int, ...] | None = None
    """Columns that tell rows apart, for a STREAMED answer: a row that takes the place of another is an update."""
    keep: object = field(default=None, repr=False, compare=False)
    """Whoever owns the files: they are there as long as an answer is."""
    horizon: Callable[[], int] = lambda: MIN
    """Answers before this instant are not kept."""
    width: int = 1
    """Ticks of an instant: where it has batches, results name them beside the instants."""
    instants: bool = False
    """Whether every row lasts one instant, as those of a stream do."""
    selection: Selection | None = None
    """The rows are some of another answer's."""
    measured: Callable[[], Sequence[MeasuredEpoch]] = tuple
    """What was measured in the last epochs."""
    settings: Callable[[], Settings] = dict
    """What was in force when, of what the runtime may choose."""

    @property
    def spark(self) -> SparkSession:
        return self.session()

    @property
    def upto(self) -> int:
        """Every snapshot before this instant is final."""
        return self.manifest().upto

    @property
    def reached(self) -> str:
        """`upto`, as people read it."""
        return "the end" if self.manifest().finished else self._show(self.upto)

    def said(self, instant: int) -> str:
        """An instant, as people read it.

        Example: `r.said(5)` gives `"5"`
        """
        return self._show(instant * self.width)

    @property
    def refused(self) -> dict[str, dict[str, int]]:
        """How many rows each source refused, by reason; rows in = rows used + rows refused."""
        return {name: dict(s.refused) for name, s in self.manifest().sources.items() if s.refused}

    def __repr__(self) -> str:
        columns = ", ".join(f"{f.name} {f.type}" for f in self.schema)
        return f"Result({self.name}: {columns}; final before {self.reached})"

    def quarantine(self, stream: str | None = None) -> DataFrame:
        """The rows that were refused, of all sources or of one: `stream`, `epoch`, `reason`, `raw` (the row's text), `file`.

        Example: `r.quarantine("Bid").groupBy("reason").count().show()`
        """
        names = [n for n in self.refused if stream is None or n.lower() == stream.lower()]
        return refused_rows(self.spark, self.storage, names, self.manifest().epoch)

    def metrics(self) -> DataFrame:
        """What was measured of the operators of this query, a row for each of them and each of the last epochs: see `tidegate.metrics`.

        Example: `r.metrics().select("title", "rows_in", "rows_out", "cpu_seconds").show()`
        """
        return self.spark.createDataFrame(
            table_of(metrics.COLUMNS, metrics.lines(self.measured(), self.name))
        )

    def signed(self) -> DataFrame:
        """The rows as they were computed: `c0`, …, `ts`, `te`, `n`."""
        return self._read(self.parts()).selectExpr(*self._named(self._columns()), "ts", "te", "n")

    def intervals(self, since: int | datetime | str | None = None, raw: bool = False) -> DataFrame:
        """The rows with `valid_from` and `valid_to` (NULL: no known end, or from the beginning); `since`: that end after it.

        Rows are periods: one that ends where an equal one begins goes on, and of several equal rows the first to begin is the first
        to end. So equal answers read the same, however many epochs and restarts they took. Only a stream's rows last one instant
        each. With `raw`, rows are as they were computed, as far as none was taken back later: adjacent ones are not joined.

        Where streams have batches, `from_batch` and `to_batch` follow: a row is valid from one pair (t, i) to the other.
        Example: `r.intervals().orderBy("valid_from").show()`
        """
        low = self._kept(since, "intervals")
        parts = self.parts()
        rows = self._read(parts)
        names = self._columns()
        if any(p.counts.negative for p in parts) or not (raw or self.instants):
            keys = [F.col(c) for c, f in zip(names, self.schema, strict=True) if _hashable(f)]
            spread = rows.repartition(*keys) if keys else rows.coalesce(1)
            rows = spread.mapInArrow(_Matching(tuple(names)), rows.schema)
            if self.instants:
                rows = rows.select(*names, F.explode(F.expr("sequence(ts, te - 1)")).alias("ts"), "n")
                rows = rows.select(*names, "ts", F.expr("ts + 1").alias("te"), "n")
        if any(p.counts.negative or p.counts.multiple for p in parts):
            rows = rows.select(*names, "ts", "te", F.explode(F.expr("sequence(1L, n)")).alias("n"))
        if low != MIN:
            rows = rows.filter(F.col("te") > F.lit(low))
        ends = [f"{self._moment('ts')} AS valid_from", f"{self._moment('te')} AS valid_to"]
        return rows.selectExpr(*self._named(), *ends, *self._batch(ts="from_batch", te="to_batch"))

    def changes(
        self, since: int | datetime | str | None = None, until: int | datetime | str | None = None
    ) -> DataFrame:
        """What changed, instant by instant: `op` (+, -, and of a STREAMED answer u), the row, `ts`; only the net effect.

        Within [since, until) if given; never beyond what is final.
        Example: `r.changes(since=100, until=200).show()`
        """
        low = self._kept(since, "changes")
        high = self.upto if until is None else min(self._ticks(until), self.upto)
        return self.changes_between(low, high)

    def changes_between(self, low: int, high: int) -> DataFrame:
        """The changes at instants of [low, high), in ticks."""
        return self._shown(self._tagged(low, high))

    def _shown(self, tagged: DataFrame) -> DataFrame:
        moment = f"{self._moment('ts')} AS ts"
        return tagged.selectExpr("op", *self._named(), moment, *self._batch(ts="batch"))

    def _tagged(self, low: int, high: int) -> DataFrame:
        """The changes as `op`, `c0`, …, `ts` in ticks."""
        names = self._columns()
        parts = [p for p in self.parts() if changes_within(p.counts, low, high)]
        rows = self._read(parts)  # first: columns can be spoken of only where there is a Spark
        ends = F.explode(F.expr("array(struct(ts AS t, n AS d), struct(te AS t, -n AS d))")).alias("e")
        events = rows.select(*names, ends).select(*names, "e.t", "e.d")
        inside = events.filter(
            (F.col("t") >= F.lit(low)) & (F.col("t") < F.lit(high)) & (F.col("t") < F.lit(MAX))
        )
        net = inside.groupBy(*names, "t").agg(F.sum("d").alias("d")).filter("d <> 0")
        each = net.select(
            *names, F.col("t").alias("ts"), "d", F.explode(F.expr("sequence(1L, abs(d))")).alias("k")
        )
        op = F.when(F.col("d") > 0, F.lit("+")).otherwise(F.lit("-"))
        tagged = each.select(op.alias("op"), *names, "ts")
        if self.key is not None:
            same = Window.partitionBy(*(F.col(f"c{i}") for i in self.key), "ts")
            both = F.size(F.collect_set("op").over(same)) == 2
            tagged = tagged.withColumn("both", both).filter("op = '+' OR NOT both")
            tagged = tagged.withColumn("op", F.when(F.col("both"), F.lit("u")).otherwise(F.col("op")))
        return tagged

    def delivered(self, form: str, low: int, high: int) -> DataFrame:
        """What a sink gets of the epoch [low, high): its changes, or the complete answer at its end.

        Changes come in one part, ordered by time, within an instant by batch, then `-`, `u`, `+`: applied one after the other to an
        empty table, they give every snapshot.
        """
        if form == "changes":
            return self._shown(self._in_order(low, high))
        return self.latest() if high == MAX else self.snapshot_at(high - 1)

    def _in_order(self, low: int, high: int) -> DataFrame:
        tagged = self._tagged(low, high)  # first: columns can be spoken of only where there is a Spark
        rank = F.expr("CASE op WHEN '-' THEN 0 WHEN 'u' THEN 1 ELSE 2 END")
        return tagged.coalesce(1).sortWithinPartitions("ts", rank)

    def changes_in_ticks(self, low: int, high: int) -> DataFrame:
        """The changes of [low, high) in their order: `op`, `c0`, …, and `ts` in ticks."""
        return self._in_order(low, high).selectExpr("op", *self._named(self._columns()), "ts")

    def first_tick(self, since: int | datetime | str | None) -> int:
        """Where changes from an instant on (None: from the first that is kept) begin."""
        return self.horizon() if since is None else self._kept(since, "subscribe")

    def kept_changes(self, low: int, high: int) -> DataFrame:
        """The changes of [low, high) in their order; what retention has let go is an error."""
        self.refuse_forgotten(low)
        return self.delivered("changes", low, high)

    def refuse_forgotten(self, low: int) -> None:
        """Whether what happened from a tick on is still kept."""
        if low < self.horizon():
            raise self._forgotten(
                f"what was before {self._show(self.horizon())} is", "read faster, or keep answers longer"
            )

    def at(self, instant: int | datetime | str, batch: int | None = None) -> DataFrame:
        """The snapshot at an instant, which must be final: after its last batch, or after the one given.

        Example: `r.at(4).show()`, or `r.at("2026-01-01 12:00").show()`
        """
        return self.snapshot_at(self.final_tick(instant, batch))

    def final_tick(self, instant: int | datetime | str, batch: int | None = None) -> int:
        """The tick of an instant at which the answer is final and kept; of its batches the last, or the one given."""
        last = self.width - 1 if batch is None else batch
        if not 0 <= last < self.width:
            raise Diagnostic(
                "NO_SUCH_BATCH",
                f"there is no batch {batch}",
                help=f"batches go from 0 to {self.width - 1}" if self.width > 1 else "no stream has batches",
            )
        t = self._ticks(instant) + last
        if t >= self.upto:
            raise Diagnostic(
                "NOT_FINAL",
                f"the answer at {self._show(t)} is not final yet: the sources have reached {self._show(self.upto)}",
                help="ask for an earlier instant, or wait until every source has passed it",
            )
        if t < self.horizon():
            raise self._forgotten(
                f"the answer at {self._show(t)} is", "start the query with a longer retention"
            )
        return t

    def _kept(self, since: int | datetime | str | None, asked: str) -> int:
        """The tick from which something is asked for; what retention has let go cannot be."""
        low, horizon = MIN if since is None else self._ticks(since), self.horizon()
        if low < horizon:
            what = f"what was before {self._show(horizon)} is" if since is None else f"{self._show(low)} is"
            raise self._forgotten(
                what, f"ask for {asked}(since=…), or start the query with a longer retention"
            )
        return low

    def _forgotten(self, what: str, advice: str) -> Diagnostic:
        kept = f"answers are kept from {self._show(self.horizon())} on"
        return Diagnostic("FORGOTTEN", f"{what} not kept: {kept}", help=advice)

    def _repr_html_(self) -> str:
        """What a notebook shows: the latest complete answer."""
        reached = "the whole stream" if self.manifest().finished else f"what came before {self.reached}"
        return html_of(self.latest(), f"{self.name}: latest complete answer, from {reached}")

    def latest(self) -> DataFrame:
        """The latest complete answer: of a finished run, at its newest row.

        Example: `r.latest().show()`
        """
        return self.snapshot_at(self.latest_tick())

    def latest_tick(self) -> int:
        """The instant of the latest complete answer."""
        manifest = self.manifest()
        newest = max((s.newest for s in manifest.sources.values()), default=MIN)
        return max(newest if manifest.finished else manifest.upto - 1, MIN)

    def snapshot_at(self, t: int) -> DataFrame:
        """The rows that are valid at a tick."""
        names = self._columns()
        parts = [p for p in self.parts() if p.counts.min_ts <= t < p.counts.max_te]
        valid = self._read(parts).filter((F.col("ts") <= F.lit(t)) & (F.lit(t) < F.col("te")))
        if any(p.counts.negative for p in parts):
            valid = valid.groupBy(*names).agg(F.sum("n").alias("n")).filter("n > 0")
        if any(p.counts.negative or p.counts.multiple for p in parts):
            valid = valid.select(*names, F.explode(F.expr("sequence(1L, n)")).alias("k"))
        return valid.selectExpr(*self._named())

    def _columns(self) -> list[str]:
        return [f"c{i}" for i in range(len(self.schema))]

    def _read(self, parts: Sequence[ResultPart]) -> DataFrame:
        if self.selection is None:
            return self._within(parts)
        rows = self._stored(parts, self.selection.schema)
        for condition in self.selection.conditions:
            rows = rows.filter(condition)
        return rows.select(*self._columns(), "ts", "te", "n")

    def _within(self, parts: Sequence[ResultPart]) -> DataFrame:
        """The rows, each as far as it counts: plans that have answered one after the other have turns."""
        turns = dict.fromkeys(p.within for p in parts)
        if all(turn == (MIN, MAX) for turn in turns):
            return self._stored(parts, self.schema)
        found: DataFrame | None = None
        for low, high in turns:
            rows = self._stored([p for p in parts if p.within == (low, high)], self.schema)
            ends = [f"greatest(ts, {_tick(low)}) AS ts", f"least(te, {_tick(high)}) AS te"]
            rows = rows.selectExpr(*self._columns(), *ends, "n").filter("ts < te")
            found = rows if found is None else found.unionAll(rows)
        assert found is not None
        return found

    def _stored(self, parts: Sequence[ResultPart], schema_: Schema) -> DataFrame:
        stored = [f"c{i} {_stored(f.type)}" for i, f in enumerate(schema_) if f.type.name != "VOID"]
        schema = ", ".join([*stored, "ts BIGINT", "te BIGINT", "n BIGINT"])
        for part in parts:
            assure(self.storage, part.file, part.section)
        whole = [self.storage.path(p.file) for p in parts if p.section is None]
        sections = [
            (p.file, p.section.offset, p.section.length, p.section.checksum) for p in parts if p.section
        ]
        rows = self.spark.read.schema(schema).parquet(*whole) if whole else None
        if sections:
            listed = self.spark.createDataFrame(sections, _SECTIONS)
            found = listed.mapInArrow(_SectionReader(self.storage, schema_), schema)
            rows = found if rows is None else rows.unionAll(found)
        if rows is None:
            rows = self.spark.createDataFrame([], schema)
        # Texts, because each column object costs several calls into Java.
        columns = [f"{'NULL' if f.type.name == 'VOID' else f'c{i}'} AS c{i}" for i, f in enumerate(schema_)]
        return rows.selectExpr(*columns, "ts", "te", "n")

    def _named(self, names: Sequence[str] | None = None) -> list[str]:
        """The columns by their names, or others. Maps are entries until then: Spark loses the NULLs in maps that it groups by."""
        texts = (
            f"map_from_entries(c{i})" if f.type.name == "MAP" else f"c{i}" for i, f in enumerate(self.schema)
        )
        shown = names or [f.name for f in self.schema]
        return [f"{text} AS {quote(name)}" for text, name in zip(texts, shown, strict=True)]

    def _moment(self, column: str) -> str:
        """Ticks as people see them; the beginning and the end of time are NULL."""
        # Division of BIGINTs cuts off towards zero, which is exact for a multiple.
        instant = f"({column} - pmod({column}, {self.width}L)) div {self.width}L"
        known = f"CASE WHEN {_is_instant(column)} THEN {instant} END"
        return f"timestamp_micros({known})" if self.time_type == TIMESTAMP else known

    def _batch(self, **names: str) -> list[str]:
        """The batches of some ticks under other names; nothing where streams have none."""
        if self.width == 1:
            return []
        batch = {c: f"CAST(pmod({c}, {self.width}L) AS INT)" for c in names}
        return [f"CASE WHEN {_is_instant(c)} THEN {batch[c]} END AS {name}" for c, name in names.items()]

    def _ticks(self, instant: int | datetime | str) -> int:
        """The first tick of an instant."""
        return widened(ticks_of(instant, moments=self.time_type != BIGINT), self.width)

    def _show(self, ticks: int) -> str:
        return "nothing yet" if ticks == MIN else shown(ticks, self.time_type == TIMESTAMP, self.width)


def _is_instant(column: str) -> str:
    return f"{column} NOT IN ({_tick(MIN)}, {_tick(MAX)})"


def _tick(tick: int) -> str:
    # Spark reads MIN itself as the negation of a number that is too large.
    return f"({MIN + 1}L - 1L)" if tick == MIN else f"{tick}L"


def changes_within(counts: RowCounts, low: int, high: int) -> bool:
    """Whether rows may begin or end at instants of [low, high)."""
    return counts.min_ts < high and (counts.max_ts >= low or counts.max_te >= low)


_SECTIONS = "file STRING, offset BIGINT, length BIGINT, checksum BIGINT"


@dataclass(frozen=True)
class _SectionReader:
    """Reads sections of files in Spark's tasks, only those that it is given."""

    storage: Storage
    schema: Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        fields = [
            pa.field(f"c{i}", _stored_arrow(f.type))
            for i, f in enumerate(self.schema)
            if f.type.name != "VOID"
        ]
        wanted = pa.schema([*fields, *(pa.field(n, pa.int64()) for n in ("ts", "te", "n"))])
        for batch in batches:
            for place in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                rows = read_section(self.storage, *place)
                yield from to_arrow(rows.select(wanted.names)).cast(wanted).combine_chunks().to_batches()


def _stored_arrow(type_: Type) -> pa.DataType:
    if type_.name == "MAP":
        key, value = (arrow_type(t) for t in type_.params)
        return pa.list_(pa.struct([pa.field("key", key), pa.field("value", value)]))
    return arrow_type(type_)


def _stored(type_: Type) -> str:
    if type_.name == "MAP":
        key, value = type_.params
        return f"ARRAY<STRUCT<key: {ddl(key)}, value: {ddl(value)}>>"
    return ddl(type_)


def _hashable(field: Field) -> bool:
    return field.type.name not in ("MAP", "VOID") and "MAP<" not in str(field.type)


@dataclass(frozen=True)
class _Matching:
    """Spark's view of `matched`: all rows of equal payload are in one partition."""

    names: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        received = [b for b in batches if b.num_rows]
        if received:
            frame = pl.from_arrow(pa.Table.from_batches(received))
            assert isinstance(frame, pl.DataFrame)
            out = to_arrow(matched(frame, self.names)).cast(received[0].schema)
            yield from out.combine_chunks().to_batches()


def matched(rows: Frame, names: Sequence[str]) -> Frame:
    """Signed rows as rows that all count, the same for all signed rows of the same snapshots.

    Of each payload, what ends and begins at one instant goes on, and each end is that of the row that began first.

    >>> matched(pl.DataFrame({"c0": [7, 7], "ts": [1, 5], "te": [MAX, MAX], "n": [1, -1]}), ["c0"]).rows()
    [(7, 1, 5, 1)]
    >>> matched(pl.DataFrame({"c0": [7, 7], "ts": [1, 5], "te": [5, 8], "n": [1, 1]}), ["c0"]).rows()
    [(7, 1, 8, 1)]
    """
    keys = list(names)
    if not keys:
        rows = rows.with_columns(pl.lit(0).alias("_none"))
        keys = ["_none"]
    alone = (pl.len().over(keys) == 1) & (pl.col("n") == 1)
    others, touched = rows.filter(alone), rows.filter(~alone)
    starts = touched.select(*keys, pl.col("ts").alias("t"), "n")
    ends = touched.select(*keys, pl.col("te").alias("t"), -pl.col("n").alias("n"))
    net = (
        pl.concat([starts, ends])
        .group_by(*keys, "t")
        .agg(pl.col("n").sum())
        .filter(pl.col("n") != 0)
        .sort("t")
    )
    opened = _numbered(net.filter(pl.col("n") > 0), keys, "ts")
    closed = _numbered(net.with_columns(-pl.col("n")).filter(pl.col("n") > 0), keys, "te")
    pairs = equijoin(opened, closed, [*keys, "k"], "inner")
    result = pairs.select(*keys, "ts", "te", pl.lit(1, dtype=pl.Int64).alias("n"))
    return pl.concat([others.select(result.columns), result]).select(*names, "ts", "te", "n")


def _numbered(events: Frame, keys: Sequence[str], name: str) -> Frame:
    """One row per unit of n, numbered per payload in order of time."""
    each = (
        events.select(*keys, pl.col("t").alias(name), pl.lit(1).repeat_by("n").alias("u"))
        .explode("u")
        .drop("u")
    )
    return each.with_columns(pl.int_range(pl.len()).over(keys).alias("k"))
