"""`FOR x = … FROM lower ROWS TO upper ROWS`: the loop runs over positions; each window is shown by the row at x."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fuzz.partition_runs import Partitioned
from tests.fuzz.players import frames, play
from tidegate.errors import Diagnostic
from tidegate.language.binder import bind
from tidegate.language.catalog import Catalog, SourceCall, StreamDefinition
from tidegate.language.dialect import parse
from tidegate.reference.snapshots import Arrivals, Reference, snapshot
from tidegate.time import MAX, to_datetime
from tidegate.types import BIGINT, INT, TIMESTAMP, Field, Type

TIMES = [1, 2, 2, 5, 5, 5, 9, 10, 14, 15, 15, 20, 21]


def planned(window: str, time: Type = BIGINT):  # type: ignore[no-untyped-def]
    fields = (Field("k", INT), Field("v", INT), Field("t", time, False))
    known = Catalog().with_definition(
        StreamDefinition("S", fields, SourceCall("memory", ("S",)), ordered_by="t")
    )
    text = f"SELECT k, v FROM S WINDOW({window})"
    return bind(parse(text)[0], known, text).plan


LOOPS = {
    "FOR x = 3 WHILE x < 11 STEP x + 4 FROM x - 2 ROWS TO x ROWS": [(3, 1, 3), (7, 5, 7), (11, 9, 11)],
    "FOR x = 1 WHILE x < 16 STEP x * 2 FROM 1 ROWS TO x ROWS": [(1, 1, 1), (2, 1, 2), (4, 1, 4), (8, 1, 8), (16, 1, 16)],
    "FOR x = 5 WHILE x < 5 STEP x + 1 FROM 2 ROWS TO 4 ROWS": [(5, 2, 4)],
}  # fmt: skip


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("keys", [1, 2])
@pytest.mark.parametrize("time", [BIGINT, TIMESTAMP])
def test_by_definition(loop: str, keys: int, time: Type) -> None:
    rows = [((i % keys, i), t) for i, t in enumerate(TIMES)]
    window = loop if keys == 1 else f"PARTITION BY k {loop}"
    plan = planned(window, time)
    given = {"S": Arrivals([((*e, t if time == BIGINT else to_datetime(t)), t) for e, t in rows])}
    run = Partitioned(plan, 3)
    for upto in (4, 6, 15, MAX):
        run.epoch(frames(plan, given), upto)
    answers = [run.answer, *(play(plan, frames(plan, given), e) for e in ([MAX], [*range(25), MAX]))]
    for t in range(25):
        wanted: Counter[tuple[int, int]] = Counter()
        for key in range(keys):
            mine = [e for e, at in rows if at <= t and e[0] == key]
            shown = [(low, high) for position, low, high in LOOPS[loop] if position <= len(mine)]
            wanted.update(mine[shown[-1][0] - 1 : shown[-1][1]] if shown else [])
        assert Reference(given).snapshot(plan, t) == wanted, t
        for answer in answers:
            assert snapshot(answer, t) == wanted, t


def test_what_is_illegal_is_said() -> None:
    with pytest.raises(Diagnostic, match="before row 1"):
        planned("FOR x = 3 WHILE TRUE STEP x + 1 FROM x - 5 ROWS TO x ROWS")
    with pytest.raises(Diagnostic, match="before its end at 5 is reached"):
        planned("FOR x = 3 WHILE TRUE STEP x + 1 FROM x ROWS TO x + 2 ROWS")
    with pytest.raises(Diagnostic, match="one bound is in rows"):
        planned("FOR x = 3 WHILE TRUE STEP x + 1 FROM x ROWS TO x")
