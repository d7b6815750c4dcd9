"""An engine nobody here wrote: DuckDB answers the query on what its items show at one instant.

What items show follows from the definitions (`relations`), without the reference's help.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime

import duckdb
import pyarrow as pa

from tests.fuzz.kinds import KINDS, UNSAYABLE
from tests.fuzz.players import canonical
from tests.fuzz.queries import Case
from tests.fuzz.relations import Play
from tests.fuzz.streams import is_rough
from tidegate.types import Row, Type, Value


class Oracle:
    """Answers cases, one connection for all."""

    def __init__(self) -> None:
        self.connection = duckdb.connect()
        self.connection.execute("SET threads = 1")
        self.connection.execute("SET TimeZone = 'UTC'")
        self.connection.execute("SET order_by_non_integer_literal = true")
        # with it, FULL JOIN … ON x NOT IN (0, NULL) gives a wrong answer (seed 856 of an earlier generator)
        self.connection.execute("PRAGMA disable_optimizer")

    @staticmethod
    def knows(case: Case) -> bool:
        """Whether everything in the query can be said to DuckDB, and no sum depends on its order."""
        return UNSAYABLE not in case.duckdb() and not is_rough(case.streams)

    def load(self, case: Case, ticks: list[int]) -> None:
        """What each item shows at these ticks."""
        play = Play(case.streams, case.width)
        for k, leaf in enumerate(case.leaves):
            rows = [(t, *e) for t in ticks for e in leaf.at(play, t)]
            fields = [pa.field("inst", pa.int64())] + [
                pa.field(n, _arrow(KINDS[kind].type)) for n, kind in leaf.columns
            ]
            columns = list(zip(*rows, strict=True)) or [()] * len(fields)
            types = [None, *(KINDS[kind].type for _, kind in leaf.columns)]
            arrays = [
                pa.array([_plain(v, type_) for v in column], f.type)
                for column, f, type_ in zip(columns, fields, types, strict=True)
            ]
            self.connection.register("incoming", pa.Table.from_arrays(arrays, schema=pa.schema(fields)))
            self.connection.execute(f"CREATE OR REPLACE TABLE w{k} AS SELECT * FROM incoming")
            self.connection.unregister("incoming")

    def answer(self, case: Case, tick: int) -> Counter[Row]:
        text = case.duckdb()
        for k, leaf in enumerate(case.leaves):
            names = ", ".join(n for n, _ in leaf.columns)
            text = text.replace(f"§{k}§", f"(SELECT {names} FROM w{k} WHERE inst = {tick})")
        instant = tick // case.width
        now = str(instant) if case.streams.unit == 1 else f"MAKE_TIMESTAMP({instant})"
        return canonical(self.connection.execute(text.replace("§now§", now)).fetchall())


def _arrow(type_: Type) -> pa.DataType:
    if type_.name == "ARRAY":
        return pa.list_(_arrow(type_.params[0]))
    if type_.name == "STRUCT":
        return pa.struct([(n, _arrow(t)) for n, t in type_.params])
    if type_.name == "DECIMAL":
        return pa.decimal128(*type_.params)
    return {
        "INT": pa.int32(), "BIGINT": pa.int64(), "DOUBLE": pa.float64(), "STRING": pa.string(), "BOOLEAN": pa.bool_(),
        "DATE": pa.date32(), "TIMESTAMP": pa.timestamp("us"),
    }[type_.name]  # fmt: skip


def _plain(value: Value, type_: Type | None) -> Value:
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, tuple):
        assert type_ is not None
        return (
            dict(zip((n for n, _ in type_.params), value, strict=True))
            if type_.name == "STRUCT"
            else list(value)
        )
    return value + 0.0 if isinstance(value, float) else value
