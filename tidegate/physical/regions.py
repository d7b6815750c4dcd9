"""Regions under construction: sets of operators served by one exchange, and what is known of their keys.

A region's key is a list of **classes**. A class stands for one exchanged value; at every operator inside the region it is carried by
some columns. What has been placed is never changed: when two regions become one, their classes become one by an entry here, and
whoever asks for the columns of a placed operator is answered in terms of the classes that are left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from tidegate.algebra.operators import Node
from tidegate.physical.plan import SourceRows
from tidegate.types import Schema

Columns = Mapping[int, frozenset[int]]
"""Class -> the columns that carry it."""


@dataclass(frozen=True, eq=False)
class Placed:
    """An operator inside a region, or (`region` None) one that goes wherever it is used."""

    node: Node
    inputs: tuple[Placed, ...] = ()
    region: int | None = None
    columns: Columns = field(default_factory=dict)
    """As they were when it was placed; `Regions.columns` says what they are."""
    leaf: Leaf | None = None
    mapped: MappedBySpark | None = None
    """Of a projection that Spark computes: what it reads."""


@dataclass(frozen=True, eq=False)
class Leaf:
    """What a region reads, exchanged by its key."""

    origin: SourceRows | Placed
    schema: Schema
    keys: Mapping[int, exp.Expression]
    """Class -> what is exchanged, over the schema's columns."""
    broadcast: bool
    raw: bool
    expressions: tuple[exp.Expression, ...] | None = None
    """What Spark makes of the rows on their way."""


@dataclass(frozen=True, eq=False)
class MappedBySpark:
    """Rows of a region, mapped by Spark."""

    below: Placed
    expressions: tuple[exp.Expression, ...]


class Regions:
    """All regions of a plan. A region is a number; of those that were merged, one stands for all."""

    def __init__(self) -> None:
        self._leader: list[int] = []
        self._single: list[bool] = []
        self._classes: list[list[int]] = []
        self._leaves: list[list[Leaf]] = []
        self._founders: list[Node | None] = []
        self._same: dict[int, int] = {}
        self._frozen: set[int] = set()
        self._next = 0

    def fresh(self, count: int) -> list[int]:
        """Classes that no region has yet."""
        self._next += count
        return list(range(self._next - count, self._next))

    def new(self, classes: Iterable[int] = (), single: bool = False, founder: Node | None = None) -> int:
        """A region with a key of some classes, or (`single`) in one partition; the founder is why it is needed."""
        self._leader.append(len(self._leader))
        self._single.append(single)
        self._classes.append(list(classes))
        self._leaves.append([])
        self._founders.append(founder)
        return len(self._leader) - 1

    def home(self, placed: Placed) -> int | None:
        """The region that an operator is in."""
        return None if placed.region is None else self.find(placed.region)

    def find(self, region: int) -> int:
        while self._leader[region] != region:
            region = self._leader[region]
        return region

    def is_single(self, region: int) -> bool:
        return self._single[self.find(region)]

    def classes(self, region: int) -> list[int]:
        return self._classes[self.find(region)]

    def leaves(self, region: int) -> list[Leaf]:
        return self._leaves[self.find(region)]

    def founder(self, region: int) -> Node | None:
        """The operator that a region was made for."""
        return self._founders[self.find(region)]

    def columns(self, placed: Placed) -> dict[int, frozenset[int]]:
        """The classes that an operator's columns carry, as they are called now."""
        return {self._class(k): columns for k, columns in placed.columns.items()}

    def keys(self, leaf: Leaf) -> dict[int, exp.Expression]:
        """What a leaf is exchanged by, for each class as it is called now."""
        return {self._class(k): expression for k, expression in leaf.keys.items()}

    def _class(self, k: int) -> int:
        while k in self._same:
            k = self._same[k]
        return k

    def freeze(self, region: int) -> None:
        """Let a region, and all whose rows it waits for, stay as they are: they run already."""
        self._frozen.update(self.before(region))

    def can_restrict(self, region: int, classes: Iterable[int]) -> bool:
        """Whether a key may become a part of itself."""
        region = self.find(region)
        return region not in self._frozen or set(self._classes[region]) <= set(classes)

    def can_merge(self, *regions: int) -> bool:
        return not self._frozen.intersection(map(self.find, regions))

    def restrict(self, region: int, classes: Iterable[int]) -> None:
        """Any non-empty part of a key serves: leave out the classes that somebody cannot provide."""
        kept = set(classes)
        region = self.find(region)
        self._classes[region] = [c for c in self._classes[region] if c in kept]

    def merge(self, into: int, gone: int, pairs: Mapping[int, int]) -> None:
        """Let a region, with its leaves, become part of another; `pairs` are the classes that are the same in both."""
        into, gone = self.find(into), self.find(gone)
        self.restrict(into, pairs)
        self._same |= {theirs: ours for ours, theirs in pairs.items()}
        self._leaves[into] += self._leaves[gone]
        self._leader[gone] = into

    def put_beside(self, region: int, other: int) -> int:
        """Let two regions run in the same tasks, each exchanged by its own key: rows of the one never meet rows of the other."""
        region, other = self.find(region), self.find(other)
        self._classes[region] = [*self._classes[region], *self._classes[other]]
        self._leaves[region] += self._leaves[other]
        self._leader[other] = region
        self.freeze(region)
        return region

    def add(self, region: int, leaf: Leaf) -> None:
        self._leaves[self.find(region)].append(leaf)

    def before(self, region: int) -> Iterator[int]:
        """The regions whose rows a region waits for, directly or not, and itself."""
        seen: set[int] = set()
        todo = [self.find(region)]
        while todo:
            current = todo.pop()
            if current in seen:
                continue
            seen.add(current)
            yield current
            origins = [leaf.origin for leaf in self._leaves[current]]
            todo += [self.find(o.region) for o in origins if isinstance(o, Placed) and o.region is not None]

    def in_order(self, roots: Iterable[int]) -> list[int]:
        """The regions that some roots need, each after those whose rows it waits for."""
        found: list[int] = []
        for root in roots:
            waiting = [r for r in self.before(root) if r not in found]
            depth = {r: len(set(self.before(r))) for r in waiting}
            found += sorted(waiting, key=lambda r: depth[r])
        return found
