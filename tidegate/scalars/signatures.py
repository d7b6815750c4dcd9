"""The type rules of functions on text and on time; those of operators are in `scalar_rules`."""

from __future__ import annotations

from dataclasses import replace

from tidegate.scalars.rules import (
    RULES,
    Pending,
    Resolved,
    Rule,
    cast,
    implicit,
    mismatch,
    typed,
    unified,
)
from tidegate.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    INT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    Type,
    array,
    decimal,
)


def _concat(call: Pending) -> Resolved:
    types = {a.type for a in call.args if a.type != VOID}
    if any(t.name == "ARRAY" for t in types):
        args = unified(call, call.args)
        return replace(call, name="CONCAT_ARRAYS").done(args[0].type, args)
    target = BINARY if types == {BINARY} else STRING
    return call.done(target, [implicit(a, target, call) for a in call.args])


def _concat_ws(call: Pending) -> Resolved:
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


def _reverse(call: Pending) -> Resolved:
    if call.args[0].type.name == "ARRAY":
        return replace(call, name="REVERSE_ARRAY").done(call.args[0].type)
    return call.done(STRING, [implicit(call.args[0], STRING, call)])


def _instant(call: Pending) -> Resolved:
    """HOUR and its kin: the fields of a timestamp of either kind."""
    (arg,) = call.args
    arg = arg if arg.type == TIMESTAMP_NTZ else implicit(arg, TIMESTAMP, call)
    return call.done(decimal(8, 6) if call.name == "EXTRACT_SECOND" else INT, [arg])


def _unix(call: Pending) -> Resolved:
    (arg,) = call.args
    if arg.type not in (TIMESTAMP, TIMESTAMP_NTZ, VOID):
        raise mismatch(call, "TIMESTAMP")
    return call.done(BIGINT, [cast(arg, TIMESTAMP)])


def _unix_date(call: Pending) -> Resolved:
    (arg,) = call.args
    if arg.type not in (DATE, VOID):
        raise mismatch(call, "DATE")
    return call.done(INT, [cast(arg, DATE)])


def _unix_timestamp(call: Pending) -> Resolved:
    (arg,) = call.args
    if arg.type not in (STRING, DATE, TIMESTAMP, TIMESTAMP_NTZ, VOID):
        raise mismatch(call, "a STRING, a DATE or a TIMESTAMP")
    return call.done(BIGINT, [arg if arg.type == STRING else cast(arg, TIMESTAMP)], arg.nullable)


def _timestamp_of(call: Pending) -> Resolved:
    (arg,) = call.args
    numeric = arg.type.is_integral or (call.name == "TIMESTAMP_SECONDS" and arg.type.is_numeric)
    if not numeric and arg.type != VOID:
        raise mismatch(call, "a number" if call.name == "TIMESTAMP_SECONDS" else "an integer")
    arg = cast(arg, BIGINT) if arg.type == VOID else arg
    return call.done(TIMESTAMP, [arg], arg.nullable or not arg.type.is_integral)


def _date_add(call: Pending) -> Resolved:
    start, days = call.args
    constant = days.type == STRING and days.name == "LITERAL"
    if days.type.name not in ("INT", "SMALLINT", "TINYINT", "VOID") and not constant:
        raise mismatch(call, "DATE and INT")
    return call.done(DATE, [implicit(start, DATE, call), cast(days, INT)])


def _timestamp_add(call: Pending) -> Resolved:
    amount, start = call.args
    if not amount.type.is_integral and amount.type != VOID:
        raise mismatch(call, "an integer and a TIMESTAMP")
    start = start if start.type == TIMESTAMP_NTZ else implicit(start, TIMESTAMP, call)
    return call.done(start.type, [cast(amount, BIGINT), start])


def _to_date(call: Pending) -> Resolved:
    arg = implicit(call.args[0], STRING if call.detail else DATE, call)
    return call.done(DATE, [arg]) if call.detail else arg


def _to_timestamp(call: Pending) -> Resolved:
    return call.done(TIMESTAMP, [implicit(call.args[0], STRING, call)])


def _trim(call: Pending) -> Resolved:
    side = {"LEADING": "LTRIM", "TRAILING": "RTRIM"}.get(call.detail, "TRIM")
    return replace(call, name=side).done(STRING, [implicit(a, STRING, call) for a in call.args])


def _locate(call: Pending) -> Resolved:
    args = [implicit(a, t, call) for a, t in zip(call.args, (STRING, STRING, INT), strict=False)]
    return call.done(INT, args, any(a.nullable for a in args[:2]))


def _sha2(call: Pending) -> Resolved:
    return call.done(STRING, [_bytes(call.args[0], call), implicit(call.args[1], INT, call)], True)


def _bytes(arg: Resolved, call: Pending) -> Resolved:
    if arg.type not in (STRING, BINARY, VOID):
        raise mismatch(call, "a STRING or BINARY")
    return cast(arg, BINARY)


def _digest(call: Pending) -> Resolved:
    return call.done(STRING, [_bytes(call.args[0], call)])


def _likeness(call: Pending) -> Resolved:
    return call.done(BOOLEAN, [implicit(a, STRING, call) for a in call.args])


_DATE_PART: tuple[int, int, Rule] = (1, 1, typed(INT, DATE))
_INSTANT: tuple[int, int, Rule] = (1, 1, _instant)

SIGNATURES: dict[str, tuple[int, int | None, Rule]] = {
    **RULES,
    "LIKE": (2, 2, _likeness),
    "ILIKE": (2, 2, _likeness),
    "RLIKE": (2, 2, _likeness),
    "STARTSWITH": (2, 2, _likeness),
    "ENDSWITH": (2, 2, _likeness),
    "CONTAINS": (2, 2, _likeness),
    "CONCAT": (0, None, _concat),
    "CONCAT_WS": (1, None, _concat_ws),
    "REVERSE": (1, 1, _reverse),
    "LENGTH": (1, 1, _text_or_bytes(INT)),
    "SUBSTRING": (2, 3, _text_or_bytes(None, INT, INT)),
    "LEFT": (2, 2, _text_or_bytes(None, INT)),
    "RIGHT": (2, 2, typed(STRING, STRING, INT)),
    "UPPER": (1, 1, typed(STRING, STRING)),
    "LOWER": (1, 1, typed(STRING, STRING)),
    "INITCAP": (1, 1, typed(STRING, STRING)),
    "TRIM": (1, 2, _trim),
    "REPLACE": (2, 3, typed(STRING, STRING, STRING, STRING)),
    "TRANSLATE": (3, 3, typed(STRING, STRING, STRING, STRING)),
    "LOCATE": (2, 3, _locate),
    "SPLIT": (2, 3, typed(array(STRING), STRING, STRING, INT)),
    "SPLIT_PART": (3, 3, typed(STRING, STRING, STRING, INT)),
    "SUBSTRING_INDEX": (3, 3, typed(STRING, STRING, STRING, INT)),
    "REGEXP_EXTRACT": (2, 3, typed(STRING, STRING, STRING, INT)),
    "REGEXP_REPLACE": (3, 4, typed(STRING, STRING, STRING, STRING, INT)),
    "LPAD": (2, 3, typed(STRING, STRING, INT, STRING)),
    "RPAD": (2, 3, typed(STRING, STRING, INT, STRING)),
    "REPEAT": (2, 2, typed(STRING, STRING, INT)),
    "ASCII": (1, 1, typed(INT, STRING)),
    "MD5": (1, 1, _digest),
    "SHA1": (1, 1, _digest),
    "SHA2": (2, 2, _sha2),
    **dict.fromkeys(
        ("YEAR", "QUARTER", "MONTH", "WEEKOFYEAR", "DAY", "DAYOFWEEK", "WEEKDAY", "DAYOFYEAR"), _DATE_PART
    ),
    **dict.fromkeys(("HOUR", "MINUTE", "SECOND", "EXTRACT_SECOND"), _INSTANT),
    "DATE_TRUNC": (1, 1, typed(TIMESTAMP, TIMESTAMP, nullable=True)),
    "TRUNC": (1, 1, typed(DATE, DATE, nullable=True)),
    "TO_DATE": (1, 1, _to_date),
    "TO_TIMESTAMP": (1, 1, _to_timestamp),
    "DATE_FORMAT": (1, 1, typed(STRING, TIMESTAMP)),
    "UNIX_TIMESTAMP": (1, 1, _unix_timestamp),
    "UNIX_SECONDS": (1, 1, _unix),
    "UNIX_MILLIS": (1, 1, _unix),
    "UNIX_MICROS": (1, 1, _unix),
    "UNIX_DATE": (1, 1, _unix_date),
    "DATE_FROM_UNIX_DATE": (1, 1, typed(DATE, INT)),
    "TIMESTAMP_SECONDS": (1, 1, _timestamp_of),
    "TIMESTAMP_MILLIS": (1, 1, _timestamp_of),
    "TIMESTAMP_MICROS": (1, 1, _timestamp_of),
    "DATEDIFF": (2, 2, typed(INT, DATE, DATE)),
    "TIMESTAMPDIFF": (2, 2, typed(BIGINT, TIMESTAMP, TIMESTAMP)),
    "DATE_ADD": (2, 2, _date_add),
    "TIMESTAMPADD": (2, 2, _timestamp_add),
    "ADD_MONTHS": (2, 2, typed(DATE, DATE, INT)),
    "LAST_DAY": (1, 1, typed(DATE, DATE)),
    "MAKE_DATE": (3, 3, typed(DATE, INT, INT, INT)),
}
"""Every call that has a type rule."""
