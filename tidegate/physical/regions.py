"""Regions, the planner's intermediate form, and the stages that they become.

A region is a set of operators served by one exchange; `planning` forms them. Here their operators become sub-plans over
scans of the stage's inputs, and each input learns which columns travel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from tidegate.algebra.operators import Node, Scan
from tidegate.physical.stages import (
    Key,
    SourceRows,
    Stage,
    StageInput,
    StageRows,
    collect_needed,
    composed,
    ordered_leaves,
)
from tidegate.scalars.expressions import references
from tidegate.types import Schema


@dataclass(eq=False)
class Region:
    single: bool = False
    classes: list[int] = field(default_factory=list)
    leaves: list[Leaf] = field(default_factory=list)
    merged: Region | None = None

    def root(self) -> Region:
        return self if self.merged is None else self.merged.root()


@dataclass(eq=False)
class Placed:
    """An operator inside a region, or (`region` None) one that goes wherever it is used."""

    node: Node
    inputs: tuple[Placed, ...] = ()
    region: Region | None = None
    columns: dict[int, frozenset[int]] = field(default_factory=dict)
    """Class number -> the columns that carry it."""
    leaf: Leaf | None = None
    outsourced: Outsourced | None = None
    """Of a projection that Spark computes: what it reads."""

    @property
    def home(self) -> Region | None:
        return None if self.region is None else self.region.root()


@dataclass(eq=False)
class Leaf:
    origin: SourceRows | Placed
    schema: Schema
    keys: dict[int, exp.Expression]
    """Class number -> what is exchanged, over the schema's columns."""
    broadcast: bool
    raw: bool
    expressions: tuple[exp.Expression, ...] | None = None
    """What Spark makes of the rows on their way."""


@dataclass(eq=False)
class Outsourced:
    """Rows of a region, mapped by Spark."""

    below: Placed
    expressions: tuple[exp.Expression, ...]


def finish(every: Sequence[Region], roots: Mapping[str, Placed]) -> tuple[Stage, ...]:
    regions = [r for r in every if r.merged is None and _is_used(r, roots)]
    depth: dict[int, int] = {}

    def wave(region: Region) -> int:
        if id(region) not in depth:
            below = [leaf.origin.home for leaf in region.leaves if isinstance(leaf.origin, Placed)]
            depth[id(region)] = 1 + max((wave(b) for b in below if b is not None), default=0)
        return depth[id(region)]

    regions.sort(key=wave)
    number = {id(r): i for i, r in enumerate(regions)}
    outputs: list[list[Placed]] = [[] for _ in regions]

    def output(placed: Placed) -> StageRows:
        home = placed.home
        assert home is not None
        mine = outputs[number[id(home)]]
        if placed not in mine:
            mine.append(placed)
        return StageRows(number[id(home)], mine.index(placed))

    answers: list[dict[str, int]] = [{} for _ in regions]
    for name, placed in roots.items():
        rows = output(placed)
        answers[rows.stage][name] = rows.output
    for region in regions:
        for leaf in region.leaves:
            if isinstance(leaf.origin, Placed):
                output(leaf.origin)
    wanted: dict[tuple[int, int], set[int]] = {}
    for i, found in enumerate(answers):
        for o in found.values():
            wanted[i, o] = set(range(len(outputs[i][o].node.schema)))
    stages: list[Stage] = []
    for region in reversed(regions):
        stage = _stage(region, number[id(region)], wave(region), outputs, answers, wanted, output)
        stages.append(stage)
    return tuple(reversed(stages))


def _is_used(region: Region, roots: Mapping[str, Placed]) -> bool:
    seen: set[int] = set()
    todo = [p.home for p in roots.values()]
    while todo:
        current = todo.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        todo += [leaf.origin.home for leaf in current.leaves if isinstance(leaf.origin, Placed)]
    return id(region) in seen


def _stage(
    region: Region,
    number: int,
    wave: int,
    outputs: list[list[Placed]],
    answers: list[dict[str, int]],
    wanted: dict[tuple[int, int], set[int]],
    output: Callable[[Placed], StageRows],
) -> Stage:
    ids = region.classes
    inputs: dict[Any, StageInput] = {}
    memo: dict[int, Node] = {}

    def leaf_scan(leaf: Leaf) -> Node:
        origin = leaf.origin if isinstance(leaf.origin, SourceRows) else output(leaf.origin)
        if isinstance(leaf.origin, Placed) and isinstance(origin, StageRows) and leaf.expressions is not None:
            origin = replace(origin, given=leaf.origin.node.schema, expressions=leaf.expressions)
        key: Key | None = tuple(leaf.keys[k] for k in ids if k in leaf.keys)
        if region.single or leaf.broadcast:
            key = ()
        elif not key:
            key = None
        own = key
        if key and isinstance(origin, SourceRows):
            key = tuple(composed(e, origin.expressions) for e in key)
        identity = (origin, key, leaf.broadcast)
        if identity not in inputs:
            name = f"i{len(inputs)}"
            inputs[identity] = StageInput(
                name, origin, leaf.schema, key, leaf.broadcast, frozenset(), leaf.raw, False, own
            )
        return Scan(inputs[identity].name, leaf.schema, relation=not leaf.raw)

    def rewritten(placed: Placed) -> Node:
        if id(placed) not in memo:
            if placed.leaf is not None:
                memo[id(placed)] = leaf_scan(placed.leaf)
            else:
                memo[id(placed)] = placed.node.with_inputs(*(rewritten(i) for i in placed.inputs))
        return memo[id(placed)]

    plans = tuple(rewritten(p) for p in outputs[number])
    needed: dict[str, set[int]] = {}
    ordered: set[str] = set()
    for o, plan in enumerate(plans):
        collect_needed(plan, wanted.get((number, o), set()), needed)
        ordered |= ordered_leaves(plan)
    finished = []
    for entry in inputs.values():
        # The key's columns travel: it is computed from the rows as they are exchanged, and from those that are kept.
        used = frozenset(needed.get(entry.name, set()))
        used |= frozenset(c for e in entry.own_key or () for c in references(e))
        if isinstance(entry.origin, StageRows):
            made = entry.origin.expressions
            read = used if made is None else {c for i in used for c in references(made[i])}
            wanted.setdefault((entry.origin.stage, entry.origin.output), set()).update(read)
        finished.append(replace(entry, needed=used, ordered=entry.name in ordered))
    return Stage(number, wave, tuple(finished), plans, answers[number], 0 if region.single else len(ids))
