"""Texts, as Spark counts them: in characters."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace as changed
from functools import reduce
from typing import Any

import polars as pl
from sqlglot import exp

from tidegate.errors import Diagnostic
from tidegate.scalars.columns import either_error, errors_of, first_of, form
from tidegate.scalars.limits import LONGEST_TEXT, short_enough
from tidegate.scalars.regex import (
    java_regex,
    like_regex,
    polars_regex,
    polars_replacement,
    regexp_extract,
    regexp_replace,
    rlike,
)
from tidegate.scalars.registry import (
    Call,
    Column,
    Form,
    Function,
    Pending,
    Resolved,
    Rule,
    Scalar,
    cast,
    each,
    implicit,
    mismatch,
    typed,
    unified,
)
from tidegate.types import BINARY, BOOLEAN, INT, STRING, VOID, Row, Type, Value, array

# ---------------------------------------------------------------------------------------- type rules


def _concat_rule(call: Pending) -> Resolved:
    types = {a.type for a in call.args if a.type != VOID}
    if any(t.name == "ARRAY" for t in types):
        args = unified(call, call.args)
        return changed(call, name="CONCAT_ARRAYS").done(args[0].type, args)
    target = BINARY if types == {BINARY} else STRING
    return call.done(target, [implicit(a, target, call) for a in call.args])


def _concat_ws_rule(call: Pending) -> Resolved:
    args = [
        cast(a, array(STRING)) if a.type.name == "ARRAY" else implicit(a, STRING, call) for a in call.args
    ]
    return call.done(STRING, args, args[0].nullable)


def _text_or_bytes(result: Type | None, *more: Type) -> Rule:
    """A function of a string or of bytes; `result` None: of the same type."""

    def rule(call: Pending) -> Resolved:
        first = call.args[0]
        first = first if first.type == BINARY else implicit(first, STRING, call)
        rest = [implicit(a, t, call) for a, t in zip(call.args[1:], more, strict=False)]
        return call.done(result or first.type, [first, *rest])

    return rule


def _reverse_rule(call: Pending) -> Resolved:
    if call.args[0].type.name == "ARRAY":
        return changed(call, name="REVERSE_ARRAY").done(call.args[0].type)
    return call.done(STRING, [implicit(call.args[0], STRING, call)])


def _locate_rule(call: Pending) -> Resolved:
    args = [implicit(a, t, call) for a, t in zip(call.args, (STRING, STRING, INT), strict=False)]
    return call.done(INT, args, any(a.nullable for a in args[:2]))


def _digest_rule(nullable: bool | None = None) -> Rule:
    def rule(call: Pending) -> Resolved:
        first, *bits = call.args
        if first.type not in (STRING, BINARY, VOID):
            raise mismatch(call, "a STRING or BINARY")
        return call.done(STRING, [cast(first, BINARY), *(implicit(b, INT, call) for b in bits)], nullable)

    return rule


_TESTED = typed(BOOLEAN, STRING, STRING)

# ------------------------------------------------------------------------------------------ meaning


def _concat(node: Resolved) -> Callable[..., Value]:
    empty: Any = "" if node.type == STRING else b""

    def run(*parts: Any) -> Value:
        short_enough(sum(map(len, parts)))
        return empty.join(parts)

    return run


def _concat_ws(node: Resolved, args: Sequence[Scalar]) -> Scalar:
    def run(row: Row) -> Value:
        separator, *parts = (a(row) for a in args)
        if separator is None:
            return None
        flat = [p for part in parts for p in (part if isinstance(part, tuple) else (part,)) if p is not None]
        short_enough(sum(map(len, flat)) + len(separator) * len(flat))
        return separator.join(flat)

    return run


def _escape(node: Resolved) -> str:
    return "\\" if node.detail is None else str(node.detail)


def _like(node: Resolved) -> Callable[[str, str], bool]:
    escape = _escape(node)
    if node.name == "ILIKE":
        return lambda text, pattern: like_regex(pattern.lower(), escape).fullmatch(text.lower()) is not None
    return lambda text, pattern: like_regex(pattern, escape).fullmatch(text) is not None


def _split(text: str, pattern: str, limit: int = -1) -> tuple[str, ...]:
    """The parts between matches; a limit above 0 leaves the rest in the last part.

    >>> _split("a,b,,", ","), _split("abc", ""), _split("a,b,c", ",", 2)
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


def _substring(text: Any, position: int, length: int | None = None) -> Any:
    """Characters from a position that counts from 1, or from the end if negative.

    >>> _substring("hello", -3, 2), _substring("hello", 0, 2), _substring("hello", -10, 7)
    ('ll', 'he', 'he')
    """
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    end = len(text) if length is None else start + length
    return text[max(start, 0) : max(end, 0)]


def _right(text: str, length: int) -> str:
    return text[max(len(text) - length, 0) :] if length > 0 else ""


def _locate(node: Resolved, args: Sequence[Scalar]) -> Scalar:
    def run(row: Row) -> Value:
        part, text, *start = (a(row) for a in args)
        position = start[0] if start else 1
        if position is None:
            return 0
        if part is None or text is None:
            return None
        return 0 if position < 1 else text.find(part, position - 1) + 1 if part else 1

    return run


def _replace(text: str, part: str, by: str = "") -> str:
    if not part:
        return text
    if len(by) > len(part):
        short_enough(len(text) + text.count(part) * (len(by) - len(part)))
    return text.replace(part, by)


def _repeat(text: str, times: int) -> str:
    short_enough(len(text) * times)
    return text * times


def _padded(on_left: bool) -> Callable[..., str]:
    def pad(text: str, length: int, fill: str = " ") -> str:
        missing = length - len(text)
        if missing <= 0 or not fill:
            return text[: max(length, 0)]
        short_enough(length)
        extra = (fill * (missing // len(fill) + 1))[:missing]
        return extra + text if on_left else text + extra

    return pad


def _initcap(text: str) -> str:
    """
    >>> _initcap("hELLO wORLD-x")
    'Hello World-x'
    """
    return " ".join(word[:1].title() + word[1:].lower() if word else "" for word in text.split(" "))


def _translation(source: str, target: str) -> dict[str, str]:
    """What becomes of each character; the first mention counts, and what has no partner vanishes."""
    table: dict[str, str] = {}
    for i, c in enumerate(source):
        table.setdefault(c, target[i] if i < len(target) else "")
    return table


def _split_part(text: str, delimiter: str, index: int) -> str:
    if index == 0:
        raise Diagnostic("INVALID_ARRAY_INDEX", "the parts of SPLIT_PART count from 1, or from -1 at the end")
    parts = text.split(delimiter) if delimiter else [text]
    position = index - 1 if index > 0 else len(parts) + index
    return parts[position] if 0 <= position < len(parts) else ""


def _substring_index(text: str, delimiter: str, count: int) -> str:
    if not delimiter or count == 0:
        return ""
    parts = text.split(delimiter) if count > 0 else text.rsplit(delimiter)
    return delimiter.join(parts[:count] if count > 0 else parts[count:])


def _sha2(value: bytes, bits: int) -> str | None:
    if bits not in (0, 224, 256, 384, 512):
        return None
    return hashlib.new(f"sha{bits or 256}", value).hexdigest()


# -------------------------------------------------------------------------------------------- forms


def _foreign(text: pl.Expr) -> pl.Expr:
    """Texts with letters beyond the Latin ones, whose cases Spark, Python and Polars know by different editions of Unicode."""
    return (text.str.len_bytes() != text.str.len_chars()) & text.str.contains("[^\\x00-\\x{017F}]")


def _has_clusters(text: pl.Expr) -> pl.Expr:
    """Texts in which several characters may be one letter or line end, which Polars keeps together."""
    return (text.str.len_bytes() != text.str.len_chars()) | text.str.contains("\r", literal=True)


def _length(a: pl.Expr) -> pl.Expr:
    return a.str.len_chars().cast(pl.Int64)


def _sliced(text: pl.Expr, start: pl.Expr, end: pl.Expr | None) -> pl.Expr:
    """The characters from `start` up to `end`, both counted from 0; what is before the text is empty."""
    first = pl.max_horizontal(start, 0)
    if end is None:
        return text.str.slice(first)
    return text.str.slice(first, pl.max_horizontal(pl.max_horizontal(end, 0) - first, 0).cast(pl.UInt64))


def _substring_form(text: pl.Expr, position: pl.Expr, length: pl.Expr | None = None) -> pl.Expr:
    at = position.cast(pl.Int64)
    start = pl.when(at > 0).then(at - 1).when(at < 0).then(_length(text) + at).otherwise(0)
    start = pl.when(text.is_not_null() & at.is_not_null()).then(start)
    if length is None:
        return pl.when(at.is_not_null()).then(_sliced(text, start, None))
    end = start + length.cast(pl.Int64)
    return pl.when(end.is_not_null()).then(_sliced(text, start, end))


def _left_form(text: pl.Expr, length: pl.Expr) -> pl.Expr:
    end = length.cast(pl.Int64)
    return pl.when(end.is_not_null()).then(_sliced(text, pl.lit(0, dtype=pl.Int64), end))


def _right_form(text: pl.Expr, length: pl.Expr) -> pl.Expr:
    kept = pl.max_horizontal(length.cast(pl.Int64), 0)
    return pl.when(length.is_not_null()).then(_sliced(text, _length(text) - kept, None))


def _too_long(*texts: pl.Expr) -> pl.Expr:
    return reduce(lambda a, b: a + b, [t.str.len_bytes().cast(pl.Int64) for t in texts]) > LONGEST_TEXT


def _concat_ws_form(node: Resolved, args: Sequence[Column]) -> Column | None:
    by, parts = node.args[0].value, args[1:]
    if not node.args[0].is_literal or by is None or not parts or any(p.type != STRING for p in parts):
        return None
    texts = [p.value for p in parts]
    lengths = [t.str.len_bytes().cast(pl.Int64).fill_null(0) for t in texts]
    out = reduce(lambda a, b: a + b, lengths) > LONGEST_TEXT - len(by.encode()) * len(texts)
    value = pl.concat_str(texts, separator=by, ignore_nulls=True)
    return Column(value, STRING, either_error(errors_of(args), out))


def _trim_form(strip: Callable[..., pl.Expr]) -> Form:
    return form(lambda text, removed=" ": strip(text, removed), "STRING", constants=(1,))


def _like_form(node: Resolved, args: Sequence[Column]) -> Column | None:
    pattern, (text, _) = node.args[1], args
    if not pattern.is_literal:
        return None
    lowers = node.name == "ILIKE"
    try:
        regex = like_regex(pattern.value.lower() if lowers else pattern.value, _escape(node)).pattern
    except Diagnostic:
        return None
    value = text.value.str.to_lowercase() if lowers else text.value
    foreign = _foreign(text.value).fill_null(False) if lowers else None
    # What Python escapes (punctuation, blanks, line ends), Polars escapes alike.
    found = value.str.contains(f"(?s)\\A(?:{regex})\\z")
    return Column(found, BOOLEAN, either_error(text.error, foreign))


def _regex_form(apply: Callable[..., pl.Expr | None], fails: Callable[..., pl.Expr] | None = None) -> Form:
    """A function of a text and a constant pattern that Polars reads as Java does."""

    def on_pattern(text: pl.Expr, pattern: str, *more: Any) -> pl.Expr | None:
        regex = polars_regex(pattern)
        return None if regex is None else apply(text, regex, *more)

    return form(on_pattern, "STRING", "STRING", ("STRING", "INT"), fails=fails, constants=(1, 2, 3))


def _may_grow(text: pl.Expr, pattern: str, replacement: str, position: int = 1) -> pl.Expr:
    return text.str.len_bytes().cast(pl.Int64) * (len(replacement) + 1) > LONGEST_TEXT


def _extract_form(text: pl.Expr, regex: str, group: int = 1) -> pl.Expr | None:
    if not 0 <= group <= java_regex(regex).groups:
        return None
    return pl.when(text.is_not_null()).then(text.str.extract(regex, group).fill_null(""))


def _regexp_replace_form(text: pl.Expr, regex: str, replacement: str, position: int = 1) -> pl.Expr | None:
    by = polars_replacement(replacement, java_regex(regex).groups)
    # Of matches of nothing, the three find different ones.
    if position != 1 or by is None or java_regex(regex).search("") is not None:
        return None
    return text.str.replace_all(regex, by)


def _replace_form(text: pl.Expr, part: str, by: str = "") -> pl.Expr | None:
    if not part or len(by) > len(part):
        return None
    return text.str.replace_all(part, by, literal=True)


def _translate_form(text: pl.Expr, source: str, target: str) -> pl.Expr:
    table = _translation(source, target)
    return text.str.replace_many(list(table), list(table.values())) if table else text


def _locate_form(part: str, text: pl.Expr, position: int = 1) -> pl.Expr | None:
    if position != 1 or not part:
        return None
    head = text.str.splitn(part, 2).struct.field("field_0")
    return (
        pl.when(text.str.contains(part, literal=True))
        .then(_length(head) + 1)
        .otherwise(text.str.len_bytes() * 0)
    )


def _split_form(text: pl.Expr, pattern: str, limit: int = -1) -> pl.Expr | None:
    plain = pattern and all(c.isalnum() or c in " ,:;=&/@#%!<>\"'~`_-" for c in pattern)
    return text.str.split(pattern) if plain and limit <= 0 else None


def _split_part_form(text: pl.Expr, delimiter: str, index: int) -> pl.Expr | None:
    if not delimiter or index == 0:
        return None
    part = text.str.split(delimiter).list.get(index - 1 if index > 0 else index, null_on_oob=True)
    return pl.when(text.is_not_null()).then(part.fill_null(""))


def _substring_index_form(text: pl.Expr, delimiter: str, count: int) -> pl.Expr | None:
    if not delimiter or count == 0:
        return None
    parts = text.str.split(delimiter)
    return (parts.list.head(count) if count > 0 else parts.list.tail(-count)).list.join(delimiter)


def _repeats_too_long(text: pl.Expr, times: pl.Expr) -> pl.Expr:
    return text.str.len_bytes().cast(pl.Int64) * times > LONGEST_TEXT


def _repeat_form(text: pl.Expr, times: pl.Expr) -> pl.Expr:
    fits = times.is_not_null() & ~_repeats_too_long(text, times)
    count = pl.when(fits).then(pl.max_horizontal(times, 0)).otherwise(0)
    return pl.when(text.is_not_null() & times.is_not_null()).then(text.repeat_by(count).list.join(""))


def _pad_form(on_left: bool) -> Form:
    def padded(text: pl.Expr, length: int, fill: str = " ") -> pl.Expr | None:
        if len(fill) != 1 or not 0 <= length <= LONGEST_TEXT:
            return None
        short = text.str.slice(0, length)
        return short.str.pad_start(length, fill) if on_left else short.str.pad_end(length, fill)

    return form(padded, "STRING", "INT", "STRING", constants=(1, 2))


# ------------------------------------------------------------------------------------------ entries


def _affirmed(node: exp.Expression) -> exp.Expression:
    """`x LIKE y` of `x NOT LIKE y`, which sqlglot marks by a flag."""
    positive = node.copy()
    positive.set("negate", None)
    return positive


def _read_like(name: str) -> Callable[[exp.Expression], Call | None]:
    def read(node: exp.Expression) -> Call | None:
        if node.args.get("negate"):
            return Call("NOT", (_affirmed(node),))
        quantified = isinstance(node.expression, (exp.Any, exp.All))
        return None if quantified else Call(name, (node.this, node.expression))

    return read


def _read_escape(node: exp.Escape) -> Call | None:
    like = node.this
    if not isinstance(like, (exp.Like, exp.ILike)):
        return None
    if like.args.get("negate"):
        return Call("NOT", (exp.Escape(this=_affirmed(like), expression=node.expression),))
    name = "ILIKE" if isinstance(like, exp.ILike) else "LIKE"
    return Call(name, (like.this, like.expression), node.expression.name)


def _read_trim(node: exp.Trim) -> Call:
    removed = [node.expression] if node.args.get("expression") else []
    name = {"LEADING": "LTRIM", "TRAILING": "RTRIM"}.get((node.args.get("position") or "").upper(), "TRIM")
    return Call(name, (node.this, *removed))


def _read_pad(node: exp.Pad) -> Call:
    fill = [node.args["fill_pattern"]] if node.args.get("fill_pattern") else []
    return Call("LPAD" if node.args.get("is_left") else "RPAD", (node.this, node.expression, *fill))


def _read_space(node: exp.Space) -> Call:
    return Call("REPEAT", (exp.Literal.string(" "), node.this))


def _entry(
    names: str,
    spelled: Any,
    keys: str,
    takes: tuple[int, int | None],
    rule: Rule,
    meaning: Callable[..., Value],
    columns: Form | None = None,
    by_row: str = "",
) -> Function:
    """A function that is NULL where an argument is; its first name is its own."""
    readings = spelled if isinstance(spelled, dict) else {spelled: keys}
    return Function(names.split(maxsplit=1)[0], readings, takes, rule, each(meaning), columns, names, by_row)


def _text(*params: Type) -> Rule:
    return typed(STRING, STRING, *params)


_SIDES = "this expression"
_CASES = "letters change as Java has it; Polars has no such function"
_NO_DIGEST = "neither Polars nor Arrow computes digests"

ENTRIES = (
    Function("LIKE", {exp.Like: _read_like("LIKE"), exp.Escape: _read_escape}, (2, 2), _TESTED, _like,
        _like_form),
    Function("ILIKE", {exp.ILike: _read_like("ILIKE")}, (2, 2), _TESTED, _like, _like_form),
    Function("RLIKE", {exp.RegexpLike: _SIDES}, (2, 2), _TESTED, each(rlike),
        _regex_form(lambda text, regex: text.str.contains(regex)), names="REGEXP_LIKE"),
    _entry("STARTSWITH", exp.StartsWith, _SIDES, (2, 2), _TESTED, str.startswith,
        form(lambda a, b: a.str.starts_with(b), "STRING")),
    _entry("ENDSWITH", exp.EndsWith, _SIDES, (2, 2), _TESTED, str.endswith,
        form(lambda a, b: a.str.ends_with(b), "STRING")),
    _entry("CONTAINS", exp.Contains, _SIDES, (2, 2), _TESTED, lambda text, part: part in text,
        form(lambda a, b: a.str.contains(b, literal=True), "STRING")),
    Function("CONCAT", {exp.Concat: "*expressions", exp.DPipe: _SIDES}, (0, None), _concat_rule, _concat,
        form(lambda *texts: reduce(lambda a, b: a + b, texts), "STRING", fails=_too_long), names="CONCAT"),
    Function("CONCAT_WS", {exp.ConcatWs: "*expressions"}, (1, None), _concat_ws_rule, _concat_ws,
        _concat_ws_form, names="CONCAT_WS", lazy=True),
    _entry("REVERSE", exp.Reverse, "this", (1, 1), _reverse_rule, lambda text: text[::-1],
        form(lambda a: a.str.reverse(), "STRING", fails=_has_clusters)),
    _entry("LENGTH LEN CHAR_LENGTH CHARACTER_LENGTH", exp.Length, "this", (1, 1), _text_or_bytes(INT), len,
        first_of(form(_length, "STRING"), form(lambda a: a.bin.size(), "BINARY"))),
    _entry("SUBSTRING SUBSTR", exp.Substring, "this start length", (2, 3), _text_or_bytes(None, INT, INT),
        _substring, form(_substring_form, "STRING", "INT")),
    _entry("LEFT", exp.Left, _SIDES, (2, 2), _text_or_bytes(None, INT), lambda text, n: text[: max(n, 0)],
        form(_left_form, "STRING", "INT")),
    _entry("RIGHT", exp.Right, _SIDES, (2, 2), _text(INT), _right, form(_right_form, "STRING", "INT")),
    _entry("UPPER UCASE", exp.Upper, "this", (1, 1), _text(), str.upper,
        form(lambda a: a.str.to_uppercase(), "STRING", fails=_foreign)),
    _entry("LOWER LCASE", exp.Lower, "this", (1, 1), _text(), str.lower,
        form(lambda a: a.str.to_lowercase(), "STRING", fails=_foreign)),
    _entry("INITCAP", {exp.Initcap: lambda node: Call("INITCAP", (node.this,))}, "", (1, 1), _text(),
        _initcap, by_row=_CASES),
    _entry("TRIM BTRIM", {exp.Trim: _read_trim, "BTRIM": "*expressions"}, "", (1, 2), _text(STRING),
        lambda text, removed=" ": text.strip(removed), _trim_form(lambda a, cs: a.str.strip_chars(cs))),
    _entry("LTRIM", {}, "", (1, 2), _text(STRING), lambda text, removed=" ": text.lstrip(removed),
        _trim_form(lambda a, cs: a.str.strip_chars_start(cs))),
    _entry("RTRIM", {}, "", (1, 2), _text(STRING), lambda text, removed=" ": text.rstrip(removed),
        _trim_form(lambda a, cs: a.str.strip_chars_end(cs))),
    _entry("REPLACE", exp.Replace, "this expression replacement", (2, 3), _text(STRING, STRING), _replace,
        form(_replace_form, "STRING", constants=(1, 2))),
    _entry("TRANSLATE", exp.Translate, "this from_ to", (3, 3), _text(STRING, STRING),
        lambda text, source, target: text.translate(str.maketrans(_translation(source, target))),
        form(_translate_form, "STRING", constants=(1, 2))),
    Function("LOCATE", {exp.StrPosition: "substr this position"}, (2, 3), _locate_rule, _locate,
        form(_locate_form, "STRING", "STRING", "INT", constants=(0, 2)), names="LOCATE INSTR POSITION",
        lazy=True),
    _entry("SPLIT", exp.RegexpSplit, "this expression limit", (2, 3),
        typed(array(STRING), STRING, STRING, INT), _split,
        form(_split_form, "STRING", "STRING", "INT", constants=(1, 2))),
    _entry("SPLIT_PART", exp.SplitPart, "this delimiter part_index", (3, 3), _text(STRING, INT), _split_part,
        form(_split_part_form, "STRING", "STRING", "INT", constants=(1, 2))),
    _entry("SUBSTRING_INDEX", exp.SubstringIndex, "this delimiter count", (3, 3), _text(STRING, INT),
        _substring_index, form(_substring_index_form, "STRING", "STRING", "INT", constants=(1, 2))),
    _entry("REGEXP_EXTRACT", exp.RegexpExtract, "this expression group", (2, 3), _text(STRING, INT),
        regexp_extract, _regex_form(_extract_form)),
    _entry("REGEXP_REPLACE", exp.RegexpReplace, "this expression replacement position", (3, 4),
        _text(STRING, STRING, INT), regexp_replace, _regex_form(_regexp_replace_form, _may_grow)),
    _entry("LPAD", {exp.Pad: _read_pad}, "", (2, 3), _text(INT, STRING), _padded(True), _pad_form(True)),
    _entry("RPAD", {}, "", (2, 3), _text(INT, STRING), _padded(False), _pad_form(False)),
    _entry("REPEAT SPACE", {exp.Repeat: "this times", exp.Space: _read_space}, "", (2, 2), _text(INT),
        _repeat, form(_repeat_form, "STRING", "INT", fails=_repeats_too_long)),
    _entry("ASCII", exp.Ascii, "this", (1, 1), typed(INT, STRING), lambda text: ord(text[0]) if text else 0,
        by_row="Polars has no such function"),
    _entry("MD5", exp.MD5, "this", (1, 1), _digest_rule(), lambda v: hashlib.md5(v).hexdigest(),
        by_row=_NO_DIGEST),
    _entry("SHA1 SHA", exp.SHA, "this", (1, 1), _digest_rule(), lambda v: hashlib.sha1(v).hexdigest(),
        by_row=_NO_DIGEST),
    _entry("SHA2", exp.SHA2, "this length", (2, 2), _digest_rule(True), _sha2, by_row=_NO_DIGEST),
)  # fmt: skip
