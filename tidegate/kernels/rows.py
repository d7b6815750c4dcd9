"""Physical streams as columns: signed rows (payload, [ts, te), n) in Polars frames (SPEC section 2).

A chunk of an operator is a frame with the payload columns `c0`, `c1`, … and the Int64 columns `ts`, `te`
and `n`. The snapshot at t is the bag with multiplicity sum of n over ts <= t < te. The chunk of the epoch
[W0, W1) holds exactly the rows with W0 <= ts < W1, in any order; te may lie beyond (te = MAX: no known end).

A kernel is a pure function of state and chunks. Its state is a set of named tables; each step says what it
adds to the log of each table, so that an epoch costs what changed, and the log alone restores the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
import polars as pl
import pyarrow as pa

from tidegate.errors import internal
from tidegate.scalars.columns import column_from_values, column_values, dtype
from tidegate.time import MAX
from tidegate.types import Row, Schema

Frame = pl.DataFrame

VALIDITY = ("ts", "te", "n")
"""The columns of a chunk that are not payload."""


@dataclass(frozen=True)
class Layout:
    """How the log of a state table becomes the table again.

    `latest_by` empty: an append-only table of rows; those with `te` <= W are gone, and rows equal in
    everything but n are consolidated (n added, zeros dropped). Otherwise the last logged row of each value of the
    `latest_by` columns is in force, and one with `n` = 0 says that it is gone.
    `partition_by` names the columns whose equal rows the operator needs together; empty: all rows.
    """

    latest_by: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A state table after a step: its rows, and what the step appended to its log.

    `index` is what a kernel knows about where rows are (see `kernels.index`). The rows may then be the log itself: what
    became of a row stands after it, as a row of opposite sign or the later one of its key.
    """

    rows: Frame
    delta: Frame
    index: object = field(default=None, compare=False, repr=False)

    @property
    def settled(self) -> Table:
        """As the next epoch finds it, with nothing logged yet."""
        return Table(self.rows, self.rows.clear(), self.index)


State = Mapping[str, Table]


class Kernel(Protocol):
    """An operator's physical form."""

    @property
    def layout(self) -> Mapping[str, Layout]:
        """How each state table is restored from its log."""

    def initial(self) -> State:
        """The state before any row."""

    def step(self, state: State, chunks: Sequence[Frame], upto: int) -> tuple[State, Frame]:
        """Consume the inputs' chunks of the epoch that ends before `upto`; return new state and own chunk."""


def columns(count: int, prefix: str = "c") -> list[str]:
    """The names of payload columns.

    >>> columns(2)
    ['c0', 'c1']
    """
    return [f"{prefix}{i}" for i in range(count)]


def payload_types(schema: Schema) -> dict[str, pl.DataType]:
    """Name and Polars type of each payload column."""
    return {f"c{i}": dtype(f.type) for i, f in enumerate(schema)}


def empty(types: Mapping[str, pl.DataType], *ints: str) -> Frame:
    """A frame without rows: the typed columns, then Int64 columns."""
    return pl.DataFrame(schema={**types, **dict.fromkeys(ints, pl.Int64())})


def empty_chunk(schema: Schema) -> Frame:
    """A chunk without rows."""
    return empty(payload_types(schema), *VALIDITY)


def table(rows: Frame) -> Table:
    """A state table of which nothing is logged yet."""
    return Table(rows, rows.clear())


def consolidate(frame: Frame) -> Frame:
    """Rows equal in everything but n become one; zeros vanish.

    >>> consolidate(pl.DataFrame({"c0": [7, 7, 8], "te": [9, 9, 9], "n": [1, -1, 2]})).rows()
    [(8, 9, 2)]
    """
    keys = [c for c in frame.columns if c != "n"]
    if frame.height < 2 or not keys:
        total = frame.select(pl.col("n").sum()) if frame.height > 1 else frame
        return total.filter(pl.col("n") != 0)
    if frame.height > _HASHED and not any(frame.schema[k].is_nested() for k in keys):
        found = _consolidated_by_hash(frame, keys)
        if found is not None:
            return found
    summed = frame.group_by(keys).agg(pl.col("n").sum())
    return summed.filter(pl.col("n") != 0).select(frame.columns)


_HASHED = 4096
"""From so many rows on, it is cheaper to sort their hashes than to group them by many columns."""


def _consolidated_by_hash(frame: Frame, keys: Sequence[str]) -> Frame | None:
    """The same by hashes of rows; None where different rows have one."""
    rows = frame.select(keys)
    hashes = rows.hash_rows(seed=0).to_numpy()
    order = np.argsort(hashes)
    fresh = np.concatenate([[True], np.diff(hashes[order]) != 0])
    again = np.flatnonzero(~fresh)
    one, other = rows[order[again - 1]], rows[order[again]]
    if not all(one[k].eq_missing(other[k]).all() for k in keys):
        return None
    first = np.flatnonzero(fresh)
    n = np.add.reduceat(frame["n"].to_numpy()[order], first)
    left = n != 0
    result: Frame = rows[order[first[left]]].with_columns(n=pl.Series(n[left])).select(frame.columns)
    return result


def equijoin(
    rows: Frame, others: Frame, keys: Sequence[str], how: Literal["left", "inner", "semi", "anti"]
) -> Frame:
    """Rows met by those of equal keys, as SQL groups them: NULL equals NULL and NaN equals NaN. A left join keeps the order.

    >>> nan = pl.DataFrame({"c0": [float("nan")]})
    >>> equijoin(nan, nan.with_columns(v=7), ["c0"], "inner")["v"].to_list()
    [7]
    """
    names = list(keys)
    order: Literal["left", "none"] = "left" if how == "left" else "none"
    if len(names) > 1 or not rows.schema[names[0]].is_float():
        return rows.join(others, on=names, how=how, nulls_equal=True, maintain_order=order)
    # Polars compares NaN by the processor's rule where both sides are one row of one column; two columns it compares as bytes.
    second = pl.col(names[0]).is_null().alias("_second")
    met = rows.with_columns(second).join(
        others.with_columns(second), on=[*names, "_second"], how=how, nulls_equal=True, maintain_order=order
    )
    return met.drop("_second")


def looked_up(rows: Frame, others: Frame, keys: Sequence[str]) -> Frame:
    """The rows, in order, with the columns of the one other row of equal keys; that there is one is the caller's promise.

    >>> looked_up(pl.DataFrame({"c0": [2, 1, 2]}), pl.DataFrame({"c0": [1, 2], "v": [7, 8]}), ["c0"])["v"].to_list()
    [8, 7, 8]
    """
    met = equijoin(rows, others.with_columns(_met=pl.lit(True)), keys, "left")
    if met.height != rows.height or met["_met"].null_count():
        raise internal(f"keys {', '.join(keys)} were not found where they must be")
    return met.drop("_met")


def joined(rows: Frame, more: Frame) -> Frame:
    """Both, one after the other; copied only once in a while, so that small epochs stay cheap."""
    both = pl.concat([rows, more])
    return both.rechunk() if both.n_chunks() > 16 else both


def accumulate(rows: Frame, delta: Frame) -> Frame:
    """`consolidate(rows + delta)`, at the price of the delta: only what a row of opposite sign may meet is regrouped.

    >>> old = pl.DataFrame({"c0": [1, 2, 4], "n": [1, 1, -1]})
    >>> sorted(accumulate(old, pl.DataFrame({"c0": [2, 3, 4], "n": [-1, 1, 1]})).rows())
    [(1, 1), (3, 1)]
    """
    if delta.is_empty():
        return rows
    both = joined(rows, delta)
    keys = [c for c in rows.columns if c != "n"]
    signed = rows.height > 0 and (rows["n"] < 0).any()
    meeting = delta if signed else delta.filter(pl.col("n") < 0)
    if meeting.is_empty():
        return both
    if not keys or 4 * meeting.height > both.height:
        return consolidate(both)
    near = nearby(both, meeting, keys)
    return pl.concat([both.filter(~near), consolidate(both.filter(near))])


def nearby(rows: Frame, wanted: Frame, keys: Sequence[str]) -> pl.Series:
    """Which rows may equal a wanted one in all keys: those that do so in the one column that tells most of them apart.

    Looking at one column of a large table is much cheaper than joining it by many.

    >>> rows = pl.DataFrame({"c0": [1, 1, 2], "c1": [5, 6, 7]})
    >>> nearby(rows, pl.DataFrame({"c0": [1, 1], "c1": [6, 7]}), ["c0", "c1"]).to_list()
    [False, True, True]
    """
    plain = [k for k in keys if rows.schema[k].is_integer() or rows.schema[k] in (pl.String, pl.Date)]
    if not plain:
        return pl.repeat(True, rows.height, dtype=pl.Boolean, eager=True)
    column = max(plain, key=lambda k: wanted[k].n_unique())
    return rows[column].is_in(wanted[column].unique().implode(), nulls_equal=True)


def replace_latest(rows: Frame, delta: Frame, keys: Sequence[str]) -> Frame:
    """The table after its keyed rows were logged anew: the delta's row is in force, or gone where n = 0."""
    if delta.is_empty():
        return rows
    fresh = delta.filter(pl.col("n") != 0)
    if rows.is_empty():
        return fresh
    near = nearby(rows, delta, keys)
    kept = equijoin(rows.filter(near), delta.select(keys), keys, "anti")
    return joined(pl.concat([rows.filter(~near), kept]), fresh)


def expire(rows: Frame, upto: int) -> Frame:
    """Without the rows that can no longer matter once `upto` is reached."""
    return rows.filter(pl.col("te") > upto) if "te" in rows.columns else rows


def released(held: Frame, upto: int) -> tuple[Frame, Frame]:
    """Rows that wait for an instant, split into those that are due before `upto` and the others.

    A waiting row carries `te` = its instant + 1: at W it can be dropped iff its instant is before W.
    """
    due = pl.col("te") <= upto
    return held.filter(due), held.filter(~due)


def snapshot(chunks: Sequence[Frame], instant: int, schema: Schema) -> dict[Row, int]:
    """The bag valid at an instant, as rows with their multiplicities.

    >>> from tidegate.types import INT, Field
    >>> rows = pl.DataFrame({"c0": [7, 7], "ts": [0, 5], "te": [9, MAX], "n": [2, -1]})
    >>> snapshot([rows], 6, (Field("a", INT),))
    {(7,): 1}
    """
    names = columns(len(schema))
    valid = [c.filter((pl.col("ts") <= instant) & (instant < pl.col("te"))) for c in chunks]
    bag = consolidate(pl.concat([v.select(*names, "n") for v in valid]))
    return dict(zip(to_rows(bag, schema), bag["n"].to_list(), strict=True))


def change_points(chunks: Sequence[Frame]) -> list[int]:
    """Every instant at which a snapshot may differ from the one before."""
    points: set[int] = set()
    for chunk in chunks:
        points.update(chunk["ts"].to_list(), chunk["te"].to_list())
    return sorted(points - {MAX})


def normalized(frame: Frame) -> Frame:
    """-0.0 becomes 0.0 and NaN the one NaN, at any depth, so that equal values are equal rows."""
    floats = [c for c, t in frame.schema.items() if _holds_float(t)]
    return frame.with_columns(_normal(pl.col(c), frame.schema[c]).alias(c) for c in floats)


def _holds_float(t: pl.DataType) -> bool:
    if isinstance(t, pl.List):
        return _holds_float(t.inner)  # type: ignore[arg-type]
    if isinstance(t, pl.Struct):
        return any(_holds_float(f.dtype) for f in t.fields)  # type: ignore[arg-type]
    return t.is_float()


def _normal(value: pl.Expr, t: pl.DataType) -> pl.Expr:
    if isinstance(t, pl.List):
        return value.list.eval(_normal(pl.element(), t.inner))  # type: ignore[arg-type]
    if isinstance(t, pl.Struct):
        parts = [
            _normal(value.struct.field(f.name), f.dtype).alias(f.name)  # type: ignore[arg-type]
            for f in t.fields
        ]
        return pl.when(value.is_not_null()).then(pl.struct(parts))
    if t.is_float():
        zero, nan = pl.lit(0.0, dtype=t), pl.lit(float("nan"), dtype=t)
        return pl.when(value == 0).then(zero).when(value.is_nan()).then(nan).otherwise(value)
    return value


def from_arrow(data: pa.Table | pa.RecordBatch, schema: Schema) -> Frame:
    """A chunk from Arrow columns `c0`, …, `ts`, `te`, `n` (and `seq`), values normalized."""
    frame = pl.from_arrow(data)
    assert isinstance(frame, pl.DataFrame)
    types = payload_types(schema)
    return normalized(frame.with_columns(pl.col(c).cast(t) for c, t in types.items() if frame.schema[c] != t))


def to_arrow(frame: Frame) -> pa.Table:
    """The chunk as Arrow columns with plain (not view) strings, as Spark reads them."""
    rows = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    for place, column in enumerate(rows.columns):
        if any(_begins_behind_its_end(part) for part in column.chunks):
            rows = rows.set_column(place, rows.schema.field(place), written_anew(column))
    return rows


def written_anew(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(column.to_pylist(), column.type)])


def _begins_behind_its_end(part: pa.Array) -> bool:
    """Whether lists, all of them empty, have elements that begin behind the end of their memory.

    Polars gives such now and then, and Arrow's writer makes bytes of them that nobody can read.
    """
    if pa.types.is_struct(part.type):
        return any(_begins_behind_its_end(part.field(i)) for i in range(part.type.num_fields))
    if not (pa.types.is_list(part.type) or pa.types.is_large_list(part.type) or pa.types.is_map(part.type)):
        return False
    elements = part.values
    return (not len(elements) and elements.offset > 0) or _begins_behind_its_end(elements)


def to_rows(frame: Frame, schema: Schema) -> list[Row]:
    """The payload as Python rows of `tidegate.types.Value`s."""
    if not schema:
        return [()] * frame.height
    values = [column_values(frame[f"c{i}"], f.type) for i, f in enumerate(schema)]
    return list(zip(*values, strict=True))


def from_rows(
    rows: Sequence[Row], schema: Schema, validity: Sequence[tuple[int, ...]], ints: Sequence[str] = VALIDITY
) -> Frame:
    """A chunk of Python rows, each with its (ts, te, n).

    >>> from tidegate.types import INT, Field
    >>> from_rows([(7,)], (Field("a", INT),), [(0, 5, 1)]).rows()
    [(7, 0, 5, 1)]
    """
    data = [column_from_values(f"c{i}", [r[i] for r in rows], f.type) for i, f in enumerate(schema)]
    data += [pl.Series(name, [v[i] for v in validity], dtype=pl.Int64()) for i, name in enumerate(ints)]
    return normalized(pl.DataFrame(data))
