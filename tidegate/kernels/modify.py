"""The relation of a modify stream: the first row of a key inserts, later ones update, an operation may delete.

What a row leaves behind depends on its own operation only: a key is known after an insert or update and unknown after a
delete, whatever was before. So the whole epoch is judged without a loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from tidegate.algebra.modify import (
    CODES,
    KNOWN_KEY,
    UNKNOWN_KEY,
    UNKNOWN_OPERATION,
    Anomaly,
    Operation,
)
from tidegate.kernels.index import in_force, index_of, indexed, latest
from tidegate.kernels.rows import (
    Frame,
    Layout,
    State,
    Table,
    columns,
    empty,
    equijoin,
    looked_up,
    payload_types,
    table,
    to_rows,
)
from tidegate.kernels.rowwise import Stateless
from tidegate.time import MAX
from tidegate.types import Schema

_INSERT, _UPSERT, _DELETE = 0, 1, 2
_NUMBERS = {Operation.INSERT: _INSERT, Operation.UPSERT: _UPSERT, Operation.DELETE: _DELETE}


@dataclass(frozen=True)
class InsertsKernel(Stateless):
    """KEY NULL: every row inserts, and nothing ends: (e, t) is valid in [t, MAX)."""

    schema: Schema

    def apply(self, chunks: Sequence[Frame]) -> Frame:
        names = [f"c{i}" for i in range(len(self.schema))]
        return chunks[0].select(*names, "ts", pl.lit(MAX, dtype=pl.Int64).alias("te"), "n")


@dataclass(frozen=True)
class ModifyKernel:
    """Of each key the row that modified it last; several operations at one instant show their net effect only.

    `snapshot(modify(S), t)` = the rows left by the operations up to t. State: `current`, the row of each key;
    `anomalies` keeps nothing, its log lists the rows that contradicted those before them (as `rows`' columns, `reason`, `te` = t + 1).

    >>> from tidegate.types import INT, STRING, Field
    >>> kernel = ModifyKernel((Field("k", STRING), Field("v", INT)), (0,))
    >>> rows = pl.DataFrame({"c0": ["a", "a"], "c1": [1, 2], "ts": [3, 7], "te": [4, 8], "n": [1, 1], "seq": [0, 1]})
    >>> kernel.step(kernel.initial(), [rows.cast({"c1": pl.Int32})], 10)[1].sort("ts").rows()
    [('a', 1, 3, 7, 1), ('a', 2, 7, 9223372036854775807, 1)]
    """

    schema: Schema
    """The input's and the relation's, with the operation column."""
    key: tuple[int, ...]
    operation: int | None = None
    layout: Mapping[str, Layout] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        keys = tuple(self._keys)
        object.__setattr__(self, "layout", {"current": Layout(keys, keys), "anomalies": Layout((), keys)})

    @property
    def _keys(self) -> list[str]:
        return [f"c{i}" for i in self.key]

    def initial(self) -> State:
        types = payload_types(self.schema)
        return {
            "current": table(empty(types, "n")),
            "anomalies": table(empty({**types, "reason": pl.String()}, "te", "n")),
        }

    def step(self, state: State, chunks: Sequence[Frame], upto: int) -> tuple[State, Frame]:
        (chunk,) = chunks
        current = index_of(state["current"], self._keys)
        nothing = table(state["anomalies"].rows)
        if chunk.is_empty():
            out = empty(payload_types(self.schema), "ts", "te", "n")
            return {"current": state["current"].settled, "anomalies": nothing}, out
        keys, kept = self._keys, columns(len(self.schema))
        # A sort by time and arrival keeps the rows of a key in order; group numbers make that cheap afterwards.
        touched = chunk.select(keys).unique(maintain_order=True)
        old = in_force(current, touched)
        applied, reported = self._judged(chunk, touched, old)
        # Only the last operation of a key at an instant can be seen.
        last = (pl.col("group") != pl.col("group").shift(-1)) | (pl.col("ts") != pl.col("ts").shift(-1))
        seen = applied.filter(last.fill_null(True)).with_columns(
            te=pl.when(pl.col("group") == pl.col("group").shift(-1))
            .then(pl.col("ts").shift(-1))
            .otherwise(MAX),
            first=pl.col("group") != pl.col("group").shift(1).fill_null(2**32 - 1),
        )
        starts = seen.filter(pl.col("op") != _DELETE).select(
            *kept, "ts", "te", pl.lit(1, pl.Int64).alias("n")
        )
        firsts = seen.filter("first").select(*keys, "ts")
        ends = equijoin(old, firsts, keys, "inner").select(
            *kept, "ts", pl.lit(MAX, pl.Int64).alias("te"), pl.lit(-1, pl.Int64).alias("n")
        )
        final = seen.filter(pl.col("te") == MAX)
        gone = equijoin(final.filter(pl.col("op") == _DELETE), old.select(keys), keys, "semi")
        delta = pl.concat(
            [
                final.filter(pl.col("op") != _DELETE).select(*kept, pl.lit(1, pl.Int64).alias("n")),
                gone.select(*kept, pl.lit(0, pl.Int64).alias("n")),
            ]
        )
        after = {
            "current": indexed(current, delta, latest(keys)),
            "anomalies": Table(nothing.rows, reported.select(nothing.rows.columns)),
        }
        return after, pl.concat([starts, ends])

    def _judged(self, chunk: Frame, touched: Frame, old: Frame) -> tuple[Frame, Frame]:
        """The operations that apply, of each key in order of time and arrival, and those that are refused, with the reason."""
        keys = self._keys
        rows = looked_up(
            chunk.with_columns(op=self._operations(chunk)), touched.with_row_index("group"), keys
        )
        rows = equijoin(rows, old.select(*keys, pl.lit(True).alias("known")), keys, "left")
        rows = rows.sort("group", "ts", "seq", maintain_order=True)
        wrong = rows.filter(pl.col("op").is_null()).with_columns(reason=pl.lit(UNKNOWN_OPERATION))
        rows = rows.filter(pl.col("op").is_not_null())
        before = pl.when(pl.col("group") == pl.col("group").shift(1)).then(pl.col("op").shift(1))
        rows = rows.with_columns(
            known=pl.when(before.is_null())
            .then(pl.col("known").fill_null(False))
            .otherwise(before != _DELETE)
        )
        inserted_twice = (pl.col("op") == _INSERT) & pl.col("known")
        deleted_twice = (pl.col("op") == _DELETE) & ~pl.col("known")
        refused = rows.filter(inserted_twice | deleted_twice).with_columns(
            reason=pl.when(pl.col("op") == _INSERT).then(pl.lit(KNOWN_KEY)).otherwise(pl.lit(UNKNOWN_KEY))
        )
        reported = pl.concat(
            [
                part.select(*payload_types(self.schema), "reason", pl.col("ts") + 1, "n")
                for part in (wrong, refused)
            ]
        ).rename({"ts": "te"})
        return rows.filter(~inserted_twice & ~deleted_twice), reported

    def _operations(self, chunk: Frame) -> pl.Series:
        if self.operation is None:
            return pl.repeat(_UPSERT, chunk.height, dtype=pl.Int8, eager=True)
        words = chunk[f"c{self.operation}"].cast(pl.String).str.strip_chars().str.to_lowercase()
        numbers = {word: _NUMBERS[operation] for word, operation in CODES.items()}
        return words.replace_strict(numbers, default=None, return_dtype=pl.Int8)


def anomalies_of(kernel: ModifyKernel, state: State) -> list[Anomaly]:
    """What the last step found wrong, in order of time."""
    found = state["anomalies"].delta.sort("te", maintain_order=True)
    return [
        Anomaly(reason, row, te - 1)
        for reason, row, te in zip(found["reason"], to_rows(found, kernel.schema), found["te"], strict=True)
    ]
