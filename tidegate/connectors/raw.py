"""A source's rows on their way in: a stream's definition becomes a DataFrame of its raw rows (SPEC sections 2 and 8).

A raw frame has the columns `c0`, `c1`, … (those of the definition's scan), `ts` (BIGINT ticks), `te` where rows carry their validity, the order of arrival `o0`, `o1`, `o2`, and for rows that
cannot be read `bad` (the reason) with `raw` (their text). Columns that a query does not use are never read. It is made of
the **given** columns, as the source delivers them, by SQL texts: a live batch is shaped after it was cut off from its stream,
so that the text of a row is made only where the row is refused. Texts, because each column object costs several calls into Java.

Arrival order within a batch is (path, offset of the block, position in it) for files, and the position for rows that a
program hands in: the same for every replay of the batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidegate.connectors.debezium import DECIMAL_PLACES, DECIMAL_TEXT
from tidegate.language.catalog import ARRIVAL, StreamDefinition
from tidegate.spark.values import ddl, quote
from tidegate.time import MAX, MIN
from tidegate.types import DATE, STRING, TIMESTAMP, TIMESTAMP_NTZ, Field

CORRUPT = "_tidegate_unreadable"
"""Of a frame that a source gives: the text of a row that cannot be read."""
REASON = "_tidegate_reason"
"""Why it cannot."""
POSITION = "_tidegate_position"
ROW_NUMBER = "monotonically_increasing_id()"
UNKNOWN = "NULL"
"""The position of a row in a live batch: Spark numbers rows only once the batch is one (see `exchange.lanes.enter`)."""


@dataclass(frozen=True)
class Shape:
    """What is made of a source's given columns, as SQL texts over them."""

    columns: tuple[str, ...]
    """The columns of the definition's scan."""
    ts: str
    te: str
    bad: str
    raw: str
    time: str = "NULL"
    """What gives a row its time, as people read it."""
    beat: str | None = None
    """Whether the row is a heartbeat; None: none is."""

    def since(self, first: int, width: int) -> Shape:
        """The same, where no row is stamped before a tick that was promised: a clock may have been set back."""
        bound = _changing(first)
        # Rows that were handed in together keep their order.
        ts = f"greatest({self.ts}, {bound} + {width}L * least(greatest(coalesce(o2, 0L), 0L), 999L))"
        return replace(self, ts=ts, columns=(*self.columns[:-1], f"timestamp_micros({ts} DIV {width}L)"))

    def until(self, last: int, named: str) -> Shape:
        """The same, where rows after a tick are refused."""
        problem = literal(f"column '{named}' is too far ahead of the clock: ")
        far = f"CASE WHEN {self.ts} > {_changing(min(last, MAX))} THEN concat({problem}, {self.time}) END"
        return replace(self, bad=f"coalesce({self.bad}, {far})")


def _changing(number: int) -> str:
    """A number that differs from epoch to epoch.

    Spark compiles code anew where a number in it differs. A text is handed to the code instead, and beside a column it is not
    taken for a constant.
    """
    return f"try_cast(coalesce(CASE WHEN source < -1 THEN '' END, '{number}') AS BIGINT)"


@dataclass(frozen=True)
class RawStream:
    """A source's rows as it gives them: columns `g0`, … and the order of arrival `o0`, `o1`, `o2`."""

    definition: StreamDefinition
    given: DataFrame
    names: tuple[str, ...]
    types: tuple[str, ...]
    """The given columns' DDL types."""
    readers: Mapping[str, str] = field(default_factory=dict)
    """How a text becomes a value, by the name of a type; as Spark casts it where nothing is said."""
    text: str | None = None
    """The text of a column, of the text of a row that cannot be read."""

    @property
    def frame(self) -> DataFrame:
        """The raw frame."""
        shape = self.shape([f"g{i}" for i in range(len(self.names))])
        given = self.given if shape.beat is None else self.given.filter(f"NOT coalesce({shape.beat}, false)")
        made = [f"{text} AS c{i}" for i, text in enumerate(shape.columns)]
        made += [f"{shape.ts} AS ts", f"{shape.te} AS te", "o0", "o1", "o2"]
        return given.selectExpr(*made, f"{shape.bad} AS bad", f"{shape.raw} AS raw")

    def shape(self, columns: Sequence[str]) -> Shape:
        """The texts, where the given columns have these names."""
        definition, names = self.definition, dict(zip(self.names, columns, strict=True))
        types = {c.name: c.type for c in definition.columns}
        values = names | {c.name: self._value(c, names) for c in definition.columns if c.name in names}
        chosen = [values[c.name] for c in definition.payload]
        bad, te, shown = "CAST(NULL AS STRING)", "CAST(NULL AS BIGINT)", "CAST(NULL AS STRING)"
        if definition.table:
            ts, te = f"({MIN + 1}L - 1L)", f"{MAX}L"
        elif definition.valid is not None:
            ts, end = (_ticks(values[name], types[name]) for name in definition.valid)
            te = f"coalesce({end}, {MAX}L)"
            bad = f"CASE WHEN {te} <= {ts} THEN 'the row ends before it begins' END"
        else:
            time = str(definition.time_column)
            ts = _ticks(values[time], types.get(time, TIMESTAMP))
        if not definition.table:
            shown = f"CAST({values[str(definition.time_column)]} AS STRING)"
            beyond = self._beyond(ts, shown)
            bad = f"CASE WHEN {ts} IS NULL THEN 'the time is NULL' WHEN {_at_the_limits(ts)}{beyond} ELSE {bad} END"
            chosen.append(values[definition.scan.schema[-1].name])
            if definition.width != 1:
                ts, te, bad = _in_batches(definition, values, ts, te, bad)
        fields = [f"{names[c.name]} AS {quote(c.name)}" for c in definition.columns if c.name in names]
        raw = f"to_json(struct({', '.join(fields)}))"
        unfit = [w for c in definition.columns if c.name in names for w in self._unfit(c, names, values)]
        if CORRUPT in names:
            unfit.insert(0, f"WHEN {names[CORRUPT]} IS NOT NULL THEN {self._corrupt(names, values)}")
            raw = f"coalesce({names[CORRUPT]}, {raw})"
        timely = bad
        if unfit:
            bad = f"CASE {' '.join(unfit)} ELSE {bad} END"
        if REASON in names:
            bad = f"coalesce({names[REASON]}, {bad})"
        beat = self._beat(names, values)
        if beat is not None:
            bad = f"CASE WHEN {beat} THEN {timely} ELSE {bad} END"
        return Shape(tuple(chosen), ts, te, bad, raw, shown, beat)

    def _beat(self, names: Mapping[str, str], values: Mapping[str, str]) -> str | None:
        """Whether a row only tells the time, which it must have."""
        definition = self.definition
        if definition.beats is None:
            return None
        if definition.beats:
            return values.get(definition.beats)
        empty = [f"{names[c.name]} IS NULL" for c in definition.payload if c.name in names]
        readable = [f"{names[name]} IS NULL" for name in (CORRUPT, REASON) if name in names]
        return " AND ".join([*empty, *readable, f"{values[str(definition.time_column)]} IS NOT NULL"])

    def _beyond(self, ts: str, shown: str) -> str:
        """When a time is later than the definition allows; what the clock has to say about live rows is said epoch by epoch."""
        definition = replace(self.definition, width=1)
        if self.given.isStreaming:
            definition = replace(definition, ahead=None)
        last = definition.last_tick(definition.entered, live=False)
        if last is None:
            return ""
        problem = literal(f"column '{definition.time_column}' is later than any row may be: ")
        return f" WHEN {ts} > {min(last, MAX)}L THEN concat({problem}, {shown})"

    def _value(self, column: Field, names: Mapping[str, str]) -> str:
        """The value of a declared column: read from its text where the source gives a text."""
        given = names[column.name]
        if not self._is_text(column):
            return given
        if column.type.name in self.readers:
            return self.readers[column.type.name].format(given)
        value = f"try_cast({given} AS {ddl(column.type)})"
        if column.type.name == "DECIMAL":
            return _decimal(given, value, *column.type.params)
        return value

    def _is_text(self, column: Field) -> bool:
        given = self.types[self.names.index(column.name)]
        return given == "STRING" and column.type != STRING

    def _unfit(self, column: Field, names: Mapping[str, str], values: Mapping[str, str]) -> list[str]:
        """When a value cannot be one of its column, and the reason: what is counted, a colon, and the value."""
        given, value, named = names[column.name], values[column.name], f"column '{column.name}'"
        found = []
        if self._is_text(column):
            problem = literal(f"{named} is no {column.type}: ")
            found.append(f"WHEN {given} IS NOT NULL AND {value} IS NULL THEN concat({problem}, {given})")
        if column.type in (TIMESTAMP, TIMESTAMP_NTZ, DATE):
            # Python's calendar ends there, and with it what can be shown.
            far = literal(f"{named} is not in the years 1 to 9999: ")
            found.append(f"WHEN year({value}) NOT BETWEEN 1 AND 9999 THEN concat({far}, year({value}))")
        if not column.nullable:
            found.append(f"WHEN {value} IS NULL THEN " + literal(f"{named} is NULL"))
        return found

    def _corrupt(self, names: Mapping[str, str], values: Mapping[str, str]) -> str:
        """Why a row cannot be read: the first column that has a text but no value, if the source can tell texts."""
        whens = []
        for column in self.definition.columns:
            if self.text is not None and column.name in names and not self._is_text(column):
                text = self.text.format(names[CORRUPT], literal(column.name))
                problem = literal(f"column '{column.name}' is no {column.type}: ")
                unread = f"{values[column.name]} IS NULL AND {text} IS NOT NULL"
                whens.append(f"WHEN {unread} THEN concat({problem}, {text})")
        unknown = "'the row cannot be read'"
        return f"CASE {' '.join(whens)} ELSE {unknown} END" if whens else unknown


def _decimal(given: str, value: str, precision: int, scale: int) -> str:
    """A decimal is what was written or nothing: never rounded. `connectors.debezium.decimal_of` is the same rule.

    Casts round, so two of them are compared; digits beyond the longer one would be lost in both.
    """
    longest = 38 - precision + scale
    exact = f"try_cast({given} AS DECIMAL(38, {longest}))"
    after = f"regexp_extract({given}, {literal(DECIMAL_PLACES)}, 1)"
    power = f"regexp_extract({given}, '[eE]([+-]?[0-9]+)', 1)"
    places = f"length({after}) - coalesce(try_cast({power} AS INT), 0)"
    written = f"{given} RLIKE {literal('^' + DECIMAL_TEXT + '$')} AND {places} <= {longest}"
    return f"CASE WHEN {written} AND {exact} = {value} THEN {value} END"


def shaped(
    definition: StreamDefinition,
    frame: DataFrame,
    o0: str,
    o1: str,
    o2: str,
    readers: Mapping[str, str] | None = None,
    text: str | None = None,
) -> RawStream:
    """A source's rows, where texts over its frame tell the order of arrival.

    A declared column may be a STRING of the frame, which is then read as what it is declared to be: a value that cannot be
    is refused by its name. `readers` say how, by type, where that is not Spark's cast; `text` gives the text of a
    column, of the text of a row that cannot be read.
    """
    found = {f.name: f.dataType.simpleString() for f in frame.schema}
    types = {c.name: ddl(c.type) for c in definition.columns if c.name in found}
    types |= {name: "STRING" for name in types if found[name] == "string"}
    types |= {name: "STRING" for name in (CORRUPT, REASON) if name in found}
    if definition.stamped and ARRIVAL in found:
        types[ARRIVAL] = "TIMESTAMP"
    made = [quote(name) for name in types]
    order = [f"CAST({o0} AS STRING) AS o0", f"CAST({o1} AS BIGINT) AS o1", f"CAST({o2} AS BIGINT) AS o2"]
    given = frame.selectExpr(*(f"{text} AS g{i}" for i, text in enumerate(made)), *order)
    time = definition.time_column
    if time is not None and time not in types:
        stamp = (
            _LIVE_STAMP if frame.isStreaming else f"timestamp_micros({definition.entered}L + {_PLACE} - 1L)"
        )
        given = given.selectExpr("*", f"{stamp} AS g{len(types)}")
        types[time] = "TIMESTAMP"
    return RawStream(definition, given, tuple(types), tuple(types.values()), readers or {}, text)


def _at_the_limits(ts: str) -> str:
    """MIN and MAX are no instants of rows, and the last one that is has an end."""
    return f"{ts} NOT BETWEEN {MIN + 1}L AND {MAX - 2}L THEN concat('the time is at the limit of 64 bits: ', {ts})"


def literal(text: str) -> str:
    """A text as Spark's SQL writes it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_LIVE_STAMP = "current_timestamp()"
"""Spark notes the time of a batch, so that a replay finds the same one."""
_PLACE = "row_number() OVER (ORDER BY o0, o1, o2)"


def _in_batches(
    definition: StreamDefinition, names: Mapping[str, str], ts: str, te: str, bad: str
) -> tuple[str, str, str]:
    """Where instants are pairs: the first and last tick. A row without a usable batch is refused."""
    width, limit = definition.width, MAX // definition.width - 1
    near = f"BETWEEN {-limit}L AND {limit}L"
    far = f"CASE WHEN {ts} NOT {near} THEN 'the time is too far away for batches' END"
    bad = f"coalesce({bad}, {far})"
    start = f"CASE WHEN {ts} {near} THEN {ts} * {width}L END"
    if definition.batch is not None:
        batch = f"CAST({names[definition.batch]} AS BIGINT)"
        known = f"coalesce({batch} >= 0 AND {batch} < {width}, false)"
        bad = f"coalesce({bad}, CASE WHEN NOT {known} THEN 'the batch is not a number from 0 to {width - 1}' END)"
        start = f"CASE WHEN {known} THEN {start} + {batch} END"
    end = f"CASE WHEN {te} {near} THEN {te} * {width}L ELSE {te} END"
    return start, end, bad


def _ticks(column: str, type_: Any) -> str:
    if type_ == TIMESTAMP:
        return f"unix_micros({column})"
    if type_ == TIMESTAMP_NTZ:
        return f"unix_micros(CAST({column} AS TIMESTAMP))"
    return f"CAST({column} AS BIGINT)"


def stream_reader(spark: SparkSession, definition: StreamDefinition) -> Any:
    """A reader of live rows."""
    return spark.readStream.name(label_of(definition.name))


def label_of(name: str) -> str:
    """Under which name Spark files a source's offsets: letters, digits and underscores only.

    >>> label_of("Bids"), label_of("my bids"), label_of(HEARTBEAT)
    ('Bids', 'my_20_bids', 'heartbeat_')
    """
    label = "".join(c if c.isascii() and c.isalnum() else f"_{ord(c):x}_" for c in name)
    # Underscores come in pairs, so these are nobody else's.
    if label == HEARTBEAT:
        return f"{label}_"
    return label if len(label) <= 200 else f"{label[:100]}_{sha256(name.encode()).hexdigest()[:32]}"


HEARTBEAT = "heartbeat"
"""The source of a live run that always has something to say."""
