"""How large a statement may be: what is longer, wider or deeper is refused where it becomes so.

AND, OR and the operands of a UNION are associative, so long chains of them are trees of little depth; sums are not (of doubles, and where they
overflow), so a sum is as deep as it is long.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlglot import exp

from tidegate.errors import Diagnostic, Position, position_at
from tidegate.scalars.expressions import span_of, tree_of

LENGTH = 2_000_000
"""Characters of a script."""
PARTS = 100_000
"""Names, constants, operators and clauses of a statement."""
DEPTH = 300
"""Expressions inside each other, and operands of a sum."""
QUERIES = 32
"""Queries inside each other."""
WIDTH = 2_000
"""Columns of a query, arguments of a call, values of an IN."""
OPERANDS = 500
"""Queries of a UNION, EXCEPT or INTERSECT, and items of FROM with their joins."""
LARGEST = 2**31
"""Numbers of things (LIMIT, OFFSET, BATCH, INSTANTS) are below it."""
LONGEST = 2**53
"""A duration is at most so many units."""
ITEMS = 1_000
"""Items of FROM, with those of views and of WITH as often as they are read."""
NAME = 255
"""Characters of a name."""

DIGITS = 1_000
"""Characters of a number."""

_HELP = "split it into several queries; docs/security.md has all limits"


def check_length(text: str) -> None:
    """Before a script is read."""
    if len(text) > LENGTH:
        where = position_at(text, LENGTH)
        raise _too_large(
            f"a script has at most {LENGTH:,} characters, this one has {len(text):,}", where, text
        )


def checked(statement: exp.Expression, text: str) -> exp.Expression:
    """The statement with flat AND and OR, if it is within the limits."""
    _flatten(statement)
    parts = 0
    waiting: list[tuple[exp.Expression, int, int]] = [(statement, 0, 0)]
    while waiting:
        node, depth, queries = waiting.pop()
        parts += 1
        queries += isinstance(node, exp.Select)
        problem = _problem(node, parts, depth, queries)
        if problem is not None:
            raise _too_large(problem, position_at(text, *_place(node)), text)
        for key, value in node.args.items():
            # The left operand of a chain of set operations is the chain before it.
            same = key == "this" and isinstance(node, exp.SetOperation) and isinstance(value, type(node))
            children = value if isinstance(value, list) else [value]
            waiting += [(c, depth + (not same), queries) for c in children if isinstance(c, exp.Expression)]
    return statement


def counted(items: int, item: exp.Expression) -> int:
    """The number of items of FROM so far, if there may be as many."""
    if items > ITEMS:
        message = f"a query reads at most {ITEMS:,} items, with those of views and of WITH as often as they are read"
        raise Diagnostic("STATEMENT_TOO_LARGE", message, help=_HELP).at(span_of(item))
    return items


def _problem(node: exp.Expression, parts: int, depth: int, queries: int) -> str | None:
    if parts > PARTS:
        return f"a statement has at most {PARTS:,} parts"
    if depth > DEPTH:
        return f"expressions are at most {DEPTH} deep"
    if queries > QUERIES:
        return f"queries are nested at most {QUERIES} deep"
    if isinstance(node, exp.Identifier) and len(node.name) > NAME:
        return f"a name has at most {NAME} characters"
    if isinstance(node, exp.Literal) and not node.is_string and len(node.name) > DIGITS:
        return f"a number has at most {DIGITS:,} characters"
    if isinstance(node, exp.SetOperation) and not isinstance(node.parent, type(node)):
        if _operands(node) > OPERANDS:
            return f"at most {OPERANDS} queries are united"
    widest = OPERANDS if isinstance(node, exp.Join) else WIDTH
    if any(
        isinstance(v, list) and len(v) > (OPERANDS if k == "joins" else widest) for k, v in node.args.items()
    ):
        limit = OPERANDS if len(node.args.get("joins") or ()) > OPERANDS else WIDTH
        return f"at most {limit:,} items stand side by side"
    return None


def _operands(node: exp.Expression) -> int:
    count = 1
    while isinstance(node, exp.SetOperation):
        node, count = node.this, count + 1
    return count


def _place(node: exp.Expression) -> tuple[int, int]:
    """Where a part stands, or the part that it belongs to."""
    here: exp.Expression | None = node
    while here is not None:
        span = span_of(here)
        if span is not None:
            return span[0], span[0] + 1
        here = here.parent if isinstance(here.parent, exp.Expression) else None
    return 0, 1


def _flatten(statement: exp.Expression) -> None:
    for node in [
        n for n in statement.walk() if isinstance(n, exp.Expression) and isinstance(n, (exp.And, exp.Or))
    ]:
        if not isinstance(node.parent, type(node)):
            operands = _chain(node)
            if len(operands) > 8:
                middle = len(operands) // 2
                node.set("this", tree_of(type(node), operands[:middle]))
                node.set("expression", tree_of(type(node), operands[middle:]))


def _chain(node: exp.Expression) -> list[exp.Expression]:
    """The operands of an associative chain, in order."""
    found, waiting = [], [node]
    while waiting:
        part = waiting.pop()
        if type(part) is type(node):
            waiting += [part.expression, part.this]
        else:
            found.append(part)
    return found


def _too_large(message: str, where: Position, text: str) -> Diagnostic:
    return Diagnostic("STATEMENT_TOO_LARGE", message, where, text, _HELP)


@contextmanager
def within_reach(text: str) -> Iterator[None]:
    """What is deeper than the program can follow is refused, too."""
    try:
        yield
    except RecursionError:
        raise _too_large("the statement is nested too deeply", position_at(text, 0), text) from None
