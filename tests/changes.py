"""The meaning of STREAMED answers: answers as tagged streams (SPEC section 2): +<row>t, u<row>t, -<key>t against a relation, and back.

`SELECT STREAMED` says what changed at each instant: an update where the key of the result tells that a row took the place of
another, otherwise a deletion, then an insertion. Applied in order to an empty table, the changes give every snapshot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tidegate import time
from tidegate.errors import internal
from tidegate.reference.aggregates import Bag, row_key
from tidegate.types import Row

PhysicalRow = tuple[Row, int, int, int]


@dataclass(frozen=True)
class Change:
    """One modification: `op` is + (insert), u (update) or - (delete). `row` is the new row, of a deletion the old one.

    >>> str(Change("-", ("a", 76), 5, (0,))), str(Change("u", ("c", 103), 6, (0,)))
    ('-<a>5', 'u<c, 103>6')
    """

    op: str
    row: Row
    instant: int
    key: tuple[int, ...] | None = None

    def __str__(self) -> str:
        shown = self.row
        if self.op == "-" and self.key:
            shown = tuple(self.row[i] for i in self.key)
        return f"{self.op}<{', '.join('NULL' if v is None else str(v) for v in shown)}>{self.instant}"


def tagged(rows: Iterable[PhysicalRow], key: Sequence[int] | None = None) -> list[Change]:
    """The changes that signed rows stand for, in order of time; at one instant deletions, updates, insertions.

    >>> rows = [(("a", 1), 2, 5, 1), (("a", 7), 5, time.MAX, 1), (("b", 3), 5, 6, 1)]
    >>> [str(c) for c in tagged(rows, (0,))]
    ['+<a, 1>2', 'u<a, 7>5', '+<b, 3>5', '-<b>6']
    >>> [str(c) for c in tagged(rows)][1:4]
    ['-<a, 1>5', '+<a, 7>5', '+<b, 3>5']
    """
    jumps: dict[int, Bag] = {}
    for e, ts, te, n in rows:
        jumps.setdefault(ts, Counter())[e] += n
        if te != time.MAX:
            jumps.setdefault(te, Counter())[e] -= n
    return [c for t in sorted(jumps) for c in _instant(jumps[t], t, None if key is None else tuple(key))]


def _instant(jump: Bag, t: int, key: tuple[int, ...] | None) -> Iterator[Change]:
    inserted = sorted((e for e, n in jump.items() for _ in range(n)), key=row_key)
    deleted = sorted((e for e, n in jump.items() for _ in range(-n)), key=row_key)
    updated: list[Row] = []
    if key is not None:
        new = {tuple(e[i] for i in key) for e in inserted}
        old = {tuple(e[i] for i in key) for e in deleted}
        updated = [e for e in inserted if tuple(e[i] for i in key) in old]
        deleted = [e for e in deleted if tuple(e[i] for i in key) not in new]
        inserted = [e for e in inserted if tuple(e[i] for i in key) not in old]
    yield from (Change("-", e, t, key) for e in deleted)
    yield from (Change("u", e, t, key) for e in updated)
    yield from (Change("+", e, t, key) for e in inserted)


def applied(changes: Iterable[Change], upto: int, key: Sequence[int] | None = None) -> Bag:
    """The table that the changes with a time up to `upto` leave of an empty one: what a receiver of the stream has.

    >>> applied([Change("+", ("a", 1), 2), Change("u", ("a", 7), 5)], 5, (0,))
    Counter({('a', 7): 1})
    """
    table: Bag = Counter()
    by_key: dict[Row, Row] = {}
    for change in changes:
        if change.instant > upto:
            break
        if key is None:
            table[change.row] += {"+": 1, "-": -1}[change.op]
            continue
        value = tuple(change.row[i] for i in key)
        if (change.op == "+") == (value in by_key):
            raise internal(f"{change} does not fit the table")
        if change.op == "-":
            del by_key[value]
        else:
            by_key[value] = change.row
    return Counter(by_key.values()) if key is not None else +table
