"""Frozen dataclasses as plain data and back: the one way in which tasks, driver and manifests write what they say.

What stays on storage is JSON that begins with the checksum of the rest.
"""

from __future__ import annotations

import json
import types
import zlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

_PLAIN = (int, str, float, bool)
"""What stands for itself: lists of it may be long."""


def to_data(value: Any) -> Any:
    """A value as lists, dictionaries, texts and numbers.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Point:
    ...     x: int
    ...     tags: tuple[str, ...] = ()
    >>> to_data(Point(1, ("a",)))
    {'x': 1, 'tags': ['a']}
    """
    if is_dataclass(value):
        return {f.name: to_data(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {k: to_data(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [v if type(v) in _PLAIN else to_data(v) for v in value]
    return value


def from_data(type_: Any, data: Any) -> Any:
    """The value of a type that some data stand for: what `to_data` made of it.

    >>> from_data(tuple[int, ...], [1, 2]), from_data(dict[str, tuple[int, ...]], {"a": [3]})
    ((1, 2), {'a': (3,)})
    """
    if data is None or type_ is Any:
        return data
    if is_dataclass(type_):
        hints = _hints(type_)  # type: ignore[arg-type]
        return type_(**{name: from_data(hints[name], v) for name, v in data.items()})  # type: ignore[operator]
    origin, arguments = get_origin(type_), get_args(type_)
    if origin is types.UnionType:
        return from_data(next(a for a in arguments if a is not types.NoneType), data)
    if origin is tuple:
        if arguments[-1] is ... and arguments[0] in _PLAIN:
            return tuple(data)
        kinds = [arguments[0]] * len(data) if arguments[-1] is ... else arguments
        return tuple(from_data(k, v) for k, v in zip(kinds, data, strict=True))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {k: from_data(arguments[1], v) for k, v in data.items()}
    if isinstance(type_, type) and issubclass(type_, Enum):
        return type_(data)
    return data


@cache
def _hints(type_: type) -> dict[str, Any]:
    return get_type_hints(type_)


_CHECKSUM = b'{"checksum":"%08x",'


def signed_json(data: Mapping[str, Any]) -> bytes:
    """Data as JSON with its checksum in front.

    >>> signed_json({"a": 1})
    b'{"checksum":"561bacaf","a":1}'
    """
    body = json.dumps(data, separators=(",", ":")).encode()
    return _CHECKSUM % zlib.crc32(body) + body[1:]


def read_signed_json(text: bytes) -> dict[str, Any] | None:
    """What `signed_json` was given, unless a bit of it has changed.

    >>> read_signed_json(signed_json({"a": 1})), read_signed_json(b'{"checksum":"561bacaf","a":2}')
    ({'a': 1}, None)
    """
    length = len(_CHECKSUM % 0)
    body = b"{" + text[length:]
    if text[:length] != _CHECKSUM % zlib.crc32(body):
        return None
    found: dict[str, Any] = json.loads(body)
    return found
