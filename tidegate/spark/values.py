"""Rows that a program hands in, and the three spellings of a type: Tidegate's, Arrow's and Spark's DDL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, time
from decimal import Decimal
from numbers import Integral, Real
from types import NoneType
from typing import Any

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame

from tidegate.errors import Diagnostic, did_you_mean
from tidegate.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    VOID,
    Field,
    Schema,
    Type,
    array,
    decimal,
)

_ARROW: dict[Type, pa.DataType] = {
    VOID: pa.null(),
    BOOLEAN: pa.bool_(),
    TINYINT: pa.int8(),
    SMALLINT: pa.int16(),
    INT: pa.int32(),
    BIGINT: pa.int64(),
    FLOAT: pa.float32(),
    DOUBLE: pa.float64(),
    STRING: pa.string(),
    BINARY: pa.binary(),
    DATE: pa.date32(),
    TIMESTAMP: pa.timestamp("us", "UTC"),
    TIMESTAMP_NTZ: pa.timestamp("us"),
    INTERVAL: pa.duration("us"),
}


def arrow_type(type_: Type) -> pa.DataType:
    """The Arrow type that Spark reads as this type.

    >>> arrow_type(Type("ARRAY", (INT,)))
    ListType(list<element: int32>)
    """
    if type_.name == "DECIMAL":
        return pa.decimal128(*type_.params)
    if type_.name == "ARRAY":
        return pa.list_(pa.field("element", arrow_type(type_.params[0])))
    if type_.name == "STRUCT":
        return pa.struct([pa.field(name, arrow_type(t)) for name, t in type_.params])
    if type_.name == "MAP":
        return pa.map_(arrow_type(type_.params[0]), arrow_type(type_.params[1]))
    return _ARROW[type_]


def table_of(columns: Schema, lines: Iterable[tuple[Any, ...]]) -> pa.Table:
    """Lines of Python values as a table."""
    schema = pa.schema([pa.field(f.name, arrow_type(f.type)) for f in columns])
    values = list(zip(*lines, strict=True)) or [()] * len(columns)
    return pa.table([pa.array(v, f.type) for v, f in zip(values, schema, strict=True)], schema=schema)


def ddl(type_: Type) -> str:
    """The type as Spark's DDL spells it.

    >>> ddl(Type("STRUCT", (("a", INTERVAL), ("b", decimal(3, 1)))))
    'STRUCT<`a`: INTERVAL DAY TO SECOND, `b`: DECIMAL(3,1)>'
    """
    if type_.name == "STRUCT":
        return "STRUCT<" + ", ".join(f"{quote(n)}: {ddl(t)}" for n, t in type_.params) + ">"
    if type_.name in ("ARRAY", "MAP"):
        return f"{type_.name}<{', '.join(map(ddl, type_.params))}>"
    return "INTERVAL DAY TO SECOND" if type_ == INTERVAL else str(type_)


def schema_ddl(schema: Schema) -> str:
    """Columns as Spark's DDL spells them."""
    return ", ".join(f"{quote(f.name)} {ddl(f.type)}" for f in schema)


def quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def type_of_arrow(found: pa.DataType) -> Type:
    """The type of an Arrow column.

    >>> str(type_of_arrow(pa.list_(pa.int8())))
    'ARRAY<TINYINT>'
    """
    t = pa.types
    if t.is_dictionary(found):
        return type_of_arrow(found.value_type)
    if t.is_decimal(found):
        return decimal(found.precision, found.scale)
    if t.is_timestamp(found):
        return TIMESTAMP if found.tz else TIMESTAMP_NTZ
    if t.is_struct(found):
        return Type(
            "STRUCT",
            tuple((found.field(i).name, type_of_arrow(found.field(i).type)) for i in range(found.num_fields)),
        )
    if t.is_map(found):
        return Type("MAP", (type_of_arrow(found.key_type), type_of_arrow(found.item_type)))
    if t.is_list(found) or t.is_large_list(found) or t.is_fixed_size_list(found):
        return array(type_of_arrow(found.value_type))
    if t.is_large_string(found) or t.is_string(found) or t.is_string_view(found):
        return STRING
    if (
        t.is_binary(found)
        or t.is_large_binary(found)
        or t.is_binary_view(found)
        or t.is_fixed_size_binary(found)
    ):
        return BINARY
    if t.is_date(found):
        return DATE
    if t.is_duration(found):
        return INTERVAL
    widened = {
        pa.uint8(): SMALLINT,
        pa.uint16(): INT,
        pa.uint32(): BIGINT,
        pa.uint64(): decimal(20, 0),
        pa.float16(): FLOAT,
    }
    known = {**{v: k for k, v in _ARROW.items()}, **widened}
    if found not in known:
        raise Diagnostic(
            "TYPE_UNKNOWN", f"there is no SQL type for Arrow's {found}", help="convert the column first"
        )
    return known[found]


def infer_columns(data: Any, schema: Sequence[Field] | None = None) -> tuple[Schema, pa.Table]:
    """The columns of rows handed in, and the rows as Arrow; types are inferred unless `schema` says them.

    `data`: dicts, tuples or lists of values (these need `schema`), pandas, Polars, Arrow or a Spark DataFrame.
    A whole number is BIGINT, a real one DOUBLE; a column of NULLs only is VOID.

    >>> columns, rows = infer_columns([{"a": 1, "b": None}, {"a": None, "b": "x"}])
    >>> [(c.name, str(c.type), c.nullable) for c in columns], rows.to_pylist()[0]
    ([('a', 'BIGINT', True), ('b', 'STRING', True)], {'a': 1, 'b': None})
    """
    table = _as_arrow(data, schema)
    lowered = [name.lower() for name in table.column_names]
    if schema is None and len(set(lowered)) < len(lowered):
        twice = next(n for n in table.column_names if lowered.count(n.lower()) > 1)
        raise Diagnostic("DUPLICATE_COLUMN", f"the rows have the column '{twice}' twice")
    if schema is not None:
        names = [f.name for f in schema]
        missing = [n for n in names if n not in table.column_names]
        if missing:
            raise Diagnostic(
                "COLUMN_MISSING",
                f"the rows have no column '{missing[0]}'",
                help=f"existing columns: {', '.join(table.column_names)}",
            )
        return tuple(schema), _cast(table.select(names), tuple(schema))
    columns = tuple(
        Field(f.name, type_of_arrow(f.type), nullable=table.column(i).null_count > 0)
        for i, f in enumerate(table.schema)
    )
    return columns, _cast(table, columns)


def array_of(values: Sequence[Any], type_: pa.DataType | None) -> pa.Array:
    """Python's values as an array; one that Arrow would cut off to make it fit is an error, as all others that do not.

    >>> array_of([1, 2.0, None], pa.int32()).to_pylist()
    [1, 2, None]
    """
    made = pa.array(values, type_)
    if not (pa.types.is_string(made.type) or pa.types.is_floating(made.type)):
        for value in values:
            if not isinstance(value, (int, NoneType)) and _is_cut(value, made.type):
                raise pa.ArrowInvalid(f"{value} is no {made.type}")
    return made


def _is_cut(value: Any, type_: pa.DataType) -> bool:
    """Whether a part of a value has no room in a type."""
    t = pa.types
    if value is None:
        return False
    if t.is_map(type_):
        pairs = value.items() if isinstance(value, Mapping) else value
        return any(_is_cut(k, type_.key_type) or _is_cut(v, type_.item_type) for k, v in pairs)
    if t.is_list(type_):
        return any(_is_cut(v, type_.value_type) for v in value)
    if t.is_struct(type_):
        parts = (value.get(f.name) for f in type_) if isinstance(value, Mapping) else value
        return any(_is_cut(v, f.type) for v, f in zip(parts, type_, strict=True))
    if t.is_date(type_):
        return isinstance(value, datetime) and value.time() != time.min
    real = isinstance(value, (Real, Decimal)) and not isinstance(value, Integral)
    return real and (t.is_integer(type_) or t.is_temporal(type_)) and value % 1 != 0


def unfit(values: Sequence[Any], schema: Sequence[Field]) -> str | None:
    """Why some values are no row of the schema: the first column that cannot hold its value, or None.

    >>> unfit([1, "x"], [Field("a", BIGINT), Field("b", INT)])
    "column 'b' is no INT: x"
    """
    for value, column in zip(values, schema, strict=True):
        try:
            array_of([value], arrow_type(column.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            text = str(value).encode("utf-8", "backslashreplace").decode()
            return f"column '{column.name}' is no {column.type}: {text}"
    return None


def _cast(table: pa.Table, columns: Schema) -> pa.Table:
    arrays = []
    for column in columns:
        values = table.column(column.name)
        wanted = arrow_type(column.type)
        try:
            arrays.append(values if values.type == wanted else values.cast(wanted))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
            raise Diagnostic(
                "TYPE_MISMATCH", f"column '{column.name}' cannot be read as {column.type}: {problem}"
            ) from problem
    return pa.table(arrays, names=[c.name for c in columns])


def _as_arrow(data: Any, schema: Sequence[Field] | None) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatchReader):
        return data.read_all()
    if type(data).__module__.split(".")[0] in ("duckdb", "_duckdb"):
        return data.to_arrow_table()
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pl.LazyFrame):
        data = data.collect()
    if isinstance(data, pl.DataFrame):
        return data.to_arrow(compat_level=pl.CompatLevel.oldest())
    if isinstance(data, DataFrame):
        return data.toArrow()
    if type(data).__module__.startswith("pandas."):
        return pa.Table.from_pandas(data, preserve_index=False)
    if not isinstance(data, Iterable):
        raise Diagnostic(
            "NOT_ROWS",
            f"these are no rows: {data!r}",
            help="hand in dicts, tuples, pandas, Polars, Arrow, a relation of DuckDB, a Spark DataFrame, or the path of a file",
        )
    return _from_rows(list(data), schema)


def _from_rows(rows: list[Any], schema: Sequence[Field] | None) -> pa.Table:
    names = [f.name for f in schema] if schema is not None else []
    if not names:
        for row in rows:
            if not isinstance(row, Mapping):
                raise Diagnostic(
                    "COLUMNS_UNNAMED",
                    f"a row of type {type(row).__name__} has no column names",
                    help="hand in dicts, or say schema=",
                )
            names += [n for n in row if n not in names]
    _check_shape(rows, names)
    types = {f.name: arrow_type(f.type) for f in schema or ()}
    arrays = []
    for i, name in enumerate(names):
        values = [r.get(name) if isinstance(r, Mapping) else r[i] for r in rows]
        try:
            arrays.append(array_of(_uniform(values), types.get(name)))
        except (pa.ArrowException, OverflowError, UnicodeError) as problem:
            raise Diagnostic(
                "TYPE_MISMATCH",
                f"the values of column '{name}' do not have one type: {problem}",
                help="say the types: schema=",
            ) from problem
    return pa.table(arrays, names=names)


def _check_shape(rows: list[Any], names: Sequence[Any]) -> None:
    """Whether rows have a value for each column. Dicts may leave some out; a name that nobody declared stands for one of them."""
    for i, row in enumerate(rows):
        if not isinstance(row, Mapping) and not (
            isinstance(row, Sequence) and not isinstance(row, (str, bytes)) and len(row) == len(names)
        ):
            raise Diagnostic("COLUMN_COUNT", f"row {i + 1} has not {len(names)} values: {row!r:.100}")
    for name in names:
        if not isinstance(name, str):
            raise Diagnostic("COLUMNS_UNNAMED", f"the name of a column is a text, not {name!r}")
    given = dict.fromkeys(n for row in rows if isinstance(row, Mapping) for n in row)
    missing = [n for n in names if n not in given] if all(isinstance(r, Mapping) for r in rows) else []
    others = [str(n) for n in given if n not in names]
    if missing and others:
        help = did_you_mean(missing[0], others, "columns")
        raise Diagnostic("COLUMN_MISSING", f"the rows have no column '{missing[0]}'", help=help)


def _uniform(values: list[Any]) -> list[Any]:
    """Whole and real numbers of one column are all real; Decimals swallow whole numbers."""
    kinds = {type(v) for v in values} - {type(None)}
    if kinds == {int, float}:
        return [None if v is None else float(v) for v in values]
    if kinds == {int, Decimal}:
        return [None if v is None else Decimal(v) for v in values]
    return values


def rows_in_utc(frame: DataFrame) -> list[tuple[Any, ...]]:
    """All rows as people read them. As Arrow, moments have a zone; as Python's own they would be in that of the machine."""
    columns = [[without_zone(v) for v in c.to_pylist()] for c in frame.toArrow().columns]
    return list(zip(*columns, strict=True))


def without_zone(value: Any) -> Any:
    """A value whose moments are in UTC and do not say so.

    >>> print(without_zone(datetime(2026, 1, 1, 9, tzinfo=UTC)), without_zone([{"a": 1}]))
    2026-01-01 09:00:00 [{'a': 1}]
    """
    if isinstance(value, datetime):
        return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    if isinstance(value, dict):
        return {k: without_zone(v) for k, v in value.items()}
    return [without_zone(v) for v in value] if isinstance(value, list) else value
