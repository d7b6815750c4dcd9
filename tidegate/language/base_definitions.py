"""Streams and tables over sources: their columns, times and options, checked before anything is registered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

from sqlglot import exp

from tidegate import time
from tidegate.errors import Diagnostic, did_you_mean
from tidegate.language import syntax
from tidegate.language.catalog import Catalog, SourceCall, StreamDefinition
from tidegate.language.quality import with_quality
from tidegate.language.signatures import (
    ROW_OPTIONS,
    STREAM_OPTIONS,
    Connector,
    Option,
    SelfDescribing,
    Signature,
    parse_period,
)
from tidegate.policy import Policy
from tidegate.redaction import learn
from tidegate.scalars.expressions import span_of
from tidegate.scalars.typing import type_from_sql
from tidegate.types import BOOLEAN, TIMESTAMP, TIMESTAMP_NTZ, Field, Schema


def base_definition(statement: syntax.CreateBase, catalog: Catalog) -> StreamDefinition:
    """What `CREATE STREAM | TABLE` or `REGISTER SOURCE` defines; where it declares no columns, they are the source's."""
    name, columns = statement.this.name, _declared_columns(statement)
    table = statement.args["kind"] == "TABLE"
    said = statement.args.get("options") or []
    common = ROW_OPTIONS if table else (*STREAM_OPTIONS, *ROW_OPTIONS)
    source = read_call(statement.args["source"], said, catalog, "source", common)
    options = source.option
    own = {o.name: options.pop(o.name) for o in common if o.name in options}
    source = replace(source, options=tuple(options.items()))
    stops = own.get("on_error") == "stop"
    unnamed = bool(statement.args.get("unnamed"))
    definition = StreamDefinition(name, columns, source, table=table, stops=stops, unnamed=unnamed)
    if statement.args.get("columns") is None:
        with _placing(statement.args["source"]):
            definition = replace(definition, columns=_inferred_columns(definition))
    ordered_by, valid = statement.args.get("ordered_by"), statement.args.get("valid")
    batch = statement.args.get("batch")
    if definition.table and (ordered_by is not None or valid is not None):
        what = ordered_by if ordered_by is not None else statement.args["valid"][0]
        raise Diagnostic(
            "TABLE_WITH_TIME",
            "a table is valid at every instant and has no order",
            help="CREATE STREAM instead",
        ).at(span_of(what))
    if ordered_by is not None:
        inferred = statement.args.get("columns") is None
        column = _time_column(ordered_by, definition.columns, inferred)
        definition = replace(definition, ordered_by=column.name)
        if batch is not None:
            definition = replace(definition, batch=_batch_column(batch, definition).name)
    if valid is not None:
        if len(valid) != 2:
            raise Diagnostic("SYNTAX_ERROR", "VALID takes two columns: from and to").at(span_of(valid[0]))
        first, last = (_time_column(v, definition.columns) for v in valid)
        if (first.type in (TIMESTAMP, TIMESTAMP_NTZ)) != (last.type in (TIMESTAMP, TIMESTAMP_NTZ)):
            raise Diagnostic("TIME_DOMAIN", "both ends of a validity have the same type").at(
                span_of(valid[1])
            )
        definition = replace(definition, valid=(first.name, last.name))
    definition = _with_times(
        definition, own, {o.this.name.lower().replace("_", ""): span_of(o) for o in said}
    )
    return with_quality(definition, statement)


def _declared_columns(statement: syntax.CreateBase) -> Schema:
    columns: list[Field] = []
    for column in statement.args.get("columns") or ():
        if column.name.lower() in [c.name.lower() for c in columns]:
            raise Diagnostic("DUPLICATE_COLUMN", f"column '{column.name}' is declared twice").at(
                span_of(column.this)
            )
        try:
            kind = type_from_sql(column.args["kind"])
        except Diagnostic as diagnostic:
            raise diagnostic.at(span_of(column.this)) from None
        required = bool(column.args.get("constraints"))
        columns.append(Field(column.name, kind, nullable=not required))
    return tuple(columns)


def _inferred_columns(definition: StreamDefinition) -> Schema:
    """The columns that a source says it has."""
    connector = definition.source.connector
    if not isinstance(connector, SelfDescribing):
        raise Diagnostic(
            "COLUMNS_UNKNOWN",
            f"nobody knows the columns of {definition.source.function}(…) before its rows come",
            help=f"declare them: CREATE STREAM {definition.name}(column TYPE, …) SOURCE {definition.source.function}(…) …",
        )
    columns = connector.columns(definition)
    lowered = [c.name.lower() for c in columns]
    if twice := next((c.name for c in columns if lowered.count(c.name.lower()) > 1), None):
        raise Diagnostic(
            "DUPLICATE_COLUMN", f"the source of '{definition.name}' has the column '{twice}' twice"
        )
    return columns


def _with_times(
    definition: StreamDefinition, own: Mapping[str, str], places: Mapping[str, tuple[int, int] | None]
) -> StreamDefinition:
    """The definition with what its options say about time."""
    timestamps = definition.time_type == TIMESTAMP
    readers: dict[str, Callable[[str], int | str]] = {
        "slack": lambda text: parse_period(text, timestamps),
        "idle": lambda text: parse_period(text, True),
        "ahead": lambda text: _ahead(text, definition),
        "latest": lambda text: _latest(text, timestamps),
        "watermark": lambda text: _behind(text, own, definition),
        "heartbeats": lambda text: _beats(text, definition),
    }
    fields = {"watermark": "behind", "heartbeats": "beats"}
    found: dict[str, Any] = {}
    for option, read in readers.items():
        if option in own:
            try:
                found[fields.get(option, option)] = read(own[option])
            except Diagnostic as diagnostic:
                raise diagnostic.at(places[option]) from None
    return replace(definition, **found)


def _behind(text: str, own: Mapping[str, str], definition: StreamDefinition) -> int:
    """How far behind the clock a promise is."""
    clock, minus, period = (part.strip() for part in text.partition("-"))
    if clock.lower() != "clock" or bool(minus) != bool(period):
        raise Diagnostic(
            "INVALID_OPTION", f"'{text}' is no promise", help="say 'clock', or 'clock - 5 seconds'"
        )
    if definition.time_type != TIMESTAMP:
        raise Diagnostic("TIME_DOMAIN", "no clock tells which integer a stream has reached")
    if "slack" in own:
        raise Diagnostic(
            "INVALID_OPTION",
            "a stream promises by its newest row less the slack, or by the clock",
            help="say one of slack and watermark",
        )
    return parse_period(period, True) if period else 0


def _beats(text: str, definition: StreamDefinition) -> str:
    """The column that marks heartbeats; empty: rows without values are."""
    if text.lower() == "empty rows":
        return ""
    flags = [c.name for c in definition.payload if c.type == BOOLEAN]
    if text.lower() not in map(str.lower, flags):
        raise Diagnostic(
            "INVALID_OPTION",
            f"'{text}' is no BOOLEAN column of '{definition.name}'",
            help=did_you_mean(text, [*flags, "empty rows"], "choices"),
        )
    return next(f for f in flags if f.lower() == text.lower())


def _ahead(text: str, definition: StreamDefinition) -> int:
    if definition.time_type != TIMESTAMP:
        raise Diagnostic(
            "TIME_DOMAIN",
            "no clock tells which integer is ahead of it",
            help="say the last instant at which a row may be: latest = 1000000",
        )
    return parse_period(text, True)


def _latest(text: str, timestamps: bool) -> int:
    try:
        return time.to_ticks(datetime.fromisoformat(text)) if timestamps else int(text)
    except ValueError:
        expected = "a TIMESTAMP, as '2030-12-31 23:59:59'" if timestamps else "a whole number"
        raise Diagnostic(
            "INVALID_OPTION", f"'{text}' is no instant of the stream", help=f"give {expected}"
        ) from None


def _declared(identifier: exp.Expression, columns: Schema) -> Field:
    found = [c for c in columns if c.name.lower() == identifier.name.lower()]
    if not found:
        raise Diagnostic(
            "UNKNOWN_COLUMN",
            f"there is no column '{identifier.name}'",
            help=did_you_mean(identifier.name, [c.name for c in columns], "columns"),
        ).at(span_of(identifier))
    return found[0]


def _time_column(identifier: exp.Expression, columns: Schema, inferred: bool = False) -> Field:
    found = _declared(identifier, columns)
    if found.type not in (TIMESTAMP, TIMESTAMP_NTZ) and not found.type.is_integral:
        advice = (
            "declare the columns, or say how times are written: WITH (timestamp_format = 'dd.MM.yyyy HH:mm')"
        )
        raise Diagnostic(
            "TIME_DOMAIN",
            f"time is a TIMESTAMP or an integer; '{found.name}' is {found.type}",
            help=advice if inferred else None,
        ).at(span_of(identifier))
    return found


def _batch_column(identifier: exp.Expression, definition: StreamDefinition) -> Field:
    found = _declared(identifier, definition.columns)
    if not found.type.is_integral or found.name == definition.ordered_by:
        problem = "that orders instants already" if found.type.is_integral else f"not {found.type}"
        raise Diagnostic(
            "BATCH_COLUMN",
            f"a batch is an integer column of its own: '{found.name}' is {problem}",
            help=f"number the batches of an instant from 0 to {time.BATCHES - 1}",
        ).at(span_of(identifier))
    return found


def check_times(
    columns: Schema, ordered_by: str | None, valid: tuple[str, str] | None, batch: str | None
) -> None:
    """Whether the columns that say when rows are there, and can be times, for rows that the program hands in."""
    for column in [c for c in (ordered_by, *(valid or ()), batch) if c is not None]:
        found = _declared(exp.to_identifier(column, quoted=True), columns)
        if not (found.type.is_integral or (column != batch and found.type.name.startswith("TIMESTAMP"))):
            raise Diagnostic("TIME_DOMAIN", f"time is a TIMESTAMP or an integer; '{column}' is {found.type}")


def read_call(
    call: exp.Expression,
    options: list[exp.Expression] | None,
    catalog: Catalog,
    what: Literal["source", "sink"],
    common: tuple[Option, ...] = (),
) -> SourceCall:
    """`function(argument, …) WITH (option = value, …)`, checked against the policy and the signature of a source or sink."""
    name = call.name.lower()
    known = catalog.sources if what == "source" else catalog.sinks
    # What a policy does not name is not looked for: looking imports installed packages.
    with _placing(call.this):
        catalog.policy.check_connector(what, name)
    connector = known.get(name)
    if connector is None:
        raise Diagnostic(
            f"UNKNOWN_{what.upper()}",
            f"there is no {what} '{call.name}'",
            help=did_you_mean(call.name, list(known), f"{what}s"),
        ).at(span_of(call.this))
    arguments = tuple(_expanded(a, catalog.policy) for a in call.expressions)
    with _placing(call):
        connector.signature.check_arguments(arguments)
    for parameter, value, node in zip(
        connector.signature.parameters, arguments, call.expressions, strict=False
    ):
        with _placing(node):
            catalog.policy.check_value(what, name, parameter.name, value)
    signature = replace(connector.signature, options=(*connector.signature.options, *common))
    given = _options(options or [], signature, catalog.policy)
    for node in options or []:
        option = signature.known(node.this.name)
        with _placing(node):
            catalog.policy.check_value(what, name, option.name, dict(given)[option.name])
    return SourceCall(name, arguments, given, connector, catalog.policy)


def check_call(
    call: SourceCall, what: Literal["source", "sink"], connector: Connector, policy: Policy
) -> None:
    """Whether a call passes a policy at the moment of its use: links may have come since it was written."""
    policy.check_connector(what, call.function)
    named = zip((p.name for p in connector.signature.parameters), call.arguments, strict=False)
    for name, value in (*named, *call.options):
        policy.check_value(what, call.function, name, value)


@contextmanager
def _placing(node: exp.Expression) -> Iterator[None]:
    try:
        yield
    except Diagnostic as diagnostic:
        raise diagnostic.at(span_of(node)) from None


def _options(
    nodes: list[exp.Expression], signature: Signature, policy: Policy
) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    for node in nodes:
        value = _expanded(node.expression, policy)
        learn(node.this.name, value)
        try:
            option = signature.known(node.this.name)
            if option.name in found:
                raise Diagnostic("DUPLICATE_OPTION", f"'{option.name}' is given twice")
            found[option.name] = option.read(value)
        except Diagnostic as diagnostic:
            raise diagnostic.at(span_of(node)) from None
    return tuple(sorted(found.items()))


def _expanded(node: exp.Expression, policy: Policy) -> object:
    """A constant, with values of the environment where it names them."""
    with _placing(node):
        return policy.expanded(_constant(node))


def _constant(node: exp.Expression) -> object:
    if isinstance(node, exp.Literal):
        return node.this if node.is_string else (int(node.this) if node.this.isdigit() else float(node.this))
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        value = _constant(node.this)
        return -value if isinstance(value, (int, float)) else value
    raise Diagnostic("WRONG_ARGUMENTS", "a constant is needed here").at(span_of(node))
