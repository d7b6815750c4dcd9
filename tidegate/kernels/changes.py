"""Signed rows to tagged changes on columns: the last step of a STREAMED answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from tidegate.kernels.rows import Frame, Layout, State, columns, empty, equijoin, payload_types, table
from tidegate.kernels.streams import jumps
from tidegate.types import Schema


@dataclass(frozen=True)
class TaggedKernel:
    """The changes of the input: `op` (+, u, -), the new row (of a deletion the old one), `ts`, and how often `n`.

    With `key`, a row that takes the place of one with equal key columns is an update (u); the input never has two of them at an
    instant. Rows come in order of time, deletions first, then updates, then insertions. State: `pending`, the known ends to come.

    >>> from tidegate.types import INT, Field
    >>> kernel = TaggedKernel((Field("k", INT), Field("v", INT)), (0,))
    >>> rows = pl.DataFrame({"c0": [1, 1], "c1": [5, 6], "ts": [0, 3], "te": [3, 9], "n": [1, 1]})
    >>> rows = rows.cast({"c0": pl.Int32, "c1": pl.Int32})
    >>> kernel.step(kernel.initial(), [rows], 10)[1].select("op", "c0", "c1", "ts").rows()
    [('+', 1, 5, 0), ('u', 1, 6, 3), ('-', 1, 6, 9)]
    """

    schema: Schema
    key: tuple[int, ...] | None = None
    layout: Mapping[str, Layout] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        partition = columns(len(self.schema)) if self.key is None else [f"c{i}" for i in self.key]
        object.__setattr__(self, "layout", {"pending": Layout((), tuple(partition))})

    def initial(self) -> State:
        return {"pending": table(empty(payload_types(self.schema), "te", "n"))}

    def step(self, state: State, chunks: Sequence[Frame], upto: int) -> tuple[State, Frame]:
        after, found = jumps(state, chunks[0], columns(len(self.schema)), upto)
        return after, self._tagged(found)

    def _tagged(self, jumps: Frame) -> Frame:
        payload = columns(len(self.schema))
        inserted, deleted = jumps.filter(pl.col("n") > 0), jumps.filter(pl.col("n") < 0)
        parts: list[Frame] = []
        if self.key is not None:
            on = ["ts", *(f"c{i}" for i in self.key)]
            updated = equijoin(inserted, deleted.select(on), on, "semi")
            parts.append(_with_op(updated, "u"))
            fresh = equijoin(inserted, deleted.select(on), on, "anti")
            deleted = equijoin(deleted, inserted.select(on), on, "anti")
            inserted = fresh
        parts += [_with_op(inserted, "+"), _with_op(deleted.with_columns(-pl.col("n")), "-")]
        order = pl.col("op").replace_strict({"-": 0, "u": 1, "+": 2}, return_dtype=pl.Int8)
        return (
            pl.concat(parts).sort("ts", order, *payload, nulls_last=False).select("op", *payload, "ts", "n")
        )


def _with_op(rows: Frame, op: str) -> Frame:
    return rows.with_columns(op=pl.lit(op))
