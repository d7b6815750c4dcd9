"""Groups as dense integers: the keys of a step's rows become codes 0, 1, …, one per touched group.

A column with an integer inside is numbered by a hash table of its own, any other by Polars; several columns are numbered one
by one, and then their numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tidegate.kernels.machine_code import compiled_for_many
from tidegate.kernels.rows import Frame, equijoin, normalized

Ints = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Groups:
    """The touched groups: `keys` holds one row per code, `codes` the code of each row they were made from.

    >>> groups = group_rows(pl.DataFrame({"c0": [7, None, 7]}), ["c0"])
    >>> groups.codes.tolist(), groups.keys["c0"].to_list()
    ([0, 1, 0], [7, None])
    >>> groups.locate(pl.DataFrame({"c0": [None, 8]})).tolist()
    [1, -1]
    """

    keys: Frame
    codes: Ids
    joined: Frame
    slots: Ints | None = None
    slot_codes: Ids | None = None
    low: int = 0
    null_code: int = -1

    @property
    def count(self) -> int:
        return self.keys.height

    def locate(self, rows: Frame) -> Ids:
        """The code of each row's group, -1 where that group is not among these."""
        if rows.is_empty():
            return np.empty(0, np.int32)
        keys = _comparable(normalized(rows.select(self.keys.columns)))
        if self.slots is not None and self.slot_codes is not None:
            values, nulls = integers(keys.to_series())
            found: Ids = _probe(self.slots, self.slot_codes, self.low, self.null_code, values, nulls)
            return found
        return _codes_by(keys, self.joined)


def group_rows(rows: Frame, names: Sequence[str]) -> Groups:
    """Number the groups of the rows by the named columns, of which there is at least one."""
    named = normalized(rows.select(names))
    keys = _comparable(named)
    if len(names) == 1 and holds_integer(keys.dtypes[0]):
        values, nulls = integers(keys.to_series())
        low, span = _table(values)
        codes, firsts, slots, slot_codes, null_code = _number(values, nulls, low, span)
        return Groups(gather(named, firsts), codes, keys.clear(), slots, slot_codes, low, null_code)
    codes, firsts = _numbered(keys)
    return Groups(gather(named, firsts), codes, gather(keys, firsts))


def _numbered(keys: Frame) -> tuple[Ids, Ids]:
    """The number of each row's keys, in order of their first rows, and these rows."""
    first, *others = keys.iter_columns()
    codes, firsts = _numbered_column(first)
    for column in others:
        own, different = _numbered_column(column)
        pairs = codes.astype(np.int64) * max(1, len(different)) + own
        codes, firsts, *_ = _number(pairs, np.empty(0, np.bool_), *_table(pairs))
    return codes, firsts


def _numbered_column(column: pl.Series) -> tuple[Ids, Ids]:
    if holds_integer(column.dtype):
        values, nulls = integers(column)
        codes, firsts, *_ = _number(values, nulls, *_table(values))
        return codes, firsts
    if column.dtype == pl.String:
        runs = column.rename("value").rle().struct.unnest()
        if 4 * runs.height < column.len():
            # Texts of times come in long runs.
            codes, firsts = _numbered_values(runs["value"])
            sizes = runs["len"].to_numpy().astype(np.int64)
            return np.repeat(codes, sizes), (np.cumsum(sizes) - sizes)[firsts].astype(np.int32)
    return _numbered_values(column)


def _numbered_values(column: pl.Series) -> tuple[Ids, Ids]:
    rows = (
        column.rename("value")
        .to_frame()
        .with_row_index("row")
        .group_by("value", maintain_order=True)
        .agg("row")["row"]
    )
    codes = np.empty(column.len(), np.int32)
    codes[rows.explode().to_numpy()] = np.repeat(
        np.arange(len(rows), dtype=np.int32), rows.list.len().to_numpy()
    )
    return codes, rows.list.first().to_numpy().astype(np.int32)


def _table(values: Ints) -> tuple[int, int]:
    """The least value and the size of a table that the values index; 0 where they lie too far apart for one."""
    if not len(values):
        return 0, 0
    low, span = int(values.min()), int(values.max()) - int(values.min()) + 1
    return low, span if fits_table(span, len(values)) else 0


def fits_table(size: int, rows: int) -> bool:
    """Whether a table of this size costs less than hashing or sorting so many rows."""
    return size <= 8 * rows + (1 << 16)


def _codes_by(keys: Frame, numbered: Frame) -> Ids:
    found = equijoin(keys, numbered.with_row_index("number"), keys.columns, "left")
    return found["number"].cast(pl.Int32).fill_null(-1).to_numpy()


def _comparable(keys: Frame) -> Frame:
    """Normalized floats by their bits: an integer is numbered fastest."""
    floats = [c for c, t in keys.schema.items() if t.is_float()]
    return keys.with_columns(
        pl.when(keys[c].is_not_null())
        .then(pl.Series(keys[c].cast(pl.Float64).fill_null(0.0).to_numpy().view(np.int64)))
        .alias(c)
        for c in floats
    )


def holds_integer(type_: pl.DataType) -> bool:
    """Whether 64 bits of an integer are all there is to a value of this type."""
    return (type_.is_signed_integer() and type_ != pl.Int128) or type_ in (
        pl.Date,
        pl.Datetime,
        pl.Duration,
        pl.Boolean,
    )


def integers(series: pl.Series) -> tuple[Ints, Flags]:
    """A column of a type that `holds_integer` as numbers (0 for NULL), and where it is NULL (empty: nowhere)."""
    nulls = series.is_null().to_numpy() if series.null_count() else np.empty(0, np.bool_)
    physical = series.to_physical().cast(pl.Int64)
    return physical.fill_null(0).to_numpy(), nulls


@compiled_for_many
def _slot(value: int, bits: int) -> int:
    mixed = np.uint64(value) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(mixed >> np.uint64(64 - bits))  # type: ignore[return-value]


@compiled_for_many
def _number(values: Ints, nulls: Flags, low: int, span: int) -> tuple[Ids, Ids, Ints, Ids, int]:
    """Codes, the first row of each, and the table: by value - low where a span is given, otherwise by hash."""
    codes = np.empty(len(values), np.int32)
    count = 0
    null_code = -1
    if span > 0:
        slot_codes = np.full(span, -1, np.int32)
        firsts = np.empty(min(span, len(values)) + 1, np.int32)
        for i in range(len(values)):
            if len(nulls) and nulls[i]:
                if null_code < 0:
                    null_code = count
                    firsts[count] = i
                    count += 1
                codes[i] = null_code
                continue
            s = values[i] - low
            if slot_codes[s] < 0:
                slot_codes[s] = count
                firsts[count] = i
                count += 1
            codes[i] = slot_codes[s]
        return codes, firsts[:count].copy(), np.empty(0, np.int64), slot_codes, null_code
    bits = 12
    slots = np.zeros(1 << bits, np.int64)
    slot_codes = np.full(1 << bits, -1, np.int32)
    firsts = np.empty(1 << (bits - 1), np.int32)
    for i in range(len(values)):
        if 2 * count + 2 >= len(slots):
            bits += 2
            old, old_codes = slots, slot_codes
            slots = np.zeros(1 << bits, np.int64)
            slot_codes = np.full(1 << bits, -1, np.int32)
            for j in range(len(old)):
                if old_codes[j] >= 0:
                    s = _slot(old[j], bits)
                    while slot_codes[s] >= 0:
                        s = (s + 1) & (len(slots) - 1)
                    slots[s] = old[j]
                    slot_codes[s] = old_codes[j]
            grown = np.empty(1 << (bits - 1), np.int32)
            grown[:count] = firsts[:count]
            firsts = grown
        if len(nulls) and nulls[i]:
            if null_code < 0:
                null_code = count
                firsts[count] = i
                count += 1
            codes[i] = null_code
            continue
        v = values[i]
        s = _slot(v, bits)
        while slot_codes[s] >= 0 and slots[s] != v:
            s = (s + 1) & (len(slots) - 1)
        if slot_codes[s] < 0:
            slots[s] = v
            slot_codes[s] = count
            firsts[count] = i
            count += 1
        codes[i] = slot_codes[s]
    return codes, firsts[:count].copy(), slots, slot_codes, null_code


@compiled_for_many
def _probe(slots: Ints, slot_codes: Ids, low: int, null_code: int, values: Ints, nulls: Flags) -> Ids:
    bits = 0
    while (1 << bits) < len(slots):
        bits += 1
    codes = np.empty(len(values), np.int32)
    for i in range(len(values)):
        if len(nulls) and nulls[i]:
            codes[i] = null_code
            continue
        v = values[i]
        if len(slots) == 0:
            # Keys may lie at the very ends of 64 bits: the distance is taken without a sign.
            codes[i] = -1
            if v >= low and np.uint64(v) - np.uint64(np.int64(low)) < np.uint64(len(slot_codes)):
                codes[i] = slot_codes[v - low]
            continue
        s = _slot(v, bits)
        while slot_codes[s] >= 0 and slots[s] != v:
            s = (s + 1) & (len(slots) - 1)
        codes[i] = slot_codes[s]
    return codes


@compiled_for_many
def take(values: Any, at: Ids) -> Any:
    """`values[at]` for one dimension."""
    result = np.empty(len(at), values.dtype)
    for i in range(len(at)):
        result[i] = values[at[i]]
    return result


def gather(rows: Frame, at: Ids) -> Frame:
    """The rows at these places."""
    return rows.select(pl.all().gather(pl.Series(at.view(np.uint32))))


@compiled_for_many
def by_group(codes: Ids, order: Ids, groups: int) -> tuple[Ids, Ints]:
    """A stable counting sort: row numbers by group (in the given order, empty: as they come), and each group's offsets."""
    offsets = np.zeros(groups + 1, np.int64)
    for c in codes:
        offsets[c + 1] += 1
    for g in range(groups):
        offsets[g + 1] += offsets[g]
    at = offsets.copy()
    result = np.empty(len(codes), np.int32)
    for i in range(len(codes)):
        row = order[i] if len(order) else i
        g = codes[row]
        result[at[g]] = row
        at[g] += 1
    return result, offsets
