"""Connections to PostgreSQL, its tables and types, as the source and the sink share them.

Values travel as PostgreSQL's texts in both directions, so that what a snapshot says and what the log says is read by one rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

from tidegate.connectors.debezium import decimal_of
from tidegate.connectors.protocol import SourceAwayError
from tidegate.errors import Diagnostic
from tidegate.redaction import masked
from tidegate.types import BIGINT, BOOLEAN, DATE, INT, STRING, TIMESTAMP, TIMESTAMP_NTZ, Type, Value

SETTINGS = (
    "-c timezone=UTC -c datestyle=ISO -c intervalstyle=postgres -c extra_float_digits=1 -c bytea_output=hex"
)
"""How a session writes values, whatever the server's defaults are."""

_TYPES = {
    "int2": Type("SMALLINT"), "int4": INT, "int8": BIGINT, "oid": BIGINT, "float4": Type("FLOAT"), "float8": Type("DOUBLE"),
    "bool": BOOLEAN, "date": DATE, "timestamp": TIMESTAMP_NTZ, "timestamptz": TIMESTAMP, "bytea": Type("BINARY"),
}  # fmt: skip
_MADE = {
    "TINYINT": "smallint", "SMALLINT": "smallint", "INT": "integer", "BIGINT": "bigint", "FLOAT": "real", "DOUBLE": "double precision",
    "STRING": "text", "BOOLEAN": "boolean", "DATE": "date", "TIMESTAMP": "timestamptz", "TIMESTAMP_NTZ": "timestamp", "BINARY": "bytea",
}  # fmt: skip


def driver() -> Any:
    """psycopg2, if it is installed."""
    try:
        import psycopg2
        import psycopg2.extras
    except ModuleNotFoundError:
        raise Diagnostic(
            "PACKAGE_MISSING",
            "psycopg2 is not installed: it speaks to PostgreSQL",
            help="pip install 'tidegate[postgres]'",
        ) from None
    return psycopg2


@dataclass(frozen=True)
class Place:
    """A table in a database."""

    dsn: str = field(repr=False)
    schema: str
    table: str

    @classmethod
    def of(cls, dsn: str, table: str) -> Place:
        """`table` may name its schema; both are taken as they are written.

        >>> Place.of("dbname=shop", "sales.orders").schema, Place.of("dbname=shop", "orders").schema
        ('sales', 'public')
        """
        schema, _, name = table.rpartition(".")
        return cls(dsn, schema or "public", name)

    @property
    def name(self) -> str:
        return f"{self.schema}.{self.table}"

    @property
    def quoted(self) -> str:
        return f"{identifier(self.schema)}.{identifier(self.table)}"

    @property
    def where(self) -> str:
        """The database, in words for people and without secrets."""
        given = self._parameters()
        known = ((n, given.get(n)) for n in ("dbname", "host", "port"))
        return " ".join(f"{n}={v}" for n, v in known if v) or "the default database"

    def _parameters(self) -> dict[str, str]:
        try:
            found: dict[str, str] = driver().extensions.parse_dsn(self.dsn)
        except driver().ProgrammingError as problem:
            raise Diagnostic(
                "WRONG_ARGUMENTS",
                f"this says no database: {masked(str(problem).strip())}",
                help="postgres('host=… dbname=… user=…', 'schema.table'), or a URI postgresql://…",
            ) from None
        return found

    @contextmanager
    def session(self) -> Iterator[Any]:
        """A cursor of one transaction, which counts if nothing is raised; a server that is away is told as such."""
        connection = self.connection()
        try:
            with connection, connection.cursor() as cursor:
                yield cursor
        except (driver().OperationalError, driver().InterfaceError) as problem:
            raise self.away(problem) from problem
        finally:
            with suppress(Exception):
                connection.close()

    def connection(self, **more: Any) -> Any:
        """A connection, or `SourceAwayError`."""
        given = self._parameters()
        options = f"{given.pop('options', '')} {SETTINGS}".strip()
        given.setdefault("application_name", "tidegate")
        given.setdefault("connect_timeout", "10")
        try:
            return driver().connect(**given, options=options, **more)
        except driver().OperationalError as problem:
            raise self.away(problem) from problem

    def away(self, problem: Exception) -> SourceAwayError:
        lines = str(problem).strip().splitlines() or [type(problem).__name__]
        return SourceAwayError(masked(f"PostgreSQL ({self.where}): {lines[0]}"))


def identifier(name: str) -> str:
    """A name as PostgreSQL's SQL quotes it."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class Attribute:
    """A column of a table: its name, the name of its type, and that as SQL writes it."""

    name: str
    type: str
    written: str
    key: bool

    @property
    def own(self) -> Type:
        """The type that holds all its values: a text where there is none."""
        if self.type == "numeric" and (found := re.fullmatch(r"numeric\((\d+),(\d+)\)", self.written)):
            precision, scale = int(found[1]), int(found[2])
            if precision <= 38 and scale <= precision:
                return Type("DECIMAL", (precision, scale))
        return _TYPES.get(self.type, STRING)


_ATTRIBUTES = """
SELECT a.attname, t.typname, format_type(a.atttypid, a.atttypmod),
       coalesce(a.attnum = ANY (i.indkey), false), c.relkind, c.relreplident
FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
     JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
WHERE s.nspname = %s AND c.relname = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""


def attributes(cursor: Any, place: Place) -> tuple[Attribute, ...] | None:
    """The columns of a table; None: there is no such table."""
    cursor.execute(_ATTRIBUTES, (place.schema, place.table))
    found = cursor.fetchall()
    if found and found[0][4] == "p":
        raise Diagnostic(
            "SOURCE_UNSUITED",
            f"'{place.name}' is partitioned: its changes are those of its partitions",
            help="read each partition, and unite the streams",
        )
    return tuple(Attribute(n, t, w, k) for n, t, w, k, _, _ in found) or None


def missing(cursor: Any, place: Place) -> Diagnostic:
    """What to say where there is no such table."""
    cursor.execute(
        "SELECT schemaname || '.' || tablename FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema') "
        "ORDER BY 1 LIMIT 10"
    )
    known = ", ".join(name for (name,) in cursor.fetchall()) or "none"
    return Diagnostic(
        "SOURCE_NOT_FOUND",
        f"there is no table '{place.name}' in PostgreSQL ({place.where})",
        help=f"tables: {known}; schemas and tables are written as they are, without regard to quotes",
    )


def made_type(type_: Type) -> str:
    """The type of a column that is made for a Tidegate type.

    >>> made_type(Type("DECIMAL", (10, 2))), made_type(STRING)
    ('numeric(10,2)', 'text')
    """
    if type_.name == "DECIMAL":
        return f"numeric({type_.params[0]},{type_.params[1]})"
    return _MADE.get(type_.name, "text")


def value_of(text: str | None, type_: Type) -> Value:
    """The value that PostgreSQL's text stands for; a ValueError where it is none of the type.

    >>> value_of("NaN", Type("DOUBLE")), value_of("2026-01-01 10:00:00+00", TIMESTAMP).hour, value_of("true", BOOLEAN)
    (nan, 10, True)
    """
    if text is None:
        return None
    if type_.name == "DECIMAL":
        return decimal_of(text, *type_.params)
    return _READERS.get(type_.name, str)(text)


def _boolean(text: str) -> bool:
    return {"true": True, "t": True, "false": False, "f": False}[text]


def _moment(text: str) -> datetime:
    """Without a zone it is UTC; years before Christ and infinity are no datetimes."""
    found = datetime.fromisoformat(text)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _bytes(text: str) -> bytes:
    if not text.startswith("\\x"):
        raise ValueError
    return bytes.fromhex(text[2:])


_READERS: dict[str, Callable[[str], Value]] = {
    "TINYINT": int, "SMALLINT": int, "INT": int, "BIGINT": int, "FLOAT": float, "DOUBLE": float, "BOOLEAN": _boolean,
    "DATE": date.fromisoformat, "TIMESTAMP": _moment, "TIMESTAMP_NTZ": lambda t: _moment(t).replace(tzinfo=None), "BINARY": _bytes,
}  # fmt: skip
