"""Hints: how a query is to be run, which never changes what it means.

`SELECT /*+ EXPIRATION(negative) */ …` says how it is told that rows have left windows. Hints that are not known are Spark's, and are passed over.
"""

from __future__ import annotations

from sqlglot import exp

from tidegate.algebra.windows import EXPIRATIONS, Expiration
from tidegate.errors import Diagnostic, did_you_mean
from tidegate.scalars.expressions import span_of


def expiration_hint(statement: exp.Expression) -> Expiration | None:
    """What a query says of its windows; of several hints the first counts."""
    for hint in statement.find_all(exp.Hint):
        for said in hint.expressions:
            if isinstance(said, exp.Anonymous) and said.name.upper() == "EXPIRATION":
                return _expiration(said)
    return None


def _expiration(said: exp.Anonymous) -> Expiration:
    words = [e.name.lower() for e in said.expressions]
    for known in EXPIRATIONS:
        if words == [known]:
            return known
    raise Diagnostic(
        "WRONG_ARGUMENTS",
        f"the hint EXPIRATION takes one of {', '.join(EXPIRATIONS)}",
        help=did_you_mean(words[0] if words else "", list(EXPIRATIONS), "ways"),
    ).at(span_of(said))
