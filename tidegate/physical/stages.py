"""Stages as data: what is exchanged by what, which sub-plans run behind the exchange, and how people read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from tidegate.algebra.modify import Modify
from tidegate.algebra.operators import Aggregate, Filter, Join, Node, Project, Scan, UnionAll, Window
from tidegate.algebra.windows import is_temporal
from tidegate.scalars.expressions import index_of, references, substitute
from tidegate.types import Schema

Key = tuple[exp.Expression, ...]
"""What is hashed for the exchange, over the columns of the rows that are exchanged."""


@dataclass(frozen=True)
class SourceRows:
    """Rows of a source as Spark prepares them: filtered, then mapped; expressions see the scan's columns.

    `scan` None stands for the one row without columns of `OneRow`.
    """

    scan: Scan | None
    predicates: tuple[exp.Expression, ...] = ()
    expressions: tuple[exp.Expression, ...] = ()


@dataclass(frozen=True)
class StageRows:
    """Rows that output `output` of an earlier stage emits; with `expressions`, as Spark maps them on the way."""

    stage: int
    output: int
    given: Schema = ()
    """The columns of the output, where expressions read them."""
    expressions: tuple[exp.Expression, ...] | None = None


@dataclass(frozen=True)
class StageInput:
    """One input of a stage: where its rows come from, and which partition they go to.

    `key` None: rows may go anywhere; `()`: all to one partition. A broadcast input goes to every partition.
    The key reads the columns of the source or stage that the rows come from; `own_key` is the same over `schema`.
    """

    name: str
    origin: SourceRows | StageRows
    schema: Schema
    key: Key | None
    broadcast: bool
    needed: frozenset[int]
    raw: bool
    """Rows are instants of a raw stream; otherwise they carry their validity."""
    ordered: bool
    """A row window above needs the order of arrival."""
    own_key: Key | None = None
    home: int = 0
    """Where rows without a key go, modulo the number of partitions, whatever other stages there are."""


@dataclass(frozen=True)
class Stage:
    """An exchange and the sub-plans run behind it; `outputs` are read by later stages or are answers."""

    number: int
    wave: int
    inputs: tuple[StageInput, ...]
    outputs: tuple[Node, ...]
    answers: Mapping[str, int]
    """Names of queries, with the output that answers them."""
    classes: int
    """How many values the exchange hashes; 0: everything in one partition, unless the inputs say otherwise."""


def composed(expression: exp.Expression, by: Sequence[exp.Expression]) -> exp.Expression:
    """The expression over what other expressions make, as one over what they read."""

    def make(index: int) -> exp.Expression:
        found = by[index].copy()
        simple = isinstance(found, exp.Column | exp.Literal | exp.Func | exp.Paren | exp.Cast)
        return found if simple else exp.paren(found, copy=False)

    return substitute(expression, make)


def origin_of(node: Node) -> Node:
    """What a chain of filters and projections stands on."""
    while isinstance(node, Filter | Project):
        node = node.input
    return node


def ordered_leaves(plan: Node) -> set[str]:
    """The raw inputs below a window that counts rows, or below modifications of keys."""
    found: set[str] = set()
    for node in plan.walk():
        counts = isinstance(node, Window) and not is_temporal(node.spec)
        if counts or (isinstance(node, Modify) and node.key is not None):
            (below,) = node.inputs
            below = origin_of(below)
            if isinstance(below, Scan) and not below.relation:
                found.add(below.name)
    return found


def collect_needed(node: Node, wanted: set[int], leaves: dict[str, set[int]]) -> None:
    """Collect the columns of each leaf that can matter for the wanted columns of a plan."""
    if isinstance(node, Scan):
        leaves.setdefault(node.name, set()).update(wanted)
        return
    if isinstance(node, Filter):
        collect_needed(node.input, wanted | references(node.predicate), leaves)
    elif isinstance(node, Project):
        collect_needed(node.input, set().union(*(references(node.expressions[i]) for i in wanted)), leaves)
        # Expressions that nobody wants are computed all the same: what they read must be there.
        collect_needed(node.input, set().union(*(references(e) for e in node.expressions)), leaves)
    elif isinstance(node, Join):
        width = len(node.left.schema)
        # Rows that differ in other columns only have the same partners, so they may be counted as one (also by outer joins).
        reads = wanted | (references(node.predicate) if node.predicate is not None else set())
        collect_needed(node.left, {c for c in reads if c < width}, leaves)
        collect_needed(node.right, {c - width for c in reads if c >= width}, leaves)
    elif isinstance(node, Aggregate):
        reads = set(node.keys)
        for a in node.aggregations:
            reads |= {*a.arguments, *(() if a.where is None else (a.where,))}
        collect_needed(node.input, reads, leaves)
    elif isinstance(node, UnionAll):
        collect_needed(node.left, wanted, leaves)
        collect_needed(node.right, wanted, leaves)
    elif isinstance(node, Window) and (is_temporal(node.spec) or _is_raw(node.input)):
        collect_needed(node.input, wanted | set(node.partition_by), leaves)
    else:
        for child in node.inputs:
            collect_needed(child, set(range(len(child.schema))), leaves)


def _is_raw(node: Node) -> bool:
    below = origin_of(node)
    return isinstance(below, Scan) and not below.relation


def describe(stages: Sequence[Stage]) -> str:
    """The stages as EXPLAIN shows them: what is exchanged by what, and what runs behind it."""
    lines = []
    for stage in stages:
        lines.append(f"stage {stage.number + 1} (wave {stage.wave})")
        lines += [f"  from {_origin_text(entry)}, {_key_text(entry)}" for entry in stage.inputs]
        for i, plan in enumerate(stage.outputs):
            names = [n for n, o in stage.answers.items() if o == i]
            lines.append(f"  output {i + 1}{' = ' + ', '.join(names) if names else ''}:")
            lines += [f"    {line}" for line in _plan_text(plan)]
    return "\n".join(lines)


def _origin_text(entry: StageInput) -> str:
    if isinstance(entry.origin, StageRows):
        text = f"output {entry.origin.output + 1} of stage {entry.origin.stage + 1}"
        if entry.origin.expressions is None:
            return text
        made = [e.sql(dialect="spark") for e in entry.origin.expressions if index_of(e) is None]
        return f"{text} with {', '.join(made)}"
    if entry.origin.scan is None:
        return "one row"
    text = f"source {entry.origin.scan.name}"
    if entry.origin.predicates:
        text += " where " + " and ".join(p.sql(dialect="spark") for p in entry.origin.predicates)
    return text


def _key_text(entry: StageInput) -> str:
    if entry.broadcast:
        return "sent to every partition (there is no equality to exchange by)"
    if entry.key is None:
        return "in any partition"
    if not entry.key:
        return "all in one partition (there is no key to exchange by)"
    return "exchanged by " + ", ".join(e.sql(dialect="spark") for e in entry.key)


def _plan_text(node: Node, depth: int = 0) -> list[str]:
    text = f"{'  ' * depth}{type(node).__name__}"
    if isinstance(node, Scan):
        text += f" {node.name}"
    elif isinstance(node, Join):
        text += f" {node.kind}" + (
            f" on {node.predicate.sql(dialect='spark')}" if node.predicate is not None else ""
        )
    elif isinstance(node, Window):
        text += f" {node.spec}"
    elif isinstance(node, Filter):
        text += f" {node.predicate.sql(dialect='spark')}"
    lines = [text]
    for child in node.inputs:
        lines += _plan_text(child, depth + 1)
    return lines
