"""`QUARANTINE(Bid)` in FROM: the rows that a stream or table has refused, as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlglot import exp
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

from tidegate.errors import Diagnostic, did_you_mean
from tidegate.language.catalog import Catalog, SourceCall, StreamDefinition
from tidegate.scalars.expressions import span_of
from tidegate.types import BIGINT, STRING, Field

WORD = "QUARANTINE"

COLUMNS = (
    Field("run", STRING), Field("epoch", BIGINT), Field("reason", STRING), Field("raw", STRING), Field("file", STRING),
    Field("position", BIGINT),
)  # fmt: skip


class QuarantineReference(exp.Table):
    """A quarantine in FROM; `this` is the name of the stream."""


@dataclass(frozen=True)
class QuarantineDefinition(StreamDefinition):
    """The table of what a stream has refused."""

    stream: str = ""


def parse_quarantine(parser: Any, joins: bool) -> QuarantineReference | None:
    """`QUARANTINE(name)` as an item of FROM, with its alias."""
    tokens = parser._tokens[parser._index : parser._index + 2]
    if len(tokens) < 2 or tokens[0].text.upper() != WORD or tokens[1].token_type != TokenType.L_PAREN:
        return None
    if tokens[0].token_type == TokenType.IDENTIFIER:  # in quotes it is a name
        return None
    parser._advance(2)
    found = QuarantineReference(this=parser._expect_name("a stream"))
    if not parser._match(TokenType.R_PAREN):
        parser._stop(f"expected ){parser._but_found()}", *parser._here())
    alias = parser._parse_table_alias()
    if alias:
        found.set("alias", alias)
    for join in parser._parse_joins() if joins else ():
        found.append("joins", join)
    return found


def quarantine_sql(generator: Any, node: QuarantineReference) -> str:
    alias = f" AS {generator.sql(node, 'alias')}" if node.args.get("alias") else ""
    joins = "".join(generator.sql(j) for j in node.args.get("joins") or [])
    return f"{WORD}({generator.sql(node, 'this')}){alias}{joins}"


def with_quarantines(query: exp.Expression, catalog: Catalog) -> Catalog:
    """The catalog with the quarantines that a query and the views beneath it name."""
    for reference in query.find_all(QuarantineReference):
        definition = quarantine_of(reference, catalog)
        catalog = catalog.with_definition(definition, or_replace=True)
    return catalog


def quarantine_of(reference: QuarantineReference, catalog: Catalog) -> QuarantineDefinition:
    """What `QUARANTINE(name)` stands for; the name must be that of something that has a source."""
    name = reference.name
    found = catalog.find(name)
    if not isinstance(found, StreamDefinition) or found.is_system:
        sources = [d.name for d in catalog.named if isinstance(d, StreamDefinition)]
        reads = f"'{name}' reads no source, so it refuses nothing" if found is not None else None
        raise Diagnostic(
            "UNKNOWN_STREAM",
            reads or f"there is no stream or table '{name}'",
            help=did_you_mean(name, sources, "streams"),
        ).at(span_of(reference.this))
    title = f"{WORD}({found.name})"
    return QuarantineDefinition(
        title, COLUMNS, SourceCall("memory", (title,)), table=True, unnamed=True, stream=found.name
    )
