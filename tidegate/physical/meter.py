"""What leaves and operators do while they run: rows, their validity, keys and processor time.

Counting must cost next to nothing beside the work. Rows and time are told of everything that runs. The rest is measured where many rows pass, and
otherwise of a few leaves and operators in each epoch, in turn: all of them where there are few. Of many rows, validity and granule are those of
a sample, and keys are counted in every eighth epoch only.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tidegate.kernels.aggregates import AggregateKernel
from tidegate.kernels.join import JoinKernel
from tidegate.kernels.rows import VALIDITY, Frame, Kernel, columns
from tidegate.kernels.sweep import SweepKernel
from tidegate.kernels.topk import TopKKernel
from tidegate.kernels.windows import Counted
from tidegate.physical.identity import Identity
from tidegate.scalars.expressions import index_of
from tidegate.time import MAX, MIN

IN_TURN = 16
"""So many leaves and operators with few rows are measured in one epoch of a task."""

MANY = 2048
"""From so many rows on, rows are measured in every epoch; validity and granule by a sample of about so many of them."""

FEW = 256
"""Up to so many rows, keys are counted in every epoch, one by one."""

KEYS_EVERY = 8
"""The keys of more rows are counted in the first of so many epochs."""


@dataclass(frozen=True)
class Detail:
    """What was measured of the rows of one leaf or operator in an epoch of a task."""

    rows: int
    """Rows given that were looked at."""
    open: int
    """Those among them that begin something whose end is not known."""
    lasting: float
    """How long those are valid whose end is known, in ticks, on average."""
    granule: int
    """The greatest common divisor of the instants at which rows given begin and end; 0: not known."""
    keys: int
    """About how many keys the rows taken have; -1: it has no key."""


NOTHING = Detail(0, 0, 0.0, 0, -1)


class Meter:
    """Takes notes while a program steps; `turn` is the number of the epoch."""

    def __init__(self, ids: Sequence[Identity], turn: int = 1) -> None:
        self._places = {id_: place for place, id_ in enumerate(ids)}
        self._every, self._turn = -(-len(ids) // IN_TURN), turn
        self.flows: dict[Identity, tuple[int, int]] = {}
        """Rows taken and given."""
        self.retracted: dict[Identity, int] = {}
        """Rows given that take something back, where there are any."""
        self.seconds: dict[Identity, float] = {}
        """Processor time of the kernels that were asked."""
        self.details: dict[Identity, Detail] = {}

    def passed(
        self,
        id_: Identity,
        taken: Sequence[Frame],
        given: Frame,
        form: str,
        keys: Sequence[Sequence[str]] = (),
    ) -> None:
        """Note what a leaf or operator made of some rows. `form`: what is known of the ends of the rows given (see `physical.flow`);
        `keys`: the columns of each input that rows are brought together by."""
        count = sum(c.height for c in taken)
        self.flows[id_] = count, given.height
        rows = max(count, given.height)
        if not rows:
            return
        if form == "changes" and given.height:
            retracted = int(np.count_nonzero(given.get_column("n").to_numpy() < 0))
            if retracted:
                self.retracted[id_] = retracted
        if rows >= MANY or (self._places[id_] + self._turn) % self._every == 0:
            counting = rows <= FEW or self._turn % KEYS_EVERY == 1
            found = _keys(taken, keys) if keys and counting else -1
            self.details[id_] = Detail(given.height, *_validity(given), found)

    @staticmethod
    def now() -> float:
        """Seconds of processor time of this process: Polars works in threads of its own."""
        return time.process_time()

    def spent(self, id_: Identity, since: float) -> None:
        self.seconds[id_] = self.seconds.get(id_, 0.0) + self.now() - since


def key_columns(kernel: Kernel) -> tuple[tuple[str, ...], ...]:
    """The columns of each input by whose values a kernel brings rows together; none where they are no plain columns.

    >>> from tidegate.types import INT, Field
    >>> key_columns(SweepKernel("distinct", (Field("a", INT), Field("b", INT))))
    (('c0', 'c1'),)
    """
    if isinstance(kernel, AggregateKernel):
        return (_named(kernel.node.keys),)
    if isinstance(kernel, TopKKernel):
        return (_named(kernel.node.partition_by),)
    if isinstance(kernel, Counted):
        return (_named(kernel.partition_by),)
    if isinstance(kernel, SweepKernel):
        return (tuple(columns(len(kernel.schema))),) * (1 if kernel.operation == "distinct" else 2)
    if isinstance(kernel, JoinKernel):
        sides = ([index_of(k.left) for k in kernel.keys], [index_of(k.right) for k in kernel.keys])
        return tuple(_named([i for i in side if i is not None]) if None not in side else () for side in sides)
    return ()


def _named(positions: Sequence[int]) -> tuple[str, ...]:
    return tuple(f"c{i}" for i in dict.fromkeys(positions))


def _validity(rows: Frame) -> tuple[int, float, int]:
    """How many rows have no known end, how long the others last on average, and the granule. Rows that take something back do not count.

    >>> import polars as pl
    >>> _validity(pl.DataFrame({"ts": [0, 20, 30, 30], "te": [60, 80, MAX, MAX], "n": [1, 1, 1, -1]}))
    (1, 60.0, 10)
    >>> _validity(pl.DataFrame({"ts": [4, 10], "te": [5, 11], "n": [1, 1]}))
    (0, 1.0, 2)
    """
    if not rows.height:
        return 0, 0.0, 0
    step = max(1, rows.height // MANY | 1)
    begins, ends, counts = (rows.get_column(name).to_numpy()[::step] for name in VALIDITY)
    share, open_ = rows.height / len(ends), 0
    if ends.max() == MAX or begins.min() == MIN or counts.min() < 0:
        counting = counts > 0
        open_ = int(np.count_nonzero((ends == MAX) & counting))
        closed = (ends != MAX) & (begins != MIN) & counting
        lengths = ends[closed] - begins[closed]
        begins, ends = begins[begins != MIN], ends[ends != MAX]
    else:
        lengths = ends - begins
    mean = float(lengths.mean()) if len(lengths) else 0.0
    # Of instants the ends say nothing.
    bounds = begins if mean == 1.0 else np.concatenate([begins, ends])
    return round(open_ * share), mean, int(np.gcd.reduce(bounds)) if len(bounds) else 0


def _keys(chunks: Sequence[Frame], keys: Sequence[Sequence[str]]) -> int:
    """About how many keys rows have: those of the input that has most."""
    pairs = [(c, k) for c, k in zip(chunks, keys, strict=False) if k and _plain(c, k)]
    return max((distinct(c, k) for c, k in pairs), default=-1)


def _plain(rows: Frame, keys: Sequence[str]) -> bool:
    return not any(rows.schema[k].is_nested() for k in keys)


def distinct(rows: Frame, keys: Sequence[str]) -> int:
    """About how many different values some columns have: exact for few rows, otherwise HyperLogLog over hashes of the rows, whose standard
    error is 1.04 / sqrt(2 ** 14), less than one in a hundred.

    >>> import polars as pl
    >>> distinct(pl.DataFrame({"c0": [1, 1, 2], "c1": ["a", "a", None]}), ["c0", "c1"])
    2
    """
    if rows.height <= FEW:
        return len(set(zip(*(rows.get_column(k).to_list() for k in keys), strict=True)))
    about = rows.select(keys).hash_rows(seed=0).approx_n_unique()
    assert isinstance(about, int)
    return min(rows.height, about)
