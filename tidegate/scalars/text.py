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
from tidegate.scalars.expressions import span_of
from tidegate.scalars.limits import LONGEST_TEXT, short_enough
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


TESTED = typed(BOOLEAN, STRING, STRING)

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
    # What a letter becomes may depend on those before it.
    return " ".join(w[:1].title() + w.lower()[len(w[:1].lower()) :] for w in text.split(" "))


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


def has_other_letters(text: pl.Expr) -> pl.Expr:
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


_FEW = 1_000
"""A text that is repeated more often is not worth a list of so many parts."""


def _repeat_form(text: pl.Expr, times: pl.Expr) -> pl.Expr:
    count = pl.when(times.is_between(1, _FEW)).then(times).otherwise(0)
    return pl.when(text.is_not_null() & times.is_not_null()).then(text.repeat_by(count).list.join(""))


def _repeats_often(text: pl.Expr, times: pl.Expr) -> pl.Expr:
    return (times > _FEW) | (text.str.len_bytes() > LONGEST_TEXT // _FEW)


def _pad_form(on_left: bool) -> Form:
    def padded(text: pl.Expr, length: int, fill: str = " ") -> pl.Expr | None:
        if len(fill) != 1 or not 0 <= length <= LONGEST_TEXT:
            return None
        short = text.str.slice(0, length)
        return short.str.pad_start(length, fill) if on_left else short.str.pad_end(length, fill)

    return form(padded, "STRING", "INT", "STRING", constants=(1, 2))


# ------------------------------------------------------------------------------------------ entries


def _read_trim(node: exp.Trim) -> Call:
    removed = [node.expression] if node.args.get("expression") else []
    name = {"LEADING": "LTRIM", "TRAILING": "RTRIM"}.get((node.args.get("position") or "").upper(), "TRIM")
    return Call(name, (node.this, *removed))


def _read_pad(node: exp.Pad) -> Call:
    fill = [node.args["fill_pattern"]] if node.args.get("fill_pattern") else []
    return Call("LPAD" if node.args.get("is_left") else "RPAD", (node.this, node.expression, *fill))


def _read_space(node: exp.Space) -> Call:
    return Call("REPEAT", (exp.Literal.string(" "), node.this))


def entry(
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


def of_text(*params: Type) -> Rule:
    return typed(STRING, STRING, *params)


def _not_too_long(rule: Rule) -> Rule:
    """The rule of a function whose second argument says how long its text is: a constant is looked at before any row."""

    def checked(call: Pending) -> Resolved:
        found = rule(call)
        times = found.args[1]
        if times.is_literal and isinstance(times.value, int):
            try:
                short_enough(times.value)
            except Diagnostic as diagnostic:
                raise diagnostic.at(span_of(call.node)) from None
        return found

    return checked


_SIDES = "this expression"
_CASES = "letters change as Java has it; Polars has no such function"
_NO_DIGEST = "neither Polars nor Arrow computes digests"

ENTRIES = (
    entry("STARTSWITH", exp.StartsWith, _SIDES, (2, 2), TESTED, str.startswith,
        form(lambda a, b: a.str.starts_with(b), "STRING")),
    entry("ENDSWITH", exp.EndsWith, _SIDES, (2, 2), TESTED, str.endswith,
        form(lambda a, b: a.str.ends_with(b), "STRING")),
    entry("CONTAINS", exp.Contains, _SIDES, (2, 2), TESTED, lambda text, part: part in text,
        form(lambda a, b: a.str.contains(b, literal=True), "STRING")),
    Function("CONCAT", {exp.Concat: "*expressions", exp.DPipe: _SIDES}, (0, None), _concat_rule, _concat,
        form(lambda *texts: reduce(lambda a, b: a + b, texts), "STRING", fails=_too_long), names="CONCAT"),
    Function("CONCAT_WS", {exp.ConcatWs: "*expressions"}, (1, None), _concat_ws_rule, _concat_ws,
        _concat_ws_form, names="CONCAT_WS", lazy=True),
    entry("REVERSE", exp.Reverse, "this", (1, 1), _reverse_rule, lambda text: text[::-1],
        form(lambda a: a.str.reverse(), "STRING", fails=_has_clusters)),
    entry("LENGTH LEN CHAR_LENGTH CHARACTER_LENGTH", exp.Length, "this", (1, 1), _text_or_bytes(INT), len,
        first_of(form(_length, "STRING"), form(lambda a: a.bin.size(), "BINARY"))),
    entry("SUBSTRING SUBSTR", exp.Substring, "this start length", (2, 3), _text_or_bytes(None, INT, INT),
        _substring, form(_substring_form, "STRING", "INT")),
    entry("LEFT", exp.Left, _SIDES, (2, 2), _text_or_bytes(None, INT), lambda text, n: text[: max(n, 0)],
        form(_left_form, "STRING", "INT")),
    entry("RIGHT", exp.Right, _SIDES, (2, 2), of_text(INT), _right, form(_right_form, "STRING", "INT")),
    entry("UPPER UCASE", exp.Upper, "this", (1, 1), of_text(), str.upper,
        form(lambda a: a.str.to_uppercase(), "STRING", fails=has_other_letters)),
    entry("LOWER LCASE", exp.Lower, "this", (1, 1), of_text(), str.lower,
        form(lambda a: a.str.to_lowercase(), "STRING", fails=has_other_letters)),
    entry("INITCAP", {exp.Initcap: lambda node: Call("INITCAP", (node.this,))}, "", (1, 1), of_text(),
        _initcap, by_row=_CASES),
    entry("TRIM BTRIM", {exp.Trim: _read_trim, "BTRIM": "*expressions"}, "", (1, 2), of_text(STRING),
        lambda text, removed=" ": text.strip(removed), _trim_form(lambda a, cs: a.str.strip_chars(cs))),
    entry("LTRIM", {}, "", (1, 2), of_text(STRING), lambda text, removed=" ": text.lstrip(removed),
        _trim_form(lambda a, cs: a.str.strip_chars_start(cs))),
    entry("RTRIM", {}, "", (1, 2), of_text(STRING), lambda text, removed=" ": text.rstrip(removed),
        _trim_form(lambda a, cs: a.str.strip_chars_end(cs))),
    entry("REPLACE", exp.Replace, "this expression replacement", (2, 3), of_text(STRING, STRING), _replace,
        form(_replace_form, "STRING", constants=(1, 2))),
    entry("TRANSLATE", exp.Translate, "this from_ to", (3, 3), of_text(STRING, STRING),
        lambda text, source, target: text.translate(str.maketrans(_translation(source, target))),
        form(_translate_form, "STRING", constants=(1, 2))),
    Function("LOCATE", {exp.StrPosition: "substr this position"}, (2, 3), _locate_rule, _locate,
        form(_locate_form, "STRING", "STRING", "INT", constants=(0, 2)), names="LOCATE INSTR POSITION",
        lazy=True),
    entry("SPLIT_PART", exp.SplitPart, "this delimiter part_index", (3, 3), of_text(STRING, INT), _split_part,
        form(_split_part_form, "STRING", "STRING", "INT", constants=(1, 2))),
    entry("SUBSTRING_INDEX", exp.SubstringIndex, "this delimiter count", (3, 3), of_text(STRING, INT),
        _substring_index, form(_substring_index_form, "STRING", "STRING", "INT", constants=(1, 2))),
    entry("LPAD", {exp.Pad: _read_pad}, "", (2, 3), _not_too_long(of_text(INT, STRING)), _padded(True), _pad_form(True)),
    entry("RPAD", {}, "", (2, 3), _not_too_long(of_text(INT, STRING)), _padded(False), _pad_form(False)),
    entry("REPEAT SPACE", {exp.Repeat: "this times", exp.Space: _read_space}, "", (2, 2),
        _not_too_long(of_text(INT)),
        _repeat, form(_repeat_form, "STRING", "INT", fails=_repeats_often)),
    entry("ASCII", exp.Ascii, "this", (1, 1), typed(INT, STRING), lambda text: ord(text[0]) if text else 0,
        by_row="Polars has no such function"),
    entry("MD5", exp.MD5, "this", (1, 1), _digest_rule(), lambda v: hashlib.md5(v).hexdigest(),
        by_row=_NO_DIGEST),
    entry("SHA1 SHA", exp.SHA, "this", (1, 1), _digest_rule(), lambda v: hashlib.sha1(v).hexdigest(),
        by_row=_NO_DIGEST),
    entry("SHA2", exp.SHA2, "this length", (2, 2), _digest_rule(True), _sha2, by_row=_NO_DIGEST),
)  # fmt: skip
