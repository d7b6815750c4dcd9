"""Functions on strings, as Spark counts them: in characters, by Java's regular expressions."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from tidegate.errors import Diagnostic, unsupported
from tidegate.types import Value

_LINE_ENDS = "\n\r\u0085\u2028\u2029"
_DOT = f"[^{_LINE_ENDS}]"
_END = rf"(?=(?:\r\n|[{_LINE_ENDS}])?\Z)"
_SHARED_ESCAPES = set("dDwWsSbB0123456789tnrf") | set("\\.^$|?*+()[]{}/-\"' _%@#&,:;=<>!~`")


@lru_cache(maxsize=1024)
def java_regex(pattern: str) -> re.Pattern[str]:
    """A Java regular expression as Python's; where the two differ in meaning it is refused.

    >>> java_regex("a.c").search("a\\rc") is None
    True
    """
    result, i, depth = [], 0, 0
    while i < len(pattern):
        c = pattern[i]
        if c == "\\":
            if i + 1 >= len(pattern) or pattern[i + 1] not in _SHARED_ESCAPES:
                raise _refused(pattern)
            result.append(pattern[i : i + 2])
            i += 2
            continue
        if depth:
            if c == "[" or pattern.startswith("&&", i):
                raise _refused(pattern)
            depth -= c == "]"
            result.append(c)
        elif c == "[":
            depth = 1
            result.append(c)
            if pattern.startswith("[^", i):
                result.append("^")
                i += 1
            if pattern.startswith("]", i + 1):
                raise _refused(pattern)
        elif c == ".":
            result.append(_DOT)
        elif c == "$":
            result.append(_END)
        elif re.match(r"\(\?[a-zA-Z-]", pattern[i:]):
            if i or not pattern.startswith("(?i)"):
                raise _refused(pattern)
            result.append(c)
        elif re.match(r"\(\?<[A-Za-z]", pattern[i:]):
            result.append("(?P<")
            i += 3
            continue
        else:
            result.append(c)
        i += 1
    try:
        return re.compile("".join(result), re.ASCII)
    except re.error:
        raise Diagnostic("INVALID_PATTERN", f"'{pattern}' is not a regular expression") from None


def _refused(pattern: str) -> Diagnostic:
    return unsupported(f"the regular expression '{pattern}' uses what only Spark evaluates")


@lru_cache(maxsize=1024)
def like_regex(pattern: str, escape: str, ignore_case: bool) -> re.Pattern[str]:
    """The pattern of LIKE: % is any text, _ any character, after the escape they are themselves.

    >>> bool(like_regex("a_c%", "!", False).fullmatch("abcd"))
    True
    """
    result, i = [], 0
    while i < len(pattern):
        c = pattern[i]
        if c == escape:
            i += 1
            if i >= len(pattern) or pattern[i] not in ("_", "%", escape):
                message = f"in the pattern '{pattern}' the escape '{escape}' must precede _, % or itself"
                raise Diagnostic("INVALID_PATTERN", message)
            result.append(re.escape(pattern[i]))
        else:
            result.append(".*" if c == "%" else "." if c == "_" else re.escape(c))
        i += 1
    return re.compile("".join(result), re.DOTALL | (re.IGNORECASE if ignore_case else 0))


def like(escape: str | None, ignore_case: bool) -> Callable[[str, str], bool]:
    sign = "\\" if escape is None else escape
    return lambda text, pattern: like_regex(pattern, sign, ignore_case).fullmatch(text) is not None


def rlike(text: str, pattern: str) -> bool:
    return java_regex(pattern).search(text) is not None


def regexp_extract(text: str, pattern: str, group: int = 1) -> str:
    compiled = java_regex(pattern)
    if not 0 <= group <= compiled.groups:
        raise Diagnostic(
            "INVALID_PATTERN", f"'{pattern}' has {compiled.groups} groups, there is no group {group}"
        )
    match = compiled.search(text)
    return "" if match is None else match[group] or ""


def regexp_replace(text: str, pattern: str, replacement: str, position: int = 1) -> str:
    """Every match from a position on, replaced; `$1` is the first group.

    >>> regexp_replace("a1b2", "[0-9]", "<$0>")
    'a<1>b<2>'
    """
    if position < 1:
        raise Diagnostic("INVALID_ARGUMENT", f"the position {position} must be 1 or more")
    if position > 1 and position - 1 >= len(text):
        return text
    head, tail = text[: position - 1], text[position - 1 :]
    return head + java_regex(pattern).sub(lambda match: _expanded(match, replacement), tail)


def _expanded(match: re.Match[str], template: str) -> str:
    result, i = [], 0
    while i < len(template):
        c = template[i]
        if c == "\\" and i + 1 < len(template):
            result.append(template[i + 1])
            i += 2
        elif c == "$":
            i += 1
            if i >= len(template) or not template[i].isdigit() or int(template[i]) > match.re.groups:
                raise Diagnostic("INVALID_PATTERN", f"'{template}' names a group that does not exist")
            number, i = int(template[i]), i + 1
            while (
                i < len(template)
                and template[i].isdigit()
                and number * 10 + int(template[i]) <= match.re.groups
            ):
                number, i = number * 10 + int(template[i]), i + 1
            result.append(match[number] or "")
        else:
            result.append(c)
            i += 1
    return "".join(result)


def split(text: str, pattern: str, limit: int = -1) -> tuple[str, ...]:
    """The parts between matches; a limit above 0 leaves the rest in the last part.

    >>> split("a,b,,", ","), split("abc", ""), split("a,b,c", ",", 2)
    (('a', 'b', '', ''), ('a', 'b', 'c'), ('a', 'b,c'))
    """
    if text and not pattern:
        parts = list(text)
        return tuple(parts if limit <= 0 or limit >= len(parts) else parts[:limit])
    result: list[str] = []
    start = 0
    for match in java_regex(pattern).finditer(text):
        if 0 < limit <= len(result) + 1:
            break
        if match.end() == 0:
            continue
        if match.start() == match.end() == len(text) and start == len(text):
            continue
        result.append(text[start : match.start()])
        start = match.end()
    return (*result, text[start:])


def substring(text: Any, position: int, length: int | None = None) -> Any:
    """Characters from a position that counts from 1, or from the end if negative.

    >>> substring("hello", -3, 2), substring("hello", 0, 2), substring("hello", -10, 7)
    ('ll', 'he', 'he')
    """
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    end = len(text) if length is None else start + length
    return text[max(start, 0) : max(end, 0)]


def left(text: Any, length: int) -> Any:
    return text[: max(length, 0)]


def right(text: str, length: int) -> str:
    return text[max(len(text) - length, 0) :] if length > 0 else ""


def locate(part: str, text: str, position: int) -> int:
    if position < 1:
        return 0
    return text.find(part, position - 1) + 1 if part else 1


def replace(text: str, part: str, by: str = "") -> str:
    return text.replace(part, by) if part else text


def padded(on_left: bool) -> Callable[..., str]:
    def pad(text: str, length: int, fill: str = " ") -> str:
        missing = length - len(text)
        if missing <= 0 or not fill:
            return text[: max(length, 0)]
        extra = (fill * (missing // len(fill) + 1))[:missing]
        return extra + text if on_left else text + extra

    return pad


def initcap(text: str) -> str:
    """
    >>> initcap("hELLO wORLD-x")
    'Hello World-x'
    """
    return " ".join(word[:1].title() + word[1:].lower() if word else "" for word in text.split(" "))


def translate(text: str, source: str, target: str) -> str:
    table: dict[int, str] = {}
    for i, c in enumerate(source):
        table.setdefault(ord(c), target[i] if i < len(target) else "")
    return text.translate(table)


def split_part(text: str, delimiter: str, index: int) -> str:
    if index == 0:
        raise Diagnostic("INVALID_ARRAY_INDEX", "the parts of SPLIT_PART count from 1, or from -1 at the end")
    parts = text.split(delimiter) if delimiter else [text]
    position = index - 1 if index > 0 else len(parts) + index
    return parts[position] if 0 <= position < len(parts) else ""


def substring_index(text: str, delimiter: str, count: int) -> str:
    if not delimiter or count == 0:
        return ""
    parts = text.split(delimiter) if count > 0 else text.rsplit(delimiter)
    return delimiter.join(parts[:count] if count > 0 else parts[count:])


def concat_ws(separator: str, *parts: Value) -> str:
    flat: list[str] = []
    for part in parts:
        if isinstance(part, tuple):
            flat.extend(p for p in part if p is not None)
        elif part is not None:
            flat.append(part)
    return separator.join(flat)


def sha2(value: bytes, bits: int) -> str | None:
    if bits not in (0, 224, 256, 384, 512):
        return None
    return hashlib.new(f"sha{bits or 256}", value).hexdigest()


TEXT: dict[str, Callable[..., Value]] = {
    "LENGTH": len,
    "UPPER": str.upper,
    "LOWER": str.lower,
    "INITCAP": initcap,
    "TRIM": lambda text, removed=" ": text.strip(removed),
    "LTRIM": lambda text, removed=" ": text.lstrip(removed),
    "RTRIM": lambda text, removed=" ": text.rstrip(removed),
    "SUBSTRING": substring,
    "LEFT": left,
    "RIGHT": right,
    "REPLACE": replace,
    "TRANSLATE": translate,
    "SPLIT": split,
    "SPLIT_PART": split_part,
    "SUBSTRING_INDEX": substring_index,
    "RLIKE": rlike,
    "REGEXP_EXTRACT": regexp_extract,
    "REGEXP_REPLACE": regexp_replace,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
    "CONTAINS": lambda text, part: part in text,
    "LPAD": padded(True),
    "RPAD": padded(False),
    "REVERSE": lambda text: text[::-1],
    "REVERSE_ARRAY": lambda members: members[::-1],
    "REPEAT": lambda text, times: text * max(times, 0),
    "ASCII": lambda text: ord(text[0]) if text else 0,
    "MD5": lambda value: hashlib.md5(value).hexdigest(),
    "SHA1": lambda value: hashlib.sha1(value).hexdigest(),
    "SHA2": sha2,
}
"""Functions that are NULL where an argument is."""
