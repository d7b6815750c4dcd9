"""Spark's ANSI type lattice: which types meet where, which one stands in for another.

The rules are those of Spark's ANSI mode: a value moves implicitly to a type that can hold it, a string to
whatever its partner is. Arithmetic on decimals loses scale before it loses digits of the integer part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import ParseError, exp

from tidegate.errors import Diagnostic, unsupported
from tidegate.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTEGRAL,
    INTERVAL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    VOID,
    Type,
    array,
    decimal,
)

MAX_PRECISION = 38
_MIN_SCALE = 6
_PRECEDENCE = (*INTEGRAL, "FLOAT", "DOUBLE")
_DECIMAL_OF = {
    "TINYINT": (3, 0),
    "SMALLINT": (5, 0),
    "INT": (10, 0),
    "BIGINT": (20, 0),
    "FLOAT": (14, 7),
    "DOUBLE": (30, 15),
}
_DATETIMES = ("DATE", "TIMESTAMP_NTZ", "TIMESTAMP")
_COMPLEX = ("ARRAY", "MAP", "STRUCT")


def is_atomic(type: Type) -> bool:
    return type.name not in _COMPLEX and type.name != "VOID"


def decimal_of(type: Type) -> Type:
    """The decimal that holds every value of a numeric type (roughly so for FLOAT and DOUBLE).

    >>> str(decimal_of(INT))
    'DECIMAL(10,0)'
    """
    return type if type.name == "DECIMAL" else decimal(*_DECIMAL_OF[type.name])


def _adjusted(precision: int, scale: int) -> Type:
    if precision <= MAX_PRECISION:
        return decimal(precision, scale)
    digits = precision - scale
    return decimal(MAX_PRECISION, max(MAX_PRECISION - digits, min(scale, _MIN_SCALE)))


def decimal_result(operator: str, left: Type, right: Type) -> Type:
    """The type of arithmetic on two decimals (spark.sql.decimalOperations.allowPrecisionLoss).

    >>> str(decimal_result("*", decimal(10, 2), decimal(5, 3)))
    'DECIMAL(16,5)'
    >>> str(decimal_result("/", decimal(38, 10), decimal(38, 10)))
    'DECIMAL(38,6)'
    """
    (p1, s1), (p2, s2) = left.params, right.params
    scale = max(s1, s2)
    if operator in ("+", "-"):
        return _adjusted(max(p1 - s1, p2 - s2) + scale + 1, scale)
    if operator == "*":
        return _adjusted(p1 + p2 + 1, s1 + s2)
    if operator == "/":
        scale = max(_MIN_SCALE, s1 + p2 + 1)
        return _adjusted(p1 - s1 + s2 + scale, scale)
    return _adjusted(min(p1 - s1, p2 - s2) + scale, scale)


def _wider_decimal(left: Type, right: Type) -> Type:
    (p1, s1), (p2, s2) = left.params, right.params
    scale = max(s1, s2)
    digits = max(p1 - s1, p2 - s2)
    return decimal(min(digits + scale, MAX_PRECISION), min(scale, MAX_PRECISION))


def _holds(wide: Type, integral: Type) -> bool:
    precision, scale = wide.params
    return bool(precision - scale >= _DECIMAL_OF[integral.name][0])


def tightest_type(a: Type, b: Type) -> Type | None:
    """The common type of two operands without loss and without strings; None if there is none.

    >>> str(tightest_type(INT, FLOAT)), tightest_type(STRING, INT)
    ('DOUBLE', None)
    """
    if a == b or b == VOID:
        return a
    if a == VOID:
        return b
    if a.is_integral and b.name == "DECIMAL":
        return b if _holds(b, a) else None
    if b.is_integral and a.name == "DECIMAL":
        return a if _holds(a, b) else None
    if a.name in _PRECEDENCE and b.name in _PRECEDENCE:
        wider = _PRECEDENCE[max(_PRECEDENCE.index(a.name), _PRECEDENCE.index(b.name))]
        return DOUBLE if wider == "FLOAT" else Type(wider)
    if a.name in _DATETIMES and b.name in _DATETIMES:
        return Type(_DATETIMES[max(_DATETIMES.index(a.name), _DATETIMES.index(b.name))])
    return _common_complex(a, b, tightest_type)


def _common_complex(a: Type, b: Type, meet: Callable[[Type, Type], Type | None]) -> Type | None:
    if a.name != b.name or a.name not in _COMPLEX:
        return None
    if a.name == "STRUCT":
        if [n.lower() for n, _ in a.params] != [n.lower() for n, _ in b.params]:
            return None
        members = [(n, meet(t, u)) for (n, t), (_, u) in zip(a.params, b.params, strict=True)]
        return Type("STRUCT", tuple(members)) if all(t is not None for _, t in members) else None
    types = [meet(t, u) for t, u in zip(a.params, b.params, strict=True)]
    return Type(a.name, tuple(types)) if all(t is not None for t in types) else None


def string_partner(a: Type, b: Type) -> Type | None:
    """What a string and another type meet in; None if neither is a string, or they never meet.

    >>> str(string_partner(STRING, INT)), str(string_partner(DATE, STRING))
    ('BIGINT', 'DATE')
    """
    if b == STRING:
        a, b = b, a
    if a != STRING or b == INTERVAL:
        return None
    if b.is_integral:
        return BIGINT
    if b.is_numeric:
        return DOUBLE
    return b if is_atomic(b) else None


def common_type(a: Type, b: Type) -> Type | None:
    """Spark's ANSI least common type, as for UNION, CASE, IN and comparisons; None if there is none.

    >>> str(common_type(INT, decimal(5, 2))), str(common_type(FLOAT, decimal(5, 2)))
    ('DECIMAL(12,2)', 'DOUBLE')
    >>> str(common_type(STRING, INT)), common_type(BOOLEAN, INT)
    ('BIGINT', None)
    """
    tight = tightest_type(a, b)
    if tight is not None:
        return tight
    if "DECIMAL" in (a.name, b.name) and a.is_numeric and b.is_numeric:
        if {a.name, b.name} & {"FLOAT", "DOUBLE"}:
            return DOUBLE
        return _wider_decimal(decimal_of(a), decimal_of(b))
    return string_partner(a, b) or _common_complex(a, b, common_type)


def common_type_of(types: Sequence[Type]) -> Type | None:
    """The common type of several, taken from left to right: the order can matter, as it does for Spark.

    >>> str(common_type_of([STRING, INT, decimal(2, 1)])), str(common_type_of([INT, decimal(2, 1), STRING]))
    ('DECIMAL(21,1)', 'DOUBLE')
    """
    result: Type | None = VOID
    for type in types:
        result = common_type(result, type) if result is not None else None
    return result


def can_cast(source: Type, target: Type) -> bool:
    """Whether a value moves implicitly: ANSI store assignment, and a string to any atomic type.

    >>> can_cast(BIGINT, INT), can_cast(STRING, DATE), can_cast(DATE, INT), can_cast(INT, STRING)
    (True, True, False, True)
    """
    if source == target or source == VOID or (source == STRING and is_atomic(target)):
        return True
    if source.is_numeric and target.is_numeric:
        return True
    if source.name in _DATETIMES and target.name in _DATETIMES:
        return True
    if target == STRING:
        return is_atomic(source)
    if source.name == target.name == "STRUCT":
        return len(source.params) == len(target.params) and all(
            can_cast(t, u) for (_, t), (_, u) in zip(source.params, target.params, strict=True)
        )
    if source.name == target.name and source.name in _COMPLEX:
        return all(can_cast(t, u) for t, u in zip(source.params, target.params, strict=True))
    return False


def can_cast_explicitly(source: Type, target: Type) -> bool:
    """Whether CAST exists between two types in ANSI mode.

    >>> can_cast_explicitly(BOOLEAN, INT), can_cast_explicitly(DATE, INT)
    (True, False)
    """
    if source == target or source == VOID:
        return True
    if source.name in _COMPLEX or target.name in _COMPLEX:
        if target == STRING:
            return True
        if source.name != target.name or len(source.params) != len(target.params):
            return False
        pairs = zip(source.params, target.params, strict=True)
        if source.name == "STRUCT":
            return all(can_cast_explicitly(t, u) for (_, t), (_, u) in pairs)
        return all(can_cast_explicitly(t, u) for t, u in pairs)
    if STRING in (source, target):
        return True
    if BINARY in (source, target):
        return source.is_integral and target == BINARY
    if source.is_numeric or source == BOOLEAN:
        if source != BOOLEAN and target == INTERVAL:
            return source.is_integral or source.name == "DECIMAL"
        return target.is_numeric or target == BOOLEAN or (source != BOOLEAN and target == TIMESTAMP)
    if source.name in _DATETIMES:
        return target.name in _DATETIMES or (source == TIMESTAMP and target.is_numeric)
    return source == INTERVAL and (target.is_integral or target.name == "DECIMAL")


_FROM_SQL = {
    "BOOLEAN": BOOLEAN,
    "TINYINT": TINYINT,
    "SMALLINT": SMALLINT,
    "INT": INT,
    "BIGINT": BIGINT,
    "FLOAT": FLOAT,
    "DOUBLE": DOUBLE,
    "TEXT": STRING,
    "VARCHAR": STRING,
    "CHAR": STRING,
    "NVARCHAR": STRING,
    "NCHAR": STRING,
    "BINARY": BINARY,
    "VARBINARY": BINARY,
    "DATE": DATE,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMPTZ": TIMESTAMP,
    "TIMESTAMPLTZ": TIMESTAMP,
    "TIMESTAMPNTZ": TIMESTAMP_NTZ,
    "INTERVAL": INTERVAL,
    "NULL": VOID,
}


_IN_MONTHS = ("INTERVAL YEAR", "INTERVAL MONTH")
"""What has no length of its own."""


def type_from_sql(type: exp.DataType) -> Type:
    """The type a declaration or CAST names.

    >>> str(type_from_sql(exp.DataType.build("ARRAY<NUMERIC(5, 2)>", dialect="spark")))
    'ARRAY<DECIMAL(5,2)>'
    >>> str(type_from_sql(exp.DataType.build("REAL", dialect="spark")))
    'FLOAT'
    """
    kind = type.this.value if isinstance(type.this, exp.DType) else str(type.this)
    parts = type.expressions
    if kind == "DECIMAL":
        texts = [p.name for p in parts]
        numbers = [int(text) if text.isdecimal() else -1 for text in texts]
        precision, scale, *more = [*numbers, 0, 0][: max(2, len(numbers))] if numbers else (10, 0)
        if more or not 0 < precision <= MAX_PRECISION or not 0 <= scale <= precision:
            message = f"DECIMAL({', '.join(texts)}) is not a type: at most {MAX_PRECISION} digits"
            raise Diagnostic("TYPE_MISMATCH", message)
        return decimal(precision, scale)
    if kind in ("ARRAY", "LIST") and parts:
        return array(type_from_sql(parts[0]))
    if kind == "MAP" and len(parts) == 2:
        return Type("MAP", (type_from_sql(parts[0]), type_from_sql(parts[1])))
    if kind == "STRUCT":
        return Type("STRUCT", tuple((p.name, type_from_sql(p.args["kind"])) for p in parts))
    if kind in _FROM_SQL:
        return _FROM_SQL[kind]
    if isinstance(type.this, exp.Interval) and not type.sql().upper().startswith(_IN_MONTHS):
        return INTERVAL
    raise unsupported(f"the type {type.sql('spark')} is not one of Tidegate's")


def type_named(text: str) -> Type:
    """The type that a text names.

    >>> str(type_named("decimal(5, 2)"))
    'DECIMAL(5,2)'
    """
    try:
        return type_from_sql(exp.DataType.build(text, dialect="spark"))
    except ParseError:
        raise Diagnostic("TYPE_MISMATCH", f"there is no type '{text}'") from None


def type_to_spark(type: Type) -> str:
    """The DDL text of a type.

    >>> type_to_spark(Type("STRUCT", (("a", INT), ("b", array(decimal(5, 2))))))
    'STRUCT<`a`: INT, `b`: ARRAY<DECIMAL(5,2)>>'
    >>> type_to_spark(INTERVAL)
    'INTERVAL DAY TO SECOND'
    """
    if type.name == "STRUCT":
        members = (f"`{name.replace('`', '``')}`: {type_to_spark(t)}" for name, t in type.params)
        return f"STRUCT<{', '.join(members)}>"
    if type.name in ("ARRAY", "MAP"):
        return f"{type.name}<{', '.join(type_to_spark(t) for t in type.params)}>"
    return "INTERVAL DAY TO SECOND" if type == INTERVAL else str(type)


def type_to_sqlglot(type: Type) -> exp.DataType:
    """The inverse of `type_from_sql`.

    >>> type_from_sql(type_to_sqlglot(array(decimal(5, 2)))) == array(decimal(5, 2))
    True
    """
    if type == VOID:
        return exp.DataType(this=exp.DType.NULL)
    return exp.DataType.build(type_to_spark(type), dialect="spark")
