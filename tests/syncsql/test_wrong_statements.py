"""What SyncSQL's statements refuse: condition, and the part of the text that is underlined."""

from __future__ import annotations

import pytest

from tests.syncsql.test_paper import SYNCS, TEMPERATURE
from tests.syncsql.world import World
from tidegate.errors import Diagnostic, Kind
from tidegate.language.dialect import parse, text_of
from tidegate.language.statements import define
from tidegate.physical.lowering import compile_plan

SCRIPT = (
    TEMPERATURE
    + SYNCS
    + """
CREATE TABLE Building(RoomID STRING, floor INT) FROM csv('b.csv');
CREATE STREAM Valid(x INT, a BIGINT, b BIGINT) SOURCE csv('v.csv') VALID (a, b);
CREATE STREAM Clocked(x INT, at TIMESTAMP) SOURCE csv('c.csv') ORDERED BY at;
"""
)


@pytest.fixture(scope="module")
def world():
    return World(SCRIPT, {})


DEFINITIONS = [
    ("CREATE STREAM S OVER Nowhere KEY RoomID", "UNKNOWN_STREAM", "Nowhere"),
    ("CREATE STREAM S OVER Sync2 KEY Timepoint", "NOT_A_SOURCE", "Sync2"),
    ("CREATE STREAM S OVER Building KEY RoomID", "NOT_A_SOURCE", "Building"),
    ("CREATE STREAM S OVER Valid KEY x", "NOT_A_SOURCE", "Valid"),
    ("CREATE STREAM S OVER TemperatureSource KEY Room", "UNKNOWN_COLUMN", "Room"),
    ("CREATE STREAM S OVER TemperatureSource KEY t", "UNKNOWN_COLUMN", "t"),
    ("CREATE STREAM S OVER TemperatureSource KEY RoomID, RoomID", "DUPLICATE_COLUMN", None),
    ("CREATE STREAM S OVER TemperatureSource KEY NULL OPERATION RoomID", "OPERATION_WITHOUT_KEY", "RoomID"),
    ("CREATE STREAM S OVER TemperatureSource KEY RoomID OPERATION RoomID", "OPERATION_WITHOUT_KEY", "RoomID"),
    (
        "CREATE STREAM S OVER TemperatureSource KEY RoomID OPERATION Temperature",
        "TYPE_MISMATCH",
        "Temperature",
    ),
    ("CREATE STREAM S OVER TemperatureSource KEY RoomID OPERATION op", "UNKNOWN_COLUMN", "op"),
    ("CREATE STREAM S OVER TemperatureSource", "SYNTAX_ERROR", None),
    ("CREATE STREAM S OVER TemperatureSource KEY", "SYNTAX_ERROR", None),
    ("CREATE STREAM RoomTempStr OVER TemperatureSource KEY NULL", "NAME_EXISTS", "RoomTempStr"),
    ("DROP SOURCE TemperatureSource", "IN_USE", "TemperatureSource"),
]
QUERIES = [
    ("SELECT * FROM RoomTempStr SYNC BY Nowhere", "UNKNOWN_STREAM", "Nowhere"),
    ("SELECT * FROM RoomTempStr SYNC BY (SELECT RoomID FROM TempStr)", "SYNC_POINTS", "(SELECT RoomID FROM TempStr)"),
    ("SELECT * FROM RoomTempStr SYNC BY (SELECT Timepoint + 1 AS Timepoint FROM CLOCK)", "SYNC_POINTS", None),
    ("SELECT * FROM RoomTempStr SYNC BY (SELECT COUNT(*) AS n FROM CLOCK)", "SYNC_POINTS", None),
    ("SELECT * FROM RoomTempStr SYNC BY CLOCK(1 SECOND)", "TIME_DOMAIN", None),
    ("SELECT * FROM Clocked WINDOW(RANGE 1 HOUR) SYNC BY Sync2", "TIME_DOMAIN", None),
    ("SELECT * FROM Building SYNC BY Sync2", "SYNC_OF_TABLE", "Sync2"),
    ("SELECT * FROM RoomTempStr SYNC BY CLOCK(0)", "INVALID_WINDOW", "0"),
    ("SELECT * FROM RoomTempStr SYNC BY CLOCK(3 ROWS)", "INVALID_WINDOW", "3 ROWS"),
    ("SELECT * FROM RoomTempStr SYNC BY", "SYNTAX_ERROR", None),
    ("SELECT NOW FROM RoomTempStr", "NOW_CONDITION", "NOW"),
    ("SELECT * FROM RoomTempStr WHERE NOW % 2 = 0", "NOW_CONDITION", "NOW % 2 = 0"),
    ("SELECT * FROM RoomTempStr WHERE NOW <> TS", "NOW_CONDITION", "NOW <> TS"),
    ("SELECT * FROM RoomTempStr WHERE NOW < TS OR NOW > TS + 5", "NOW_CONDITION", "NOW < TS OR NOW > TS + 5"),
    ("SELECT * FROM RoomTempStr WHERE NOW + NOW < TS", "NOW_CONDITION", "NOW + NOW < TS"),
    ("SELECT * FROM RoomTempStr WHERE NOW < RoomID", "TIME_DOMAIN", "RoomID"),
    ("SELECT * FROM Clocked WINDOW(RANGE 1 HOUR) WHERE NOW < x", "TIME_DOMAIN", "x"),
    ("SELECT * FROM Building WHERE NOW > 5", "NOW_CONDITION", "NOW > 5"),
    ("SELECT * FROM RoomTempStr WHERE NOW < (SELECT MAX(TS) FROM TempStr)", "UNSUPPORTED", None),
]  # fmt: skip


def underlined(error):
    assert error.position is not None
    return error.text[error.position.start : error.position.end]


@pytest.mark.parametrize(("text", "condition", "part"), DEFINITIONS, ids=[d[0] for d in DEFINITIONS])
def test_definitions(world, text, condition, part):
    with pytest.raises(Diagnostic) as caught:
        define(parse(text)[0], world.catalog, text)
    assert caught.value.condition == condition
    if part is not None:
        assert underlined(caught.value) == part


@pytest.mark.parametrize(("text", "condition", "part"), QUERIES, ids=[q[0] for q in QUERIES])
def test_queries(world, text, condition, part):
    with pytest.raises(Diagnostic) as caught:
        world.bound(text)
    assert caught.value.condition == condition
    assert caught.value.position is not None
    if part is not None:
        assert underlined(caught.value) == part


def test_a_clock_is_never_run(world):
    with pytest.raises(Diagnostic) as caught:
        compile_plan(world.bound("SELECT * FROM CLOCK").plan)
    assert caught.value.kind is Kind.UNSUPPORTED


def test_a_stream_may_be_named_like_the_clock(world):
    text = "CREATE STREAM Clock(x INT, t BIGINT) SOURCE csv('c.csv') ORDERED BY t"
    (statement,) = parse(text)
    catalog = define(statement, world.catalog, text)
    found = World.__new__(World)
    found.catalog = catalog
    assert [f.name for f in found.bound("SELECT * FROM Clock").plan.schema if not f.hidden] == ["x"]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM S WINDOW(RANGE 5) SYNC BY Sync2 AS x",
        "SELECT a FROM S SYNC BY (SELECT Timepoint FROM CLOCK(3)) AS x, T",
        "SELECT a FROM CLOCK(2 SECONDS) AS c JOIN S ON c.Timepoint = S.t",
        "SELECT a FROM S x SYNC BY CLOCK(5)",
    ],
)
def test_what_is_read_can_be_written(text):
    (first,) = parse(text)
    (second,) = parse(text_of(first).replace(" AS WINDOW", " WINDOW").replace(" AS SYNC", " SYNC"))
    assert second == first
