"""Definitions as statements: CREATE, REGISTER and DROP, checked before anything is registered."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from tidegate.errors import Diagnostic, did_you_mean, foreign
from tidegate.language import syntax
from tidegate.language.base_definitions import base_definition
from tidegate.language.binder import bind
from tidegate.language.blocks import Ask
from tidegate.language.catalog import Catalog, StreamDefinition, ViewDefinition
from tidegate.language.file_binding import with_files
from tidegate.scalars.expressions import span_of


def define(statement: exp.Expression, catalog: Catalog, text: str, ask: Ask | None = None) -> Catalog:
    """The catalog after a definition; the old one stays as it was if the statement is wrong."""
    try:
        if isinstance(statement, syntax.CreateBase):
            definition = base_definition(statement, catalog)
            replacing = bool(statement.args["replace"])
            after = _placed(lambda: catalog.with_definition(definition, replacing), statement)
            if replacing:
                _check_dependents(statement, after, ask)
            return after
        if isinstance(statement, syntax.CreateView):
            return _view(statement, catalog, text, ask)
        assert isinstance(statement, syntax.DropDefinition)
        return _drop(statement, catalog)
    except Diagnostic as diagnostic:
        raise diagnostic.at(span_of(statement.this)).locate(text) from None
    except Exception as problem:
        raise foreign(problem).at(span_of(statement.this)).locate(text) from problem


def _placed(register: Callable[[], Catalog], statement: exp.Expression) -> Catalog:
    try:
        return register()
    except Diagnostic as diagnostic:
        raise diagnostic.at(span_of(statement.this)) from None


def _view(statement: syntax.CreateView, catalog: Catalog, text: str, ask: Ask | None) -> Catalog:
    columns = tuple(c.name for c in statement.args.get("columns") or ())
    query, catalog = with_files(statement.args["query"], catalog)
    view = ViewDefinition(statement.this.name, query, text, columns)
    bound = bind(view.query, catalog, text, ask)
    names = [f.name for f in bound.plan.schema if not f.hidden]
    if columns and len(columns) != len(names):
        raise Diagnostic("COLUMN_COUNT", f"{len(columns)} names for {len(names)} columns").at(
            span_of(statement.this)
        )
    seen: set[str] = set()
    for name in columns or names:
        if name.lower() in seen:
            raise Diagnostic(
                "DUPLICATE_COLUMN",
                f"the view would have two columns '{name}'",
                help="name one of them with AS",
            ).at(span_of(statement.this))
        seen.add(name.lower())
    replacing = bool(statement.args.get("replace"))
    after = _placed(lambda: catalog.with_definition(view, replacing), statement)
    if replacing:  # a view must not come to stand on itself
        bind(_everything(view.name), after, text, ask)
        _check_dependents(statement, after, ask)
    return after


def _everything(name: str) -> exp.Expression:
    table = exp.Table(this=exp.to_identifier(name, quoted=True))
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=table))


def _check_dependents(statement: exp.Expression, after: Catalog, ask: Ask | None) -> None:
    """No view may be left that has lost its meaning."""
    for other in after.definitions.values():
        if isinstance(other, ViewDefinition):
            try:
                bind(_everything(other.name), after, other.text, ask)
            except Diagnostic as diagnostic:
                raise Diagnostic(
                    "IN_USE",
                    f"view '{other.name}' would lose its meaning: {diagnostic.message}",
                    help=f"DROP VIEW {other.name} first",
                ).at(span_of(statement.this)) from None


def _drop(statement: syntax.DropDefinition, catalog: Catalog) -> Catalog:
    name = statement.this.name
    if catalog.find(name) is None:
        if statement.args.get("exists"):
            return catalog
        raise Diagnostic(
            "UNKNOWN_STREAM", f"there is no '{name}'", help=did_you_mean(name, catalog.names, "streams")
        ).at(span_of(statement.this))
    found, kind = catalog.find(name), statement.args["kind"]
    if isinstance(found, StreamDefinition):
        kinds: tuple[str, ...] = ("TABLE",) if found.table else ("STREAM", "SOURCE")
    else:
        kinds = ("VIEW", "STREAM")
    if kind not in kinds:
        raise Diagnostic(
            "WRONG_KIND", f"'{name}' is not a {kind.lower()}", help=f"DROP {kinds[0]} {name}"
        ).at(span_of(statement.this))
    for other in catalog.definitions.values():
        if isinstance(other, ViewDefinition) and other.name.lower() != name.lower() and any(
            t.name.lower() == name.lower() for t in other.query.find_all(exp.Table)
        ):  # fmt: skip
            raise Diagnostic(
                "IN_USE", f"'{other.name}' is defined by '{name}'", help=f"DROP VIEW {other.name} first"
            ).at(span_of(statement.this))
    return catalog.without(name)
