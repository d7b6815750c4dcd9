"""The kinds of values that columns hold, and what can be computed with them, in the two languages.

One more type, function or aggregate is one more entry. A text says both languages at once: `«ours¦DuckDB's»`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal

from tidegate.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    Type,
    Value,
    array,
    decimal,
)  # fmt: skip

UNSAYABLE = "※"
"""Stands where DuckDB cannot be asked the same."""

_MARK = re.compile(r"«([^«»¦]*)¦([^«»¦]*)»")


def said(text: str, duckdb: bool) -> str:
    """The text in one of the two languages.

    >>> said("SELECT «SIZE¦LEN»(«a¦b»)", True)
    'SELECT LEN(b)'
    """
    while _MARK.search(text):
        text = _MARK.sub(lambda m: m[2 if duckdb else 1], text)
    return text


def both(ours: str, duckdb: str | None) -> str:
    return ours if ours == duckdb else f"«{ours}¦{UNSAYABLE if duckdb is None else duckdb}»"


@dataclass(frozen=True)
class Kind:
    """A type with the values that streams hold and constants that queries name."""

    type: Type
    duckdb: str
    values: tuple[Value, ...]
    constants: tuple[str, ...]
    ordered: bool = True
    """Whether DuckDB has the same order: NULL members of arrays and structs are last there, first in Spark."""


NUMBERS = ("INT", "BIGINT", "DOUBLE", "DECIMAL")
ROUGH = (0.1, -0.1, 0.3, 1e16, -1e16, 1e-300, 3.0)
"""Numbers whose sums depend on the order in any engine that rounds more than once."""

KINDS = {
    "INT": Kind(INT, "INTEGER", (0, 1, 2, 3), ("0", "1", "2", "3")),
    "BIGINT": Kind(BIGINT, "BIGINT", (0, 2, -5, 1 << 40), ("CAST(2 AS BIGINT)", f"{1 << 40}")),
    "DOUBLE": Kind(
        DOUBLE, "DOUBLE", (0.0, -0.0, 1.5, -2.25, 3.0, math.nan, math.inf, -math.inf),
        ("CAST(1.5 AS DOUBLE)", "CAST(0 AS DOUBLE)", "CAST('NaN' AS DOUBLE)"),
    ),
    "DECIMAL": Kind(
        decimal(6, 2), "DECIMAL(6,2)", tuple(map(Decimal, ("0.00", "1.50", "-2.25", "99.99"))), ("1.50", "0.00"),
    ),
    "STRING": Kind(STRING, "VARCHAR", ("x", "y", "zé", ""), ("'x'", "'zé'")),
    "BOOLEAN": Kind(BOOLEAN, "BOOLEAN", (True, False), ("TRUE", "FALSE")),
    "DATE": Kind(
        DATE, "DATE", (date(2026, 1, 31), date(2024, 2, 29), date(1969, 7, 20)), ("DATE '2026-01-31'",)
    ),
    "TIMESTAMP": Kind(
        TIMESTAMP, "TIMESTAMP",
        (datetime(2026, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, 0, 0, 3, tzinfo=UTC),
         datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
        ("TIMESTAMP '1970-01-01 00:00:03'",),
    ),
    "ARRAY": Kind(
        array(INT), "INTEGER[]", ((), (1,), (1, 2), (None, 1)), ("«ARRAY(1, 2)¦[1, 2]»",), ordered=False
    ),
    "STRUCT": Kind(
        Type("STRUCT", (("u", INT), ("v", STRING))), "STRUCT(u INTEGER, v VARCHAR)",
        ((1, "x"), (1, None), (None, "y"), (2, "x")), ("«NAMED_STRUCT('u', 1, 'v', 'x')¦{'u': 1, 'v': 'x'}»",),
        ordered=False,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Function:
    """A scalar function: {0}, {1} are its arguments. `duckdb` None: there is no counterpart."""

    result: str
    arguments: tuple[str, ...]
    text: str
    duckdb: str | None = "="

    def call(self, arguments: list[str]) -> str:
        mine = self.text.format(*arguments)
        return both(mine, mine if self.duckdb == "=" else self.duckdb and self.duckdb.format(*arguments))


FUNCTIONS = (
    *(Function(k, (k, k), f"({{0}} {sign} {{1}})") for k in NUMBERS for sign in "+-"),
    *(Function(k, (k, k), "({0} * {1})") for k in ("INT", "DOUBLE")),
    *(Function(k, (k,), "ABS({0})") for k in NUMBERS),
    *(Function(k, (k, k), "COALESCE({0}, {1})") for k in KINDS),
    *(Function(k, (k, k), "NULLIF({0}, {1})") for k in KINDS),
    *(Function(k, ("BOOLEAN", k, k), "CASE WHEN {0} THEN {1} ELSE {2} END") for k in KINDS),
    Function("INT", ("STRING",), "LENGTH({0})"),
    Function("STRING", ("STRING",), "UPPER({0})"),
    Function("STRING", ("STRING", "STRING"), "CONCAT({0}, {1})", "({0} || {1})"),
    Function("STRING", ("INT",), "CAST({0} AS STRING)", "CAST({0} AS VARCHAR)"),
    Function("INT", ("BOOLEAN",), "CAST({0} AS INT)"),
    Function("INT", ("INT",), "twice({0})", "(2 * {0})"),
    Function("INT", ("INT",), "({0} % 3)"),
    Function("BIGINT", ("INT",), "CAST({0} AS BIGINT)"),
    Function("DOUBLE", ("INT",), "CAST({0} AS DOUBLE)"),
    Function("DOUBLE", ("DECIMAL",), "CAST({0} AS DOUBLE)"),
    Function("DECIMAL", ("INT",), "CAST({0} AS DECIMAL(6,2))"),
    Function("DOUBLE", ("DOUBLE", "DOUBLE"), "NANVL({0}, {1})", "CASE WHEN ISNAN({0}) THEN {1} ELSE {0} END"),
    Function("BOOLEAN", ("DOUBLE",), "ISNAN({0})", "COALESCE(ISNAN({0}), FALSE)"),
    Function("INT", ("ARRAY",), "SIZE({0})", "LEN({0})"),
    Function("BOOLEAN", ("ARRAY", "INT"), "ARRAY_CONTAINS({0}, {1})", None),
    Function("ARRAY", ("INT", "INT"), "ARRAY({0}, {1})", "[{0}, {1}]"),
    Function("INT", ("STRUCT",), "({0}).u"),
    Function("STRING", ("STRUCT",), "({0}).v"),
    Function(
        "STRUCT", ("INT", "STRING"), "NAMED_STRUCT('u', {0}, 'v', {1})", "{{'u': {0}, 'v': {1}}}"
    ),
    Function("INT", ("DATE",), "DAY({0})"),
    Function("INT", ("DATE",), "YEAR({0})"),
    Function("DATE", ("DATE", "INT"), "DATE_ADD({0}, {1})", "({0} + {1})"),
    Function("DATE", ("TIMESTAMP",), "CAST({0} AS DATE)"),
    Function("INT", ("TIMESTAMP",), "SECOND({0})"),
    Function("TIMESTAMP", ("DATE",), "CAST({0} AS TIMESTAMP)"),
)  # fmt: skip


@dataclass(frozen=True)
class AggregateForm:
    """An aggregate: {d} is DISTINCT or nothing, {c} (DuckDB only) the condition of FILTER or TRUE."""

    result: str
    arguments: tuple[str, ...]
    text: str
    duckdb: str | None = "="
    distinct: bool = True

    def call(self, arguments: list[str], distinct: bool, condition: str | None) -> str:
        d = "DISTINCT " if distinct else ""
        tail = "" if condition is None else f" FILTER (WHERE {condition})"
        mine = self.text.format(*arguments, d=d) + tail
        if self.duckdb is None or self.duckdb == "=":
            return both(mine, mine if self.duckdb else None)
        theirs = self.duckdb.format(*arguments, d=d, c=condition or "TRUE")
        return both(mine, theirs if "{c}" in self.duckdb else theirs + tail)


def _spread(text: str, decimals: str) -> list[AggregateForm]:
    # of one infinity DuckDB says that the variance of a population is 0, Spark that it is NaN
    doubles = None if "_POP" in text else "="
    plain = [AggregateForm("DOUBLE", ("INT",), text), AggregateForm("DOUBLE", ("DOUBLE",), text, doubles)]
    return [*plain, AggregateForm("DOUBLE", ("DECIMAL",), text, decimals)]


_BY = "FIRST({0} ORDER BY {1} %s, {0} ASC NULLS LAST) FILTER (WHERE {1} IS NOT NULL AND {c})"

_PAIRS = "FILTER (WHERE {0} IS NOT NULL AND {1} IS NOT NULL AND {c})"
_COUNT = f"COUNT(*) {_PAIRS}"
_SPREAD = f"{_COUNT} * SUM(%s * %s) {_PAIRS} - SUM(%s) {_PAIRS} * SUM(%s) {_PAIRS}"
"""Of whole numbers, so that DuckDB rounds once."""

AGGREGATES = (
    AggregateForm("BIGINT", (), "COUNT(*)", distinct=False),
    AggregateForm("BIGINT", ("BOOLEAN",), "COUNT_IF({d}{0})", "COUNT({d}TRUE) FILTER (WHERE {0} AND {c})"),
    *(AggregateForm("BIGINT", (k,), "COUNT({d}{0})") for k in KINDS),
    AggregateForm("BIGINT", ("INT", "STRING"), "COUNT(DISTINCT {0}, {1})", None, distinct=False),
    AggregateForm("BIGINT", ("INT",), "SUM({d}{0})"),
    AggregateForm("BIGINT", ("BIGINT",), "SUM({d}{0})"),
    AggregateForm("DOUBLE", ("DOUBLE",), "SUM({d}{0})"),
    AggregateForm("DECIMAL", ("DECIMAL",), "SUM({d}{0})"),
    AggregateForm("DECIMAL", ("DECIMAL",), "AVG({d}{0})", None),
    *(AggregateForm("DOUBLE", (k,), "AVG({d}{0})") for k in ("INT", "DOUBLE")),
    AggregateForm("DOUBLE", ("INT",), "MEAN({d}{0})", "AVG({d}{0})"),
    *(AggregateForm(k, (k,), f"{f}({{d}}{{0}})", "=" if KINDS[k].ordered else None) for k in KINDS for f in ("MIN", "MAX")),
    *(form for f in ("VAR_SAMP", "VAR_POP", "STDDEV_SAMP", "STDDEV_POP", "VARIANCE", "STDDEV")
      for form in _spread(f"{f}({{d}}{{0}})", f"{f}({{d}}CAST({{0}} AS DOUBLE))")),
    *(AggregateForm("DOUBLE", (k,), "MEDIAN({d}{0})", "MEDIAN({d}CAST({0} AS DOUBLE))" if k != "DOUBLE" else None) for k in NUMBERS[1:]),
    *(AggregateForm("DOUBLE", (k,), f"{f}({{d}}{{0}}, {p})", f"QUANTILE_CONT({{d}}CAST({{0}} AS DOUBLE), {p})" if k != "DOUBLE" else None)
      for k in ("INT", "DECIMAL", "DOUBLE") for f, p in (("QUANTILE", "0.25"), ("PERCENTILE", "0.9"))),
    *(AggregateForm(x, (x, y), f"{f}({{d}}{{0}}, {{1}})", _BY % order if KINDS[x].ordered and KINDS[y].ordered else None)
      for x, y in (("STRING", "INT"), ("INT", "DOUBLE"), ("STRUCT", "DECIMAL"), ("DECIMAL", "TIMESTAMP"), ("DOUBLE", "ARRAY"), ("DATE", "STRING"))
      for f, order in (("ARG_MIN", "ASC"), ("ARG_MAX", "DESC"), ("MIN_BY", "ASC"), ("MAX_BY", "DESC"))),
    AggregateForm("ARRAY", ("INT",), "TOP_K({d}{0}, 2)", "(LIST({d}{0} ORDER BY {0} DESC) FILTER (WHERE {0} IS NOT NULL AND {c}))[1:2]"),
    *(AggregateForm("ARRAY", ("INT",), text, f"COALESCE(LIST({d}{{0}} ORDER BY {{0}}{down}) FILTER (WHERE {{0}} IS NOT NULL AND {{c}}), [])", distinct)
      for text, d, down, distinct in (("COLLECT_LIST({d}{0})", "{d}", "", True), ("COLLECT_SET({0})", "DISTINCT ", "", False),
                                      ("ARRAY_AGG({d}{0} ORDER BY {0} DESC)", "{d}", " DESC", True))),
    AggregateForm("STRING", ("STRING",), "STRING_AGG({d}{0}, '+')", "STRING_AGG({d}{0}, '+' ORDER BY {0})"),
    AggregateForm("STRING", ("INT",), "LISTAGG({d}{0}, '+')", "ARRAY_TO_STRING(LIST({d}{0} ORDER BY {0}) FILTER (WHERE {0} IS NOT NULL AND {c}), '+')"),
    *(AggregateForm("BOOLEAN", ("BOOLEAN",), f"{f}({{d}}{{0}})", f"{g}({{d}}{{0}})")
      for f, g in (("BOOL_AND", "BOOL_AND"), ("EVERY", "BOOL_AND"), ("BOOL_OR", "BOOL_OR"), ("SOME", "BOOL_OR"))),
    *(AggregateForm("BIGINT", (k,), "APPROX_COUNT_DISTINCT({0})", "COUNT(DISTINCT {0})", distinct=False) for k in ("INT", "STRING", "DOUBLE")),
    AggregateForm("DOUBLE", ("INT", "INT"), "COVAR_POP({0}, {1})", f"({_SPREAD % ('{0}', '{1}', '{0}', '{1}')}) / ({_COUNT} * {_COUNT})", distinct=False),
    AggregateForm("DOUBLE", ("INT", "INT"), "COVAR_SAMP({0}, {1})", f"({_SPREAD % ('{0}', '{1}', '{0}', '{1}')}) / NULLIF({_COUNT} * ({_COUNT} - 1), 0)", distinct=False),
    AggregateForm("DOUBLE", ("INT", "INT"), "CORR({0}, {1})", f"({_SPREAD % ('{0}', '{1}', '{0}', '{1}')}) / NULLIF(SQRT(({_SPREAD % ('{0}', '{0}', '{0}', '{0}')})::DOUBLE * ({_SPREAD % ('{1}', '{1}', '{1}', '{1}')})), 0)", distinct=False),
    *(AggregateForm("DOUBLE", ("DOUBLE", k), f"{f}({{d}}{{0}}, {{1}})", None) for k in ("DOUBLE", "DECIMAL") for f in ("CORR", "COVAR_POP", "COVAR_SAMP")),
    AggregateForm("BIGINT", ("INT",), "xor_all({d}{0})", "CASE WHEN COUNT(*) FILTER (WHERE {c}) > 0 THEN COALESCE(BIT_XOR({d}CAST({0} AS BIGINT)) FILTER (WHERE {c}), 0) END"),
)  # fmt: skip

BY_TIME = (
    *(AggregateForm(k, (k,), f"{f}({{0}})", None, distinct=False) for k in KINDS for f in ("FIRST", "LAST")),
)  # fmt: skip
"""FIRST and LAST need one stream in FROM whose TS they go by."""
