"""Scalar expressions as calls: one name and a list of arguments for each of sqlglot's many classes.

sqlglot gives functions classes of its own, wraps some arguments, and rewrites others (`YEAR(x)` becomes
`Year(TsOrDsToDate(x))`, `CAST` becomes `TryCast`). Here each node gets Spark's name back, as the entries spell it.
"""

from __future__ import annotations

from sqlglot import exp

from tidegate.errors import Diagnostic, unsupported
from tidegate.scalars.library import FUNCTIONS, SPELLINGS
from tidegate.scalars.registry import Call

__all__ = ["FUNCTIONS", "Call", "call_of", "is_nondeterministic", "nondeterministic", "unsupported_call"]

_NONDETERMINISTIC = (
    exp.Rand,
    exp.Randn,
    exp.Uuid,
    exp.CurrentTimestamp,
    exp.CurrentDate,
    exp.CurrentTime,
    exp.CurrentDatetime,
    exp.CurrentUser,
    exp.Localtimestamp,
    exp.Shuffle,
)
_NONDETERMINISTIC_NAMES = frozenset(
    """NOW CURDATE CURRENT_DATE CURRENT_TIMESTAMP CURRENT_TIME LOCALTIMESTAMP RAND RANDOM RANDN RANDSTR
    UNIFORM UUID SHUFFLE MONOTONICALLY_INCREASING_ID SPARK_PARTITION_ID INPUT_FILE_NAME
    INPUT_FILE_BLOCK_START INPUT_FILE_BLOCK_LENGTH CURRENT_USER SESSION_USER USER CURRENT_DATABASE
    CURRENT_CATALOG""".split()
)

_HARMLESS = {"typed", "safe", "coalesce", "flatten", "ignore_nulls", "null_if_pos_overflow"}
"""Arguments that sqlglot sets for its translations between dialects; Spark's meaning has them built in."""


def is_nondeterministic(node: exp.Expression) -> bool:
    """Whether Spark would answer this call by something other than its arguments.

    >>> import sqlglot
    >>> [is_nondeterministic(sqlglot.parse_one(s, dialect="spark")) for s in ("RAND()", "now()", "ABS(1)")]
    [True, True, False]
    """
    if isinstance(node, exp.Anonymous):
        return node.name.upper() in _NONDETERMINISTIC_NAMES
    return isinstance(node, _NONDETERMINISTIC)


def call_of(node: exp.Expression) -> Call | None:
    """The call a node stands for; None if it is not of the built-in set.

    >>> import sqlglot
    >>> def show(sql):
    ...     call = call_of(sqlglot.parse_one(sql, dialect="spark"))
    ...     return call and (call.name, [a.sql("spark") for a in call.args])
    >>> show("INSTR(c0, 'x')"), show("c0 BETWEEN 1 AND 2"), show("NVL2(c0, 1, 2)")
    (('LOCATE', ["'x'", 'c0']), ('AND', ['c0 >= 1', 'c0 <= 2']), ('IF', ['NOT c0 IS NULL', '1', '2']))
    >>> show("MYSTERY(c0)") is None
    True
    """
    spelled = node.name.upper() if isinstance(node, exp.Anonymous) else type(node)
    name, reading = SPELLINGS.get(spelled, ("", None))
    if reading is None:
        return None
    if callable(reading):
        return reading(node)
    keys = reading.split()
    # A node that says more than is read must not be taken for the plain call.
    read = {key.removeprefix("*") for key in keys} | _HARMLESS
    if isinstance(node, exp.Anonymous):
        read.add("this")
    if any(value for key, value in node.args.items() if key not in read):
        return None
    args: list[exp.Expression] = []
    for key in keys:
        part = node.args.get(key.removeprefix("*"))
        args += part or () if key.startswith("*") else [part] if isinstance(part, exp.Expression) else []
    return Call(name, tuple(args))


def nondeterministic(node: exp.Expression) -> Diagnostic:
    name = node.name.upper() if isinstance(node, exp.Anonymous) else node.sql("spark")
    name = name.removesuffix("()")
    return Diagnostic(
        "NONDETERMINISTIC",
        f"{name} has no single value: only the streams and application time decide an answer",
        help="use the stream's own TS, or NOW in a predicate, instead of a clock or a random number",
    )


def unsupported_call(node: exp.Expression) -> Diagnostic:
    return unsupported(f"{node.sql('spark')} is not in the set of expressions that kernels evaluate")
