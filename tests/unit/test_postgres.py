"""PostgreSQL's source and sink against a real server, without Spark: what polls give, what epochs leave."""

from __future__ import annotations

import time
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.servers.postgres import PostgresServer
from tidegate.connectors.postgres import Postgres
from tidegate.connectors.raw import REASON
from tidegate.connectors.sinks import claim, make_sink, refuse_taken
from tidegate.errors import Diagnostic
from tidegate.language.catalog import SourceCall, StreamDefinition


class Database:
    def __init__(self, server: PostgresServer) -> None:
        self.server, self.name = server, server.database()
        self.dsn, self.connection = server.dsn(self.name), server.connect(self.name)

    def do(self, *statements: str) -> None:
        """All statements in one transaction."""
        self.connection.cursor().execute("BEGIN; " + "; ".join(statements) + "; COMMIT")

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        cursor = self.connection.cursor()
        cursor.execute(query)
        return cursor.fetchall()


class Followed:
    """A stream of a table, asked by hand."""

    def __init__(self, database: Database, table: str, source: Postgres | None = None) -> None:
        self.source, self.offset = source or Postgres(), None
        bare = StreamDefinition(table, (), SourceCall("postgres", (database.dsn, table)), ordered_by="ts")
        self.definition = StreamDefinition(table, self.source.columns(bare), bare.source, ordered_by="ts")

    def until(self, count: int) -> list[dict[str, Any]]:
        """The next so many rows."""
        rows: list[dict[str, Any]] = []
        limit = time.monotonic() + 30
        while len(rows) < count:
            assert time.monotonic() < limit, rows
            found = self.source.poll(self.definition, self.offset)
            if found is not None:
                rows += found[0].to_pylist()
                self.offset = found[1]
        assert len(rows) == count, rows
        return rows


@pytest.fixture
def database(postgres_server: PostgresServer) -> Iterator[Database]:
    found = Database(postgres_server)
    yield found
    found.connection.close()


def test_the_log_says_what_the_snapshot_says(database: Database) -> None:
    database.do("""CREATE TABLE odd (id int PRIMARY KEY, big bigint, n numeric(10, 2), free numeric, d float8, b bool, t timestamp,
        z timestamptz, day date, u uuid, j jsonb, a int[], s text, raw bytea, "Mixed name" text)""")
    values = r"""9223372036854775807, -1.50, 'NaN', 'NaN', true, '2020-01-01 10:00:00.000001', '2020-01-01 10:00+03', '2020-02-29',
        '00000000-0000-0000-0000-000000000001', '{"a": [1.50]}', '{1,NULL}', E'it''s\n new-tuple: x[text]:null', '\x00ff', 'null'"""
    database.do(f"INSERT INTO odd VALUES (1, {values})", "INSERT INTO odd (id) VALUES (2)")
    odd = Followed(database, "odd")
    first = odd.until(2)
    database.do(f"INSERT INTO odd VALUES (3, {values})", "INSERT INTO odd (id) VALUES (4)")
    second = odd.until(2)
    plain = [
        {k: repr(v) for k, v in r.items() if k not in ("id", "op", "ts", "lsn", "_tidegate_position")}
        for r in first + second
    ]
    assert plain[0] == plain[2]
    assert plain[1] == plain[3]
    assert first[0]["n"] == Decimal("-1.50")
    assert (first[0]["free"], first[0]["s"]) == ("NaN", "it's\n new-tuple: x[text]:null")
    assert (first[0]["z"].hour, first[0]["raw"], first[1]["s"]) == (7, b"\x00\xff", None)
    database.do("UPDATE odd SET id = 30 WHERE id = 3", "DELETE FROM odd WHERE id = 4")
    assert [(r["op"], r["id"]) for r in odd.until(3)] == [("d", 3), ("u", 30), ("d", 4)]
    database.do(
        "ALTER TABLE odd ALTER s SET STORAGE EXTERNAL", "UPDATE odd SET s = repeat('long', 5000) WHERE id = 2"
    )
    odd.until(1)
    database.do("UPDATE odd SET big = 7 WHERE id = 2")
    database.do("INSERT INTO odd (id, t) VALUES (5, 'infinity')", "TRUNCATE odd")
    reasons = [r[REASON] for r in odd.until(3)]
    for reason, word in zip(
        reasons, ("REPLICA IDENTITY FULL", "'t' is no TIMESTAMP_NTZ: infinity", "TRUNCATE"), strict=True
    ):
        assert word in reason
    database.do(
        "INSERT INTO odd SELECT 6, 1, 1, 1, 1, true, NULL, NULL, NULL, NULL, NULL, NULL, repeat('long', 5000)"
    )
    database.do("ALTER TABLE odd REPLICA IDENTITY FULL", "UPDATE odd SET big = 8 WHERE id = 6")
    assert [(r["op"], r["big"], len(r["s"])) for r in odd.until(2)] == [("c", 1, 20000), ("u", 8, 20000)]


def test_a_transaction_has_one_instant_in_all_streams(database: Database) -> None:
    """Also for a stream that began later, in a program that knows nothing of the other."""
    database.do(
        "CREATE TABLE giver (id int PRIMARY KEY, v int)", "CREATE TABLE taker (id int PRIMARY KEY, v int)"
    )
    database.do("INSERT INTO giver VALUES (1, 100)", "INSERT INTO taker VALUES (1, 0)")
    giver = Followed(database, "giver")
    giver.until(1)
    database.do("UPDATE giver SET v = 100")
    giver.until(1)
    taker = Followed(database, "taker")
    taker.until(1)
    for _ in range(20):
        database.do("UPDATE giver SET v = v - 1", "UPDATE taker SET v = v + 1")
    given, took = giver.until(20), taker.until(20)
    assert [r["ts"] for r in given] == [r["ts"] for r in took]
    assert len({r["ts"] for r in given}) == 20
    assert sorted(r["ts"] for r in given) == [r["ts"] for r in given]
    assert {g["v"] + t["v"] for g, t in zip(given, took, strict=True)} == {100}


def test_what_is_not_stored_comes_again_and_what_is_does_not(database: Database) -> None:
    database.do("CREATE TABLE log (id int PRIMARY KEY)", "INSERT INTO log VALUES (0)")
    log = Followed(database, "log")
    log.until(1)
    database.do("INSERT INTO log VALUES (1)")
    kept = dict(log.offset or {})
    assert [r["id"] for r in log.until(1)] == [1]
    log.offset = kept  # the program died before it stored the row
    assert [r["id"] for r in log.until(1)] == [1]
    log.source = Postgres()  # another program
    drop = (
        "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active AND slot_name = '{}'"
    )
    database.ask(drop.format(kept["slot"]))
    database.do("INSERT INTO log VALUES (2)")
    assert [r["id"] for r in log.until(1)] == [2]


class _Epoch:
    """An epoch's changes as Arrow, which is all that the sink asks a frame for."""

    def __init__(self, *rows: tuple[Any, ...]) -> None:
        self.rows = rows

    def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's name
        schema = pa.schema([("op", pa.string()), ("k", pa.string()), ("v", pa.float64()), ("ts", pa.int64())])
        return pa.table([list(c) for c in zip(*self.rows, strict=True)], schema=schema)


@pytest.mark.parametrize("key", ["", "k"])
def test_epochs_keep_a_table_equal(database: Database, key: str) -> None:
    sink = make_sink("postgres", (database.dsn, "kept"), [("key", key)] if key else [])
    claim(sink, "mine")
    nan = float("nan")
    again = ("+", "a", 1.5, 1) if not key else ("+", "z", 1.5, 1)
    sink.write(1, _Epoch(("+", "a", 1.5, 1), again, ("+", "b", nan, 1), ("+", "c", None, 2)))  # type: ignore[arg-type]
    sink.write(1, _Epoch(("+", "never", 1.5, 1)))  # type: ignore[arg-type]
    sink.write(
        3,
        _Epoch(
            ("-", "a", 1.5, 5),
            ("-", "b", nan, 5),
            ("+", "b", 2.0, 5),
            ("-", "c", None, 5),
            ("+", "d", 1.0, 5),
            ("-", "d", 1.0, 6),
        ),
    )  # type: ignore[arg-type]
    assert sorted(database.ask("SELECT k, v FROM kept")) == sorted(
        [("b", 2.0), ("a" if not key else "z", 1.5)]
    )
    assert [sink.has(n) for n in (1, 3, 4)] == [True, True, False]
    with pytest.raises(Diagnostic, match="SINK_TAKEN"):
        refuse_taken(sink, "another")
    with pytest.raises(Diagnostic, match="SINK_CHANGED"):
        sink.write(4, _Epoch(("+", "e", 1.0, 7), ("-", "nobody", 1.0, 7)))  # type: ignore[arg-type]
    assert not sink.has(4)
    assert database.ask("SELECT count(*) FROM kept WHERE k = 'e'") == [(0,)]


def test_changes_are_appended_and_secrets_are_not_told(database: Database) -> None:
    sink = make_sink("postgres", (f"{database.dsn} password=sesame7", "told"), [("mode", "append")])
    claim(sink, "mine")
    sink.write(1, _Epoch(("+", "a", 1.5, 1), ("u", "a", 2.5, 2)))  # type: ignore[arg-type]
    assert database.ask("SELECT op, k, v, ts FROM told ORDER BY ts") == [
        ("+", "a", 1.5, 1),
        ("u", "a", 2.5, 2),
    ]
    assert "sesame7" not in sink.place + repr(sink)
    away = make_sink("postgres", ("host=127.0.0.1 port=1 password=sesame7", "told"))
    with pytest.raises(Diagnostic, match="SINK_FAILED") as told:
        away.has(1)
    assert "sesame7" not in str(told.value)
