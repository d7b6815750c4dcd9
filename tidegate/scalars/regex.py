"""Patterns: Java's regular expressions and SQL's LIKE, in Python and, where they mean the same, in Polars."""

from __future__ import annotations

import re
from functools import lru_cache

from tidegate.errors import Diagnostic, unsupported
from tidegate.scalars.limits import short_enough

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
def like_regex(pattern: str, escape: str) -> re.Pattern[str]:
    """The pattern of LIKE: % is any text, _ any character, after the escape they are themselves.

    >>> bool(like_regex("a_c%", "!").fullmatch("abcd"))
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
    return re.compile("".join(result), re.DOTALL)


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
    length = len(text)

    def expand(match: re.Match[str]) -> str:
        nonlocal length
        expanded = _expanded(match, replacement)
        length = short_enough(length + len(expanded) - len(match[0]))
        return expanded

    return head + java_regex(pattern).sub(expand, tail)


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


_SAFE = re.compile(
    r"""(?:\^)?(?:                           # the beginning of the text
    [A-Za-z0-9 _\-,:;=&/@\#%!<>"'~`]         # characters that stand for themselves
    | \\[.^$|?*+(){}\[\]\\/\-]              # and those that are escaped to do so
    | \\[dDwW] | \. | \|
    | \[\^?(?:[A-Za-z0-9 _,:;=/@\#%!<>"'.*+?(){}|$] | &(?!&) | \\[\]\\.\-/] | [a-z]-[a-z] | [A-Z]-[A-Z] | [0-9]-[0-9])+\]
    | \((?:\?:)? | \)(?![*+{])
    | (?<=[^(|^])(?:[*+?]|\{[0-9]{1,3}(?:,[0-9]{0,3})?\})\??(?![*+?{])
    )*""",
    re.VERBOSE,
)
_CLASSES = {r"\d": "[0-9]", r"\D": "[^0-9]", r"\w": "[A-Za-z0-9_]", r"\W": "[^A-Za-z0-9_]", ".": _DOT}
_PART = re.compile(r"\[\^?(?:\\.|[^\]\\])+\]|\\.|.", re.DOTALL)


def polars_regex(pattern: str) -> str | None:
    """A pattern that Java, Python and Polars understand alike, as Polars writes it; None for all others.

    Left out is what Polars has not (back references, what stands around), what it has otherwise (classes of Unicode, `$`),
    and groups that repeat, because the three differ in what such a group has caught.

    >>> polars_regex(r"id=(\\d+)"), polars_regex("a$"), polars_regex("(a)+")
    ('id=([0-9]+)', None, None)
    """
    if not _SAFE.fullmatch(pattern):
        return None
    try:
        java_regex(pattern)
    except Diagnostic:
        return None
    return "".join(_CLASSES.get(part, part) for part in _PART.findall(pattern))


def polars_replacement(replacement: str, groups: int) -> str | None:
    """What stands for a match, as Polars writes it; None where a reading of it is in doubt."""
    if "\\" in replacement or re.search(r"\$(?![0-9](?![0-9]))", replacement):
        return None
    if any(int(n) > groups for n in re.findall(r"\$([0-9])", replacement)):
        return None
    return re.sub(r"\$([0-9])", r"${\1}", replacement)
