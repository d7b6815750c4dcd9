"""Files in FROM without a definition: `'bids.parquet' ORDERED BY t`, `csv('bids') VALID (a, b) WITH (separator = ';')`.

Without ORDERED BY or VALID they are tables, valid at every instant. Columns are those that the files have.
"""

from __future__ import annotations

import os
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

FORMATS = {
    ".csv": "csv", ".tsv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".parquet": "parquet",
    ".pq": "parquet", ".avro": "avro",
}  # fmt: skip
_PACKED = (".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate")


class FileReference(exp.Table):
    """A file in FROM; `source` is the call that reads it."""

    arg_types: ClassVar[dict[str, bool]] = {
        **exp.Table.arg_types, "source": True, "ordered_by": False, "valid": False, "batch": False, "options": False,
    }  # fmt: skip


def parse_file(parser: Any, joins: bool) -> FileReference | None:
    """A file as an item of FROM, with its times, options, window and alias."""
    found = _file(parser)
    if found is None:
        return None
    for part, value in parser._parse_times().items():
        found.set(part, value)
    found.set("options", [*(found.args.get("options") or []), *(parser._parse_options() or [])] or None)
    alias = parser._parse_table_alias()
    if alias:
        found.set("alias", alias)
    for join in parser._parse_joins() if joins else ():
        found.append("joins", join)
    return found


def parse_described(parser: Any) -> FileReference | None:
    """A file after DESCRIBE."""
    return _file(parser)


def _file(parser: Any) -> FileReference | None:
    token = parser._curr
    if token is None:
        return None
    if token.token_type == TokenType.STRING:
        parser._advance()
        return _reference(parser, token, _format_of(parser, token), token)
    call = [t.token_type for t in parser._tokens[parser._index + 1 : parser._index + 3]]
    if token.text.lower() in FORMATS.values() and call == [TokenType.L_PAREN, TokenType.STRING]:
        path = parser._tokens[parser._index + 2]
        parser._advance(3)
        if not parser._match(TokenType.R_PAREN):
            parser._stop(f"expected ){parser._but_found()}", *parser._here())
        return _reference(parser, token, token.text.lower(), path)
    return None


def _reference(parser: Any, first: Any, format_: str, path: Any) -> FileReference:
    name = exp.to_identifier(_stem(path.text), quoted=True)
    place = exp.Literal.string(path.text)
    function = exp.to_identifier(format_)
    for node in (name, place, function):
        node.meta.update(start=first.start, end=parser._prev.end)
    reference = FileReference(this=name, source=exp.Anonymous(this=function, expressions=[place]))
    if _plain(path.text).endswith(".tsv"):
        separator = exp.EQ(this=exp.to_identifier("separator"), expression=exp.Literal.string("\t"))
        reference.set("options", [separator])
    return reference


def _format_of(parser: Any, token: Any) -> str:
    found = format_of(token.text)
    if found is None:
        parser._stop(
            f"nobody can tell what kind of file '{token.text}' is",
            token.start,
            token.end + 1,
            f"say it: FROM csv('{token.text}'), json('{token.text}') or parquet('{token.text}')",
            "UNKNOWN_FORMAT",
        )
    assert found is not None
    return found


def format_of(path: str) -> str | None:
    """The source that reads a file of this name, if its ending tells.

    >>> format_of("in/a.CSV.gz"), format_of("a.jsonl"), format_of("a.txt")
    ('csv', 'json', None)
    """
    return FORMATS.get(os.path.splitext(_plain(path))[1])


def _plain(path: str) -> str:
    """A path in lower case without the ending that says how it is compressed."""
    lowered = path.lower()
    return os.path.splitext(lowered)[0] if lowered.endswith(_PACKED) else lowered


def _stem(path: str) -> str:
    """What a file is called in the query where nobody says it.

    >>> _stem("in/bids.csv.gz"), _stem("in/2026/*.parquet"), _stem("in/")
    ('bids', '*', 'in')
    """
    name = os.path.basename(path.rstrip("/")) or path
    for _ in range(2):
        stem, ending = os.path.splitext(name)
        name = stem if ending.lower() in (*FORMATS, *_PACKED) else name
    return name


def file_sql(generator: Any, node: FileReference) -> str:
    """The reference as it can be written, whatever way it was."""
    source = node.args["source"]
    parts = [f"{source.name.lower()}({', '.join(generator.sql(a) for a in source.expressions)})"]
    if node.args.get("ordered_by"):
        parts.append(f"ORDERED BY {generator.sql(node, 'ordered_by')}")
    if node.args.get("batch"):
        parts.append(f"BATCH {generator.sql(node, 'batch')}")
    if node.args.get("valid"):
        parts.append(f"VALID ({', '.join(generator.sql(c) for c in node.args['valid'])})")
    if node.args.get("options"):
        parts.append(f"WITH ({', '.join(generator.sql(o) for o in node.args['options'])})")
    alias = f" AS {generator.sql(node, 'alias')}" if node.args.get("alias") else ""
    joins = "".join(generator.sql(j) for j in node.args.get("joins") or [])
    return f"{' '.join(parts)}{alias}{joins}"
