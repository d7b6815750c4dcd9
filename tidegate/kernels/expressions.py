"""Scalar expressions on columns: a small verified set in Polars, everything else row by row in Python.

Both follow Spark's ANSI mode. Where a translated expression meets a row on which Spark would raise an error, the row-wise
evaluator runs instead: it raises the error, in one place and in one wording.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import polars as pl
from sqlglot import exp

from tidegate.errors import Diagnostic
from tidegate.kernels.rows import Frame, looked_up, normalized
from tidegate.scalars.columnar import translate
from tidegate.scalars.columns import column_from_values, column_values, dtype, literal
from tidegate.scalars.expressions import index_of, references
from tidegate.scalars.registry import Column
from tidegate.types import INTEGRAL, VOID, Row, Schema, Type, Value

Functions = Mapping[str, Any]
"""User-defined functions by name."""

_WORTH_SHARING = 1_000
_PLAIN = (
    *INTEGRAL,
    "BOOLEAN",
    "STRING",
    "BINARY",
    "DATE",
    "TIMESTAMP",
    "TIMESTAMP_NTZ",
    "INTERVAL",
    "DECIMAL",
)


@dataclass(frozen=True)
class Scalar:
    """An expression over a schema's columns, ready to be evaluated on frames.

    >>> import sqlglot
    >>> from tidegate.types import INT, Field
    >>> double = Scalar(sqlglot.parse_one("c0 * 2"), (Field("a", INT),), INT)
    >>> double(pl.DataFrame({"c0": pl.Series([1, None, 3], dtype=pl.Int32)})).to_list()
    [2, None, 6]
    """

    expression: exp.Expression
    schema: Schema
    type: Type
    functions: Functions = field(default_factory=dict, compare=False)

    @cached_property
    def column(self) -> Column | None:
        """The translation, where there is one of the expected type."""
        column = translate(self.expression, self.schema, self.functions)
        if column is not None and column.type == VOID:
            column = literal(None, self.type)
        return column if column is not None and column.type == self.type else None

    @cached_property
    def by_row(self) -> Callable[[Row], Value]:
        from tidegate.scalars.meaning import compile_scalar

        call: Callable[[Row], Value] = compile_scalar(self.expression, self.schema, self.functions)
        return call

    def __getstate__(self) -> dict[str, object]:
        """Without what was made of it here: translations may hold functions that cannot travel."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def __call__(self, frame: Frame) -> pl.Series:
        column = self.column
        if column is None or frame.is_empty():
            return self._rows(frame)
        if index_of(self.expression) is not None:
            return frame[self.expression.name]
        failed = column.error if column.error is not None else pl.lit(False)
        # As series of their own: Polars may take a column that holds one value throughout for a single row.
        read = [frame[f"c{i}"] for i in sorted(references(self.expression))]
        rows = pl.DataFrame(read) if read else frame
        result = rows.select(value=column.value, failed=failed.any())
        if result["failed"][0]:
            return self._rows(frame)
        # What is the same for all rows may come as one.
        value = (
            result["value"]
            if result.height == frame.height
            else result["value"].new_from_index(0, frame.height)
        )
        return normalized(value.to_frame())["value"] if column.type.name not in _PLAIN else value

    def _rows(self, frame: Frame) -> pl.Series:
        if frame.is_empty():
            return pl.Series("value", [], dtype=dtype(self.type))
        read = [f"c{i}" for i in sorted(references(self.expression))]
        if frame.height > _WORTH_SHARING and read:
            # Functions are deterministic: equal arguments need one evaluation.
            distinct = frame.select(read).unique()
            if 2 * distinct.height < frame.height:
                values = distinct.with_columns(self._each(distinct))
                return looked_up(frame.select(read), values, read)["value"]
        return self._each(frame)

    def _each(self, frame: Frame) -> pl.Series:
        call = self.by_row
        blank: list[object] = [None] * frame.height
        needed = references(self.expression)
        values = [
            column_values(frame[f"c{i}"], f.type) if i in needed else blank for i, f in enumerate(self.schema)
        ]
        rows = zip(*values, strict=True) if values else iter([()] * frame.height)
        results = column_from_values("value", [call(r) for r in rows], self.type)
        return normalized(pl.DataFrame([results]))["value"]


def type_of(expression: exp.Expression, schema: Schema, functions: Functions) -> Type | None:
    """The type of an expression, where it can be told without Spark."""
    from tidegate.scalars.typing import infer

    try:
        return infer(expression, schema, functions).type
    except Diagnostic:
        return None
