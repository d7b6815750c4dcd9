"""Patterns: Java's regular expressions and SQL's LIKE, in Python and, where they mean the same, in Polars."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import polars as pl
from sqlglot import exp

from tidegate.errors import Diagnostic, unsupported
from tidegate.scalars.columns import either_error, form
from tidegate.scalars.expressions import span_of
from tidegate.scalars.limits import LONGEST_TEXT, short_enough
from tidegate.scalars.registry import Call, Column, Form, Function, Pending, Resolved, Rule, each, typed
from tidegate.scalars.text import TESTED, entry, has_other_letters, of_text
from tidegate.types import BOOLEAN, INT, STRING, array

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


_SINGLE = re.compile(r"\\.|\[\^?(?:\\.|[^\]\\])+\]", re.DOTALL)
_REPEATS = re.compile(r"[*+]|\{[0-9]+,?[0-9]*\}")
_CHOICE = re.compile(r"\((?:\?:)?([^\W_]+(?:\|[^\W_]+)+)\)")
_IN_A_ROW, _OF_ANYTHING = 2, 4


@lru_cache(maxsize=1024)
def backtracks(pattern: str) -> bool:
    r"""Whether an engine that tries one way after the other may have to try very many: Java's and Python's do so.

    That is where a group repeats that holds something of no fixed form, and where many repetitions follow each other, or many
    of any character. Words that begin differently are a choice without a second way.

    >>> [backtracks(p) for p in ("(a+)+$", "(a|ab)*c", "a*a*a*b", ".*a.*b.*c.*d.*e", r"(\d+)-(\d+)-(\d+) (\d+):(\d+)", "(foo|bar)+")]
    [True, True, True, True, False, False]
    """
    text, groups, i = _SINGLE.sub("a", _CHOICE.sub(_one_way, pattern)), [False], 0
    row = anything = 0
    while i < len(text):
        repeat = _REPEATS.match(text, i)
        if text[i] == "(":
            groups.append(False)
            i += 2 if text.startswith("(?", i) else 0
        elif text[i] == ")" and len(groups) > 1:
            loose = groups.pop()
            if loose and _REPEATS.match(text, i + 1):
                return True
            groups[-1] |= loose
        elif repeat is not None:
            row, anything = row + 1, anything + (text[i - 1] == ".")
            groups[-1] = True
            i = repeat.end() - 1
        elif text[i] in "|?":
            groups[-1] = True
        elif not _REPEATS.match(text, i + 1):
            row = 0
        if row > _IN_A_ROW or anything > _OF_ANYTHING:
            return True
        i += 1
    return False


def _one_way(choice: re.Match[str]) -> str:
    """A choice between words, as one letter if their first ones tell them apart in any case."""
    words = choice[1].split("|")
    return "(a)" if len({word[0].lower() for word in words}) == len(words) else choice[0]


def bounded(pattern: str) -> re.Pattern[str]:
    """A Java regular expression as Python's, if it cannot take for ever."""
    if backtracks(pattern):
        raise Diagnostic(
            "PATTERN_UNBOUNDED",
            f"the regular expression '{pattern}' can take for ever on some texts",
            help="repeat no group that holds repetitions or alternatives, and use fewer repetitions; RLIKE takes more",
        )
    return java_regex(pattern)


@lru_cache(maxsize=1024)
def like_parts(pattern: str, escape: str) -> tuple[re.Pattern[str], ...]:
    """What a pattern of LIKE looks for, between one % and the next.

    >>> [p.pattern for p in like_parts("a_%c", "!")]
    ['a.', 'c']
    """
    return tuple(re.compile(part, re.DOTALL) for part in like_regex(pattern, escape).split(".*"))


def is_like(text: str, parts: Sequence[re.Pattern[str]]) -> bool:
    """Whether a text is like a pattern: each part is found behind the one before, so one look through the text is enough.

    >>> is_like("abcd", like_parts("a_c%", "!")), is_like("abab", like_parts("%ab", "!")), is_like("ab", like_parts("ab%b", "!"))
    (True, True, False)
    """
    first, *others = parts
    start = first.match(text)
    if not others:
        return first.fullmatch(text) is not None
    if start is None:
        return False
    *between, last = others
    here = start.end()
    for part in between:
        found = part.search(text, here)
        if found is None:
            return False
        here = found.end()
    # The last part has a fixed length: it is the end of the text, or it is not there.
    return any(last.fullmatch(text, end) for end in _ends(last, text, here))


def _ends(last: re.Pattern[str], text: str, here: int) -> Sequence[int]:
    begin = len(text) - len(re.sub(r"\\(.)", r"\1", last.pattern, flags=re.DOTALL))
    return [begin] if begin >= here else []


@lru_cache(maxsize=1024)
def like_regex(pattern: str, escape: str) -> str:
    """The pattern of LIKE as a regular expression: % is any text, _ any character, after the escape they are themselves.

    >>> like_regex("a_c%", "!")
    'a.c.*'
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
    return "".join(result)


def rlike(text: str, pattern: str) -> bool:
    if backtracks(pattern) and (regex := search_regex(pattern)) is not None:
        return bool(pl.Series([text]).str.contains(regex)[0])
    return bounded(pattern).search(text) is not None


def regexp_extract(text: str, pattern: str, group: int = 1) -> str:
    compiled = bounded(pattern)
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

    return head + bounded(pattern).sub(expand, tail)


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
    r"""(?:
    [A-Za-z0-9 _\-,:;=&/@\#%!<>"'~`]         # characters that stand for themselves
    | \\[.^$|?*+(){}\[\]\\/\-]              # and those that are escaped to do so
    | \\[dDwW] | \. | \| | \^               # the beginning is that of the whole text
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
    regex = "".join(_CLASSES.get(part, part) for part in _PART.findall(pattern))
    return regex if _compiles(regex) else None


_AT_END = rf"(?:\r\n|[{_LINE_ENDS}])?\z"


def search_regex(pattern: str) -> str | None:
    """A pattern that is only searched for, as Polars writes it: what groups catch is nobody's business then.

    >>> search_regex("(a+)+") == "(a+)+", search_regex("(a)\\1")
    (True, None)
    """
    ends = pattern.endswith("$") and not pattern.endswith("\\$")
    body = pattern[:-1] if ends else pattern
    if not _SAFE.fullmatch(re.sub(r"(?<!\\)\)[*+]\??", ")", body)):
        return None
    try:
        java_regex(pattern)
    except Diagnostic:
        return None
    regex = "".join(_CLASSES.get(part, part) for part in _PART.findall(body)) + (_AT_END if ends else "")
    return regex if _compiles(regex) else None


@lru_cache(maxsize=1024)
def _compiles(regex: str) -> bool:
    """Whether Polars takes the pattern, which may be too large for it."""
    try:
        pl.select(pl.lit("").str.contains(regex))
    except pl.exceptions.PolarsError:
        return False
    return True


def polars_replacement(replacement: str, groups: int) -> str | None:
    """What stands for a match, as Polars writes it; None where a reading of it is in doubt."""
    if "\\" in replacement or re.search(r"\$(?![0-9](?![0-9]))", replacement):
        return None
    if any(int(n) > groups for n in re.findall(r"\$([0-9])", replacement)):
        return None
    return re.sub(r"\$([0-9])", r"${\1}", replacement)


def _escape(node: Resolved) -> str:
    return "\\" if node.detail is None else str(node.detail)


def _like(node: Resolved) -> Callable[[str, str], bool]:
    escape = _escape(node)
    if node.name == "ILIKE":
        return lambda text, pattern: is_like(text.lower(), like_parts(pattern.lower(), escape))
    return lambda text, pattern: is_like(text, like_parts(pattern, escape))


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
    for match in bounded(pattern).finditer(text):
        if 0 < limit <= len(result) + 1:
            break
        if match.end() == 0:
            continue
        if match.start() == match.end() == len(text) and start == len(text):
            continue
        result.append(text[start : match.start()])
        start = match.end()
    return (*result, text[start:])


# -------------------------------------------------------------------------------------------- forms


def _like_form(node: Resolved, args: Sequence[Column]) -> Column | None:
    pattern, (text, _) = node.args[1], args
    if not pattern.is_literal:
        return None
    lowers = node.name == "ILIKE"
    try:
        regex = like_regex(pattern.value.lower() if lowers else pattern.value, _escape(node))
    except Diagnostic:
        return None
    value = text.value.str.to_lowercase() if lowers else text.value
    foreign = has_other_letters(text.value).fill_null(False) if lowers else None
    # What Python escapes (punctuation, blanks, line ends), Polars escapes alike.
    whole = f"(?s)\\A(?:{regex})\\z"
    if not _compiles(whole):
        return None
    return Column(value.str.contains(whole), BOOLEAN, either_error(text.error, foreign))


def _regex_form(apply: Callable[..., pl.Expr | None], fails: Callable[..., pl.Expr] | None = None) -> Form:
    """A function of a text and a constant pattern that Polars reads as Java does."""

    def on_pattern(text: pl.Expr, pattern: str, *more: Any) -> pl.Expr | None:
        regex = polars_regex(pattern)
        return None if regex is None else apply(text, regex, *more)

    return form(on_pattern, "STRING", "STRING", ("STRING", "INT"), fails=fails, constants=(1, 2, 3))


def _search_form(text: pl.Expr, pattern: str) -> pl.Expr | None:
    regex = search_regex(pattern)
    return None if regex is None else text.str.contains(regex)


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


def _split_form(text: pl.Expr, pattern: str, limit: int = -1) -> pl.Expr | None:
    plain = pattern and all(c.isalnum() or c in " ,:;=&/@#%!<>\"'~`_-" for c in pattern)
    return text.str.split(pattern) if plain and limit <= 0 else None


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


def _with_pattern(rule: Rule, searched: bool = False) -> Rule:
    """The rule of a function whose second argument is a regular expression: one that can take for ever is refused at once."""

    def checked(call: Pending) -> Resolved:
        found = rule(call)
        pattern = found.args[1]
        if pattern.is_literal and isinstance(pattern.value, str):
            if not (searched and search_regex(pattern.value) is not None):
                try:
                    bounded(pattern.value)
                except Diagnostic as diagnostic:
                    if diagnostic.condition == "PATTERN_UNBOUNDED":
                        raise diagnostic.at(span_of(call.node)) from None
        return found

    return checked


ENTRIES = (
    Function("LIKE", {exp.Like: _read_like("LIKE"), exp.Escape: _read_escape}, (2, 2), TESTED, _like,
        _like_form),
    Function("ILIKE", {exp.ILike: _read_like("ILIKE")}, (2, 2), TESTED, _like, _like_form),
    Function("RLIKE", {exp.RegexpLike: "this expression"}, (2, 2), _with_pattern(TESTED, searched=True), each(rlike),
        form(_search_form, "STRING", "STRING", constants=(1,)), names="REGEXP_LIKE"),
    entry("SPLIT", exp.RegexpSplit, "this expression limit", (2, 3),
        _with_pattern(typed(array(STRING), STRING, STRING, INT)), _split,
        form(_split_form, "STRING", "STRING", "INT", constants=(1, 2))),
    entry("REGEXP_EXTRACT", exp.RegexpExtract, "this expression group", (2, 3),
        _with_pattern(of_text(STRING, INT)), regexp_extract, _regex_form(_extract_form)),
    entry("REGEXP_REPLACE", exp.RegexpReplace, "this expression replacement position", (3, 4),
        _with_pattern(of_text(STRING, STRING, INT)), regexp_replace, _regex_form(_regexp_replace_form, _may_grow)),
)  # fmt: skip
