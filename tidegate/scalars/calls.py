"""Scalar expressions as calls: one name and a list of arguments for each of sqlglot's many classes.

sqlglot gives functions classes of its own, wraps some arguments, and rewrites others (`YEAR(x)` becomes
`Year(TsOrDsToDate(x))`, `CAST` becomes `TryCast`). Here each node gets Spark's name back, so that types and
meaning are tables by name. Constructs that Spark defines by others (BETWEEN, NULLIF, NVL2) become those.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

from tidegate.errors import Diagnostic, unsupported


@dataclass(frozen=True)
class Call:
    """A function or operator with its arguments; `detail`: what is no expression (a type, a unit)."""

    name: str
    args: tuple[exp.Expression, ...]
    detail: Any = None


_SHAPES: dict[type[exp.Expression], tuple[str, tuple[str, ...]]] = {
    exp.Add: ("+", ("this", "expression")),
    exp.Sub: ("-", ("this", "expression")),
    exp.Mul: ("*", ("this", "expression")),
    exp.Div: ("/", ("this", "expression")),
    exp.IntDiv: ("DIV", ("this", "expression")),
    exp.Mod: ("%", ("this", "expression")),
    exp.Neg: ("NEGATIVE", ("this",)),
    exp.BitwiseAnd: ("&", ("this", "expression")),
    exp.BitwiseOr: ("|", ("this", "expression")),
    exp.BitwiseXor: ("^", ("this", "expression")),
    exp.BitwiseNot: ("~", ("this",)),
    exp.EQ: ("=", ("this", "expression")),
    exp.NEQ: ("<>", ("this", "expression")),
    exp.LT: ("<", ("this", "expression")),
    exp.LTE: ("<=", ("this", "expression")),
    exp.GT: (">", ("this", "expression")),
    exp.GTE: (">=", ("this", "expression")),
    exp.NullSafeEQ: ("<=>", ("this", "expression")),
    exp.And: ("AND", ("this", "expression")),
    exp.Or: ("OR", ("this", "expression")),
    exp.Not: ("NOT", ("this",)),
    exp.ILike: ("ILIKE", ("this", "expression")),
    exp.RegexpLike: ("RLIKE", ("this", "expression")),
    exp.If: ("IF", ("this", "true", "false")),
    exp.Coalesce: ("COALESCE", ("this", "*expressions")),
    exp.Greatest: ("GREATEST", ("this", "*expressions")),
    exp.Least: ("LEAST", ("this", "*expressions")),
    exp.Abs: ("ABS", ("this",)),
    exp.Round: ("ROUND", ("this", "decimals")),
    exp.Ceil: ("CEIL", ("this", "decimals")),
    exp.Floor: ("FLOOR", ("this", "decimals")),
    exp.Pow: ("POWER", ("this", "expression")),
    exp.Sqrt: ("SQRT", ("this",)),
    exp.Exp: ("EXP", ("this",)),
    exp.Ln: ("LN", ("this",)),
    exp.Log: ("LOG", ("this", "expression")),
    exp.Sign: ("SIGN", ("this",)),
    exp.IsNan: ("ISNAN", ("this",)),
    exp.Nanvl: ("NANVL", ("this", "expression")),
    exp.Length: ("LENGTH", ("this",)),
    exp.Upper: ("UPPER", ("this",)),
    exp.Lower: ("LOWER", ("this",)),
    exp.Substring: ("SUBSTRING", ("this", "start", "length")),
    exp.Left: ("LEFT", ("this", "expression")),
    exp.Right: ("RIGHT", ("this", "expression")),
    exp.Concat: ("CONCAT", ("*expressions",)),
    exp.DPipe: ("CONCAT", ("this", "expression")),
    exp.ConcatWs: ("CONCAT_WS", ("*expressions",)),
    exp.Replace: ("REPLACE", ("this", "expression", "replacement")),
    exp.StrPosition: ("LOCATE", ("substr", "this", "position")),
    exp.RegexpSplit: ("SPLIT", ("this", "expression", "limit")),
    exp.RegexpExtract: ("REGEXP_EXTRACT", ("this", "expression", "group")),
    exp.RegexpReplace: ("REGEXP_REPLACE", ("this", "expression", "replacement", "position")),
    exp.StartsWith: ("STARTSWITH", ("this", "expression")),
    exp.EndsWith: ("ENDSWITH", ("this", "expression")),
    exp.Contains: ("CONTAINS", ("this", "expression")),
    exp.Reverse: ("REVERSE", ("this",)),
    exp.Repeat: ("REPEAT", ("this", "times")),
    exp.Initcap: ("INITCAP", ("this",)),
    exp.Translate: ("TRANSLATE", ("this", "from_", "to")),
    exp.SplitPart: ("SPLIT_PART", ("this", "delimiter", "part_index")),
    exp.SubstringIndex: ("SUBSTRING_INDEX", ("this", "delimiter", "count")),
    exp.Ascii: ("ASCII", ("this",)),
    exp.MD5: ("MD5", ("this",)),
    exp.SHA: ("SHA1", ("this",)),
    exp.SHA2: ("SHA2", ("this", "length")),
    exp.Year: ("YEAR", ("this",)),
    exp.Month: ("MONTH", ("this",)),
    exp.Day: ("DAY", ("this",)),
    exp.DayOfMonth: ("DAY", ("this",)),
    exp.DayOfWeek: ("DAYOFWEEK", ("this",)),
    exp.DayOfYear: ("DAYOFYEAR", ("this",)),
    exp.WeekOfYear: ("WEEKOFYEAR", ("this",)),
    exp.Quarter: ("QUARTER", ("this",)),
    exp.Hour: ("HOUR", ("this",)),
    exp.Minute: ("MINUTE", ("this",)),
    exp.Second: ("SECOND", ("this",)),
    exp.UnixSeconds: ("UNIX_SECONDS", ("this",)),
    exp.UnixMillis: ("UNIX_MILLIS", ("this",)),
    exp.UnixMicros: ("UNIX_MICROS", ("this",)),
    exp.UnixDate: ("UNIX_DATE", ("this",)),
    exp.DateFromUnixDate: ("DATE_FROM_UNIX_DATE", ("this",)),
    exp.AddMonths: ("ADD_MONTHS", ("this", "expression")),
    exp.LastDay: ("LAST_DAY", ("this",)),
    exp.ArraySize: ("SIZE", ("this",)),
    exp.Array: ("ARRAY", ("*expressions",)),
    exp.ArrayContains: ("ARRAY_CONTAINS", ("this", "expression")),
}

_SYNONYMS = {
    "E": "E",
    "PMOD": "PMOD",
    "ISNULL": "ISNULL",
    "ISNOTNULL": "ISNOTNULL",
    "BROUND": "BROUND",
    "BTRIM": "TRIM",
    "WEEKDAY": "WEEKDAY",
    "TIMESTAMP_SECONDS": "TIMESTAMP_SECONDS",
    "TIMESTAMP_MILLIS": "TIMESTAMP_MILLIS",
    "TIMESTAMP_MICROS": "TIMESTAMP_MICROS",
    "MAKE_DATE": "MAKE_DATE",
    "CARDINALITY": "SIZE",
}

FUNCTIONS: tuple[str, ...] = tuple(
    """ABS ADD_MONTHS ARRAY ARRAY_CONTAINS ARRAY_SIZE ASCII BROUND BTRIM CARDINALITY CAST CEIL CEILING
    CHARACTER_LENGTH CHAR_LENGTH COALESCE CONCAT CONCAT_WS CONTAINS DATE DATEADD DATEDIFF DATE_ADD
    DATE_DIFF DATE_FORMAT DATE_FROM_UNIX_DATE DATE_PART DATE_SUB DATE_TRUNC DAY DAYOFMONTH DAYOFWEEK
    DAYOFYEAR E ELEMENT_AT ENDSWITH EXP EXTRACT FLOOR GREATEST HOUR IF IFNULL INITCAP INSTR ISNAN
    ISNOTNULL ISNULL LAST_DAY LCASE LEAST LEFT LEN LENGTH LN LOCATE LOG LOG10 LOG2 LOWER LPAD LTRIM
    MAKE_DATE MD5 MINUTE MOD MONTH NAMED_STRUCT NANVL NULLIF NVL NVL2 PI PMOD POSITION POW POWER
    QUARTER REGEXP_EXTRACT REGEXP_LIKE REGEXP_REPLACE REPEAT REPLACE REVERSE RIGHT ROUND RPAD RTRIM
    SECOND SHA SHA1 SHA2 SIGN SIGNUM SIZE SPLIT SPLIT_PART SQRT STARTSWITH STRUCT SUBSTR SUBSTRING
    SUBSTRING_INDEX TIMESTAMP TIMESTAMPADD TIMESTAMPDIFF TIMESTAMP_MICROS TIMESTAMP_MILLIS
    TIMESTAMP_SECONDS TO_DATE TO_TIMESTAMP TRANSLATE TRIM TRUNC TRY_CAST UCASE UNIX_DATE UNIX_MICROS
    UNIX_MILLIS UNIX_SECONDS UNIX_TIMESTAMP UPPER WEEKDAY WEEKOFYEAR YEAR""".split()
)
"""Every function of the built-in set, by its names in SQL; operators are not functions."""

_NONDETERMINISTIC = (
    exp.Rand,
    exp.Randn,
    exp.Uuid,
    exp.CurrentTimestamp,
    exp.CurrentDate,
    exp.CurrentTime,
    exp.CurrentDatetime,
    exp.CurrentUser,
    exp.Localtimestamp,
    exp.Shuffle,
)
_NONDETERMINISTIC_NAMES = frozenset(
    """NOW CURDATE CURRENT_DATE CURRENT_TIMESTAMP CURRENT_TIME LOCALTIMESTAMP RAND RANDOM RANDN RANDSTR
    UNIFORM UUID SHUFFLE MONOTONICALLY_INCREASING_ID SPARK_PARTITION_ID INPUT_FILE_NAME
    INPUT_FILE_BLOCK_START INPUT_FILE_BLOCK_LENGTH CURRENT_USER SESSION_USER USER CURRENT_DATABASE
    CURRENT_CATALOG""".split()
)

_EXTRACTS = {
    **dict.fromkeys(("YEAR", "Y", "YEARS", "YR", "YRS"), "YEAR"),
    **dict.fromkeys(("QUARTER", "QTR"), "QUARTER"),
    **dict.fromkeys(("MONTH", "MON", "MONS", "MONTHS"), "MONTH"),
    **dict.fromkeys(("WEEK", "W", "WEEKS"), "WEEKOFYEAR"),
    **dict.fromkeys(("DAY", "D", "DAYS"), "DAY"),
    **dict.fromkeys(("DAYOFWEEK", "DOW"), "DAYOFWEEK"),
    "DOY": "DAYOFYEAR",
    **dict.fromkeys(("HOUR", "H", "HOURS", "HR", "HRS"), "HOUR"),
    **dict.fromkeys(("MINUTE", "M", "MIN", "MINS", "MINUTES"), "MINUTE"),
    **dict.fromkeys(("SECOND", "S", "SEC", "SECONDS", "SECS"), "EXTRACT_SECOND"),
}


def is_nondeterministic(node: exp.Expression) -> bool:
    """Whether Spark would answer this call by something other than its arguments.

    >>> import sqlglot
    >>> [is_nondeterministic(sqlglot.parse_one(s, dialect="spark")) for s in ("RAND()", "now()", "ABS(1)")]
    [True, True, False]
    """
    if isinstance(node, exp.Anonymous):
        return node.name.upper() in _NONDETERMINISTIC_NAMES
    return isinstance(node, _NONDETERMINISTIC)


def call_of(node: exp.Expression) -> Call | None:
    """The call a node stands for; None if it is not of the built-in set.

    >>> import sqlglot
    >>> def show(sql):
    ...     call = call_of(sqlglot.parse_one(sql, dialect="spark"))
    ...     return call and (call.name, [a.sql("spark") for a in call.args])
    >>> show("INSTR(c0, 'x')"), show("c0 BETWEEN 1 AND 2"), show("NVL2(c0, 1, 2)")
    (('LOCATE', ["'x'", 'c0']), ('AND', ['c0 >= 1', 'c0 <= 2']), ('IF', ['NOT c0 IS NULL', '1', '2']))
    >>> show("MYSTERY(c0)") is None
    True
    """
    if isinstance(node, (exp.Like, exp.ILike)) and node.args.get("negate"):
        return Call("NOT", (_affirmed(node),))
    shape = _SHAPES.get(type(node))
    if shape is not None:
        if _has_unread_arguments(node, shape[1]):
            return None
        if isinstance(node, exp.Log) and node.args.get("expression") is None:
            return Call("LN", (node.this,))
        args: list[exp.Expression] = []
        for key in shape[1]:
            if key.startswith("*"):
                args.extend(node.args.get(key[1:]) or ())
            elif isinstance(part := node.args.get(key), exp.Expression):
                args.append(part)
        return Call(shape[0], tuple(args))
    if isinstance(node, exp.Anonymous):
        return _named(node)
    return _construct(node) or _date_call(node)


def _affirmed(node: exp.Expression) -> exp.Expression:
    """`x LIKE y` of `x NOT LIKE y`, which sqlglot marks by a flag."""
    positive = node.copy()
    positive.set("negate", None)
    return positive


_HARMLESS = {"typed", "safe", "coalesce", "flatten", "ignore_nulls", "null_if_pos_overflow"}
"""Arguments that sqlglot sets for its translations between dialects; Spark's meaning has them built in."""


def _has_unread_arguments(node: exp.Expression, keys: tuple[str, ...]) -> bool:
    """Whether a node says more than its shape reads: then it must not be taken for the plain call."""
    read = {key.removeprefix("*") for key in keys} | _HARMLESS
    if isinstance(node, exp.Initcap):
        read.add("expression")
    return any(value for key, value in node.args.items() if key not in read)


def _named(node: exp.Anonymous) -> Call | None:
    name = node.name.upper()
    if name == "DATE_PART" and len(node.expressions) == 2 and node.expressions[0].is_string:
        return _extract(node.expressions[0].name, node.expressions[1])
    if name == "BTRIM":
        return Call("TRIM", tuple(node.expressions), "BOTH")
    return Call(_SYNONYMS[name], tuple(node.expressions)) if name in _SYNONYMS else None


def _extract(part: str, source: exp.Expression) -> Call | None:
    name = _EXTRACTS.get(part.upper())
    return Call(name, (source,)) if name else None


def _construct(node: exp.Expression) -> Call | None:
    """Syntax rather than functions: casts, conditions, access, constructors."""
    if isinstance(node, exp.Cast):
        safe = isinstance(node, exp.TryCast) and bool(node.args.get("safe"))
        return Call("TRY_CAST" if safe else "CAST", (node.this,), node.to)
    if isinstance(node, exp.Between):
        low = exp.GTE(this=node.this, expression=node.args["low"])
        return Call("AND", (low, exp.LTE(this=node.this, expression=node.args["high"])))
    if isinstance(node, exp.Is):
        if isinstance(node.expression, exp.Null):
            return Call("ISNULL", (node.this,))
        if isinstance(node.expression, exp.Boolean):
            return Call("<=>", (node.this, node.expression))
        return None
    if isinstance(node, exp.NullSafeNEQ):
        return Call("NOT", (exp.NullSafeEQ(this=node.this, expression=node.expression),))
    if isinstance(node, exp.In):
        if node.args.get("query") or node.args.get("unnest") or node.args.get("field"):
            return None
        return Call("IN", (node.this, *node.expressions))
    if isinstance(node, exp.Like):
        quantified = isinstance(node.expression, (exp.Any, exp.All))
        return None if quantified else Call("LIKE", (node.this, node.expression))
    if isinstance(node, exp.Escape) and isinstance(node.this, (exp.Like, exp.ILike)):
        if node.this.args.get("negate"):
            return Call("NOT", (exp.Escape(this=_affirmed(node.this), expression=node.expression),))
        name = "ILIKE" if isinstance(node.this, exp.ILike) else "LIKE"
        return Call(name, (node.this.this, node.this.expression), node.expression.name)
    if isinstance(node, exp.Case):
        return _case(node)
    if isinstance(node, exp.Nullif):
        return Call("NULLIF", (exp.EQ(this=node.this, expression=node.expression), node.this))
    if isinstance(node, exp.Nvl2):
        present = exp.Not(this=exp.Is(this=node.this, expression=exp.Null()))
        return Call("IF", (present, node.args["true"], node.args.get("false") or exp.Null()))
    if isinstance(node, exp.Trim):
        removed = [node.expression] if node.args.get("expression") else []
        return Call("TRIM", (node.this, *removed), (node.args.get("position") or "BOTH").upper())
    if isinstance(node, exp.Pad):
        fill = [node.args["fill_pattern"]] if node.args.get("fill_pattern") else []
        return Call("LPAD" if node.args.get("is_left") else "RPAD", (node.this, node.expression, *fill))
    if isinstance(node, exp.Bracket):
        name = "ELEMENT_AT" if node.args.get("offset") == 1 else "SUBSCRIPT"
        return Call(name, (node.this, *node.expressions)) if len(node.expressions) == 1 else None
    if isinstance(node, exp.Dot) and isinstance(node.expression, (exp.Identifier, exp.Column, exp.Var)):
        return Call("FIELD", (node.this,), node.expression.name)
    if isinstance(node, exp.Struct):
        return _struct(node)
    if isinstance(node, exp.Pi):
        return Call("PI", ())
    if isinstance(node, exp.Space):
        return Call("REPEAT", (exp.Literal.string(" "), node.this))
    return None


def _case(node: exp.Case) -> Call:
    args: list[exp.Expression] = []
    for branch in node.args["ifs"]:
        condition = branch.this
        if node.this:
            condition = exp.EQ(this=node.this, expression=condition)
        args += [condition, branch.args["true"]]
    if node.args.get("default"):
        args.append(node.args["default"])
    return Call("CASE", tuple(args))


def _struct(node: exp.Struct) -> Call:
    names, args = [], []
    for number, member in enumerate(node.expressions, 1):
        if isinstance(member, (exp.PropertyEQ, exp.Alias)):
            named = isinstance(member, exp.PropertyEQ)
            names.append(member.this.name if named else member.alias)
            args.append(member.expression if named else member.this)
        else:
            names.append(member.name if isinstance(member, exp.Column) else f"col{number}")
            args.append(member)
    return Call("STRUCT", tuple(args), tuple(names))


def _date_call(node: exp.Expression) -> Call | None:
    if isinstance(node, exp.TsOrDsToDate):
        if node.args.get("format"):
            return Call("TO_DATE", (node.this,), time_pattern(node))
        return Call("TO_DATE", (node.this,))
    if isinstance(node, exp.StrToTime):
        return Call("TO_TIMESTAMP", (node.this,), time_pattern(node))
    if isinstance(node, exp.StrToUnix):
        return Call("UNIX_TIMESTAMP", (node.this,), time_pattern(node) if node.args.get("format") else None)
    if isinstance(node, exp.TimeToStr):
        source = node.this.this if isinstance(node.this, exp.TimeStrToTime) else node.this
        return Call("DATE_FORMAT", (source,), time_pattern(node))
    if isinstance(node, exp.Extract):
        return _extract(node.this.name, node.expression)
    if isinstance(node, (exp.TimestampTrunc, exp.DateTrunc)):
        name = "DATE_TRUNC" if isinstance(node, exp.TimestampTrunc) else "TRUNC"
        unit = node.args.get("unit")
        return (
            Call(name, (node.this,), unit.name.upper()) if isinstance(unit, (exp.Var, exp.Literal)) else None
        )
    if isinstance(node, exp.DateDiff):
        sides = (_undated(node.this), _undated(node.expression))
        unit = node.args.get("unit")
        return Call("TIMESTAMPDIFF", sides[::-1], unit.name.upper()) if unit else Call("DATEDIFF", sides)
    if isinstance(node, exp.TimestampDiff):
        unit = node.args.get("unit")
        return Call("TIMESTAMPDIFF", (node.expression, node.this), unit.name.upper()) if unit else None
    if isinstance(node, exp.TsOrDsAdd):
        return Call("DATE_ADD", (node.this, node.expression))
    if isinstance(node, exp.TimestampAdd):
        unit = node.args.get("unit")
        return Call("TIMESTAMPADD", (node.expression, node.this), unit.name.upper()) if unit else None
    return None


def _undated(node: exp.Expression) -> exp.Expression:
    return node.this if isinstance(node, exp.TsOrDsToDate) and not node.args.get("format") else node


def time_pattern(node: exp.Expression) -> str | None:
    """The datetime pattern as the query wrote it: sqlglot keeps a translation; None if it is not constant."""
    format = node.args.get("format")
    if not isinstance(format, exp.Literal) or not format.is_string:
        return None
    written = Dialect.get_or_raise("spark").generator().format_time(node)
    return written[1:-1].replace("''", "'") if written else None


def nondeterministic(node: exp.Expression) -> Diagnostic:
    name = node.name.upper() if isinstance(node, exp.Anonymous) else node.sql("spark")
    name = name.removesuffix("()")
    return Diagnostic(
        "NONDETERMINISTIC",
        f"{name} has no single value: only the streams and application time decide an answer",
        help="use the stream's own TS, or NOW in a predicate, instead of a clock or a random number",
    )


def unsupported_call(node: exp.Expression) -> Diagnostic:
    return unsupported(f"{node.sql('spark')} is not in the set of expressions that kernels evaluate")
