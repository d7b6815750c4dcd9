"""PostgreSQL as a source and as a sink, with a real server: every expectation is what PostgreSQL itself says."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tidegate
from tests.servers.postgres import PostgresServer


class Shop:
    """A database with a table, and a session that reads it."""

    def __init__(self, server: PostgresServer, spark: SparkSession, state: Path) -> None:
        self.server, self.spark, self.state = server, spark, state
        self.name = server.database()
        self.dsn = server.dsn(self.name)
        self.connection = server.connect(self.name)
        self.tg = self.session()

    def session(self) -> tidegate.Session:
        return tidegate.connect(spark=self.spark, state=str(self.state))

    def do(self, *statements: str) -> None:
        """All statements in one transaction."""
        cursor = self.connection.cursor()
        cursor.execute("BEGIN; " + "; ".join(statements) + "; COMMIT")

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        cursor = self.connection.cursor()
        cursor.execute(query)
        return cursor.fetchall()

    def now(self) -> int:
        return int(self.ask("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")[0][0])


@pytest.fixture
def shop(postgres_server: PostgresServer, spark: SparkSession, tmp_path: Path) -> Iterator[Shop]:
    found = Shop(postgres_server, spark, tmp_path / "state")
    yield found
    found.tg.close()
    found.connection.close()
    drop_slots(postgres_server, found.name)


def drop_slots(server: PostgresServer, database: str) -> None:
    """Slots that tests leave would hold the log of the whole server."""
    connection = server.connect()
    cursor = connection.cursor()

    def gone() -> bool:
        cursor.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active AND database = %s",
            (database,),
        )
        cursor.execute("SELECT count(*) FROM pg_replication_slots WHERE database = %s", (database,))
        return cursor.fetchone() == (0,)

    cursor.execute(
        "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active AND database = %s",
        (database,),
    )
    until(gone)
    connection.close()


def until(done: Callable[[], Any], seconds: float = 60) -> Any:
    """Wait for a condition."""
    limit = time.monotonic() + seconds
    while not (found := done()):
        assert time.monotonic() < limit, "it did not happen in time"
        time.sleep(0.02)
    return found


def same(shop: Shop, handle: Any, query: str) -> None:
    """Wait until the answer is what PostgreSQL says, now that nobody changes anything."""
    expected = sorted(map(repr, shop.ask(query)))

    def rows() -> list[str]:
        return (
            sorted(repr(tuple(r)) for r in handle.latest().collect()) if handle.status()["watermark"] else []
        )

    limit = time.monotonic() + 60
    while (found := rows()) != expected:
        assert time.monotonic() < limit, f"{found} instead of {expected}: {handle.status()}"
        handle.wait(0.1)


def test_a_table_and_its_changes_are_a_key_stream(shop: Shop) -> None:
    shop.do(
        "CREATE TABLE orders (id int PRIMARY KEY, item text, n int)",
        "INSERT INTO orders VALUES (1, 'a', 5), (2, 'b', 7)",
    )
    shop.tg.sql(f"""
        REGISTER SOURCE OrderLog FROM postgres('{shop.dsn}', 'orders') ORDERED BY ts;
        CREATE STREAM Orders OVER OrderLog KEY id OPERATION op;
    """)
    h = shop.tg.query("SELECT id, item, n FROM Orders").start("all")
    same(shop, h, "SELECT * FROM orders")
    shop.do(
        "INSERT INTO orders VALUES (3, 'c', NULL)",
        "UPDATE orders SET n = n + 1",
        "DELETE FROM orders WHERE id = 2",
    )
    same(shop, h, "SELECT * FROM orders")
    shop.do("UPDATE orders SET id = 30 WHERE id = 3")
    shop.do("INSERT INTO orders SELECT i, 'x', i FROM generate_series(100, 199) i")
    same(shop, h, "SELECT * FROM orders")
    shop.tg.close()
    shop.do("DELETE FROM orders WHERE id < 150", "INSERT INTO orders VALUES (1, 'again', 0)")
    shop.tg = shop.session()
    shop.tg.sql(f"""
        REGISTER SOURCE OrderLog FROM postgres('{shop.dsn}', 'orders') ORDERED BY ts;
        CREATE STREAM Orders OVER OrderLog KEY id OPERATION op;
    """)
    h = shop.tg.query("SELECT id, item, n FROM Orders").start("all")
    same(shop, h, "SELECT * FROM orders")
