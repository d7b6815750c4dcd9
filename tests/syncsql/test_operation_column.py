"""The column that says what a row does can be read like any other: of each row of the relation, the last word."""

from __future__ import annotations

from tests.syncsql.world import World

SCRIPT = """
REGISTER SOURCE Log(id INT, v INT, op STRING, t BIGINT) FROM memory('x') ORDERED BY t;
CREATE STREAM Orders OVER Log KEY id OPERATION op;
CREATE STREAMED VIEW Words AS SELECT id, op AS word FROM Orders WHERE op <> 'r';
"""
ROWS = {
    "Log": [
        (1, 10, "c", 1),
        (2, 20, "r", 2),
        (1, 11, "u", 3),
        (2, 20, "d", 4),
        (3, 30, "+I", 5),
        (1, 11, "r", 6),
    ]
}


def test_the_operation_is_a_column_outside_of_star() -> None:
    world = World(SCRIPT, ROWS)
    assert world.at("SELECT id, op, TS FROM Orders", 3) == [(1, "u", 3), (2, "r", 2)]
    assert world.at("SELECT * FROM Orders", 3) == [(1, 11), (2, 20)]
    assert [f.name for f in world.bound("SELECT * FROM Orders").plan.schema] == ["id", "v"]


def test_reference_and_kernels_agree_on_it() -> None:
    world = World(SCRIPT, ROWS)
    assert world.streamed("SELECT STREAMED id, word FROM Words") == [
        "+<1, c>1", "u<1, u>3", "+<3, +I>5", "-<1>6",
    ]  # fmt: skip
    assert world.streamed("SELECT STREAMED op, COUNT(*) AS n FROM Orders GROUP BY op") == [
        "+<c, 1>1", "+<r, 1>2", "-<c>3", "+<u, 1>3", "-<r>4", "+<+I, 1>5", "-<u>6", "+<r, 1>6",
    ]  # fmt: skip


def test_a_change_of_the_word_alone_is_not_said() -> None:
    world = World(SCRIPT, ROWS)
    assert world.streamed("SELECT STREAMED id, v FROM Orders") == [
        "+<1, 10>1", "+<2, 20>2", "u<1, 11>3", "-<2>4", "+<3, 30>5",
    ]  # fmt: skip
