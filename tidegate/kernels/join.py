"""The bilinear join (SPEC section 3): payloads concatenated, intervals intersected, multiplicities multiplied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property

import polars as pl
from sqlglot import exp

from tidegate.algebra.operators import Join
from tidegate.kernels.band import Band, Edges, band_of
from tidegate.kernels.expressions import Functions, Scalar, type_of
from tidegate.kernels.index import index_of, indexed
from tidegate.kernels.pairs import Searching, starting_inside
from tidegate.kernels.rows import (
    Frame,
    Layout,
    State,
    Table,
    accumulate,
    columns,
    consolidate,
    empty,
    empty_chunk,
    expire,
    payload_types,
    table,
)
from tidegate.scalars.columns import dtype
from tidegate.scalars.expressions import conjoin, conjuncts, references, shift
from tidegate.scalars.total import guarded
from tidegate.time import MIN
from tidegate.types import BOOLEAN, Schema, Type


@dataclass(frozen=True)
class EquiKey:
    """A conjunct `left = right` (or `left <=> right`) whose sides read one input each; both see their own input."""

    left: exp.Expression
    right: exp.Expression
    type: Type
    null_safe: bool


def split_predicate(node: Join, functions: Functions) -> tuple[tuple[EquiKey, ...], exp.Expression | None]:
    """The equi-keys of a join and what remains of its predicate.

    Sides of different types stay in the predicate: which common type they are compared in is not the join's affair.
    """
    width = len(node.left.schema)
    keys: list[EquiKey] = []
    rest: list[exp.Expression] = []
    for part in conjuncts(node.predicate):
        key = _equi_key(part, width, node, functions)
        if key is None:
            rest.append(part)
        else:
            keys.append(key)
    # In an order of their own, so that it does not matter in which they were written.
    keys.sort(key=lambda k: (k.left.sql(), k.right.sql()))
    return tuple(keys), conjoin(rest)


def _equi_key(part: exp.Expression, width: int, node: Join, functions: Functions) -> EquiKey | None:
    while isinstance(part, exp.Paren):
        part = part.this
    if not isinstance(part, exp.EQ | exp.NullSafeEQ):
        return None
    a, b = part.this, part.expression
    reads_a, reads_b = references(a), references(b)
    if not reads_a or not reads_b:
        return None
    if min(reads_a) >= width and max(reads_b) < width:
        a, b, reads_a, reads_b = b, a, reads_b, reads_a
    if max(reads_a) >= width or min(reads_b) < width:
        return None
    b = shift(b, -width)
    left, right = type_of(a, node.left.schema, functions), type_of(b, node.right.schema, functions)
    if left is None or left != right or left.name == "MAP":
        return None
    return EquiKey(a, b, left, isinstance(part, exp.NullSafeEQ))


@dataclass(frozen=True)
class JoinKernel:
    """`snapshot(join, t) = snapshot(left, t) x snapshot(right, t)`, filtered by the predicate.

    Per epoch: new left x (old + new right) + old left x new right, where of each pair the row that starts
    later is a new one. State: both sides, keys as helper columns `k0`, …, until te <= W; rows in force are
    consolidated, so retractions do not pile up.
    """

    left: Schema
    right: Schema
    keys: tuple[EquiKey, ...] = ()
    residual: exp.Expression | None = None
    functions: Functions = field(default_factory=dict, compare=False)
    layout: Mapping[str, Layout] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        by = tuple(columns(len(self.keys), "k"))
        object.__setattr__(self, "layout", {"left": Layout((), by), "right": Layout((), by)})

    def __getstate__(self) -> dict[str, object]:
        """Without what was made of it here, which others make for themselves."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @property
    def schema(self) -> Schema:
        return self.left + self.right

    @cached_property
    def matches(self) -> Scalar:
        assert self.residual is not None
        return Scalar(guarded(self.residual, self.schema), self.schema, BOOLEAN, self.functions)

    @cached_property
    def band(self) -> Band | None:
        """What the condition says about the order of values, whether or not there are keys."""
        return band_of(self.residual, self.left, self.right, self.functions)

    def initial(self) -> State:
        keys = {f"k{i}": dtype(k.type) for i, k in enumerate(self.keys)}
        sides = {"left": self.left, "right": self.right}
        return {s: table(empty({**payload_types(f), **keys}, "te", "n")) for s, f in sides.items()}

    def step(self, state: State, chunks: Sequence[Frame], upto: int) -> tuple[State, Frame]:
        keys = columns(len(self.keys), "k")
        new = [self._keyed(chunk, i) for i, chunk in enumerate(chunks)]
        sides = [state[s] for s in ("left", "right")]
        old = [_partners(t, n, keys) for t, n in zip(sides, reversed(new), strict=True)]
        both = [
            pl.concat([o.with_columns(ts=pl.lit(MIN, dtype=pl.Int64)).select(n.columns), n])
            for o, n in zip(old, new, strict=True)
        ]
        found: list[Frame] = []
        # The later start belongs to a new row: a right one (ties included), or a left one.
        for a, b in starting_inside(both[0], new[1], keys, strict=False, searching=self._searching(0)):
            found.extend(self._joined(a, b))
        for b, a in starting_inside(both[1], new[0], keys, strict=True, searching=self._searching(1)):
            found.extend(self._joined(a, b))
        tables = {s: _kept(state[s], n, keys, upto) for s, n in zip(("left", "right"), new, strict=True)}
        return tables, pl.concat(found) if found else empty_chunk(self.schema)

    def _searching(self, side: int) -> Searching | None:
        """How rows of a side and their partners are searched for, if the condition has a band."""
        band = self.band
        if band is None:
            return None

        def edges(rows: Frame, others: Frame) -> tuple[Edges, Edges]:
            return band.edges(rows, side), band.edges(others, 1 - side)

        return edges

    def _keyed(self, chunk: Frame, side: int) -> Frame:
        schema = (self.left, self.right)[side]
        rows = chunk.select(*columns(len(schema)), "ts", "te", "n")
        sides = [(k.left, k.right)[side] for k in self.keys]
        values = [
            Scalar(e, schema, k.type, self.functions)(rows).alias(f"k{i}")
            for i, (e, k) in enumerate(zip(sides, self.keys, strict=True))
        ]
        rows = rows.with_columns(values)
        # NULL = anything is not true: such a row never finds a partner.
        strict = [f"k{i}" for i, k in enumerate(self.keys) if not k.null_safe]
        return rows.drop_nulls(strict) if strict else rows

    def _joined(self, a: Frame, b: Frame) -> Iterator[Frame]:
        shifted = [pl.col(f"c{i}").alias(f"c{i + len(self.left)}") for i in range(len(self.right))]
        pair = pl.concat(
            [
                a.select(*columns(len(self.left)), "ts", "te", "n"),
                b.select(
                    *shifted, pl.col("ts").alias("ts2"), pl.col("te").alias("te2"), pl.col("n").alias("n2")
                ),
            ],
            how="horizontal",
        )
        if self.residual is not None:
            pair = pair.filter(self.matches(pair))
        yield pair.select(
            *columns(len(self.schema)),
            ts=pl.max_horizontal("ts", "ts2"),
            te=pl.min_horizontal("te", "te2"),
            n=pl.col("n") * pl.col("n2"),
        )


def _partners(kept: Table, others: Frame, keys: Sequence[str]) -> Frame:
    """The rows kept of one side that may meet new rows of the other."""
    if others.is_empty():
        return kept.rows.clear()
    return consolidate(index_of(kept, keys).find(others)) if keys else kept.rows


def _kept(kept: Table, new: Frame, keys: Sequence[str], upto: int) -> Table:
    delta = consolidate(expire(new, upto).select(kept.rows.columns))
    if not keys:
        return Table(accumulate(expire(kept.rows, upto), delta), delta)
    index = index_of(kept, keys).expired(upto)
    return indexed(index, delta, lambda a, b, _: accumulate(expire(a, upto), expire(b, upto)))
