"""Avro messages: with one schema that is given, or, in Confluent's wire format, with the schema that a registry has for each.

Confluent's format is a byte 0, the schema's number in four bytes, and the record; `GET <registry>/schemas/ids/<number>` gives the schema.
"""

from __future__ import annotations

import io
import json
import urllib.error
import urllib.request
from typing import Any

from tidegate.connectors.messages import UNREADABLE, Decoder, NoRowError, cell
from tidegate.connectors.protocol import SourceAwayError
from tidegate.errors import Diagnostic
from tidegate.types import Schema

_SECONDS = 10


def avro_decoder(columns: Schema, schema: str | None, registry: str | None) -> Decoder:
    """Records whose fields are the columns."""
    try:
        from fastavro import parse_schema, schemaless_reader
    except ImportError:
        raise Diagnostic(
            "PACKAGE_MISSING", "Avro needs the package fastavro", help="pip install 'tidegate[avro]'"
        ) from None
    if (schema is None) == (registry is None):
        raise Diagnostic(
            "WRONG_ARGUMENTS",
            "Avro messages are read with one schema, or with those of a registry",
            help="WITH (format = 'avro', schema = '{…}'), or WITH (format = 'avro', registry = 'http://…')",
        )
    known: dict[int, Any] = {}
    if schema is not None:
        try:
            known[-1] = parse_schema(json.loads(schema))
        except Exception as problem:
            raise Diagnostic("INVALID_OPTION", f"'schema' is no Avro schema: {problem}") from None

    def single(value: bytes) -> tuple[Any, ...] | None:
        number, start = -1, 0
        if registry is not None:
            if len(value) < 5 or value[0] != 0:
                raise NoRowError("the message is not in the format of the schema registry")
            number, start = int.from_bytes(value[1:5], "big"), 5
            if number not in known:
                known[number] = parse_schema(_fetched(registry, number))
        stream = io.BytesIO(value[start:])
        try:
            found = schemaless_reader(stream, known[number], None)
        except Exception:
            raise NoRowError(UNREADABLE) from None
        if not isinstance(found, dict) or stream.read(1):
            raise NoRowError(UNREADABLE)
        return tuple(cell(found.get(c.name), c) for c in columns)

    return Decoder(columns, single)


def _fetched(registry: str, number: int) -> Any:
    try:
        with urllib.request.urlopen(
            f"{registry.rstrip('/')}/schemas/ids/{number}", timeout=_SECONDS
        ) as found:
            return json.loads(json.load(found)["schema"])
    except urllib.error.HTTPError as problem:
        if problem.code == 404:
            raise NoRowError(f"the registry has no schema of that number: {number}") from None
        raise SourceAwayError(f"the schema registry answers {problem.code}") from None
    except (OSError, ValueError, KeyError) as problem:
        raise SourceAwayError(f"the schema registry cannot be asked: {type(problem).__name__}") from None
