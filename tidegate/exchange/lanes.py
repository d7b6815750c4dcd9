"""The rows between two waves of operators: one tagged union per exchange, so that an epoch is one linear job.

All operators of a wave run in the same tasks. What they read travels as **lanes**: a lane is one input, numbered
over the whole plan. A row of the union carries its lane, its validity, and the lane's columns in **slots** that lanes share
by type, so that a column costs what it holds. Rows that come out of a Python task travel as `blocks` instead, many in one
row of the union. Because the job is a line and not a tree, an operator whose rows are read twice still runs once.
Lane -1 carries messages to the driver (`meta`) and rows that cannot be used.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from tidegate.exchange.blocks import key_types
from tidegate.physical.plan import Input, OperatorRows, Plan, SourceRows
from tidegate.scalars.expressions import conjoin, conjuncts, index_of, references, substitute
from tidegate.scalars.total import guarded
from tidegate.spark.values import ddl
from tidegate.time import MAX, MIN
from tidegate.types import Type

T = TypeVar("T", bound=Hashable)

MESSAGE = -1
"""The lane of messages."""


@dataclass(frozen=True)
class Lane:
    """One input under way: emitted by wave `born` (0: a source), consumed by `wave`."""

    number: int
    input: Input
    born: int
    wave: int
    columns: tuple[int, ...]
    """The positions that travel."""
    time_columns: tuple[int, ...]
    """Positions that equal the row's time and are made from `ts` on arrival."""
    given: tuple[int, ...] = ()
    """The columns that the operator before emits, where Spark makes the travelling ones of them."""
    block: bool = False
    """Rows travel as blocks: they come from an operator, and where they go can be told without Spark."""

    @property
    def made(self) -> OperatorRows | None:
        """Where Spark maps the rows on their way: what it makes of them."""
        origin = self.input.origin
        return origin if isinstance(origin, OperatorRows) and origin.expressions is not None else None


@dataclass(frozen=True)
class Boundary:
    """The layout of the union in front of a wave."""

    wave: int
    lanes: tuple[Lane, ...]
    slots: tuple[Type, ...]
    places: Mapping[int, tuple[int, ...]]
    """Lane -> the slots of its travelling columns."""
    ends: bool
    """Rows carry `te`: not all lanes hold instants."""
    counts: bool
    """Rows carry `n`: not all lanes come from sources."""
    order: bool
    """Rows carry their order of arrival."""
    given: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Lane -> the slots of the columns that Spark reads to make the travelling ones."""

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """Names and DDL types of the union's columns."""
        found = [("lane", "INT"), ("p", "INT"), ("meta", "STRING"), ("block", "BINARY")]
        if all(lane.block for lane in self.lanes):
            return tuple(found)
        found += [("ts", "BIGINT")]
        found += [("te", "BIGINT")] if self.ends else []
        found += [("n", "BIGINT")] if self.counts else []
        found += [("o0", "STRING"), ("o1", "BIGINT"), ("o2", "BIGINT")] if self.order else []
        return (*found, *((f"s{i}", ddl(t)) for i, t in enumerate(self.slots)))

    @property
    def ddl(self) -> str:
        return ", ".join(f"{name} {type_}" for name, type_ in self.columns)

    def arriving(self) -> tuple[Lane, ...]:
        return tuple(lane for lane in self.lanes if lane.wave == self.wave)


def lanes_of(plan: Plan) -> tuple[Lane, ...]:
    """The lanes of a plan."""
    return tuple(_lane(number, entry, plan) for number, entry in enumerate(plan.inputs.values()))


def _lane(number: int, entry: Input, plan: Plan) -> Lane:
    origin = entry.origin
    wave = plan.waves[entry.id]
    if isinstance(origin, SourceRows):
        times = _times(entry, origin)
        return Lane(number, entry, 0, wave, tuple(sorted(entry.needed - set(times))), times)
    moving = tuple(sorted(entry.needed))
    made = origin.expressions
    given = () if made is None else tuple(sorted({c for i in moving for c in references(made[i])}))
    block = made is None and key_types(entry.key or (), entry.schema) is not None
    return Lane(number, entry, plan.waves[origin.operator], wave, moving, (), given, block)


def _times(entry: Input, origin: SourceRows) -> tuple[int, ...]:
    """The columns that are the time of the row."""
    scan = origin.scan
    # Where instants are wide, `ts` is the tick of a batch and the time a column of its own; of combined rows it is the latest time.
    if scan is None or not scan.schema or not scan.schema[-1].hidden or scan.width > 1 or origin.combine:
        return ()
    last = len(scan.schema) - 1
    return tuple(j for j in entry.needed if index_of(origin.expressions[j]) == last)


def boundaries(lanes: Sequence[Lane]) -> tuple[Boundary, ...]:
    """The layouts in front of waves 1, 2, …"""
    waves = max((lane.wave for lane in lanes), default=0)
    return tuple(_boundary(w, [x for x in lanes if x.born < w <= x.wave]) for w in range(1, waves + 1))


class Slots(Generic[T]):
    """Columns that several layouts share by type: each layout takes the first ones of a type that it has not taken yet."""

    def __init__(self) -> None:
        self.types: list[T] = []
        self._of_type: defaultdict[T, list[int]] = defaultdict(list)

    def take(self, type_: T, taken: Counter[T]) -> int:
        known = self._of_type[type_]
        if taken[type_] == len(known):
            known.append(len(self.types))
            self.types.append(type_)
        taken[type_] += 1
        return known[taken[type_] - 1]


def _boundary(wave: int, lanes: Sequence[Lane]) -> Boundary:
    slots = Slots[Type]()
    places: dict[int, tuple[int, ...]] = {}
    given: dict[int, tuple[int, ...]] = {}

    rows = [lane for lane in lanes if not lane.block]
    for lane in rows:
        taken: Counter[Type] = Counter()
        copies: dict[int, int] = {}
        made = lane.made if wave == lane.born + 1 else None
        if made is not None:
            given[lane.number] = tuple(slots.take(made.given[c].type, taken) for c in lane.given)
            copies = dict(zip(lane.given, given[lane.number], strict=True))
        found = []
        for column in lane.columns:
            # A column that is only passed on stays in its slot; a second copy of it needs one of its own.
            copied = None if made is None else index_of(_expressions(made)[column])
            place = None if copied is None else copies.pop(copied, None)
            found.append(slots.take(lane.input.schema[column].type, taken) if place is None else place)
        places[lane.number] = tuple(found)
    return Boundary(
        wave,
        tuple(lanes),
        tuple(slots.types),
        places,
        ends=any(not x.input.raw for x in rows),
        counts=any(x.born > 0 for x in rows),
        order=any(x.input.ordered for x in rows),
        given=given,
    )


def _expressions(made: OperatorRows) -> tuple[exp.Expression, ...]:
    assert made.expressions is not None
    return made.expressions


# Spark's side.


@dataclass(frozen=True)
class Feed:
    """A source as it appears in a frame: its scan's columns and what is known of a row, as texts, and the lanes it feeds."""

    name: str
    tag: int
    columns: tuple[str, ...]
    lanes: tuple[Lane, ...]
    ts: str = "ts"
    te: str = "te"
    bad: str = "bad"
    raw: str = "raw"

    def seen_by(self, lane: Lane, epoch: int) -> Feed:
        """The columns as the lane's scan has them: where rows are ordered by arrival, with the text that does so."""
        if not _by_arrival(lane):
            return self
        time = f"lpad(CAST(CAST({self.ts} AS DECIMAL(20, 0)) - {MIN}BD AS STRING), 20, '0')"
        place = "coalesce(o0, ''), chr(1), lpad(coalesce(o1, 0), 20, '0'), lpad(position, 20, '0')"
        order = f"concat({time}, '{epoch:020d}', {place})"
        return replace(self, columns=(*self.columns[:-1], order, self.columns[-1]))


def _by_arrival(lane: Lane) -> bool:
    return _rows(lane).by_arrival


def enter(
    frame: DataFrame,
    feeds: Sequence[Feed],
    boundary: Boundary,
    partitions: int,
    late: int | None = None,
    epoch: int = 0,
) -> DataFrame:
    """Rows of sources as the union in front of wave 1, in one pass over the frame.

    `frame` has the columns that the feeds' texts read, `o0`, `o1`, `o2` and, with several feeds, `source`. Rows before `late`
    come later than promised. Such rows and bad ones become messages. A row without a position gets its place in the frame.
    What comes in a later `epoch` arrives later.
    """
    ts, te, bad, raw = (
        _case("source", {f.tag: text for f, text in zip(feeds, texts, strict=True)})
        for texts in zip(*((f.ts, f.te, f.bad, f.raw) for f in feeds), strict=True)
    )
    reason = bad if late is None else f"coalesce({bad}, {_late(ts, bad, late)})"
    lanes = [(f.seen_by(lane, epoch), lane) for f in feeds for lane in f.lanes]
    tests = {lane.number: _test(_rows(lane), f.columns) for f, lane in lanes}
    fan = {f.tag: [lane.number for lane in f.lanes] for f in feeds}
    ordered = boundary.order or any(_by_arrival(lane) for _, lane in lanes)
    positions = ["coalesce(o2, monotonically_increasing_id()) AS position"] if ordered else []
    if all(len(numbers) == 1 for numbers in fan.values()):
        chosen = _case("source", {tag: str(numbers[0]) for tag, numbers in fan.items()})
        tagged = frame.selectExpr(
            "*", *positions, f"CASE WHEN {reason} IS NOT NULL THEN {MESSAGE} ELSE {chosen} END AS lane"
        )
        if any(test != "true" for test in tests.values()):
            tagged = tagged.filter(f"lane = {MESSAGE} OR {_case('lane', tests)}")
    else:
        # A row is copied only for the lanes that want it: testing the copies would cost the square of the lanes.
        chosen = _case("source", {tag: _wanted(numbers, tests) for tag, numbers in fan.items()})
        every = f"CASE WHEN {reason} IS NOT NULL THEN array({MESSAGE}) ELSE {chosen} END"
        tagged = frame.selectExpr("*", *positions, f"explode({every}) AS lane")
    source = _case("source", {f.tag: _text(f.name) for f in feeds})
    message = f"to_json(named_struct('tag', 'Refused', 'source', {source}, 'reason', {reason}, 'raw', {raw}, "
    message += "'file', nullif(o0, ''), 'row', o2))"
    values = {"lane": "lane", "meta": f"CASE WHEN lane = {MESSAGE} THEN {message} END", "ts": ts, "te": te}
    values |= {"n": "1L", "o0": "o0", "o1": "o1", "o2": "position"}
    places = {}
    slots: dict[str, dict[int, str]] = {}
    for f, lane in lanes:
        places[lane.number] = _target(lane, partitions, lambda e, f=f: _sql(e, f.columns))  # type: ignore[misc]
        for column, slot in zip(lane.columns, boundary.places[lane.number], strict=True):
            text = _sql(_rows(lane).expressions[column], f.columns)
            slots.setdefault(f"s{slot}", {})[lane.number] = text
    # A late row may be one that the predicate would have kept from the expression.
    guarded = len(lanes) > 1 or late is not None
    values |= {slot: _case("lane", texts, guarded) for slot, texts in slots.items()}
    values["p"] = _case("lane", places)
    entered = tagged.selectExpr(*_selected(boundary, values))
    return _broadcast(entered, boundary, [lane for _, lane in lanes], partitions)


def _selected(boundary: Boundary, values: Mapping[str, str]) -> list[str]:
    """The union's columns, of some texts by name; the others are NULL.

    Texts, because each column object costs several calls into Java, and an epoch is built of them.
    """
    return [f"CAST({values.get(name, 'NULL')} AS {type_}) AS {name}" for name, type_ in boundary.columns]


def _late(ts: str, bad: str, late: int) -> str:
    """The reason why a row comes too late, or NULL.

    Spark compiles an epoch's code anew where a number in it differs from the last epoch's. A text is handed to the code instead,
    and beside a column it is not taken for a constant.
    """
    return f"CASE WHEN {ts} < try_cast(coalesce({bad}, '{late}') AS BIGINT) THEN 'later than promised' END"


def one_row(spark: SparkSession, lanes: Sequence[Lane], boundary: Boundary, partitions: int) -> DataFrame:
    """The row of `OneRow`, for each lane that reads it."""
    numbers = ", ".join(str(lane.number) for lane in lanes)
    frame = spark.range(1).selectExpr(f"explode(array({numbers})) AS lane")
    places = {x.number: _target(x, partitions, lambda e: _sql(e, ())) for x in lanes}
    values = {"lane": "lane", "p": _case("lane", places), "te": f"{MAX}L", "n": "1L"}
    # Spark reads MIN itself as the negation of a number that is too large.
    values["ts"] = f"({MIN + 1}L - 1L)"
    return _broadcast(frame.selectExpr(*_selected(boundary, values)), boundary, lanes, partitions)


def tick(spark: SparkSession, boundary: Boundary, partitions: int) -> DataFrame:
    """No rows, but time passes: every partition runs."""
    values = {"lane": str(MESSAGE), "p": "id"}
    return spark.range(0, partitions, 1, 1).selectExpr(*_selected(boundary, values))


def hand_over(frame: DataFrame, boundary: Boundary, partitions: int) -> DataFrame:
    """Rows that a wave emitted, each with what Spark makes of it and with the partition where it is read next."""
    fresh = [x for x in boundary.lanes if x.born == boundary.wave - 1 and x.born > 0 and not x.block]
    frame = _mapped(frame, fresh, boundary)
    places = {}
    for lane in fresh:
        slots = dict(zip(lane.columns, boundary.places[lane.number], strict=True))
        names = tuple(f"s{slots[c]}" if c in slots else "NULL" for c in range(len(lane.input.schema)))
        places[lane.number] = _target(lane, partitions, lambda e, names=names: _sql(e, names))  # type: ignore[misc]
    if places:
        text = " ".join(f"WHEN {number} THEN {place}" for number, place in places.items())
        same = {name: name for name, _ in boundary.columns}
        place = f"CASE lane {text} ELSE coalesce(p, 0) END"
        frame = frame.selectExpr(*_selected(boundary, same | {"p": place}))
    return _broadcast(frame, boundary, fresh, partitions)


def _mapped(frame: DataFrame, lanes: Sequence[Lane], boundary: Boundary) -> DataFrame:
    """Columns that only Spark can compute, in their slots."""
    whens: dict[int, str] = {}
    for lane in lanes:
        if lane.made is None:
            continue
        read = dict(zip(lane.given, boundary.given[lane.number], strict=True))
        names = tuple(f"s{read[c]}" if c in read else "NULL" for c in range(len(lane.made.given)))
        for column, slot in zip(lane.columns, boundary.places[lane.number], strict=True):
            if slot not in read.values():
                text = _sql(_expressions(lane.made)[column], names)
                whens[slot] = whens.get(slot, "") + f" WHEN {lane.number} THEN {text}"
    if not whens:
        return frame
    values = {name: name for name, _ in boundary.columns}
    values |= {f"s{slot}": f"CASE lane{w} ELSE s{slot} END" for slot, w in whens.items()}
    return frame.selectExpr(*_selected(boundary, values))


def _broadcast(frame: DataFrame, boundary: Boundary, lanes: Sequence[Lane], partitions: int) -> DataFrame:
    everywhere = [str(x.number) for x in lanes if x.input.broadcast]
    if not everywhere or partitions == 1:
        return frame
    names = [name for name, _ in boundary.columns]
    others = [name for name in names if name != "p"]
    copies = (
        f"CASE WHEN lane IN ({', '.join(everywhere)}) THEN sequence(0, {partitions - 1}) ELSE array(p) END"
    )
    return frame.selectExpr(*others, f"explode({copies}) AS p").select(*names)


def _target(lane: Lane, partitions: int, sql: Callable[[exp.Expression], str]) -> str:
    """The partition a row of the lane belongs to, as an expression.

    Spark's hash is the same for 0.0 and -0.0, for every NaN, and for NULLs, as its grouping is.
    """
    key = lane.input.key
    if key is None:
        return f"pmod(spark_partition_id(), {partitions})"
    if not key:
        return str(lane.input.home % partitions)
    return f"pmod(hash({', '.join(sql(e) for e in key)}), {partitions})"


def _rows(lane: Lane) -> SourceRows:
    assert isinstance(lane.input.origin, SourceRows)
    return lane.input.origin


def _test(rows: SourceRows, names: Sequence[str]) -> str:
    """What is asked of a source's rows, as Spark's SQL."""
    condition = conjoin(p for predicate in rows.predicates for p in conjuncts(predicate))
    if condition is None or rows.scan is None:
        return "true"
    return f"({_sql(guarded(condition, rows.scan.schema), names)})"


def _sql(expression: exp.Expression, names: Sequence[str]) -> str:
    """A bound expression as Spark's SQL, over columns with other names."""
    if not references(expression):
        return expression.sql(dialect="spark")
    renamed = substitute(expression, lambda i: exp.Column(this=exp.Identifier(this=names[i], quoted=False)))
    return renamed.sql(dialect="spark")


def _wanted(numbers: Sequence[int], tests: Mapping[int, str]) -> str:
    """The array of the lanes that want a row.

    >>> _wanted([3, 5], {3: "true", 5: "(x > 1)"})
    'array_compact(array(3, CASE WHEN (x > 1) THEN 5 END))'
    """
    entries = [str(n) if tests[n] == "true" else f"CASE WHEN {tests[n]} THEN {n} END" for n in numbers]
    listed = f"array({', '.join(entries)})"
    return listed if all(tests[n] == "true" for n in numbers) else f"array_compact({listed})"


def _case(column: str, values: Mapping[int, str], guarded: bool = False) -> str:
    """The value for each number in a column; numbers that share a value are looked up at once, however many they are.

    `guarded`: where the column holds another number, the value is not computed.

    >>> _case("lane", {0: "x", 1: "y", 2: "x"})
    'CASE WHEN lane IN (0, 2) THEN x WHEN lane IN (1) THEN y END'
    >>> _case("lane", {0: "x", 2: "x"}), _case("lane", {0: "x", 2: "x"}, guarded=True)
    ('x', 'CASE WHEN lane IN (0, 2) THEN x END')
    """
    groups: dict[str, list[str]] = {}
    for number, value in values.items():
        groups.setdefault(value, []).append(str(number))
    if len(groups) < 2 and not guarded:
        return next(iter(groups), "NULL")
    whens = (f"WHEN {column} IN ({', '.join(numbers)}) THEN {value}" for value, numbers in groups.items())
    return f"CASE {' '.join(whens)} END"


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
