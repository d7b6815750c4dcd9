"""Expressions and arguments for the comparison with Spark: every function of the set, awkward values.

A group has columns for a first and a second argument; its rows are all pairs of the listed values, so each
expression sees each pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import product
from typing import Any

NAN, INF = float("nan"), float("inf")


@dataclass(frozen=True)
class Group:
    """Columns (name, DDL type, values of argument 1 or 2) and the expressions over them."""

    columns: tuple[tuple[str, str, int, tuple[Any, ...]], ...]
    expressions: tuple[str, ...]

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        sizes = [max((len(v) for _, _, side, v in self.columns if side == s), default=1) for s in (1, 2)]
        pairs = product(range(sizes[0]), range(sizes[1]))
        return [
            tuple(values[(pair[side - 1]) % len(values)] for _, _, side, values in self.columns)
            for pair in pairs
        ]


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.strip().splitlines() if line.strip())


_T = (None, 0, 1, -1, 7, -128, 127)
_S = (None, 0, 1, -1, 300, -32768, 32767)
_I = (None, 0, 1, -1, 1000, -(2**31), 2**31 - 1)
_L = (None, 0, 1, -1, 12345678901, -(2**63), 2**63 - 1)
_F = (None, 0.0, 1.5, -2.5, NAN, INF, 0.10000000149011612)
_D = (None, 0.0, 2.5, -1e-7, NAN, -INF, 12345678.9)
_E = tuple(
    None if v is None else Decimal(v) for v in (None, "0.00", "1.25", "-2.50", "99999999.99", "0.01", "-7.99")
)
_G = tuple(
    None if v is None else Decimal(v)
    for v in (
        None,
        "0E-10",
        "1.5000000000",
        "-0.0000000001",
        "9999999999999999999999999999.9999999999",
        "3",
        "-3",
    )
)

NUMBERS = Group(
    columns=tuple(
        (name + ("" if side == 1 else "2"), type, side, values)
        for side in (1, 2)
        for name, type, values in (
            ("t", "TINYINT", _T),
            ("s", "SMALLINT", _S),
            ("i", "INT", _I),
            ("l", "BIGINT", _L),
            ("f", "FLOAT", _F),
            ("d", "DOUBLE", _D),
            ("e", "DECIMAL(10,2)", _E),
            ("g", "DECIMAL(38,10)", _G),
        )
    ),
    expressions=(
        *(
            f"{a} {op} {b}"
            for op in "+-*/%"
            for a, b in (
                ("t", "t2"),
                ("s", "t2"),
                ("i", "i2"),
                ("i", "l2"),
                ("l", "l2"),
                ("f", "f2"),
                ("f", "d2"),
                ("d", "d2"),
                ("e", "e2"),
                ("e", "i2"),
                ("g", "g2"),
                ("e", "d2"),
                ("e", "3"),
                ("l", "2.5"),
                ("i", "'3'"),
            )
        ),
        *(
            f"{a} {op} {b}"
            for op in ("=", "<>", "<", "<=", ">", ">=", "<=>")
            for a, b in (
                ("i", "i2"),
                ("t", "l2"),
                ("d", "d2"),
                ("f", "d2"),
                ("e", "g2"),
                ("e", "i2"),
                ("i", "f2"),
            )
        ),
        *_lines("""
        i DIV i2
        l DIV l2
        e DIV e2
        t DIV 2
        PMOD(i, i2)
        PMOD(l, l2)
        PMOD(t, t2)
        PMOD(d, d2)
        PMOD(e, e2)
        MOD(i, 3)
        -t
        -i
        -l
        -f
        -d
        -e
        ABS(i)
        ABS(l)
        ABS(d)
        ABS(e)
        SIGN(d)
        SIGN(i)
        SIGNUM(e)
        i & i2
        l | i2
        i ^ i2
        ~t
        ROUND(d)
        ROUND(d, 1)
        ROUND(d, -3)
        ROUND(f, 1)
        ROUND(e)
        ROUND(e, 1)
        ROUND(e, -1)
        ROUND(g, 4)
        ROUND(s, -2)
        ROUND(i)
        BROUND(t, 1)
        CAST(i AS DECIMAL(20,2))
        CAST(e AS DECIMAL(15,4))
        CAST(e AS DOUBLE)
        CAST(e AS BIGINT)
        i / 3
        d / 7
        l % 7
        i * 2.0
        PMOD(l, -7)
        ROUND(i, -3)
        BROUND(d)
        BROUND(e, 1)
        CEIL(d)
        CEIL(e)
        CEILING(f)
        FLOOR(d)
        FLOOR(e)
        FLOOR(g, 3)
        CEIL(i)
        CEIL(i, -2)
        POWER(d, 2)
        POWER(i, 0.5)
        POW(2, t)
        SQRT(d)
        SQRT(e)
        EXP(d)
        LN(d)
        LOG(i)
        LOG(2, d)
        LOG10(l)
        LOG2(e)
        ISNAN(d)
        ISNAN(i)
        NANVL(d, d2)
        PI()
        E()
        i IS NULL
        i IS NOT NULL
        ISNULL(d)
        ISNOTNULL(e)
        (i > 0) IS TRUE
        (i > 0) IS NOT FALSE
        i > 0 AND i2 > 0
        i > 0 OR i2 > 0
        NOT (i > 0)
        i IN (1, -1, 1000)
        i IN (1, NULL)
        i NOT IN (0, 1)
        i IN (i2, 1)
        d IN (CAST('NaN' AS DOUBLE), 0)
        e IN (1.25, 0)
        l IN (1, 1.5)
        i BETWEEN i2 AND 1000
        d NOT BETWEEN 0 AND d2
        i IS DISTINCT FROM i2
        CASE WHEN i > 0 THEN i WHEN i < 0 THEN e END
        CASE i WHEN 1 THEN 'one' WHEN i2 THEN 'same' ELSE 'other' END
        CASE WHEN i2 <> 0 THEN i % i2 ELSE 0 END
        IF(i > i2, d, e)
        IF(i > i2, NULL, l)
        COALESCE(i, i2)
        COALESCE(t, l2, 5)
        COALESCE(e, g2, 0)
        NVL(d, i2)
        IFNULL(f, d2)
        NVL2(i, i2, 7)
        NULLIF(i, i2)
        NULLIF(d, 0)
        GREATEST(i, i2)
        GREATEST(d, d2, 1)
        GREATEST(e, i2)
        LEAST(d, d2)
        LEAST(t, l2, 3)
        LEAST(f, f2)
        CAST(i AS TINYINT)
        CAST(l AS INT)
        CAST(d AS INT)
        CAST(d AS BIGINT)
        CAST(f AS SMALLINT)
        CAST(e AS INT)
        CAST(g AS BIGINT)
        CAST(i AS BOOLEAN)
        CAST(d AS BOOLEAN)
        CAST(i > 0 AS INT)
        CAST(i > 0 AS DECIMAL(3,1))
        CAST(d AS FLOAT)
        CAST(l AS FLOAT)
        CAST(d AS DECIMAL(10,3))
        CAST(f AS DECIMAL(20,15))
        CAST(g AS DECIMAL(10,1))
        CAST(i AS DECIMAL(5,2))
        CAST(t AS STRING)
        CAST(l AS STRING)
        CAST(f AS STRING)
        CAST(d AS STRING)
        CAST(e AS STRING)
        CAST(g AS STRING)
        CAST(i > 0 AS STRING)
        CAST(i AS TIMESTAMP)
        CAST(e AS TIMESTAMP)
        TRY_CAST(l AS INT)
        TRY_CAST(d AS INT)
        TRY_CAST(g AS DECIMAL(10,1))
        CAST(ARRAY(i, i2) AS ARRAY<STRING>)
        CAST(ARRAY(i, NULL) AS STRING)
        CAST(STRUCT(i, d) AS STRING)
        TIMESTAMP_SECONDS(i)
        TIMESTAMP_SECONDS(e)
        TIMESTAMP_MILLIS(i)
        TIMESTAMP_MICROS(l)
        DATE_FROM_UNIX_DATE(s)
        CONCAT(i, '/', d, '/', e)
        UPPER(d)
        LENGTH(i)
        ARRAY(i, l2, 3)
        ARRAY(i, e2)
        STRUCT(i, d2 AS x)
        NAMED_STRUCT('a', i, 'b', e2).b
        ARRAY_CONTAINS(ARRAY(i, 1), i2)
        ARRAY_CONTAINS(ARRAY(d, 1), d2)
        ARRAY(i, i2) = ARRAY(l2, l)
        ARRAY(i, i2) < ARRAY(i2, i)
        STRUCT(d AS p, i2 AS q) <=> STRUCT(d2 AS p, i AS q)
        1 + 1.5
        12345678901 * 2
        1e3 / 7
        0.05 * i
        1.5BD + e
        2L * i
        """),
    ),
)

_X = (
    None,
    "",
    "a",
    "Hello World",
    "héé ß 😀",
    "  pad  ",
    "a,b,,c",
    "100-200",
    "2020-02-30",
    "TRUE",
    " 12 ",
    "1e3",
    "-7.5",
    "a\nb\r\nc",
    "x_y%z\\",
    "Iſ İ\tσς ΑΣ",
    "e\u0301 l",
)
_Y = (None, "", "a", "l", ",", "xy")

TEXTS = Group(
    columns=(
        ("x", "STRING", 1, _X),
        ("y", "STRING", 2, _Y),
        ("n", "INT", 2, (None, 0, 1, 3, -2, 7)),
        ("b", "BINARY", 1, (None, b"", b"ab", b"\xc3\xa9")),
    ),
    expressions=(
        *(f"x {op} y" for op in ("=", "<>", "<", "<=", ">", ">=", "<=>", "||")),
        *(
            f"{f}(x)"
            for f in (
                "LENGTH",
                "LEN",
                "CHAR_LENGTH",
                "CHARACTER_LENGTH",
                "UPPER",
                "UCASE",
                "LOWER",
                "LCASE",
                "TRIM",
                "LTRIM",
                "RTRIM",
                "BTRIM",
                "REVERSE",
                "INITCAP",
                "ASCII",
                "MD5",
                "SHA",
                "SHA1",
            )
        ),
        *(
            f"CAST(x AS {t})"
            for t in (
                "INT",
                "TINYINT",
                "BIGINT",
                "DOUBLE",
                "FLOAT",
                "DECIMAL(10,2)",
                "BOOLEAN",
                "DATE",
                "TIMESTAMP",
                "BINARY",
            )
        ),
        *(f"TRY_CAST(x AS {t})" for t in ("INT", "DOUBLE", "DECIMAL(4,1)", "BOOLEAN", "DATE", "TIMESTAMP")),
        *_lines("""
        LTRIM('xy', x)
        RTRIM(y, x)
        BTRIM(x, y)
        TRIM(BOTH y FROM x)
        TRIM(LEADING 'Hh' FROM x)
        TRIM(TRAILING 'dc' FROM x)
        SUBSTRING(x, n, 3)
        SUBSTRING(x, n)
        SUBSTR(x, 2, n)
        SUBSTRING(b, n, 1)
        LEFT(x, n)
        RIGHT(x, n)
        CONCAT(x, y)
        CONCAT(x, n)
        CONCAT(b, b)
        CONCAT_WS(y, x, 'z', x)
        CONCAT_WS('-', ARRAY(x, y), n)
        REPLACE(x, y, 'Q')
        REPLACE(x, y)
        INSTR(x, y)
        INSTR(x, 'l')
        LOCATE('é', x, 1)
        CONCAT_WS('-', x, y, 'z')
        SUBSTRING_INDEX(x, 'l', 2)
        SUBSTRING_INDEX(x, ',', -2)
        REPLACE(x, 'll', 'L')
        REPLACE(x, 'é')
        REPLACE(x, 'l', '$0')
        SPLIT_PART(x, ',', -1)
        SPLIT_PART(x, 'l', 9)
        SPLIT(x, 'll')
        REGEXP_EXTRACT(x, '(,|^)([a-z]*)', 2)
        REGEXP_EXTRACT(x, '[^ ]+.', 0)
        REGEXP_REPLACE(x, '[0-9]+', '#')
        REGEXP_REPLACE(x, '(l+)(.)', '$2-$1$$')
        REGEXP_REPLACE(x, '(l+)(.)', '$2-$1')
        REGEXP_REPLACE(y, '[a-z]*', '.')
        x RLIKE '^[A-Z][a-z]*'
        x RLIKE 'a.b'
        x LIKE '%\\_y\\%%'
        x LIKE 'a_b%'
        x ILIKE '%S%'
        x ILIKE 'i%'
        TRIM(BOTH 'Hd' FROM x)
        BTRIM(x, ' 0')
        LTRIM(x)
        LPAD(x, 8, 'é')
        RPAD(x, 0)
        RPAD(x, 9, 'é')
        TRANSLATE(x, 'lol', 'é')
        TRANSLATE(x, '', 'a')
        SUBSTRING(x, 2)
        SUBSTRING(x, -3, 2)
        LEFT(x, 3)
        RIGHT(x, 3)
        REPEAT('é', n)
        LOCATE(y, x)
        LOCATE(y, x, n)
        POSITION(y IN x)
        SPLIT(x, ',')
        SPLIT(x, '')
        SPLIT(x, '[ ,]')
        SPLIT(x, 'l+', n)
        SPLIT(x, y)
        SPLIT_PART(x, ',', 2)
        SPLIT_PART(x, y, n)
        SUBSTRING_INDEX(x, 'l', n)
        REGEXP_EXTRACT(x, '([0-9]+)-([0-9]+)', 2)
        REGEXP_EXTRACT(x, '([a-z]+)')
        REGEXP_EXTRACT(x, 'l(o)?', 1)
        REGEXP_EXTRACT(x, '.$', 0)
        REGEXP_REPLACE(x, '[aeiou]', '<$0>')
        REGEXP_REPLACE(x, '(l)(o)', '$2$1')
        REGEXP_REPLACE(x, 'l', '', 4)
        REGEXP_LIKE(x, '^[A-Z]')
        x RLIKE 'l{2}'
        x RLIKE y
        x LIKE 'a%'
        x LIKE '%l_o%'
        x LIKE y
        x LIKE '%!%%' ESCAPE '!'
        x ILIKE 'HELLO%'
        x NOT LIKE '%a%'
        x NOT ILIKE 'A%'
        x NOT LIKE '!%%' ESCAPE '!'
        x NOT RLIKE 'a'
        STARTSWITH(x, y)
        ENDSWITH(x, y)
        CONTAINS(x, y)
        LPAD(x, 8, 'ab')
        LPAD(x, n, y)
        LPAD(x, 8)
        RPAD(x, n, 'zq')
        RPAD(x, 3)
        REPEAT(x, n)
        SPACE(n)
        TRANSLATE(x, 'lo,', '01')
        SHA2(x, 256)
        SHA2(x, 512)
        SHA2(b, 0)
        LENGTH(b)
        CAST(b AS STRING)
        b = CAST(x AS BINARY)
        x IN ('a', 'b')
        x IN (y, 'a')
        x BETWEEN 'a' AND y
        COALESCE(x, y, '')
        NULLIF(x, y)
        GREATEST(x, y)
        LEAST(x, y, 'm')
        CASE WHEN x = y THEN x ELSE n END
        IF(x IS NULL, y, x)
        SPLIT(x, ',')[0]
        SPLIT(x, ',')[n]
        ELEMENT_AT(SPLIT(x, ','), n)
        ELEMENT_AT(SPLIT(x, ','), -1)
        SIZE(SPLIT(x, ','))
        ARRAY_SIZE(SPLIT(x, ','))
        CARDINALITY(SPLIT(x, ','))
        ARRAY_CONTAINS(SPLIT(x, ','), y)
        CONCAT(SPLIT(x, ','), ARRAY(y))
        REVERSE(SPLIT(x, ','))
        n = '3'
        n IN ('1', '3')
        n + '2'
        """),
    ),
)

_DAYS = tuple(
    None if d is None else date.fromisoformat(d)
    for d in (None, "1970-01-01", "2020-02-29", "1969-12-31", "2021-01-03", "1600-03-01", "9999-12-31")
)
_MOMENTS = tuple(
    None if m is None else datetime.fromisoformat(m).replace(tzinfo=UTC)
    for m in (
        None,
        "1970-01-01T00:00:00",
        "2020-02-29T23:59:59.999999",
        "1969-12-31T23:59:58.500000",
        "2021-01-03T12:30:00.120000",
        "1900-03-31T04:05:06.000007",
        "2020-12-31T01:00:00",
    )
)
_SPANS = (
    None,
    timedelta(0),
    timedelta(days=1),
    timedelta(hours=-5, microseconds=3),
    timedelta(days=400),
    timedelta(microseconds=1),
)

DATES = Group(
    columns=(
        ("a", "DATE", 1, _DAYS),
        ("ts", "TIMESTAMP", 1, _MOMENTS),
        ("tn", "TIMESTAMP_NTZ", 1, tuple(m and m.replace(tzinfo=None) for m in _MOMENTS)),
        ("a2", "DATE", 2, _DAYS),
        ("ts2", "TIMESTAMP", 2, _MOMENTS),
        ("iv", "INTERVAL DAY TO SECOND", 2, _SPANS),
        ("k", "INT", 2, (None, 0, 1, -1, 13, 400)),
        (
            "w",
            "STRING",
            1,
            (
                None,
                "2020-01-03",
                "2020-1-3 1:2:3.5",
                "1999",
                "2020-01-03T01:02:03Z",
                "x",
                "2020-06",
                "2020-02-29 12:30:05",
            ),
        ),
    ),
    expressions=(
        *(
            f"{f}({c})"
            for c in ("a", "ts")
            for f in (
                "YEAR",
                "QUARTER",
                "MONTH",
                "WEEKOFYEAR",
                "DAY",
                "DAYOFMONTH",
                "DAYOFWEEK",
                "DAYOFYEAR",
                "WEEKDAY",
                "DATE",
                "TO_DATE",
                "LAST_DAY",
                "HOUR",
                "UNIX_TIMESTAMP",
            )
        ),
        *(f"{f}({c})" for c in ("ts", "tn") for f in ("HOUR", "MINUTE", "SECOND")),
        *(f"{f}(ts)" for f in ("UNIX_SECONDS", "UNIX_MILLIS", "UNIX_MICROS")),
        *(
            f"EXTRACT({p} FROM ts)"
            for p in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOW", "DOY", "HOUR", "SECOND")
        ),
        *(
            f"DATE_TRUNC('{u}', ts)"
            for u in (
                "YEAR",
                "yy",
                "QUARTER",
                "MONTH",
                "MON",
                "WEEK",
                "DAY",
                "HOUR",
                "MINUTE",
                "SECOND",
                "MILLISECOND",
                "MICROSECOND",
                "nothing",
            )
        ),
        *(f"TRUNC(a, '{u}')" for u in ("YEAR", "QUARTER", "MM", "WEEK", "DAY")),
        *(
            f"TIMESTAMPDIFF({u}, ts, ts2)"
            for u in ("MICROSECOND", "SECOND", "HOUR", "DAY", "WEEK", "MONTH", "YEAR")
        ),
        *(
            f"TIMESTAMPADD({u}, k, ts)"
            for u in ("MICROSECOND", "SECOND", "HOUR", "DAY", "WEEK", "MONTH", "YEAR")
        ),
        *(
            f"{left} {op} {right}"
            for op in ("=", "<", ">=", "<=>")
            for left, right in (("a", "a2"), ("ts", "ts2"), ("a", "ts2"), ("tn", "ts2"))
        ),
        *_lines("""
        UNIX_DATE(a)
        DATE_PART('year', ts)
        DATE(w)
        TO_DATE(w)
        TO_TIMESTAMP(w)
        TIMESTAMP(w)
        TO_DATE(w, 'yyyy-MM-dd')
        TO_TIMESTAMP(w, 'yyyy-MM-dd')
        UNIX_TIMESTAMP(w)
        UNIX_TIMESTAMP(w, 'yyyy-MM')
        DATE_FORMAT(ts, 'yyyy-MM-dd HH:mm:ss.SSS')
        DATE_FORMAT(a, 'E, d MMM yy')
        DATE_FORMAT(ts, "h:mm a")
        DATE_FORMAT(ts, "EEEE EEE E MMMM MMM M D DDD d y yy H hh m s SSSSSS '%'")
        DATE_FORMAT(ts, "yyyy'T'HH'%''x'")
        DATE_FORMAT(ts, 'yyyy\\'T\\'')
        TO_TIMESTAMP(w, "yyyy-MM-dd'T'HH:mm:ss'Z'")
        ADD_MONTHS(a, 13)
        ADD_MONTHS(a, -1)
        DATE_TRUNC('DAY', a)
        DATEDIFF(a, a2)
        DATE_DIFF(ts, a2)
        DATEDIFF(DAY, a, a2)
        DATE_ADD(a, k)
        DATE_ADD(ts, 1)
        DATE_SUB(a, k)
        DATEADD(DAY, k, a)
        DATEADD(HOUR, 5, ts)
        ADD_MONTHS(a, k)
        MAKE_DATE(2020, k, 29)
        a + k
        a - 5
        a - a2
        ts - ts2
        ts - a2
        a - ts2
        a + INTERVAL '1' DAY
        a - INTERVAL '2' WEEK
        a + INTERVAL '1' HOUR
        ts + INTERVAL '1' HOUR
        ts - INTERVAL '1 12:30' DAY TO MINUTE
        ts + INTERVAL '1 day 2 hours'
        ts + INTERVAL '1' MONTH
        a - INTERVAL '1' YEAR
        ts + INTERVAL '1-2' YEAR TO MONTH
        tn + INTERVAL 5 MINUTES
        ts + iv
        ts - iv
        tn + iv
        iv + iv
        iv - INTERVAL '1' DAY
        iv * 2
        iv * 0.5
        iv * CAST(1.5 AS DOUBLE)
        iv / 3
        iv / CAST(7 AS DOUBLE)
        iv DIV INTERVAL '1' HOUR
        -iv
        ABS(iv)
        SIGN(iv)
        iv = INTERVAL '24' HOUR
        iv < INTERVAL '1' SECOND
        GREATEST(iv, INTERVAL '1' HOUR)
        CAST(a AS STRING)
        CAST(ts AS STRING)
        CAST(tn AS STRING)
        CAST(a AS TIMESTAMP)
        CAST(ts AS DATE)
        CAST(tn AS DATE)
        CAST(ts AS TIMESTAMP_NTZ)
        CAST(tn AS TIMESTAMP)
        CAST(a AS TIMESTAMP_NTZ)
        CAST(ts AS BIGINT)
        CAST(ts AS INT)
        CAST(ts AS DOUBLE)
        CAST(ts AS DECIMAL(20,6))
        a = '2020-02-29'
        ts > '2020-01-01'
        ts BETWEEN TIMESTAMP '2000-01-01' AND ts2
        a IN (DATE '1970-01-01', a2)
        COALESCE(a, ts2)
        NULLIF(ts, ts2)
        LEAST(a, a2)
        GREATEST(a, ts2)
        CASE WHEN a < a2 THEN a ELSE ts END
        CONCAT(a, ' ', ts)
        a + NULL
        NULL - ts
        """),
    ),
)

GROUPS = {"numbers": NUMBERS, "texts": TEXTS, "dates": DATES}

LATIN = tuple(chr(code) for code in range(1, 0x180))
WORDS = (*LATIN, *(f"a{letter}B" for letter in LATIN), *(f"{letter}b {letter}C" for letter in LATIN))
"""Every letter for which the columnar forms of LOWER and UPPER do not ask the rows: alone and in words."""

CASES = ("UPPER(x)", "LOWER(x)", "x ILIKE '%s%'", "x ILIKE 'a_b'", "REVERSE(x)", "LENGTH(x)")
"""Functions of single letters."""

LAST_BIT = ("POW", "EXP(", "LN(", "LOG", "E()")
"""Functions whose last bit Java's library and C's decide differently."""

REFUSED = _lines("""
i + (i2 > 0)
(i > 0) = i2
i AND i2 > 0
CASE WHEN i THEN 1 END
IF('true', 1, 2)
GREATEST(i, 'a')
COALESCE(i, i2 > 0)
d DIV 2
'1' + '2'
SQRT(i > 0)
ROUND(i > 0)
UPPER(ARRAY(1))
ARRAY(1)['1']
ARRAY_CONTAINS(ARRAY(1), '1')
SIZE(i)
YEAR(i)
HOUR(d)
UNIX_MICROS(i)
UNIX_DATE(TIMESTAMP '2020-01-01')
TIMESTAMP_MICROS(d)
DATE_ADD(DATE '2020-01-01', l)
TIMESTAMP '2020-01-01' + i
INTERVAL '1' DAY + i
DATE '2020-01-01' * 2
MD5(i)
CAST(DATE '2020-01-01' AS INT)
STRUCT(i AS a).b
i < ARRAY(1)
i IN (i2, DATE '2020-01-01')
""")
"""Expressions over the numbers that the analyzer refuses."""

ROUND_TRIP_DIFFERS = {
    "UNIX_DATE(a)": "becomes DATEDIFF(DAY, DATE '1970-01-01', a), which is a BIGINT",
}
"""Expressions whose meaning sqlglot changes when it parses and generates them again, and how."""
