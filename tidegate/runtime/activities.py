"""What inputs and operators have done: the notes of all tasks of an epoch as one, over the epochs since a graph was started here.

Rows, bytes and processor time of partitions are added up; so are keys, because an exchange brings equal keys into one partition. The granule of all is the
greatest common divisor of theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from tidegate.exchange.messages import Measured, Message, WaveReport
from tidegate.runtime.jobs import Physical

EPOCHS = 100
"""The metrics of so many epochs are kept."""

LINES = 100_000
"""So many lines they may have, one for each input and operator and epoch: of large graphs fewer epochs are kept."""


@dataclass(frozen=True)
class Activity:
    """What an input or operator has done: in the last epoch, and (`all_`) since the graph was started here."""

    taken: int = 0
    """Rows."""
    given: int = 0
    all_taken: int = 0
    all_given: int = 0
    kept: int = 0
    """Rows in its state; of an input, those that wait."""
    size: int = 0
    """Bytes of them."""
    retracted: int = 0
    """Rows given that take something back. Those that end by themselves are none."""
    all_retracted: int = 0
    seconds: float = 0.0
    """Processor time."""
    all_seconds: float = 0.0
    peak: int = 0
    """Rows that the partition took which took most."""
    tasks: int = 0
    measured: int = 0
    """Rows given that were looked at; what follows is known of these: of the last epoch with any."""
    open: int = 0
    """Those without a known end."""
    closed: int = 0
    """Those with one."""
    lasting: float = 0.0
    """Ticks that the latter are valid, added up."""
    granule: int = 0
    """The greatest common divisor of the instants at which rows begin and end; 0: not known."""
    keys: int = -1
    """About how many keys the rows taken had; -1: not known."""

    @property
    def selectivity(self) -> float | None:
        """Rows given for each row taken."""
        return self.given / self.taken if self.taken else None

    @property
    def validity(self) -> float | None:
        """Ticks that a row is valid, on average over those whose end is known."""
        return self.lasting / self.closed if self.closed else None

    @property
    def skew(self) -> float | None:
        """The rows of the largest partition against the mean: 1 where all have as many."""
        return self.peak * self.tasks / self.taken if self.taken else None


_EPOCH = ("taken", "given", "kept", "size", "retracted", "seconds", "peak", "tasks")
_LOOKED_AT = ("measured", "open", "closed", "lasting", "granule", "keys")
_ROW = {name: row for row, name in enumerate((*_EPOCH, *_LOOKED_AT))}
_INTEGERS = frozenset(_ROW) - {"seconds", "lasting"}
_TOTALS = ("taken", "given", "retracted", "seconds")

Columns = Mapping[int, np.ndarray]
"""Wave -> a column for each input or operator, in the order of the tasks' reports, and a row for each field."""


def counted(orders: Mapping[int, Sequence[str]], messages: Iterable[Message]) -> Columns:
    """What all tasks of an epoch did, as one."""
    found = {wave: np.zeros((len(_ROW), len(ids))) for wave, ids in orders.items()}
    for columns in found.values():
        columns[_ROW["keys"]] = -1
    for message in messages:
        if isinstance(message, WaveReport) and message.tally.given:
            tally, columns = message.tally, found[int(message.place.split("@")[0])]
            columns[:4] += np.array([tally.taken, tally.given, tally.kept, tally.sizes])
            columns[_ROW["peak"]] = np.maximum(columns[_ROW["peak"]], tally.taken)
            columns[_ROW["tasks"]] += 1
            if tally.measured.places:
                _add(columns, tally.measured)
    return found


def _add(columns: np.ndarray, m: Measured) -> None:
    """What one task measured, beside what others did."""
    places = np.array(m.places)
    retracted, rows, open_, lasting = map(np.array, (m.retracted, m.rows, m.open, m.lasting))
    closed = np.maximum(rows - open_ - retracted, 0)
    for name, values in (
        ("seconds", m.seconds),
        ("retracted", retracted),
        ("measured", rows),
        ("open", open_),
        ("closed", closed),
        ("lasting", lasting * closed),
    ):
        columns[_ROW[name], places] += values
    granules, keys = columns[_ROW["granule"], places], columns[_ROW["keys"], places]
    columns[_ROW["granule"], places] = np.gcd(granules.astype(np.int64), np.array(m.granule, dtype=np.int64))
    more = np.array(m.keys)
    columns[_ROW["keys"], places] = np.where(more < 0, keys, np.maximum(keys, 0) + more)


def activities_in(ids: Sequence[str], columns: np.ndarray) -> dict[str, Activity]:
    """What each did in an epoch, by its identity."""
    found = {}
    for id_, values in zip(ids, columns.T, strict=True):
        done: dict[str, Any] = {
            name: int(v) if name in _INTEGERS else float(v) for name, v in zip(_ROW, values, strict=True)
        }
        found[id_] = Activity(**done)
    return found


@dataclass(frozen=True)
class Activities:
    """What all inputs and operators have done, as columns."""

    orders: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    epoch: Columns = field(default_factory=dict)
    """The last epoch."""
    totals: Columns = field(default_factory=dict)
    """The fields of `_TOTALS`, of all epochs."""
    looked_at: Columns = field(default_factory=dict)
    """The fields of `_LOOKED_AT`, each of the last epoch in which they were measured."""

    def after(self, orders: Mapping[int, tuple[str, ...]], messages: Iterable[Message]) -> Activities:
        """The same after an epoch, in which the operators of `orders` ran."""
        epoch, before = counted(orders, messages), self._in(orders)
        totals = {w: before.totals[w] + epoch[w][[_ROW[n] for n in _TOTALS]] for w in orders}
        looked_at = {}
        for wave, columns in epoch.items():
            fresh, old = columns[len(_EPOCH) :], before.looked_at[wave]
            looked_at[wave] = np.where(columns[_ROW["measured"]] > 0, fresh, old)
            # Keys are those of rows taken, of which none may have been given on.
            looked_at[wave][-1] = np.where(fresh[-1] >= 0, fresh[-1], old[-1])
        return Activities(orders, epoch, totals, looked_at)

    def _in(self, orders: Mapping[int, tuple[str, ...]]) -> Activities:
        """The same in another order; what is new has done nothing."""
        if orders is self.orders:
            return self
        nothing = np.array([0.0] * (len(_LOOKED_AT) - 1) + [-1.0])

        def moved(known: Columns, empty: np.ndarray) -> Columns:
            by_id = {i: v for w, ids in self.orders.items() for i, v in zip(ids, known[w].T, strict=True)}
            return {
                w: np.array([by_id.get(i, empty) for i in ids]).reshape(-1, len(empty)).T
                for w, ids in orders.items()
            }

        return Activities(
            orders, {}, moved(self.totals, np.zeros(len(_TOTALS))), moved(self.looked_at, nothing)
        )

    @cached_property
    def by_id(self) -> dict[str, Activity]:
        """What each has done, by its identity."""
        found = {}
        for wave, ids in self.orders.items():
            columns = np.concatenate([self.epoch[wave][: len(_EPOCH)], self.looked_at[wave]])
            done = activities_in(ids, columns)
            for id_, (taken, given, retracted, seconds) in zip(ids, self.totals[wave].T, strict=True):
                found[id_] = replace(
                    done[id_],
                    all_taken=int(taken),
                    all_given=int(given),
                    all_retracted=int(retracted),
                    all_seconds=float(seconds),
                )
        return found


@dataclass(frozen=True)
class MeasuredEpoch:
    """The metrics of one epoch, and what ran in it."""

    graph: str
    number: int
    upto: int
    """Its watermark, in ticks."""
    width: int
    """Ticks of an instant."""
    physical: Physical
    columns: Columns

    @property
    def lines(self) -> int:
        return sum(map(len, self.physical.orders.values()))

    @cached_property
    def by_id(self) -> dict[str, Activity]:
        """What each did in this epoch, by its identity."""
        return {
            i: a
            for w, ids in self.physical.orders.items()
            for i, a in activities_in(ids, self.columns[w]).items()
        }


def kept(epochs: Sequence[MeasuredEpoch], latest: MeasuredEpoch) -> tuple[MeasuredEpoch, ...]:
    """The epochs with one more, without those that are too many."""
    found = [*epochs[-(EPOCHS - 1) :], latest]
    lines = sum(e.lines for e in found)
    while len(found) > 1 and lines > LINES:
        lines -= found.pop(0).lines
    return tuple(found)


@dataclass
class RunMetrics:
    """What is measured while recorded streams are read to their end."""

    physical: Physical
    width: int
    epochs: tuple[MeasuredEpoch, ...] = ()

    def note(self, number: int, upto: int, messages: Iterable[Message]) -> None:
        """An epoch is done."""
        columns = counted(self.physical.orders, messages)
        epoch = MeasuredEpoch("run", number, upto, self.width, self.physical, columns)
        self.epochs = kept(self.epochs, epoch)
