"""Names to positions: what a column name means inside a query, and inside the queries around it.

Positions from `OUTER` on address the enclosing query: `k * OUTER + i` is column i of the k-th query outwards.
`subqueries` removes them; no finished plan has any.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sqlglot import exp

from tidegate.errors import Diagnostic, did_you_mean
from tidegate.scalars.expressions import ref, references, span_of, substitute
from tidegate.types import Field, Schema

OUTER = 1_000_000


class Columns(tuple[Field, ...]):
    """The schema of a query's columns, with those of the enclosing queries at positions from OUTER on."""

    outer: Columns | None

    def __new__(cls, fields: Iterable[Field], outer: Columns | None = None) -> Columns:
        self = super().__new__(cls, fields)
        self.outer = outer
        return self

    def __len__(self) -> int:
        return super().__len__() if self.outer is None else OUTER + len(self.outer)

    def __getitem__(self, index: int) -> Field:  # type: ignore[override]
        if index < OUTER:
            return super().__getitem__(index)
        assert self.outer is not None, index
        return self.outer[index - OUTER]


def is_correlated(expression: exp.Expression) -> bool:
    return any(i >= OUTER for i in references(expression))


def inwards(expression: exp.Expression) -> exp.Expression:
    """The expression as a query nested in this one sees it."""
    return substitute(expression, lambda i: ref(i + OUTER))


@dataclass
class Relation:
    """An item of FROM: its alias, and where its columns stand in the plan."""

    alias: str | None
    fields: Schema
    offset: int
    time: int | None = None
    """The position of the ordering attribute, readable as TS."""
    merged: set[str] = field(default_factory=set)
    """Columns that a USING clause took over: they no longer answer to their bare name."""

    def find(self, name: str) -> list[int]:
        lowered = name.lower()
        found = [self.offset + i for i, f in enumerate(self.fields) if f.name.lower() == lowered]
        if not found and lowered == "ts" and self.time is not None:
            return [self.time]
        return found


@dataclass
class Scope:
    """The items of a query's FROM, and the scope of the query around it."""

    relations: list[Relation] = field(default_factory=list)
    outer: Scope | None = None
    shared: dict[str, exp.Expression] = field(default_factory=dict)
    """Columns merged by USING, by name: the expression they stand for."""
    grouped: bool = False
    """True after GROUP BY: only grouping columns can be named."""

    def resolve(self, column: exp.Column) -> exp.Expression:
        """The bound column (or field of a struct column) that a name stands for."""
        found = self._find(column, 0)
        if found is not None:
            return found
        raise self._unknown(column)

    def _find(self, column: exp.Column, level: int) -> exp.Expression | None:
        parts = [p.name for p in column.parts]
        bound = self._match(parts, column)
        if bound is not None:
            return substitute(bound, lambda i: ref(i + level * OUTER, column)) if level else bound
        return self.outer._find(column, level + 1) if self.outer is not None else None

    def _match(self, parts: list[str], column: exp.Column) -> exp.Expression | None:
        if len(parts) >= 2:
            items = [r for r in self.relations if r.alias and r.alias.lower() == parts[0].lower()]
            if len(items) > 1:
                raise Diagnostic("AMBIGUOUS_ALIAS", f"'{parts[0]}' names two items of FROM").at(
                    span_of(column)
                )
            if items:
                positions = items[0].find(parts[1])
                if not positions:
                    names = [f.name for f in items[0].fields if not f.hidden]
                    if self.grouped:
                        raise not_grouped(".".join(parts[:2]), column)
                    raise Diagnostic(
                        "UNKNOWN_COLUMN",
                        f"'{items[0].alias}' has no column '{parts[1]}'",
                        help=did_you_mean(parts[1], names, "columns"),
                    ).at(span_of(column))
                return _fields(self._only(positions, parts[1], column), parts[2:])
        if parts[0].lower() in self.shared:
            return _fields(self.shared[parts[0].lower()].copy(), parts[1:])
        found = [p for r in self.relations if parts[0].lower() not in r.merged for p in r.find(parts[0])]
        return _fields(self._only(found, parts[0], column), parts[1:]) if found else None

    def _only(self, positions: list[int], name: str, column: exp.Column) -> exp.Expression:
        if len(set(positions)) > 1:
            aliases = [r.alias for r in self.relations if r.alias and r.find(name)]
            raise Diagnostic(
                "AMBIGUOUS_COLUMN",
                f"'{name}' could be a column of several streams",
                help="say which: " + " or ".join(f"{a}.{name}" for a in aliases),
            ).at(span_of(column))
        return ref(positions[0], column)

    def _unknown(self, column: exp.Column) -> Diagnostic:
        parts = [p.name for p in column.parts]
        aliases = [r.alias for r in self.relations if r.alias]
        if len(parts) > 1 and parts[0].lower() not in [a.lower() for a in aliases]:
            return Diagnostic(
                "UNKNOWN_ALIAS",
                f"there is no '{parts[0]}' in FROM",
                help=did_you_mean(parts[0], aliases, "aliases"),
            ).at(span_of(column))
        name = parts[-1]
        if self.grouped:
            return not_grouped(name, column)
        if name.lower() == "ts" and self.relations:
            return Diagnostic(
                "NO_TIMESTAMP",
                "TS can be read from streams and views only",
                help="select it where the stream is named: (SELECT TS AS t, … FROM S)",
            ).at(span_of(column))
        if name.lower() == "now":
            return Diagnostic(
                "NOW_CONDITION",
                "NOW can stand in conditions of WHERE only",
                help="WHERE TS <= NOW AND NOW < TS + 5",
            ).at(span_of(column))
        names = [f.name for r in self.relations for f in r.fields if not f.hidden]
        return Diagnostic(
            "UNKNOWN_COLUMN", f"there is no column '{name}'", help=did_you_mean(name, names, "columns")
        ).at(span_of(column))

    def time_columns(self) -> list[int]:
        return [r.time for r in self.relations if r.time is not None]


def _fields(column: exp.Expression, path: list[str]) -> exp.Expression:
    for name in path:
        column = exp.Dot(this=column, expression=exp.to_identifier(name))
    return column


def not_grouped(name: str, column: exp.Expression) -> Diagnostic:
    return Diagnostic(
        "NOT_GROUPED",
        f"'{name}' is neither grouped nor aggregated",
        help="add it to GROUP BY, or aggregate it, as in MAX(…)",
    ).at(span_of(column))
