"""VERIFY: an answer compared with the reference, instant by instant.

The reference reads the same sources and gives each snapshot by its definition; the engine's answer must be the same bag at
every instant compared. Between two neighbouring change points neither side changes, so comparing there compares everywhere.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows
from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.connectors.sources import read_recorded
from tidegate.errors import Diagnostic
from tidegate.kernels.rows import from_arrow, to_arrow, to_rows
from tidegate.language.catalog import StreamDefinition
from tidegate.physical.spark_columns import layers
from tidegate.reference.snapshots import Arrivals, PhysicalRow, Reference, Source, Validity
from tidegate.runtime.results import Result
from tidegate.runtime.results_here import signed_here
from tidegate.runtime.small_runs import rows_here
from tidegate.scalars.columns import column_from_values
from tidegate.scalars.expressions import ref, references, substitute
from tidegate.scalars.functions import AggregateFunction, ScalarFunction
from tidegate.scalars.meaning import compile_scalar
from tidegate.spark.typing import ask_spark
from tidegate.spark.values import ddl
from tidegate.time import MAX, to_datetime
from tidegate.types import TIMESTAMP, Field, Row, Schema, Type, Value

Progress = Callable[[float], None]


@dataclass(frozen=True)
class Difference:
    """An instant at which the answer is not what it should be."""

    instant: int
    missing: Counter[Row]
    surplus: Counter[Row]


@dataclass(frozen=True)
class Verification:
    """What was compared, and the first difference if there is one. True if there is none.

    >>> bool(Verification(12, 40, None, True))
    True
    """

    instants: int
    change_points: int
    difference: Difference | None
    timestamps: bool
    width: int = 1

    def __bool__(self) -> bool:
        return self.difference is None

    def __str__(self) -> str:
        checked = f"{self.instants} of {self.change_points} change points"
        if self.difference is None:
            return f"verified: the answer equals the reference at {checked}"
        t, batch = divmod(self.difference.instant, self.width)
        when = to_datetime(t).isoformat() if self.timestamps else str(t)
        when += f" batch {batch}" if self.width > 1 else ""
        return (
            f"DIFFERENT at {when} (after {checked}): "
            f"missing {_some(self.difference.missing)}, surplus {_some(self.difference.surplus)}"
        )


def _some(bag: Counter[Row]) -> str:
    shown = [str(e) if n == 1 else f"{n} x {e}" for e, n in list(bag.items())[:5]]
    return "{" + ", ".join(shown) + (", …" if len(bag) > 5 else "") + "}"


def verify(
    spark: Callable[[], SparkSession],
    plan: op.Node,
    result: Result,
    definitions: Mapping[str, StreamDefinition],
    scalars: Mapping[str, ScalarFunction],
    aggregates: Mapping[str, AggregateFunction],
    data: Mapping[str, Any],
    instants: str | int = "all",
    progress: Progress | None = None,
    here: bool = False,
) -> Verification:
    """Compare an answer, as far as it is final and kept, with the reference at all change points, or at a sample of `instants` many.

    What is missing in an answer that began later than its streams is no difference: it is compared from the instant on at which it is complete.
    With `here`, what is small and needs nothing of Spark's is read in this process.
    """
    if result.complete is None:
        raise Diagnostic(
            "NEVER_COMPLETE",
            f"'{result.name}' began when its streams were running, and depends on rows of before: what it should be is not known at any instant",
            help="verify a query that was there from the beginning, or one that was started WITH HISTORY",
        )
    sources: dict[str, Source] = {}
    for number, (name, definition) in enumerate(definitions.items()):
        rows = rows_here(result.storage, definition, data.get(name), number) if here else None
        schema = definition.scan.schema
        sources[name] = (
            _source(spark(), definition, data.get(name))
            if rows is None
            else Arrivals(list(zip(to_rows(rows, schema), rows["ts"].to_list(), strict=True)))
        )
    reference = Reference(sources, scalars, aggregates, SparkScalars(spark, scalars), result.settings())
    answer = signed_rows(result, plan.schema, here)
    points = {*reference.change_points(plan), *(p for _, ts, te, _ in answer for p in (ts, te) if p != MAX)}
    points = {p for p in points if max(result.complete, result.horizon()) <= p < result.upto}
    chosen = sorted(points)
    if instants != "all" and len(chosen) > int(instants):
        # the first and last ones always; the rest by a fixed seed, so that a report can be repeated
        inner = random.Random(0).sample(chosen[1:-1], max(0, int(instants) - 2))
        chosen = sorted({chosen[0], chosen[-1], *inner})
    by_time = _Timeline(answer)
    for done, t in enumerate(chosen, 1):
        theirs, ours = reference.snapshot(plan, t), by_time.at(t)
        if not equal(ours, theirs):
            difference = Difference(t, theirs - ours, ours - theirs)
            return Verification(done, len(points), difference, result.time_type == TIMESTAMP, result.width)
        if progress is not None:
            progress(done / len(chosen))
    return Verification(len(chosen), len(points), None, result.time_type == TIMESTAMP)


class SparkScalars:
    """Scalar expressions as Spark evaluates them; equal arguments are computed once, announced rows all at once."""

    def __init__(self, spark: Callable[[], SparkSession], functions: Mapping[str, ScalarFunction]) -> None:
        self._spark = spark
        self._functions = functions
        self._known: dict[tuple[exp.Expression, Schema], _Layered] = {}

    def __call__(
        self, expression: exp.Expression, schema: Schema, rows: Iterable[Row] = ()
    ) -> Callable[[Row], Value]:
        """The function of a row that an expression stands for; `rows` will be asked for."""
        key = (expression, schema)
        if key not in self._known:
            self._known[key] = self._layered(expression, schema)
        self._known[key].announce(rows)
        return self._known[key]

    def _layered(self, expression: exp.Expression, schema: Schema) -> _Layered:
        added, (last,) = layers([expression], schema, self._functions, ask_spark(self._spark))
        steps: list[_Asked | Callable[[Row], Value]] = []
        for layer in added:
            for e, f in zip(layer.expressions, layer.fields, strict=True):
                asked = _Asked(self._spark(), e, schema, f) if layer.by_spark else None
                steps.append(asked or compile_scalar(e, schema, self._functions))
            schema = (*schema, *layer.fields)
        return _Layered(tuple(steps), compile_scalar(last, schema, self._functions))


@dataclass(frozen=True)
class _Layered:
    """Computed columns one after the other, then the expression over all of them."""

    steps: tuple[_Asked | Callable[[Row], Value], ...]
    last: Callable[[Row], Value]

    def announce(self, rows: Iterable[Row]) -> None:
        known = list(rows)
        for step in self.steps:
            if isinstance(step, _Asked):
                step.announce(known)
            known = [(*row, step(row)) for row in known]

    def __call__(self, row: Row) -> Value:
        for step in self.steps:
            row = (*row, step(row))
        return self.last(row)


class _Asked:
    """An expression that Spark evaluates, with the answers so far."""

    def __init__(self, spark: SparkSession, expression: exp.Expression, schema: Schema, made: Field) -> None:
        used = sorted(references(expression))
        self._spark, self._used, self._made = spark, used, made
        self._schema = tuple(schema[i] for i in used)
        self._text = substitute(expression, lambda i: ref(used.index(i))).sql(dialect="spark")
        self._answers: dict[Row, Value] = {}

    def __call__(self, row: Row) -> Value:
        values = tuple(row[i] for i in self._used)
        if values not in self._answers:
            self.announce([row])
        return self._answers[values]

    def announce(self, rows: Iterable[Row]) -> None:
        asked = dict.fromkeys(tuple(row[i] for i in self._used) for row in rows)
        new = [values for values in asked if values not in self._answers]
        if not new:
            return
        columns = [
            column_from_values(f"c{i}", [values[i] for values in new], f.type)
            for i, f in enumerate(self._schema)
        ]
        number = pl.Series("n", range(len(new)), dtype=pl.Int64)
        frame = self._spark.createDataFrame(to_arrow(pl.DataFrame([*columns, number])))
        casts = [f"CAST({_sparked(i, f.type)} AS {ddl(f.type)}) AS c{i}" for i, f in enumerate(self._schema)]
        found = frame.selectExpr(*casts, "n").selectExpr(f"{self._text} AS c0", "0L AS ts", "0L AS te", "n")
        answers = from_arrow(found.toArrow(), (self._made,)).sort("n")
        for values, (answer,) in zip(new, to_rows(answers, (self._made,)), strict=True):
            self._answers[values] = answer


def _sparked(column: int, type_: Type) -> str:
    """Kernels hold a MAP as a list of pairs."""
    return f"map_from_entries(c{column})" if type_.name == "MAP" else f"c{column}"


class _Timeline:
    """Snapshots at rising instants: each row enters and leaves once."""

    def __init__(self, rows: list[PhysicalRow]) -> None:
        self.events = sorted(
            ((t, e, n if t == ts else -n) for e, ts, te, n in rows for t in (ts, te) if t != MAX),
            key=lambda event: event[0],
        )
        self.done = 0
        self.bag: Counter[Row] = Counter()

    def at(self, t: int) -> Counter[Row]:
        while self.done < len(self.events) and self.events[self.done][0] <= t:
            _, e, n = self.events[self.done]
            self.bag[e] += n
            if not self.bag[e]:
                del self.bag[e]
            self.done += 1
        return self.bag


def signed_rows(result: Result, schema: Schema, here: bool = False) -> list[PhysicalRow]:
    """The engine's rows as Python values; with `here`, few of them are read in this process."""
    frame = signed_here(result) if here else None
    if frame is None:
        frame = from_arrow(result.signed().toArrow(), schema)
    validity = frame.select("ts", "te", "n").rows()
    return [(e, *v) for e, v in zip(to_rows(frame, schema), validity, strict=True)]


def _source(spark: SparkSession, definition: StreamDefinition, data: Any) -> Source:
    """The rows of a source for the reference, in order of arrival; those that cannot be read are left out as everywhere."""
    stream = read_recorded(spark, definition, data)
    frame = stream.frame
    if "bad" in frame.columns:
        frame = frame.filter(F.col("bad").isNull())
    schema = definition.scan.schema
    order = [c for c in ("o0", "o1", "o2") if c in frame.columns]
    ends = ["te"] if "te" in frame.columns else []
    starts = ["ts"] if "ts" in frame.columns else []
    rows = frame.orderBy(*order).select(*(f"c{i}" for i in range(len(schema))), *starts, *ends)
    table = from_arrow(rows.toArrow(), schema)
    payload = to_rows(table, schema)
    if definition.table or definition.valid is not None:
        validity = table.select("ts", "te").rows()
        return Validity([(e, ts, te, 1) for e, (ts, te) in zip(payload, validity, strict=True) if ts < te])
    return Arrivals(list(zip(payload, table["ts"].to_list(), strict=True)))


def equal(left: Counter[Row], right: Counter[Row]) -> bool:
    """The same bag; floats may differ by the rounding of their last digits.

    >>> equal(Counter({(0.1 + 0.2,): 1}), Counter({(0.3,): 1}))
    True
    """
    if left == right:
        return True
    return _rounded(left) == _rounded(right)


def _rounded(bag: Counter[Row]) -> Counter[Row]:
    result: Counter[Row] = Counter()
    for e, n in bag.items():
        result[tuple(_round(v) for v in e)] += n
    return result


def _round(value: Value) -> Value:
    if isinstance(value, float):
        return float(f"{value:.10g}")
    return tuple(_round(v) for v in value) if isinstance(value, tuple) else value
