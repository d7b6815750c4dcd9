"""Which types values have that were written as texts: the narrowest one that reads all of them.

What a text is read as must be what Spark's cast makes of it later, so only texts are recognized that mean one thing: `007` and
`12/24/2026` stay texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from tidegate.errors import Diagnostic
from tidegate.scalars.casts import to_date, to_instant
from tidegate.scalars.date_patterns import parser
from tidegate.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    STRING,
    TIMESTAMP,
    Field,
    Schema,
    Type,
    array,
    decimal,
)

SAMPLE = 20_000
"""So many rows are looked at."""

_WHOLE = re.compile(r"-?(0|[1-9][0-9]*)")
_REAL = re.compile(r"-?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?|NaN")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?(Z|[+-][0-9]{2}:[0-9]{2})?)?"
)
_LONGEST = 38

Reader = Callable[[str], bool]


def type_of_texts(texts: Iterable[str], settings: Mapping[str, str] | None = None) -> Type:
    """The type of values that are all written as texts; `settings` may say how times are.

    >>> [str(type_of_texts(t)) for t in (["1", " 2"], ["1", "2.5"], ["007"], ["true"], ["99999999999999999999"], [])]
    ['BIGINT', 'DOUBLE', 'STRING', 'BOOLEAN', 'DECIMAL(38,0)', 'STRING']
    >>> [str(type_of_texts(t)) for t in (["2026-01-31"], ["2026-01-31", "2026-01-31 10:00"], ["2026-02-31"])]
    ['DATE', 'TIMESTAMP', 'STRING']
    """
    values = [text.strip() for text in texts]
    for type_, reads in _readers(settings or {}):
        if values and all(map(reads, values)):
            return type_
    return STRING


def strangers(
    texts: Sequence[str], settings: Mapping[str, str] | None = None
) -> tuple[Type, list[str]] | None:
    """The type that nearly all of these texts have, and the few that keep the column from it: one, or one in ten.

    >>> nearly, odd = strangers(["1", "2.5", "3", "broken"])
    >>> str(nearly), odd
    ('DOUBLE', ['broken'])
    >>> strangers(["a", "b", "1", "2"]), strangers(["1", "x"]), strangers([])
    (None, None, None)
    """
    few = max(1, len(texts) // 10) if len(texts) > 2 else 0
    found: list[tuple[Type, list[str]]] = []
    for type_, reads in _readers(settings or {}):
        odd = [*islice((text for text in texts if not reads(text.strip())), few + 1)]
        if len(odd) <= few and len(odd) < len(texts):
            found.append((type_, odd))
    return min(found, key=lambda f: len(f[1]), default=None)


def _readers(settings: Mapping[str, str]) -> tuple[tuple[Type, Reader], ...]:
    """Types, the narrowest first, and which texts they read."""
    return (
        (BOOLEAN, lambda text: text.lower() in ("true", "false")),
        (BIGINT, lambda text: _is_whole(text, 64)),
        (decimal(_LONGEST, 0), lambda text: _is_whole(text, None)),
        (DOUBLE, lambda text: _REAL.fullmatch(text) is not None),
        *_times(settings),
    )


def _is_whole(text: str, bits: int | None) -> bool:
    if not _WHOLE.fullmatch(text) or len(text.lstrip("-")) > _LONGEST:
        return False
    return bits is None or -(2 ** (bits - 1)) <= int(text) < 2 ** (bits - 1)


def _times(settings: Mapping[str, str]) -> tuple[tuple[Type, Reader], ...]:
    day: Reader = lambda text: _DAY.fullmatch(text) is not None and to_date(text) is not None  # noqa: E731
    moment: Reader = lambda text: _MOMENT.fullmatch(text) is not None and to_instant(text) is not None  # noqa: E731
    if "date_format" in settings:
        day = _by_pattern(settings["date_format"])
    if "timestamp_format" in settings:
        moment = _by_pattern(settings["timestamp_format"])
    return (DATE, day), (TIMESTAMP, moment)


def _by_pattern(pattern: str) -> Reader:
    try:
        read = parser(pattern)
    except Diagnostic:
        raise Diagnostic(
            "COLUMNS_UNKNOWN",
            f"nobody can tell before Spark reads them which values are written as '{pattern}'",
            help="declare the columns with their types",
        ) from None

    def reads(text: str) -> bool:
        try:
            read(text)
        except Diagnostic:
            return False
        return True

    return reads


def type_of_values(values: Iterable[Any], settings: Mapping[str, str] | None = None) -> Type:
    """The type of JSON's values; those that have no type in common are texts.

    >>> str(type_of_values([1, None, 2.5])), str(type_of_values([{"a": [1]}, {"b": True}])), str(type_of_values([1, "x"]))
    ('DOUBLE', 'STRUCT<a: ARRAY<BIGINT>, b: BOOLEAN>', 'STRING')
    """
    found = [v for v in values if v is not None]
    kinds = {type(v) for v in found}
    if kinds == {bool}:
        return BOOLEAN
    if kinds == {int}:
        return type_of_texts(map(str, found))
    if kinds and kinds <= {int, float}:
        return DOUBLE
    if kinds == {str}:
        kind = type_of_texts(found, settings)
        return kind if kind in (DATE, TIMESTAMP) else STRING
    if kinds == {list}:
        return array(type_of_values([e for v in found for e in v], settings))
    if kinds == {dict} and any(found):
        return Type("STRUCT", tuple((f.name, f.type) for f in columns_of_objects(found, settings)))
    return STRING


def columns_of_objects(
    objects: Sequence[Mapping[str, Any]], settings: Mapping[str, str] | None = None
) -> Schema:
    """The members that objects have, in the order in which they appear."""
    names = dict.fromkeys(name for o in objects for name in o)
    return tuple(Field(n, type_of_values([o.get(n) for o in objects], settings)) for n in names)


def nothing_there(name: str, path: str, what: str = "no row") -> Diagnostic:
    """The error where a source has nothing to tell its columns by."""
    return Diagnostic(
        "SOURCE_EMPTY",
        f"there is {what} to tell the columns of '{name}' by: {path}",
        help="declare them: CREATE STREAM name(column TYPE, …) SOURCE …",
    )
