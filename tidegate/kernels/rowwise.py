"""Operators that look at one row at a time: they need no state, and a signed row is a row like any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import polars as pl
from sqlglot import exp

from tidegate.kernels.expressions import Functions, Scalar
from tidegate.kernels.rows import (
    VALIDITY,
    Frame,
    Layout,
    State,
    columns,
    consolidate,
    empty,
    payload_types,
    table,
)
from tidegate.kernels.screening import Need, needs_of
from tidegate.scalars.columns import dtype
from tidegate.scalars.total import guarded
from tidegate.time import MAX, MIN
from tidegate.types import BOOLEAN, Schema


@dataclass(frozen=True)
class Stateless:
    """A kernel that keeps nothing between epochs."""

    @property
    def layout(self) -> Mapping[str, Layout]:
        return {}

    def initial(self) -> State:
        return {}

    def step(self, state: State, chunks: Sequence[Frame], upto: int) -> tuple[State, Frame]:
        return {}, self.apply(chunks)

    def apply(self, chunks: Sequence[Frame]) -> Frame:
        raise AssertionError(f"{type(self).__name__} does not say what it does")


def _validity(frame: Frame) -> list[str]:
    # Arrival order (`seq`) travels with raw rows up to the window that needs it.
    return [*VALIDITY, "seq"] if "seq" in frame.columns else [*VALIDITY]


@dataclass(frozen=True)
class FilterKernel(Stateless):
    """`snapshot(filter(S), t) = filter(snapshot(S, t))`: a row stays iff the predicate is true."""

    schema: Schema
    predicate: exp.Expression
    functions: Functions = field(default_factory=dict, compare=False)

    @cached_property
    def holds(self) -> Scalar:
        return Scalar(guarded(self.predicate, self.schema), self.schema, BOOLEAN, self.functions)

    @cached_property
    def needs(self) -> tuple[Need, ...]:
        """What must hold for a row to stay, as far as it can be told of many rows at once."""
        return needs_of(self.predicate, self.schema)

    def apply(self, chunks: Sequence[Frame]) -> Frame:
        (chunk,) = chunks
        return chunk.filter(self.holds(chunk))


@dataclass(frozen=True)
class ProjectKernel(Stateless):
    """`snapshot(map(S), t) = map(snapshot(S, t))`: each row becomes the values of the expressions."""

    schema: Schema
    expressions: tuple[exp.Expression, ...]
    fields: Schema
    functions: Functions = field(default_factory=dict, compare=False)

    @cached_property
    def scalars(self) -> tuple[Scalar, ...]:
        return tuple(
            Scalar(e, self.schema, f.type, self.functions)
            for e, f in zip(self.expressions, self.fields, strict=True)
        )

    def apply(self, chunks: Sequence[Frame]) -> Frame:
        (chunk,) = chunks
        values = [s(chunk).alias(f"c{i}") for i, s in enumerate(self.scalars)]
        return pl.DataFrame([*values, *(chunk[c] for c in _validity(chunk))])


@dataclass(frozen=True)
class UnionKernel(Stateless):
    """Multiplicities add: `snapshot(union(A, B), t) = snapshot(A, t) + snapshot(B, t)`."""

    schema: Schema

    def apply(self, chunks: Sequence[Frame]) -> Frame:
        return pl.concat([c.select(*columns(len(self.schema)), *VALIDITY) for c in chunks])


@dataclass(frozen=True)
class SubtractKernel(Stateless):
    """`snapshot(A - B, t) = snapshot(A, t) - snapshot(B, t)` where B is always part of A: signed rows add up."""

    schema: Schema

    def apply(self, chunks: Sequence[Frame]) -> Frame:
        names = [*columns(len(self.schema)), *VALIDITY]
        left, right = (c.select(names) for c in chunks)
        return consolidate(pl.concat([left, right.with_columns(-pl.col("n"))])) if right.height else left


@dataclass(frozen=True)
class ColumnsKernel(Stateless):
    """The columns at `positions`, where None stands for NULL: a projection that needs no expression."""

    schema: Schema
    positions: tuple[int | None, ...]

    def apply(self, chunks: Sequence[Frame]) -> Frame:
        (chunk,) = chunks
        picked = [
            (pl.lit(None, dtype=dtype(f.type)) if p is None else pl.col(f"c{p}")).alias(f"c{i}")
            for i, (p, f) in enumerate(zip(self.positions, self.schema, strict=True))
        ]
        return chunk.select(*picked, *VALIDITY)


@dataclass(frozen=True)
class OneRowKernel:
    """One row without columns, valid at every instant. State: that it was emitted."""

    @property
    def layout(self) -> Mapping[str, Layout]:
        return {"emitted": Layout(("g",))}

    def initial(self) -> State:
        return {"emitted": table(empty({}, "g", "n"))}

    def step(self, state: State, chunks: Sequence[Frame], upto: int) -> tuple[State, Frame]:
        emitted = state["emitted"]
        row = pl.DataFrame({"ts": [MIN], "te": [MAX], "n": [1]}, schema=dict.fromkeys(VALIDITY, pl.Int64()))
        if emitted.rows.height:
            return {"emitted": table(emitted.rows)}, row.clear()
        mark = pl.DataFrame({"g": [0], "n": [1]})
        return {"emitted": type(emitted)(mark, mark)}, row


def scanned(chunk: Frame, schema: Schema, seq: bool) -> Frame:
    """What a leaf was fed, with exactly the columns and types that its schema promises."""
    types = payload_types(schema)
    extra = ["seq"] if seq else []
    return chunk.select(
        *(pl.col(c) if chunk.schema[c] == t else pl.col(c).cast(t) for c, t in types.items()),
        *VALIDITY,
        *extra,
    )
