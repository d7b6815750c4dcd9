"""An engine nobody here wrote: DuckDB answers the query on the window contents of one instant.

Window contents are computed here by the definitions of SPEC section 4, without the reference's help.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import duckdb

from tests.fuzz.generation import COLUMNS, Case
from tidegate.types import STRING, Row


def contents(case: Case, name: str, window: str, t: int) -> list[Row]:
    """The rows of a stream that a window shows at t."""
    rows = case.rows[name]
    if name == "T":
        return [e for e, _, _ in rows]
    if name == "P":
        return [e for e, ts, te in rows if ts <= t < te]
    words = window.split()
    partition = None
    if words[:2] == ["PARTITION", "BY"]:
        partition = [n for n, _ in COLUMNS[name]].index(words[2])
        words = words[3:]
    if partition is None:
        return _window([(e, u) for e, u, _ in rows], words, t)
    shown: list[Row] = []
    for value in {e[partition] for e, _, _ in rows}:
        shown += _window([(e, u) for e, u, _ in rows if e[partition] == value], words, t)
    return shown


def _window(rows: list[tuple[Row, int]], words: list[str], t: int) -> list[Row]:
    if not words:
        return [e for e, u in rows if u == t]
    size = 10**9 if words[1] == "UNBOUNDED" else int(words[1])
    slide = int(words[3]) if len(words) > 2 else 1
    arrived = [(e, u) for e, u in rows if u <= t]
    if words[-1] == "TICKS":
        return [e for e, u in rows if u <= t - t % slide][-size:]
    if words[0] == "ROWS":
        evaluated = arrived[: len(arrived) - len(arrived) % slide]
        return [e for e, _ in evaluated[-size:]]
    if words[-1] == "ROWS":
        evaluated = arrived[: len(arrived) - len(arrived) % slide]
        if not evaluated:
            return []
        last = evaluated[-1][1]
        return [e for e, u in rows if last - size < u <= last]

    def up(x: int) -> int:
        return x + (-x) % slide

    return [e for e, u in rows if up(u) <= t < up(u + size)]


class Oracle:
    """Answers cases, one connection for all."""

    def __init__(self) -> None:
        self.connection = duckdb.connect()
        self.connection.execute("SET threads = 1")
        # with it, FULL JOIN … ON x NOT IN (0, NULL) gives a wrong answer (seed 856)
        self.connection.execute("PRAGMA disable_optimizer")

    def load(self, case: Case, instants: list[int]) -> None:
        for k, (name, window) in enumerate(case.references):
            columns = COLUMNS[name]
            types = ", ".join(f"{n} {'VARCHAR' if t is STRING else 'INTEGER'}" for n, t in columns)
            self.connection.execute(f"CREATE OR REPLACE TABLE w{k}(inst BIGINT, {types})")
            rows = [(t, *e) for t in instants for e in contents(case, name, window, t)]
            if rows:
                values = ", ".join(
                    "(" + ", ".join("NULL" if v is None else repr(v) for v in row) + ")" for row in rows
                )
                self.connection.execute(f"INSERT INTO w{k} VALUES {values}")

    def answer(self, case: Case, t: int) -> Counter[Row]:
        def table(k: int) -> str:
            names = ", ".join(n for n, _ in COLUMNS[case.references[k][0]])
            return f"(SELECT {names} FROM w{k} WHERE inst = {t})"

        rows = self.connection.execute(case.duckdb(table)).fetchall()
        return canonical(rows)


def canonical(rows: object) -> Counter[Row]:
    """Rows whose numbers compare across engines: floats to nine digits."""
    return Counter(tuple(_number(v) for v in row) for row in rows)  # type: ignore[attr-defined]


def _number(value: object) -> object:
    if isinstance(value, Decimal):
        value = int(value) if value == int(value) else float(value)
    if isinstance(value, float):
        rounded = float(f"{value:.9g}")
        return int(rounded) if rounded == int(rounded) else rounded
    return value
