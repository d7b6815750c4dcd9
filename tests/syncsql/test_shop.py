"""A shop's recorded change log, a three-level view over it, and DuckDB with the same changes applied as the judge.

Three tables change by inserts, updates and deletes; the log is in Debezium's envelope. At many instants and at the end
the view equals the same SQL on the tables as they were; so does its STREAMED output, applied to an empty table.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from decimal import Decimal

import duckdb
import pytest

from tests.changes import applied, tagged
from tests.syncsql.world import TOOLS, World
from tidegate.algebra.properties import result_key
from tidegate.connectors.debezium import decode_lines
from tidegate.time import MAX

TABLES = {
    "customers": "id INT, name STRING, city STRING",
    "products": "id INT, price INT, kind STRING",
    "orders": "id INT, customer INT, product INT, quantity INT",
}
VIEWS = {
    "lines": """SELECT o.id AS id, c.city AS city, p.kind AS kind, o.quantity * p.price AS amount
                FROM orders o JOIN customers c ON o.customer = c.id JOIN products p ON o.product = p.id""",
    "sales": "SELECT city, kind, COUNT(*) AS n, SUM(amount) AS total FROM lines GROUP BY city, kind",
    "best": """SELECT city, COUNT(*) AS kinds, MAX(total) AS top, SUM(n) AS orders FROM sales
               WHERE total > 40 GROUP BY city""",
}
LAST = 1000


def shop_log(seed, events=700):
    """(time, table, event) in order of time; several changes may be simultaneous."""
    rng = random.Random(seed)
    tables = {name: {} for name in TABLES}
    fresh = dict.fromkeys(TABLES, 0)
    log = []
    for t in sorted(rng.randrange(LAST) for _ in range(events)):
        name = rng.choices(list(TABLES), [2, 2, 6])[0]
        rows = tables[name]
        op = rng.choices("cud", [5, 4, 2])[0] if rows else "c"
        if name == "orders" and not (tables["customers"] and tables["products"]):
            continue
        if op == "c":
            fresh[name] += 1
            id_ = fresh[name]
        else:
            id_ = rng.choice(list(rows))
        before = rows.get(id_)
        if op == "d":
            after = None
            del rows[id_]
        else:
            after = {
                "customers": lambda: {"name": f"n{rng.randrange(9)}", "city": rng.choice(["Oslo", "Turin", None])},
                "products": lambda: {"price": rng.randrange(1, 30), "kind": rng.choice(["tea", "ink", "oak"])},
                "orders": lambda: {
                    "customer": rng.randrange(1, fresh["customers"] + 1),
                    "product": rng.randrange(1, fresh["products"] + 1), "quantity": rng.randrange(1, 6),
                },
            }[name]()  # fmt: skip
            after = {"id": id_, **after}
            rows[id_] = after
        log.append((t, name, {"before": before, "after": after, "op": op, "ts_ms": t}))
    return log


@pytest.fixture(scope="module", params=[7, 41])
def shop(request):
    return shop_log(request.param)


@pytest.fixture(scope="module")
def world(shop):
    script, rows = "", {}
    for name, columns in TABLES.items():
        script += f"REGISTER SOURCE {name}_log({columns}, op STRING, ts_ms BIGINT) FROM memory('x') ORDERED BY ts_ms;\n"
        script += f"CREATE STREAM {name} OVER {name}_log KEY id OPERATION op;\n"
    script += "".join(f"CREATE STREAMED VIEW {name} AS {query};\n" for name, query in VIEWS.items())
    empty = World(script, {})
    for name in TABLES:
        columns = empty.catalog.find(f"{name}_log").columns
        decoded = decode_lines([json.dumps(e) for _, n, e in shop if n == name], columns)
        assert not decoded.rejected
        rows[f"{name}_log"] = [tuple(row[c.name] for c in columns) for row in decoded.rows]
    return World(script, rows)


@pytest.fixture(scope="module")
def truth(shop):
    """The view's rows at each asked instant, by DuckDB on tables that had the same changes applied."""
    connection = duckdb.connect()
    for name, columns in TABLES.items():
        connection.execute(f"CREATE TABLE {name}({columns})")
    for name, query in VIEWS.items():
        connection.execute(f"CREATE VIEW {name} AS {query}")
    rng, answers, pending = random.Random(3), {}, list(shop)
    for t in sorted({*rng.sample(range(LAST), 200), LAST}):
        while pending and pending[0][0] <= t:
            _, name, event = pending.pop(0)
            old, new = event["before"], event["after"]
            if old is not None:
                connection.execute(f"DELETE FROM {name} WHERE id = {old['id']}")
            if new is not None:
                connection.execute(
                    f"INSERT INTO {name} VALUES ({', '.join('?' * len(new))})", list(new.values())
                )
        rows = connection.execute("SELECT city, kinds, top, orders FROM best").fetchall()
        answers[t] = Counter(
            tuple(int(v) if isinstance(v, (int, Decimal)) else v for v in row) for row in rows
        )
    assert not pending
    assert len(set(map(str, answers.values()))) > 50, (
        "the view hardly ever changes: the test would show nothing"
    )
    return answers


QUERY = "SELECT STREAMED city, kinds, top, orders FROM best"


@pytest.mark.parametrize("epochs", [[MAX], [*range(37, LAST, 37), MAX]], ids=["one epoch", "27 epochs"])
@pytest.mark.parametrize("restoring", [False, True], ids=["state", "log"])
def test_the_view_equals_the_tables(world, truth, epochs, restoring):
    plan = world.bound(QUERY).plan
    rows = TOOLS.play(plan, world.frames, epochs, restoring)
    for t, expected in truth.items():
        assert TOOLS.bag(rows, t) == expected, t


def test_the_streamed_output_rebuilds_the_view(world, truth):
    plan = world.bound(QUERY).plan
    key = result_key(plan)
    assert key == (0,)
    changes = tagged(TOOLS.play(plan, world.frames, [400, MAX]), key)
    assert {c.op for c in changes} == {"+", "u", "-"}
    for t, expected in truth.items():
        assert applied(changes, t, key) == expected, t
