"""The page about synchronization: its statements bind, its tables are what Tidegate answers, its words are the known ones."""

from __future__ import annotations

import re
from pathlib import Path

from tests.syncsql.test_paper import rooms
from tests.syncsql.world import World
from tidegate.algebra.modify import CODES, operation_of
from tidegate.connectors import registry
from tidegate.language.binder import bind
from tidegate.language.dialect import parse
from tidegate.language.statements import define
from tidegate.language.syntax import CreateBase, CreateView

PAGE = (Path(__file__).parents[2] / "docs" / "synchronization.md").read_text()
BLOCKS = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)


def tables():
    for block in re.findall(r"(?:^\|.*\n)+", PAGE, re.MULTILINE):
        header, _, *rows = [[c.strip() for c in line.strip("|\n").split("|")] for line in block.splitlines()]
        yield header, rows


def table(title):
    return next(rows for header, rows in tables() if header[-1] == title)


def test_statements_bind_in_order():
    catalog, queries = registry.catalog(), 0
    for block in BLOCKS:
        for statement in parse(block):
            if isinstance(statement, (CreateBase, CreateView)):
                catalog = define(statement, catalog, block)
            else:
                assert bind(statement, catalog, block).plan.schema
                queries += 1
    assert queries == 9


def world_of(rows):
    text = ", ".join(f"{arrived.replace(',', '')} {time}" for time, arrived, *_ in rows if arrived)
    return World("".join(BLOCKS), rooms(text))


def test_the_table_of_a_modify_stream():
    rows = table("RoomTempStr afterwards")
    world = world_of(rows)
    for time, _, after in rows:
        shown = ", ".join(
            f"({room}, {value})" for room, value in world.at("SELECT * FROM RoomTempStr", int(time))
        )
        assert shown == after


def said(rows, column):
    return [f"{text}{row[0]}" for row in rows for text in re.findall(r"`([^`]+)`", row[column])]


def test_the_table_of_streamed_output():
    rows = table("STREAMED output")
    assert world_of(rows).streamed("SELECT STREAMED * FROM HotRooms") == said(rows, 2)


def test_the_table_of_synchronized_output():
    rows = table("HotRooms2")
    world = world_of(rows)
    assert world.streamed("SELECT STREAMED * FROM HotRooms") == said(rows, 2)
    assert world.streamed("SELECT STREAMED * FROM HotRooms2") == said(rows, 3)


def test_the_table_of_operation_words():
    listed = {}
    for words, does in table("what the row does"):
        for word in re.findall(r"`([^`]+)`", words):
            listed[word.lower()] = does.split()[0].rstrip(";")
    assert listed.keys() == CODES.keys()
    for word, verb in listed.items():
        operation = operation_of(word)
        assert operation is not None
        assert {"insert": "inserts", "upsert": "inserts", "delete": "deletes"}[operation.value] == verb


def test_windows_written_as_conditions():
    rows = table("HotRooms2")
    world = world_of(rows)
    assert world.streamed("SELECT * FROM LastFive") == world.streamed("SELECT * FROM TempStr WINDOW(RANGE 5)")
    slid = world.streamed("SELECT * FROM LastFive SYNC BY Sync2")
    assert slid == world.streamed("SELECT * FROM TempStr WINDOW(RANGE 5 SLIDE 2)")
