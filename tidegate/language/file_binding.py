"""Files in FROM become definitions of their own, so that all that follows knows streams and tables only."""

from __future__ import annotations

from sqlglot import exp

from tidegate.errors import Diagnostic
from tidegate.language import syntax
from tidegate.language.base_definitions import base_definition
from tidegate.language.catalog import Catalog, StreamDefinition
from tidegate.language.file_items import FileReference
from tidegate.language.generation import StreamGenerator
from tidegate.language.quarantine_items import with_quarantines
from tidegate.scalars.expressions import span_of


def with_files(query: exp.Expression, catalog: Catalog) -> tuple[exp.Expression, Catalog]:
    """The query over names only, and the catalog in which they stand for its files and quarantines."""
    catalog = with_quarantines(query, catalog)
    if query.find(FileReference) is None:
        return query, catalog
    query = query.copy()
    for reference in [*query.find_all(FileReference)]:
        definition = file_definition(reference, catalog)
        catalog = catalog.with_definition(definition, or_replace=True)
        table = _named(reference, definition.name)
        if reference is query:
            query = table
        else:
            reference.replace(table)
    return query, catalog


def file_definition(reference: FileReference, catalog: Catalog) -> StreamDefinition:
    """What a file in FROM stands for; one that was looked at before keeps its columns."""
    bare = reference.copy()
    bare.set("alias", None)
    bare.set("joins", None)
    name = exp.to_identifier(StreamGenerator().generate(bare), quoted=True)
    name.meta.update(reference.this.meta)
    known = catalog.find(name.name)
    if isinstance(known, StreamDefinition):
        return known
    times = {k: v for k in ("ordered_by", "valid", "batch") if (v := bare.args.get(k)) is not None}
    statement = syntax.CreateBase(
        kind="STREAM" if times else "TABLE", this=name, source=bare.args["source"],
        options=bare.args.get("options"), unnamed=True, **times,
    )  # fmt: skip
    try:
        return base_definition(statement, catalog)
    except Diagnostic as diagnostic:
        raise diagnostic.at(span_of(reference.this)) from None


def _named(reference: FileReference, name: str) -> exp.Table:
    identifier = exp.to_identifier(name, quoted=True)
    identifier.meta.update(reference.this.meta)
    alias = reference.args.get("alias") or exp.TableAlias()
    if alias.this is None:
        alias.set("this", reference.this.copy())
    return exp.Table(
        this=identifier, alias=alias.copy(), joins=[j.copy() for j in reference.args.get("joins") or []]
    )
