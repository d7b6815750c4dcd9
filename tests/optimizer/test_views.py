"""Which queries views answer: forty pairs that a person would expect to match, and forty that must not."""

from __future__ import annotations

import random

import pytest

from tests.fuzz.players import canonical
from tests.fuzz.view_pairs import SCRIPT, rows
from tests.syncsql.world import World
from tidegate.optimizer.driver import optimize
from tidegate.optimizer.matching import MatchError, answer_from_view, over
from tidegate.optimizer.views import Views, is_core

WORLDS = [World(SCRIPT, rows(random.Random(seed))) for seed in range(3)]
EVERY = "(SELECT Timepoint FROM CLOCK WHERE Timepoint % {} = 0)"
S6, R6 = "S WINDOW(RANGE 6)", "R WINDOW(RANGE 6)"
PAIR = f"FROM {S6} l JOIN {R6} r ON l.a = r.a"

MATCHING = {
    "the same": (f"SELECT a, COUNT(*) AS n FROM {S6} GROUP BY a", f"SELECT a, COUNT(*) AS n FROM {S6} GROUP BY a"),
    "other names": (f"SELECT a AS x, COUNT(*) AS y FROM {S6} GROUP BY a", f"SELECT a, COUNT(*) AS n FROM {S6} GROUP BY a"),
    "fewer columns": (f"SELECT a, MAX(v) AS m FROM {S6} GROUP BY a", f"SELECT a, COUNT(*) AS n, MAX(v) AS m FROM {S6} GROUP BY a"),
    "one group": (f"SELECT a, COUNT(*) AS n FROM {S6} WHERE a = 2 GROUP BY a", f"SELECT a, COUNT(*) AS n FROM {S6} GROUP BY a"),
    "some groups": (f"SELECT a, COUNT(*) AS n FROM {S6} WHERE a IN (1, 3) GROUP BY a", f"SELECT a, COUNT(*) AS n FROM {S6} WHERE a > 0 GROUP BY a"),
    "large groups": (f"SELECT a, COUNT(*) AS n FROM {S6} GROUP BY a HAVING COUNT(*) > 1", f"SELECT a, COUNT(*) AS n FROM {S6} GROUP BY a"),
    "larger groups": (f"SELECT a FROM {S6} GROUP BY a HAVING COUNT(*) > 2", f"SELECT a FROM {S6} GROUP BY a HAVING COUNT(*) > 1"),
    "coarser counts": (f"SELECT a, COUNT(*) AS n FROM {S6} GROUP BY a", f"SELECT a, b, COUNT(*) AS n FROM {S6} GROUP BY a, b"),
    "coarser sums": (f"SELECT b, SUM(v) AS s FROM {S6} GROUP BY b", f"SELECT a, b, SUM(v) AS s FROM {S6} GROUP BY a, b"),
    "coarser extremes": (f"SELECT MIN(v) AS l, MAX(b) AS h FROM {S6}", f"SELECT a, MAX(b) AS h, MIN(v) AS l FROM {S6} GROUP BY a"),
    "coarser averages": (f"SELECT AVG(v) AS m FROM {S6}", f"SELECT b, SUM(v) AS s, COUNT(v) AS n FROM {S6} GROUP BY b"),
    "averages of the same groups": (f"SELECT b, AVG(v) AS m FROM {S6} GROUP BY b", f"SELECT b, COUNT(v) AS n, SUM(v) AS s FROM {S6} GROUP BY b"),
    "coarser decimals": (f"SELECT SUM(m) AS s FROM {S6}", f"SELECT b, SUM(m) AS s FROM {S6} GROUP BY b"),
    "computed groups": (f"SELECT a % 2 AS odd, COUNT(*) AS n FROM {S6} GROUP BY a % 2", f"SELECT a, COUNT(*) AS n FROM {S6} GROUP BY a"),
    "coarser, of some": (f"SELECT b, COUNT(*) AS n FROM {S6} WHERE a = 1 GROUP BY b", f"SELECT a, b, COUNT(*) AS n FROM {S6} GROUP BY a, b"),
    "count of what is never missing": ("SELECT COUNT(id) AS n FROM K", "SELECT COUNT(id) AS n, MAX(x) AS m FROM K"),
    "implied by BETWEEN": (f"SELECT DISTINCT a, v FROM {S6} WHERE v BETWEEN 2 AND 3", f"SELECT DISTINCT a, v FROM {S6} WHERE v >= 1"),
    "implied by IN": (f"SELECT DISTINCT v FROM {S6} WHERE v IN (2, 4)", f"SELECT DISTINCT v FROM {S6} WHERE v > 1 AND v < 5"),
    "implied, flipped": (f"SELECT DISTINCT v FROM {S6} WHERE 3 < v", f"SELECT DISTINCT v FROM {S6} WHERE v > -1"),
    "implied by OR": (f"SELECT DISTINCT v FROM {S6} WHERE v = 1 OR v = 4", f"SELECT DISTINCT v FROM {S6} WHERE v <> 3"),
    "any text": (f"SELECT DISTINCT b FROM {S6} WHERE b = 'x'", f"SELECT DISTINCT b FROM {S6} WHERE b LIKE '%'"),
    "one of OR": (f"SELECT DISTINCT v, b FROM {S6} WHERE v = 1", f"SELECT DISTINCT v, b FROM {S6} WHERE v = 1 OR b = 'x'"),
    "implied by a prefix": (f"SELECT DISTINCT b FROM {S6} WHERE b LIKE 'xy%'", f"SELECT DISTINCT b FROM {S6} WHERE b LIKE 'x%'"),
    "conditions in another order": (f"SELECT DISTINCT a, v FROM {S6} WHERE a > 1 AND v > 2", f"SELECT DISTINCT a, v FROM {S6} WHERE v > 2 AND a > 1"),
    "distinct of fewer columns": (f"SELECT DISTINCT b FROM {S6}", f"SELECT DISTINCT a, b FROM {S6}"),
    "a join with a condition": (f"SELECT l.b, r.c {PAIR} WHERE r.c > 3", f"SELECT l.b, r.c {PAIR}"),
    "a join the other way round": (f"SELECT r.c FROM {R6} r JOIN {S6} l ON r.a = l.a", f"SELECT l.b, r.c {PAIR}"),
    "a join on more": (f"SELECT l.b, r.c {PAIR} AND l.v < r.c", f"SELECT l.b, l.v, r.c {PAIR}"),
    "an outer join of some": (f"SELECT l.b, r.c FROM {S6} l LEFT JOIN {R6} r ON l.a = r.a WHERE l.v > 2", f"SELECT l.b, l.v, r.c FROM {S6} l LEFT JOIN {R6} r ON l.a = r.a"),
    "those with a partner": (f"SELECT b FROM {S6} l WHERE v > 1 AND EXISTS (SELECT 1 FROM {R6} r WHERE r.a = l.a)", f"SELECT b, v FROM {S6} l WHERE EXISTS (SELECT 1 FROM {R6} r WHERE r.a = l.a)"),
    "counts over a join": (f"SELECT l.b, COUNT(*) AS n {PAIR} GROUP BY l.b", f"SELECT l.b, r.c {PAIR}"),
    "a smaller window of pairs": (f"SELECT l.b FROM S WINDOW(RANGE 3) l JOIN {R6} r ON l.a = r.a", f"SELECT l.b, l.TS AS u {PAIR}"),
    "a coarser slide": ("SELECT a, COUNT(*) AS n FROM S WINDOW(RANGE 6 SLIDE 6) GROUP BY a", "SELECT a, COUNT(*) AS n FROM S WINDOW(RANGE 6 SLIDE 2) GROUP BY a"),
    "a slide of what slides at each instant": ("SELECT COUNT(*) AS n FROM S WINDOW(RANGE 6 SLIDE 3)", f"SELECT COUNT(*) AS n FROM {S6}"),
    "last rows every now and then": ("SELECT a, v FROM S WINDOW(ROWS 3 SLIDE 4 TICKS)", "SELECT a, v FROM S WINDOW(ROWS 3)"),
    "coarser points": (f"SELECT id, x FROM K SYNC BY {EVERY.format(4)} k WHERE x > 2", f"SELECT id, x FROM K SYNC BY {EVERY.format(2)} k WHERE x > 1"),
    "points of what is seen at each instant": (f"SELECT g, COUNT(*) AS n FROM K SYNC BY {EVERY.format(3)} k GROUP BY g", "SELECT g, COUNT(*) AS n FROM K GROUP BY g"),
    "a relation": ("SELECT id FROM K WHERE x > 3", "SELECT g, COUNT(*) AS n FROM K GROUP BY g"),
    "a difference of some": (f"SELECT * FROM (SELECT v FROM {S6} EXCEPT SELECT c FROM {R6}) z WHERE v > 2", f"SELECT v FROM {S6} EXCEPT SELECT c FROM {R6}"),
    "a part": (f"SELECT MAX(n) AS most FROM (SELECT a, COUNT(*) AS n FROM {S6} GROUP BY a) z", f"SELECT a, COUNT(*) AS n FROM {S6} GROUP BY a"),
    "later windows of a sequence": ("SELECT COUNT(*) AS n FROM S WINDOW(FROM 3 * i TO 3 * i + 2 EVERY 3 STARTING AT 6)", "SELECT COUNT(*) AS n FROM S WINDOW(FROM 3 * i TO 3 * i + 2 EVERY 3 STARTING AT 0)"),
    "the best of some": (f"SELECT v FROM (SELECT a, v FROM {S6} ORDER BY v DESC LIMIT 2) z WHERE v > 1", f"SELECT a, v FROM {S6} ORDER BY v DESC LIMIT 2"),
}  # fmt: skip
"""What is asked: (query, view)."""

NOT_MATCHING = {
    "another stream": ("SELECT COUNT(*) AS n FROM R WINDOW(RANGE 6)", f"SELECT COUNT(*) AS n FROM {S6}"),
    "rows that the view lacks": (f"SELECT DISTINCT v FROM {S6} WHERE v > 1", f"SELECT DISTINCT v FROM {S6} WHERE v > 2"),
    "an end that the view lacks": (f"SELECT DISTINCT v FROM {S6} WHERE v >= 2", f"SELECT DISTINCT v FROM {S6} WHERE v > 2"),
    "values that the view lacks": (f"SELECT DISTINCT v FROM {S6} WHERE v IN (1, 2, 3)", f"SELECT DISTINCT v FROM {S6} WHERE v IN (1, 2)"),
    "NULL that the view lacks": (f"SELECT DISTINCT v FROM {S6}", f"SELECT DISTINCT v FROM {S6} WHERE v = v"),
    "text and number": (f"SELECT DISTINCT b FROM {S6} WHERE b > 'x'", f"SELECT DISTINCT b FROM {S6} WHERE b > 'y'"),
    "a longer prefix": (f"SELECT DISTINCT b FROM {S6} WHERE b LIKE 'x%'", f"SELECT DISTINCT b FROM {S6} WHERE b LIKE 'xy%'"),
    "a pattern that is no prefix": (f"SELECT DISTINCT b FROM {S6} WHERE b LIKE 'x%y'", f"SELECT DISTINCT b FROM {S6} WHERE b LIKE 'x_%'"),
    "any text of one": (f"SELECT DISTINCT b FROM {S6} WHERE b LIKE '%'", f"SELECT DISTINCT b FROM {S6} WHERE b = 'x'"),
    "texts that do not begin so": (f"SELECT DISTINCT b FROM {S6} WHERE b NOT LIKE 'x%'", f"SELECT DISTINCT b FROM {S6} WHERE b LIKE 'x%'"),
    "texts that begin so": (f"SELECT DISTINCT b FROM {S6} WHERE b LIKE 'x%'", f"SELECT DISTINCT b FROM {S6} WHERE b NOT LIKE 'x%'"),
    "NULL, negated twice": (f"SELECT DISTINCT v FROM {S6} WHERE NOT (NOT v IS NULL)", f"SELECT DISTINCT v FROM {S6} WHERE v > 1"),
    "one case of OR": (f"SELECT DISTINCT v, b FROM {S6} WHERE v = 1 OR b = 'x'", f"SELECT DISTINCT v, b FROM {S6} WHERE v = 1"),
    "NaN": (f"SELECT DISTINCT d FROM {S6} WHERE NOT (d < 1)", f"SELECT DISTINCT d FROM {S6} WHERE d >= 1 AND d < 100"),
    "a column that is not there": (f"SELECT DISTINCT a, v FROM {S6}", f"SELECT DISTINCT a FROM {S6}"),
    "a condition on one that is not there": (f"SELECT l.b {PAIR} WHERE l.v > 2", f"SELECT DISTINCT l.b {PAIR}"),
    "finer groups": (f"SELECT a, b, COUNT(*) AS n FROM {S6} GROUP BY a, b", f"SELECT a, COUNT(*) AS n FROM {S6} GROUP BY a"),
    "other groups": (f"SELECT b, COUNT(*) AS n FROM {S6} GROUP BY b", f"SELECT a, COUNT(*) AS n FROM {S6} GROUP BY a"),
    "groups of an expression": (f"SELECT a, COUNT(*) AS n FROM {S6} GROUP BY a", f"SELECT a % 2 AS k, COUNT(*) AS n FROM {S6} GROUP BY a % 2"),
    "an aggregate that is not there": (f"SELECT a, MIN(v) AS l FROM {S6} GROUP BY a", f"SELECT a, MAX(v) AS h FROM {S6} GROUP BY a"),
    "rows, not values": (f"SELECT COUNT(*) AS n FROM {S6}", f"SELECT COUNT(v) AS n FROM {S6}"),
    "distinct values": (f"SELECT COUNT(DISTINCT v) AS n FROM {S6}", f"SELECT a, COUNT(DISTINCT v) AS n FROM {S6} GROUP BY a"),
    "sums of rounded sums": (f"SELECT SUM(d) AS s FROM {S6}", f"SELECT a, SUM(d) AS s FROM {S6} GROUP BY a"),
    "averages of averages": (f"SELECT AVG(v) AS m FROM {S6}", f"SELECT a, AVG(v) AS m FROM {S6} GROUP BY a"),
    "a condition below the groups": (f"SELECT a, COUNT(*) AS n FROM {S6} WHERE v > 2 GROUP BY a", f"SELECT a, COUNT(*) AS n FROM {S6} GROUP BY a"),
    "a condition of the view below its groups": (f"SELECT a, COUNT(*) AS n FROM {S6} GROUP BY a", f"SELECT a, COUNT(*) AS n FROM {S6} WHERE v > 2 GROUP BY a"),
    "a filter in the aggregate": (f"SELECT COUNT(*) AS n FROM {S6}", f"SELECT COUNT(*) FILTER (WHERE v > 1) AS n FROM {S6}"),
    "groups that HAVING dropped": (f"SELECT a, COUNT(*) AS n FROM {S6} GROUP BY a", "SELECT a, n FROM (SELECT a, b, COUNT(*) AS n FROM S WINDOW(RANGE 7) GROUP BY a, b) z WHERE n > 1"),
    "a larger window": ("SELECT COUNT(*) AS n FROM S WINDOW(RANGE 9)", f"SELECT COUNT(*) AS n FROM {S6}"),
    "a smaller window of a count": ("SELECT COUNT(*) AS n FROM S WINDOW(RANGE 3)", f"SELECT COUNT(*) AS n FROM {S6}"),
    "a smaller window without times": (f"SELECT DISTINCT l.b FROM S WINDOW(RANGE 3) l JOIN {R6} r ON l.a = r.a", f"SELECT DISTINCT l.b {PAIR}"),
    "a finer slide": ("SELECT COUNT(*) AS n FROM S WINDOW(RANGE 6 SLIDE 2)", "SELECT COUNT(*) AS n FROM S WINDOW(RANGE 6 SLIDE 6)"),
    "a slide that does not divide": ("SELECT COUNT(*) AS n FROM S WINDOW(RANGE 6 SLIDE 3)", "SELECT COUNT(*) AS n FROM S WINDOW(RANGE 6 SLIDE 2)"),
    "rows, not time": ("SELECT COUNT(*) AS n FROM S WINDOW(ROWS 6)", f"SELECT COUNT(*) AS n FROM {S6}"),
    "fewer rows": ("SELECT v FROM S WINDOW(ROWS 2)", "SELECT v FROM S WINDOW(ROWS 3)"),
    "rows of some": ("SELECT v FROM (SELECT * FROM S WHERE v > 1) WINDOW(ROWS 3)", "SELECT v FROM S WINDOW(ROWS 3)"),
    "finer points": (f"SELECT COUNT(*) AS n FROM K SYNC BY {EVERY.format(2)} k", f"SELECT COUNT(*) AS n FROM K SYNC BY {EVERY.format(4)} k"),
    "other points": (f"SELECT COUNT(*) AS n FROM K SYNC BY {EVERY.format(3)} k", f"SELECT COUNT(*) AS n FROM K SYNC BY {EVERY.format(2)} k"),
    "every instant": ("SELECT g, COUNT(*) AS n FROM K GROUP BY g", f"SELECT g, COUNT(*) AS n FROM K SYNC BY {EVERY.format(2)} k GROUP BY g"),
    "another join": (f"SELECT l.b FROM {S6} l LEFT JOIN {R6} r ON l.a = r.a", f"SELECT l.b, r.c {PAIR}"),
    "pairs that the view lacks": (f"SELECT l.b, r.c {PAIR}", f"SELECT l.b, r.c {PAIR} AND l.v < r.c"),
    "partners that the view has": (f"SELECT l.b, r.c FROM {S6} l LEFT JOIN (SELECT * FROM {R6} WHERE c > 3) r ON l.a = r.a", f"SELECT l.b, r.c FROM {S6} l LEFT JOIN {R6} r ON l.a = r.a"),
    "equal rows once": (f"SELECT v FROM {S6} EXCEPT ALL SELECT c FROM {R6}", f"SELECT v FROM {S6} EXCEPT SELECT c FROM {R6}"),
    "the best of other rows": (f"SELECT a, v FROM {S6} WHERE a > 1 ORDER BY v DESC LIMIT 2", f"SELECT a, v FROM {S6} ORDER BY v DESC LIMIT 2"),
    "windows of another start": ("SELECT COUNT(*) AS n FROM S WINDOW(FROM 3 * i TO 3 * i + 2 EVERY 3 STARTING AT 1)", "SELECT COUNT(*) AS n FROM S WINDOW(FROM 3 * i TO 3 * i + 2 EVERY 3 STARTING AT 0)"),
}  # fmt: skip


def plans(world: World, pair: tuple[str, str]):
    return tuple(optimize(world.bound(text).plan)[0] for text in pair)


@pytest.mark.parametrize("name", MATCHING)
def test_expected_to_match(name: str) -> None:
    for world in WORLDS:
        query, view = plans(world, MATCHING[name])
        found = Views({"view": view}).rewritten(query)
        assert found is not None
        assert all(v in set(view.walk()) for v in found.views)
        # What looks at many rows is the view's, or stands above it.
        inside = {n for v in found.views for n in v.walk()}
        scans = [
            n for n in found.plan.walk() if n not in inside and not n.inputs and type(n).__name__ == "Scan"
        ]
        assert not scans, "the stream is read anew"
        for t in range(-1, 27):
            ours = canonical(world.reference.snapshot(found.plan, t).elements())
            assert ours == canonical(world.reference.snapshot(query, t).elements()), t


@pytest.mark.parametrize("name", NOT_MATCHING)
def test_must_not_match(name: str) -> None:
    query, view = plans(WORLDS[0], NOT_MATCHING[name])
    assert answer_from_view(query, view) is None
    # Nor does the part of the view that looks at many rows, unless it is a part of the query as it stands.
    core = next(n for n in reversed([*view.walk()]) if is_core(n))
    with pytest.raises(MatchError) as caught:
        over(query, view)
    assert str(caught.value)
    found = Views({"view": view}).rewritten(query)
    assert found is None or core not in found.views


def test_there_are_forty_of_each() -> None:
    assert len(MATCHING) >= 40
    assert len(NOT_MATCHING) >= 40


def test_points_are_not_read_from_what_runs() -> None:
    """A clock is never run as a stream, so its points are not parts that others read."""
    even = "(SELECT Timepoint FROM CLOCK WHERE Timepoint % 2 = 0 INTERSECT SELECT Timepoint FROM CLOCK WHERE Timepoint % 3 = 0)"
    query, view = plans(WORLDS[0], tuple(f"SELECT {c} FROM K SYNC BY {even} k" for c in ("id", "x")))
    found = Views({"view": view}).rewritten(query)
    assert found is not None
    assert [type(v).__name__ for v in found.views] == ["Modify"]
