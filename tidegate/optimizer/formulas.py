"""How rates, validities and values of rows pass each kind of operator, and what it keeps: the formulas of the cost model.

A stream is described by what PIPES calls its characteristics: how many rows begin per tick (its rate), how many ticks they last (their
validity), at which multiples of ticks they change (its granule), and by the values of its columns. At steady state

    rows valid at an instant = rate * validity

Rows are taken to be independent of each other, keys to be equally frequent. Rows whose ends are not known when they begin are taken back by rows that
come later; a row that ends in the epoch in which it begins is never taken back, so the number of those depends on the epochs' length.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from tidegate.algebra.operators import Aggregation
from tidegate.optimizer.prices import OTHER, Prices
from tidegate.optimizer.selectivity import described, narrowed, selectivity
from tidegate.optimizer.statistics import ColumnStatistics, seen, size_of
from tidegate.scalars.expressions import index_of
from tidegate.types import Schema

MOST = 1e15
HELD = 16.0
"""Bytes of a kept row beside its columns: its end and its number."""

Columns = tuple[ColumnStatistics, ...]


@dataclass(frozen=True)
class Estimate:
    """What is expected of an operator at steady state. Rates and work are per tick of application time.

    `memory_rows`, `memory_bytes` and `work_seconds` are its own, without those of its inputs.
    """

    rate: float
    """Rows that begin."""
    validity: float
    """Ticks that a row lasts, as far as the streams last."""
    standing: float
    """Rows valid at an instant: rate * validity; a table's rows."""
    columns: Columns
    retractions: float = 0.0
    """Rows that take back others."""
    granule: float = 1.0
    changes: bool = False
    """Whether ends are not known when rows begin."""
    selectivity: float = 1.0
    """Rows that begin for each one that an input lets begin."""
    memory_rows: float = 0.0
    memory_bytes: float = 0.0
    work_seconds: float = 0.0
    bunch: float = 1.0
    """Rows that begin and end at once, as those do that meet an instant."""
    priced: str = ""
    """The name under which prices know it: a kernel's, and where its steps differ much, what it is used for."""

    @property
    def given(self) -> float:
        """All rows that are handed on."""
        return self.rate + self.retractions

    @property
    def row_size(self) -> float:
        return sum(c.size for c in self.columns)

    @cached_property
    def combinations(self) -> float:
        """How many different rows there could be at an instant."""
        return combined(self.columns, self.validity)


@dataclass(frozen=True)
class Setting:
    """What holds for a whole plan: prices, how long an epoch is and for how long the streams last, in ticks."""

    prices: Prices
    horizon: float
    epoch: float
    partitions: float = 1.0
    """In each of which every kernel takes a step in every epoch."""

    def lasting(self, validity: float) -> float:
        """The mean over the horizon of how long rows have been valid: `v - v^2 / 2h`, or h / 2 if they outlast it.

        >>> Setting({}, 100.0, 1.0).lasting(10.0), Setting({}, 100.0, 1.0).lasting(math.inf)
        (9.5, 50.0)
        """
        h = self.horizon
        return h / 2 if validity >= h else validity - validity * validity / (2 * h)

    def closing(self, rate: float, standing: float) -> float:
        """Rows per tick that take back one of an earlier epoch: those of the rows that stood at its beginning which end in it."""
        if standing <= 0 or rate <= 0:
            return 0.0
        return min(rate, standing * -math.expm1(-rate * self.epoch / standing) / self.epoch)

    def made(
        self,
        kernel: str,
        inputs: Sequence[Estimate],
        rate: float,
        standing: float,
        columns: Iterable[ColumnStatistics],
        *,
        granule: float = 1.0,
        changes: bool = False,
        retractions: float | None = None,
        kept: Sequence[tuple[float, float]] = (),
        bunch: float = 1.0,
    ) -> Estimate:
        """What a kernel makes of its inputs; `kept` are numbers of rows that it keeps, and their sizes."""
        rate, standing = min(max(rate, 0.0), MOST), min(max(standing, 0.0), MOST)
        if retractions is None:
            retractions = self.closing(rate, standing) if changes else 0.0
        most = max(1.0, rate * self.horizon, standing)
        found = tuple(replace(c, distinct=max(1.0, min(c.distinct, most))) for c in columns)
        born = sum(i.rate for i in inputs)
        rows = sum(k for k, _ in kept)
        taken = sum(i.given for i in inputs)
        price = self.prices.get(kernel) or self.prices.get(kernel.partition(" ")[0], OTHER)
        width = sum(i.given * len(i.columns) for i in inputs) / taken if taken else 0.0
        per_epoch = price.step * self.partitions + price.kept * rows
        given = rate + retractions
        work = price.seconds(0.0, taken, width, given, len(found)) + per_epoch / self.epoch
        return Estimate(
            rate,
            standing / rate if rate else self.horizon,
            standing,
            found,
            retractions,
            granule,
            changes,
            rate / born if born else 1.0,
            rows,
            sum(k * (size + HELD) for k, size in kept),
            work,
            max(1.0, bunch),
            kernel,
        )


def combined(columns: Iterable[ColumnStatistics], ticks: float = math.inf) -> float:
    """How many combinations of values some columns can have, in rows of so many ticks."""
    return min(MOST, math.prod(max(1.0, c.about(ticks)) for c in columns))


# row by row ------------------------------------------------------------------------------------------------------------


def filtered(on: Setting, input: Estimate, predicate: exp.Expression) -> Estimate:
    """`rate' = s * rate`, s being the part of the rows that satisfies the predicate; validity stays."""
    part = selectivity(predicate, input.columns)
    columns = narrowed(predicate, input.columns)
    return on.made(
        "Filter",
        [input],
        input.rate * part,
        input.standing * part,
        columns,
        granule=input.granule,
        changes=input.changes,
        retractions=input.retractions * part,
        bunch=input.bunch * part,
    )


def mapped(on: Setting, input: Estimate, expressions: Sequence[exp.Expression], fields: Schema) -> Estimate:
    """Rates stay; a column has at most as many values as there are combinations of those that it is made of."""
    made = (described(e, input.columns) for e in expressions)
    sized = (
        c if c in input.columns else replace(c, size=size_of(f.type))
        for c, f in zip(made, fields, strict=True)
    )
    return alike(on, "Project", input, tuple(sized))


def alike(on: Setting, kernel: str, input: Estimate, columns: Columns | None = None) -> Estimate:
    """Rows one for one."""
    return on.made(
        kernel,
        [input],
        input.rate,
        input.standing,
        input.columns if columns is None else columns,
        granule=input.granule,
        changes=input.changes,
        retractions=input.retractions,
        bunch=input.bunch,
    )


def united(on: Setting, inputs: Sequence[Estimate], kernel: str = "Union") -> Estimate:
    """Rates and rows add; so do values, up to those of the input that has most and half of the others' (they may be the same)."""
    columns = []
    for several in zip(*(i.columns for i in inputs), strict=True):
        least = [c.least for c in several if c.least is not None]
        greatest = [c.greatest for c in several if c.greatest is not None]
        whole = len(least) == len(several) == len(greatest)
        largest = max(c.distinct for c in several)
        values = largest + (sum(c.distinct for c in several) - largest) / 2
        if whole and largest <= (between := max(greatest) - min(least) + 1.0):
            values = min(values, between)
        passing = [c for c in several if c.lasting is not None]
        lasting = max((c.lasting for c in passing if c.lasting is not None), default=None)
        columns.append(
            ColumnStatistics(
                values,
                min(least) if whole else None,
                max(greatest) if whole else None,
                sum(c.nulls for c in several) / len(several),
                sum(c.size for c in several) / len(several),
                lasting=lasting,
                fresh=max((c.fresh * values / max(c.distinct, 1.0) for c in passing), default=0.0),
            )
        )
    return on.made(
        kernel,
        inputs,
        sum(i.rate for i in inputs),
        sum(i.standing for i in inputs),
        columns,
        granule=min(i.granule for i in inputs),
        changes=any(i.changes for i in inputs),
        retractions=sum(i.retractions for i in inputs),
    )


def subtracted(on: Setting, left: Estimate, met: Estimate) -> Estimate:
    """Rows without those that have met a partner: what begins there ends here, and the other way round."""
    return on.made(
        "Subtract",
        [left, met],
        left.rate + met.retractions,
        max(0.0, left.standing - met.standing),
        left.columns,
        granule=min(left.granule, met.granule),
        changes=True,
        retractions=met.rate + left.retractions,
    )


# two inputs that meet ----------------------------------------------------------------------------------------------------

Pairs = Sequence[tuple[exp.Expression, exp.Expression]]


def meeting(left: Estimate, right: Estimate, keys: Pairs) -> float:
    """The part of all pairs whose keys are equal: `1 / max(d, d')` for each of them.

    Values that come and go are taken to do so at the same time on both sides, so rows that are valid together have them more often: where d values are known of
    which a are about, by d / a; but nobody meets more rows than a value has.
    """
    mine = [described(a, left.columns) for a, _ in keys]
    theirs = [described(b, right.columns) for _, b in keys]
    part = 1.0
    for a, b in zip(mine, theirs, strict=True):
        equal = 1.0 / max(a.distinct, b.distinct, 1.0)
        sides = ((a, left), (b, right))
        closer = min(
            (c.distinct / c.about(i.validity) for c, i in sides if c.lasting is not None), default=1.0
        )
        if closer > 1.0:
            present = max(seen(c.about(i.validity), i.standing) for c, i in sides)
            equal = max(equal, min(equal * closer, 1.0 / max(present, 1.0)))
        part *= (1.0 - a.nulls) * (1.0 - b.nulls) * equal
    return part


def _passing_together(one: ColumnStatistics, other: ColumnStatistics) -> tuple[float | None, float]:
    """How long values are about that two columns have in common, and how many come per tick."""
    known = [c for c in (one, other) if c.lasting is not None]
    fewer = min(one.distinct, other.distinct)
    return (
        min((c.lasting for c in known if c.lasting is not None), default=None),
        min((c.fresh * fewer / max(c.distinct, 1.0) for c in known), default=0.0),
    )


def paired(
    on: Setting, left: Estimate, right: Estimate, keys: Pairs, residual: exp.Expression | None
) -> Estimate:
    """With N rows valid on each side and a part f of pairs that match: `rate = f (rate_l N_r + rate_r N_l)`, `N = f N_l N_r`.

    So validity is `1 / (1 / v_l + 1 / v_r)`. A row that takes back another meets the same partners. State: the rows valid on either side.
    """
    both = left.columns + right.columns
    part = meeting(left, right, keys) * selectivity(residual, both)
    columns = list(narrowed(residual, both))
    for a, b in keys:
        one, other = described(a, left.columns), described(b, right.columns)
        fewer = min(one.distinct, other.distinct)
        lasting, fresh = _passing_together(one, other)
        for expression, shift in ((a, 0), (b, len(left.columns))):
            place = index_of(expression)
            if place is not None:
                known = columns[place + shift]
                columns[place + shift] = replace(
                    known, distinct=min(known.distinct, fewer), nulls=0.0, lasting=lasting, fresh=fresh
                )
    bunch, columns = _bunched(left, right, keys, part, columns)
    rate = part * (left.rate * right.standing + right.rate * left.standing)
    sizes = [
        sum(described(pair[side], i.columns).size for pair in keys) for side, i in ((0, left), (1, right))
    ]
    kept = [
        (i.standing if i.validity > 1 or not i.rate else 0.0, i.row_size + size)
        for i, size in zip((left, right), sizes, strict=True)
    ]
    use = " of changes" if left.changes or right.changes else ""
    return on.made(
        "Join" + (use if left.given and right.given else " with a table"),
        [left, right],
        rate,
        part * left.standing * right.standing,
        columns,
        granule=min(left.granule, right.granule),
        changes=left.changes or right.changes,
        retractions=part * (left.retractions * right.standing + right.retractions * left.standing),
        kept=kept,
        bunch=bunch,
    )


def _bunched(
    left: Estimate, right: Estimate, keys: Pairs, part: float, columns: list[ColumnStatistics]
) -> tuple[float, list[ColumnStatistics]]:
    """How many pairs begin and end at once, and how many values their columns then have.

    An instant meets all its partners at once. Rows of one bunch that share their keys meet the same partners, so these bring only their own values.
    """
    sides = ((left, right, 0), (right, left, len(left.columns)))
    for instants, others, mine in sides:
        if instants.validity > 1.0 or not instants.rate or (others.rate and others.validity <= 1.0):
            continue
        partners, theirs = max(1.0, part * others.standing), len(left.columns) - mine
        shared = {p + mine for pair in keys if (p := index_of(pair[mine > 0])) is not None}
        same = {p + theirs for pair in keys if (p := index_of(pair[mine == 0])) is not None}
        alike_ = all(columns[c].each <= 1.0 or instants.bunch <= 1.0 for c in shared)
        for c in range(len(instants.columns)):
            columns[c + mine] = replace(columns[c + mine], each=min(columns[c + mine].each, instants.bunch))
        for c in range(len(others.columns)):
            most = partners if alike_ else partners * instants.bunch
            columns[c + theirs] = replace(
                columns[c + theirs], each=1.0 if alike_ and c + theirs in same else most
            )
        return partners * instants.bunch, columns
    return 1.0, columns


# sweeps ----------------------------------------------------------------------------------------------------------------


def distinct(on: Setting, input: Estimate) -> Estimate:
    """Of D possible rows, `d = D (1 - e^(-N / D))` are there. One comes if it was not: at `rate * e^(-N / D)`.

    State: each different row once, and the ends that are known.
    """
    domain, granule = input.combinations, max(1.0, input.granule)
    present = seen(domain, input.standing)
    rate = seen(domain, input.rate * granule) / granule * (1.0 - present / domain)
    columns = tuple(_standing(c, input.validity) for c in input.columns)
    return _swept(on, [input], max(rate, present / on.horizon), present, columns)


def _standing(column: ColumnStatistics, validity: float) -> ColumnStatistics:
    """A column of rows that stand as long as any of an input's rows of that value does."""
    return column if column.lasting is None else replace(column, lasting=column.lasting + validity)


def _swept(
    on: Setting, inputs: Sequence[Estimate], rate: float, standing: float, columns: Columns
) -> Estimate:
    kept = [(seen(i.combinations, i.standing), i.row_size + 8) for i in inputs]
    kept += [(0.0 if i.changes else pending(i), i.row_size + 8) for i in inputs]
    granule = min(i.granule for i in inputs)
    return on.made("Sweep", inputs, rate, standing, columns, granule=granule, changes=True, kept=kept)


def pending(input: Estimate) -> float:
    """Rows whose ends are known and lie ahead."""
    return input.standing if input.rate and input.validity > 1 else 0.0


def without(on: Setting, left: Estimate, right: Estimate, all_: bool) -> Estimate:
    """EXCEPT: what is on the left and not on the right. ALL: as often as there is more of it on the left."""
    domain = max(left.combinations, right.combinations)
    there = seen(domain, right.standing) / domain
    if all_:
        rate = left.rate * (1.0 - there) + right.rate * seen(domain, left.standing) / domain
        return _swept(on, [left, right], rate, max(0.0, left.standing - right.standing * there), left.columns)
    mine, other = distinct(on, left), distinct(on, right)
    rate = mine.rate * (1.0 - there) + other.rate * mine.standing / domain
    return _swept(on, [left, right], rate, mine.standing * (1.0 - there), left.columns)


def both(on: Setting, left: Estimate, right: Estimate, all_: bool) -> Estimate:
    """INTERSECT: what is on both sides."""
    domain = max(left.combinations, right.combinations)
    mine, other = distinct(on, left), distinct(on, right)
    here, there = mine.standing / domain, other.standing / domain
    rate = mine.rate * there + other.rate * here
    standing = min(left.standing, right.standing) * min(1.0, there) if all_ else mine.standing * there
    return _swept(on, [left, right], rate, standing, left.columns)


def partnered(on: Setting, mine: Estimate, met: Estimate, kind: str) -> Estimate:
    """Rows that have any partner among the pairs (semi), or none (anti), where a condition goes beyond equal keys."""
    partners = met.standing / mine.standing if mine.standing else 0.0
    some = -math.expm1(-partners)
    part = some if kind == "semi" else 1.0 - some
    rate = mine.rate * part + met.rate * (1.0 - some)
    return _swept(on, [mine, met], rate, mine.standing * part, mine.columns)


# groups ----------------------------------------------------------------------------------------------------------------

SUMS = {"COUNT": 0.0, "SUM": 40.0, "AVG": 40.0}
"""Bytes of what is kept of a group for an aggregate; 16 for others."""

_FLOATS = ("FLOAT", "DOUBLE")
_EXTREMES = frozenset(("MIN", "MAX", "ARG_MIN", "ARG_MAX"))
_ELEMENTS = frozenset(("MIN", "MAX", "QUANTILE", "TOP_K", "ARG_MIN", "ARG_MAX", "COLLECT", "HISTOGRAM"))


def grouped(
    on: Setting,
    input: Estimate,
    keys: Sequence[int],
    aggregations: Sequence[Aggregation],
    elements: bool | None = None,
) -> Estimate:
    """Of G possible groups `g = G (1 - e^(-N / G))` have rows. E endpoints in a granule change `G (1 - e^(-E / G))` of them; an extreme of
    m rows changes once in m times, or always where they come at once.

    State: a row for each group, the rows whose ends are known until they end, and where an aggregate looks at rows again (`elements`) the others, too.
    """
    groups = combined((input.columns[k] for k in keys), input.validity)
    # Of rows that begin and end at once, those of one group change it once.
    once = input.bunch / min(input.bunch, math.prod(input.columns[k].each for k in keys))
    began = input.rate / once
    present = seen(groups, input.standing / once)
    granule = max(1.0, input.granule)
    ends = 0.0 if input.validity >= on.horizon / 2 else began
    events = (began + ends) * granule
    changed = seen(groups, events) / granule
    # After one endpoint alone: a beginning leaves rows, an end does so if there are others.
    alone, filled = math.exp(-events / groups), present / groups
    begins = began * granule / events if events else 1.0
    rate = changed * (alone * (begins + (1.0 - begins) * filled) + (1.0 - alone) * filled)
    mean = input.standing / present if present else 1.0
    if aggregations and all(a.function in _EXTREMES for a in aggregations):
        # Of the rows of a group one is the extreme: only its coming and going shows.
        rate *= min(1.0, len(aggregations) / max(mean / once, 1.0))
    columns = [_standing(input.columns[k], input.validity) for k in keys]
    columns += [_aggregated(a, input, mean, present) for a in aggregations]
    looks = any(a.function in _ELEMENTS or a.distinct for a in aggregations) if elements is None else elements
    read = {*keys, *(c for a in aggregations for c in a.arguments)}
    size = sum(input.columns[c].size for c in read)
    own = (
        sum(c.size for c in columns[: len(keys)]) - 8 + sum(SUMS.get(a.function, 16.0) for a in aggregations)
    )
    kept = [(present, own), (pending(input) if not input.changes else 0.0, size)]
    if looks and input.changes:
        kept.append((input.standing, size))
    floats = any(a.function in SUMS and a.type.name in _FLOATS for a in aggregations)
    use = " of elements" if looks else " of floats" if floats else ""
    looked = replace(input, columns=tuple(input.columns[c] for c in sorted(read)))
    return on.made(
        f"Aggregate{use}", [looked], rate, present, columns, granule=granule, changes=True, kept=kept
    )


def _aggregated(a: Aggregation, input: Estimate, mean: float, groups: float) -> ColumnStatistics:
    """COUNT is near the mean number of rows of a group, SUM near that times the mean value; others are values of their argument."""
    argument = input.columns[a.arguments[0]] if a.arguments else ColumnStatistics()
    size = size_of(a.type)
    if a.function == "COUNT":
        spread = 2.0 * math.sqrt(mean)
        return ColumnStatistics(
            max(1.0, 4.0 * math.sqrt(mean)), max(1.0, mean - spread), mean + spread, size=size
        )
    if a.function == "SUM" and argument.least is not None and argument.greatest is not None:
        low, high = sorted((argument.least * mean, argument.greatest * mean))
        return ColumnStatistics(max(1.0, groups), low, high, size=size)
    return replace(argument, size=size)


def first_rows(on: Setting, input: Estimate, partition_by: Sequence[int], limit: int) -> Estimate:
    """Of N rows in P partitions the first k: a row that begins is among them with `k P / N`; one that ends makes place for another.

    State: all rows.
    """
    partitions = seen(combined((input.columns[c] for c in partition_by), input.validity), input.standing)
    shown = min(input.standing, limit * partitions)
    chance = shown / input.standing if input.standing else 1.0
    ends = 0.0 if input.validity >= on.horizon / 2 else input.rate
    return on.made(
        "TopK",
        [input],
        (input.rate + (ends if chance < 1.0 else 0.0)) * chance,
        shown,
        input.columns,
        granule=input.granule,
        changes=True,
        kept=[(input.standing if input.changes else pending(input), input.row_size)],
    )


# modifications and points ----------------------------------------------------------------------------------------------


def modified(on: Setting, input: Estimate, key: Sequence[int] | None) -> Estimate:
    """One row of each of the keys that have come, until its key comes again. Without a key, all rows for ever."""
    ever = input.rate * on.horizon
    if key is None:
        return on.made("Inserts", [input], input.rate, ever / 2, input.columns)
    keys = seen(combined(input.columns[c] for c in key), ever)
    return on.made(
        "Modify",
        [input],
        input.rate,
        keys,
        input.columns,
        changes=True,
        kept=[(keys, input.row_size - 8)],
    )


def instants(on: Setting, input: Estimate, kernel: str, rate: float) -> Estimate:
    """ISTREAM, DSTREAM and RSTREAM: rows that last one tick. State: the ends that are known."""
    kept = [(0.0 if input.changes else pending(input), input.row_size)]
    return on.made(kernel, [input], rate, rate, input.columns, kept=kept)


def synchronized(on: Setting, input: Estimate, points: float) -> Estimate:
    """At p points per tick: rows that begin and end between two of them are never seen. State: what the next point will show."""
    every = 1.0 / points if points > 0 else on.horizon
    lasts = max(input.validity, 1e-9)
    rate = min(input.rate, input.standing * -math.expm1(-every / lasts) / every) if input.rate else 0.0
    return on.made(
        "SyncTicks",
        [input],
        rate,
        input.standing,
        input.columns,
        granule=max(every, input.granule),
        changes=True,
        kept=[(input.rate * every / 2, input.row_size + 8)],
    )


def restricted(on: Setting, input: Estimate) -> Estimate:
    """A condition on NOW shows each row for a part of its validity: half of it."""
    return on.made(
        "Restrict",
        [input],
        input.rate,
        input.standing / 2,
        input.columns,
        granule=input.granule,
        changes=input.changes,
        retractions=input.retractions,
        kept=[(input.standing / 4, input.row_size + 8)],
    )


def since(on: Setting, input: Estimate) -> Estimate:
    """Rows with the instant at which they came. State: the rows in force, and the ends that are known."""
    columns = (*input.columns, ColumnStatistics(max(1.0, input.standing)))
    kept = [(input.standing, input.row_size + 8), (0.0 if input.changes else pending(input), input.row_size)]
    return on.made(
        "Since", [input], input.rate, input.standing, columns, granule=input.granule, changes=True, kept=kept
    )


def single(on: Setting, input: Estimate, partition_by: Sequence[int]) -> Estimate:
    """Rows as they are; they are counted in each partition."""
    partitions = seen(combined((input.columns[c] for c in partition_by), input.validity), input.standing)
    return replace(
        alike(on, "SingleRow", input),
        memory_rows=partitions + (0.0 if input.changes else pending(input)),
        memory_bytes=partitions * (input.row_size + HELD),
    )
