"""Claims about streams, held against the reference at every instant, for every prefix of the input."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import pytest

from tests.fuzz.players import answerable
from tests.fuzz.queries import Generator
from tests.fuzz.streams import FUNCTIONS, INTEGERS, XOR
from tests.language.world import World
from tidegate.algebra import operators as op
from tidegate.algebra.modify import Clock, Modify
from tidegate.algebra.properties import TRANSFER, Properties, properties
from tidegate.algebra.windows import RowsEveryTime, RowWindow, TimeEveryRows, TimeWindow
from tidegate.errors import Diagnostic
from tidegate.reference.snapshots import _MEANINGS, Arrivals, Reference, Source, Validity

INSTANTS = range(-2, 26)
PREFIXES = (-1, 3, 6, 9)


def known_at(sources: Mapping[str, Source], t: int) -> dict[str, Source]:
    """All rows that begin at t or before."""
    return {
        name: Arrivals([r for r in source.rows if r[1] <= t])
        if isinstance(source, Arrivals)
        else Validity([r for r in source.rows if r[1] <= t])
        for name, source in sources.items()
    }


def numbers_arrivals(plan: op.Node) -> bool:
    """Whether a plan reads the order of arrival: rows have other numbers in a prefix, which lacks some that came before them."""
    return any(isinstance(node, op.Scan) and node.arrival for node in plan.walk())


class Judge:
    """The reference on the whole input and on its prefixes."""

    def __init__(self, sources: Mapping[str, Source]) -> None:
        functions, aggregates = FUNCTIONS, {"xor_all": XOR}
        self.whole = Reference(sources, functions, aggregates)
        self.prefixes = {t: Reference(known_at(sources, t), functions, aggregates) for t in PREFIXES}
        self.known: dict[op.Node, Properties] = {}

    def broken(self, plan: op.Node) -> list[str]:
        """The claims that the reference contradicts."""
        claim = properties(plan, self.known)
        found = {t: self.whole.snapshot(plan, t) for t in INSTANTS}
        wrong = [
            f"append_only at {t}" for t in INSTANTS[1:] if claim.append_only and not found[t - 1] <= found[t]
        ]
        for t in INSTANTS:
            for key in claim.keys:
                values = Counter(tuple(e[i] for i in sorted(key)) for e in found[t].elements())
                if any(n > 1 for n in values.values()):
                    wrong.append(f"key {sorted(key)} at {t}")
            before = t // claim.granularity * claim.granularity if claim.granularity else INSTANTS[0]
            if before in found and found[before] != found[t]:
                wrong.append(f"granularity {claim.granularity} at {t}")
        for now, reference in self.prefixes.items():
            wrong += self._promises(plan, claim, now, reference, found)
        return wrong

    def _promises(
        self,
        plan: op.Node,
        claim: Properties,
        now: int,
        reference: Reference,
        found: dict[int, Counter[tuple[object, ...]]],
    ) -> Iterator[str]:
        said = {t: reference.snapshot(plan, t) for t in INSTANTS}
        for t in INSTANTS:
            if claim.ends_known and not said[t] <= found[t]:
                yield f"ends_known: known at {now}, taken back at {t}"
            if claim.bounded is not None and t >= now + claim.bounded and said[t]:
                yield f"bounded {claim.bounded}: known at {now}, still there at {t}"
            if claim.prompt and t > now and t - 1 in said and not said[t] <= said[t - 1]:
                yield f"prompt: known at {now}, begins at {t}"


def around(plan: op.Node) -> Iterator[op.Node]:
    """The plan beneath operators that the generated queries do not have."""
    yield op.Istream(plan)
    yield op.Dstream(plan)
    yield op.Rstream(plan, 3)
    for spec in (
        TimeWindow(2),
        TimeWindow(3, 2),
        TimeWindow(None),
        RowWindow(1),
        RowWindow(None),
        RowWindow(2, 2),
    ):
        yield op.Window(plan, spec)
        yield op.Istream(op.Window(plan, spec))
    yield op.Window(plan, RowsEveryTime(1, 3))
    yield op.Window(plan, RowsEveryTime(None, 3))
    yield op.Window(plan, TimeEveryRows(3, 2))
    yield op.Window(plan, TimeEveryRows(None, 2))
    if plan.schema:
        yield op.Window(plan, RowWindow(1), (0,))
        yield op.TopK(plan, (op.SortKey(0),), 1, 0, (0,))
        yield op.Distinct(op.Project(plan, (), ()))
        yield op.Join(plan, op.Distinct(plan), "inner", None)
        yield op.Except(plan, op.Distinct(plan), all=True)


@pytest.mark.parametrize("block", range(8))
def test_generated_queries_keep_what_is_claimed(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        case = Generator(seed, INTEGERS).case()
        judge = Judge(case.streams.sources(1))
        if not answerable(case):
            continue
        for node in dict.fromkeys(case.plan.walk()):
            if not isinstance(node, Clock) and not numbers_arrivals(node):
                assert judge.broken(node) == [], f"seed {seed}: {properties(node)}\n{case.tidegate()}\n{node}"


@pytest.mark.parametrize("seed", range(300, 330))
def test_windows_and_streams_of_derived_streams_keep_what_is_claimed(seed: int) -> None:
    case = Generator(seed, INTEGERS).case()
    text, plan, judge = case.tidegate(), case.plan, Judge(case.streams.sources(1))
    if not answerable(case):
        return
    # rows that never end cannot be split to instants: such windows are refused, not wrong
    for node in around(plan):
        try:
            broken = judge.broken(node)
        except Diagnostic as refused:
            if refused.condition not in ("WINDOW_OVER_LASTING_ROWS", "RSTREAM_WITHOUT_END"):
                raise
            continue
        assert broken == [], f"seed {seed}: {properties(node)}\n{text}\n{node}"


def test_every_operator_has_a_transfer_function() -> None:
    assert set(TRANSFER) == set(_MEANINGS)


STREAMS = """
CREATE STREAM S(a INT, b INT, t BIGINT) SOURCE memory('S') ORDERED BY t;
CREATE STREAM R(a INT, c INT, t BIGINT) SOURCE memory('R') ORDERED BY t;
CREATE STREAM P(a INT, d INT, vf BIGINT, vt BIGINT) SOURCE memory('P') VALID(vf, vt);
CREATE TABLE T(a INT, name STRING) FROM memory('T');
"""


def of(query: str) -> Properties:
    return properties(World().run(STREAMS).plan(query))


@pytest.mark.parametrize(
    ("query", "append_only", "ends_known", "bounded", "prompt", "granularity"),
    [
        ("SELECT a FROM S", False, True, 1, True, 1),
        ("SELECT a FROM T", True, True, None, True, 0),
        ("SELECT a FROM P", False, True, None, True, 1),
        ("SELECT a FROM S WINDOW(RANGE 60) x", False, True, 60, True, 1),
        ("SELECT a FROM S WINDOW(RANGE 60 SLIDE 10) x", False, True, 69, False, 10),
        ("SELECT a FROM S WINDOW(RANGE 60 GRANULARITY 10) x", False, True, 69, False, 10),
        ("SELECT a FROM S WINDOW(RANGE 60 SLIDE 20 GRANULARITY 10) x", False, True, 88, False, 20),
        ("SELECT a FROM S WINDOW(ROWS 5 GRANULARITY 10) x", False, False, None, False, 10),
        ("SELECT COUNT(*) FROM S WINDOW(RANGE 60 GRANULARITY 10) x", False, False, 69, False, 10),
        ("SELECT * FROM (SELECT COUNT(*) FROM S WINDOW(RANGE 6 GRANULARITY 2) x) WINDOW(RANGE 4) y", False, False, 11, False, 2),
        ("SELECT a FROM S WINDOW(RANGE UNBOUNDED) x", True, True, None, True, 1),
        ("SELECT a FROM S WINDOW(ROWS 5) x", False, False, None, True, 1),
        ("SELECT a FROM S WINDOW(ROWS UNBOUNDED) x", True, True, None, True, 1),
        ("SELECT COUNT(*) FROM S WINDOW(RANGE 60) x", False, False, 60, False, 1),
        ("SELECT COUNT(*) FROM S", False, True, 1, True, 1),
        ("SELECT COUNT(*) FROM T", True, True, None, True, 0),
        ("SELECT S.a FROM S WINDOW(RANGE 60), R WINDOW(RANGE 7)", False, True, 7, True, 1),
        ("SELECT S.a FROM S, R WINDOW(RANGE UNBOUNDED)", False, True, 1, True, 1),
        ("SELECT S.a FROM S WINDOW(RANGE 60) JOIN T ON S.a = T.a", False, True, 60, True, 1),
        ("SELECT S.a FROM S WINDOW(RANGE 60) LEFT JOIN T ON S.a = T.a", False, True, 60, True, 1),
        ("SELECT S.a FROM S WINDOW(RANGE 6) LEFT JOIN R WINDOW(RANGE 9) ON S.a = R.a", False, False, 6, False, 1),
        ("SELECT a FROM S WINDOW(RANGE 6) FULL JOIN R WINDOW(RANGE 9) USING (a)", False, False, 9, False, 1),
        ("SELECT a FROM S WINDOW(RANGE 6) UNION ALL SELECT a FROM R WINDOW(RANGE 9)", False, True, 9, True, 1),
        ("SELECT a FROM S WINDOW(RANGE 6) EXCEPT SELECT a FROM R WINDOW(RANGE 9)", False, False, 6, False, 1),
        ("SELECT a FROM S WINDOW(RANGE 6) INTERSECT SELECT a FROM R WINDOW(RANGE 9)", False, True, 6, True, 1),
        ("ISTREAM(SELECT COUNT(*) FROM S WINDOW(RANGE 6) x)", False, False, 6, False, 1),
        ("ISTREAM(SELECT a FROM S WINDOW(RANGE 6) x)", False, True, 1, True, 1),
        ("DSTREAM(SELECT a FROM S WINDOW(RANGE 6) x)", False, False, 7, False, 1),
        ("RSTREAM(SELECT a FROM S WINDOW(RANGE 6) x) EVERY 2", False, True, 6, False, 1),
        ("SELECT * FROM (SELECT a FROM S WINDOW(RANGE 6) x) WINDOW(RANGE 4) y", False, True, 9, False, 1),
        (
            "SELECT x.a FROM S WINDOW(RANGE 8 SLIDE 4) x, R WINDOW(RANGE 6 SLIDE 6) y",
            False, True, 11, False, 2,
        ),
    ],
)  # fmt: skip
def test_claims(
    query: str, append_only: bool, ends_known: bool, bounded: int | None, prompt: bool, granularity: int
) -> None:
    found = of(query)
    assert (found.append_only, found.ends_known, found.bounded, found.prompt, found.granularity) == (
        append_only, ends_known, bounded, prompt, granularity,
    )  # fmt: skip
    assert found.chronon == (bounded == 1)
    assert found.constant == (granularity == 0)


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("SELECT a, b FROM S", []),
        ("SELECT DISTINCT a, b FROM S", [{0, 1}]),
        ("SELECT COUNT(*) FROM S", [set()]),
        ("SELECT a, COUNT(*) FROM S GROUP BY a", [{0}]),
        ("SELECT COUNT(*) AS n, a FROM S GROUP BY a", [{1}]),
        ("SELECT COUNT(*) FROM S GROUP BY a", []),
        ("SELECT b, a, MAX(t) AS m FROM (SELECT a, b, TS AS t FROM S) GROUP BY a, b", [{0, 1}]),
        ("SELECT a, b FROM S ORDER BY a LIMIT 1", [set()]),
        ("SELECT a, b FROM S WINDOW(ROWS 1) x", [set()]),
        ("SELECT a, b FROM S WINDOW(PARTITION BY b ROWS 1) x", [{1}]),
        ("SELECT a FROM S UNION SELECT a FROM R", [{0}]),
        ("SELECT a FROM S UNION ALL SELECT a FROM R", []),
        # S's last row per a, joined with R's last row per a: on the key, each is known by one of them
        (
            "SELECT x.a, y.a, b FROM S WINDOW(PARTITION BY a ROWS 1) x JOIN R WINDOW(PARTITION BY a ROWS 1) y ON x.a = y.a",
            [{0}, {1}],
        ),
        (
            "SELECT x.a, y.a FROM S WINDOW(PARTITION BY a ROWS 1) x, R WINDOW(PARTITION BY a ROWS 1) y",
            [{0, 1}],
        ),
        (
            "SELECT x.a, y.a FROM S WINDOW(PARTITION BY a ROWS 1) x LEFT JOIN R WINDOW(ROWS 1) y ON x.a < y.a",
            [{0}],
        ),
        (
            "SELECT x.a, y.a FROM S WINDOW(PARTITION BY a ROWS 1) x FULL JOIN R WINDOW(ROWS 1) y ON x.a < y.a",
            [],
        ),
        ("SELECT a FROM S WINDOW(PARTITION BY a ROWS 1) x WHERE a NOT IN (SELECT a FROM R)", [{0}]),
    ],
)
def test_keys(query: str, keys: list[set[int]]) -> None:
    assert of(query).keys == frozenset(frozenset(k) for k in keys)


def test_keys_of_modify_streams() -> None:
    scan = World().run(STREAMS).catalog.find("S").scan  # type: ignore[union-attr]
    keyed = properties(Modify(scan, (0,)))
    assert keyed.has_key([0, 1])
    assert not keyed.has_key([1])
    assert (keyed.append_only, keyed.ends_known, keyed.bounded) == (False, False, None)
    assert properties(Modify(scan, None)).append_only


def test_the_judge_can_say_no() -> None:
    """Each claim is contradicted where it is false."""
    sources: dict[str, Source] = {
        "S": Arrivals([((1, 1, 1), 1), ((1, 2, 1), 1), ((2, 1, 4), 4), ((1, 1, 7), 7)]),
    }
    scan = World().run(STREAMS).catalog.find("S").scan  # type: ignore[union-attr]
    rows = op.Window(scan, RowWindow(2))
    slide = op.Window(scan, TimeWindow(6, 5))  # the row of 1 is shown from 5 on
    for plan, claim, word in [
        (rows, Properties(append_only=True), "append_only"),
        (rows, Properties(ends_known=True), "ends_known"),
        (rows, Properties(bounded=5), "bounded"),
        (rows, Properties(keys=frozenset([frozenset([0])])), "key"),
        (rows, Properties(granularity=3), "granularity"),
        (rows, Properties(granularity=0), "granularity"),
        (slide, Properties(prompt=True), "prompt"),
    ]:
        judge = Judge(sources)
        judge.known[plan] = claim
        assert any(b.startswith(word) for b in judge.broken(plan)), word
