"""Plans for people and tools: a text tree, PIPES' notation, JSON, Graphviz and Mermaid."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp

from tidegate.algebra import operators as op
from tidegate.algebra.modify import Clock, Modify, Restrict, Sync
from tidegate.algebra.points import Points, points_of
from tidegate.algebra.properties import has_timestamps
from tidegate.algebra.quality import Knob, RangedWindow
from tidegate.algebra.sequences import SessionWindow, WindowSequence
from tidegate.algebra.windows import RowsEveryTime, RowWindow, TimeEveryRows, TimeWindow, WindowSpec
from tidegate.scalars.expressions import index_of
from tidegate.time import moment, period
from tidegate.types import Schema

_SYMBOLS = {
    op.Filter: "σ", op.Project: "μ", op.UnionAll: "∪", op.Distinct: "δ", op.Except: "-", op.Intersect: "∩",
    op.Window: "ω", op.TopK: "τ", op.Istream: "istream", op.Dstream: "dstream", op.Rstream: "rstream",
    op.SingleRow: "single", op.OneRow: "one",
}  # fmt: skip
_JOINS = {"inner": "⋈", "left": "⟕", "right": "⟖", "full": "⟗", "semi": "⋉", "anti": "▷"}


def expression_text(expression: exp.Expression, schema: Schema) -> str:
    """An expression with names for positions.

    >>> from sqlglot import parse_one
    >>> from tidegate.types import INT, Field
    >>> expression_text(parse_one("c0 + 1"), (Field("price", INT),))
    'price + 1'
    """

    def name(node: exp.Expression) -> exp.Expression:
        index = index_of(node)
        return node if index is None or index >= len(schema) else exp.column(_name(schema, index))

    return expression.copy().transform(name, copy=False).sql(dialect="spark")


def _name(schema: Schema, index: int) -> str:
    same = [i for i, f in enumerate(schema) if f.name == schema[index].name]
    # a name that stands for several columns is told apart by its position among them
    return schema[index].name if len(same) == 1 else f"{schema[index].name}#{same.index(index) + 1}"


def _names(schema: Schema, positions: Sequence[int]) -> str:
    return ", ".join(_name(schema, i) for i in positions)


def window_text(spec: WindowSpec, timestamps: bool = False) -> str:
    """A window as it would be written.

    >>> window_text(TimeWindow(60, 10)), window_text(TimeWindow(300_000_000), timestamps=True)
    ('RANGE 60 SLIDE 10', 'RANGE 5 MINUTES')
    """

    def size(n: int | None) -> str:
        return "UNBOUNDED" if n is None else str(n)

    def span(n: int | None) -> str:
        return "UNBOUNDED" if n is None else period(n, timestamps)

    def starting(origin: int) -> str:
        return f" STARTING AT {moment(origin, timestamps)}" if origin else ""

    match spec:
        case TimeWindow(n, slide, origin):
            return f"RANGE {span(n)}" + (f" SLIDE {span(slide)}" if slide != 1 else "") + starting(origin)
        case RangedWindow():
            return _ranged_text(spec, span) + starting(spec.origin)
        case RowWindow(n, slide):
            return f"ROWS {size(n)}" + (f" SLIDE {slide}" if slide != 1 else "")
        case RowsEveryTime(n, step, origin):
            every = span(step) if timestamps else f"{step} TICKS"
            return f"ROWS {size(n)} SLIDE {every}" + starting(origin)
        case TimeEveryRows(n, every_rows):
            return f"RANGE {span(n)} SLIDE {every_rows} ROWS"
        case SessionWindow():
            return f"SESSION {span(spec.gap)}"
        case WindowSequence():
            return str(spec)


def _ranged_text(spec: RangedWindow, span: Callable[[int | None], str]) -> str:
    def between(given: int | Knob | None) -> str:
        return (
            f"BETWEEN {span(given.lowest)} AND {span(given.highest)}"
            if isinstance(given, Knob)
            else span(given)
        )

    slide = f" SLIDE {span(spec.slide)}" if spec.slide != 1 else ""
    granule = f" GRANULARITY {between(spec.granule)}" if spec.granule is not None else ""
    weights = {k.priority for k in spec.knobs} - {1}
    return f"RANGE {between(spec.size)}{slide}{granule}" + "".join(f" PRIORITY {w}" for w in sorted(weights))


def aggregation_text(aggregation: op.Aggregation, schema: Schema) -> str:
    inside = _names(schema, aggregation.arguments) or "*"
    if aggregation.distinct:
        inside = f"DISTINCT {inside}"
    if aggregation.parameter is not None:
        inside += f", {aggregation.parameter}"
    text = f"{aggregation.function}({inside})"
    if aggregation.where is not None:
        text += f" FILTER ({_name(schema, aggregation.where)})"
    return text


def details(node: op.Node) -> str:
    """What an operator does, in words and names."""
    match node:
        case op.Scan():
            return node.name
        case op.Window():
            parts = f"PARTITION BY {_names(node.schema, node.partition_by)} " if node.partition_by else ""
            moments = has_timestamps(node)
            granule = f" GRANULARITY {period(node.granularity, moments)}" if node.granularity != 1 else ""
            batches, told = " IN BATCHES" * (node.width != 1), ", ends told" * node.told
            return parts + window_text(node.spec, moments) + granule + batches + told
        case op.Filter():
            return expression_text(node.predicate, node.input.schema)
        case op.Project():
            texts = []
            for e, f in zip(node.expressions, node.fields, strict=True):
                text = expression_text(e, node.input.schema)
                texts.append(text if text == f.name else f"{text} AS {f.name}")
            return ", ".join(texts)
        case op.Join():
            return expression_text(node.predicate, node.pair_schema) if node.predicate is not None else ""
        case op.Aggregate():
            keys = _names(node.input.schema, node.keys)
            calls = ", ".join(aggregation_text(a, node.input.schema) for a in node.aggregations)
            return "; ".join(p for p in (keys, calls) if p)
        case op.TopK():
            order = ", ".join(
                f"{_name(node.schema, k.column)}{' DESC' if k.descending else ''}"
                f" NULLS {'FIRST' if k.nulls_first else 'LAST'}"
                for k in node.keys
            )
            parts = f"PARTITION BY {_names(node.schema, node.partition_by)} " if node.partition_by else ""
            offset = f" OFFSET {node.offset}" if node.offset else ""
            return f"{parts}{order} LIMIT {node.limit}{offset}".strip()
        case op.Except(all=True) | op.Intersect(all=True):
            return "ALL"
        case op.Rstream():
            return f"EVERY {period(node.period, has_timestamps(node))}"
        case Modify():
            key = "NULL" if node.key is None else _names(node.input.schema, node.key)
            operation = (
                "" if node.operation is None else f" OPERATION {_name(node.input.schema, node.operation)}"
            )
            return f"KEY {key}{operation}"
        case Sync():
            return f"BY {points_of(node.points)}"
        case Restrict():
            when = f" AT {Points(node.points)}" if node.points else ""
            return expression_text(node.predicate, node.predicate_schema) + when
        case Clock():
            return f"EVERY {period(node.step, node.timestamps)}" if node.step != 1 else ""
        case _:
            return ""


def title(node: op.Node) -> str:
    """The operator's name; a join says its kind."""
    if isinstance(node, op.Join):
        if node.kind == "inner" and node.predicate is None:
            return "Product"
        return {"inner": "Join", "semi": "SemiJoin", "anti": "AntiJoin"}.get(
            node.kind, f"{node.kind.capitalize()}OuterJoin"
        )
    return type(node).__name__


def tree(plan: op.Node) -> str:
    """The plan as an indented tree, result first. A part that is used again is printed once and then named."""
    lines: list[str] = []
    numbers: dict[op.Node, int] = {}
    repeated = _shared(plan)

    def visit(node: op.Node, depth: int) -> None:
        indent = "  " * depth
        mark = ""
        if node in repeated:
            if node in numbers:
                lines.append(f"{indent}= [{numbers[node]}]")
                return
            numbers[node] = len(numbers) + 1
            mark = f"[{numbers[node]}] "
        text = details(node)
        lines.append(f"{indent}{mark}{title(node)}{' ' + text if text else ''}")
        for child in node.inputs:
            visit(child, depth + 1)

    visit(plan, 0)
    return "\n".join(lines)


def _shared(plan: op.Node) -> set[op.Node]:
    """Operators that several others read, apart from bare scans."""
    readers: dict[op.Node, int] = {}
    seen: set[op.Node] = set()

    def visit(node: op.Node) -> None:
        readers[node] = readers.get(node, 0) + 1
        if node not in seen:
            seen.add(node)
            for child in node.inputs:
                visit(child)

    visit(plan)
    return {n for n, count in readers.items() if count > 1 and n.inputs}


def _symbol(plan: op.Node) -> str:
    return _SYMBOLS.get(type(plan), type(plan).__name__.lower())


def formula(plan: op.Node) -> str:
    """The plan in the notation of PIPES' figures.

    >>> formula(op.Distinct(op.Scan("S", ())))
    'δ(S)'
    """
    if isinstance(plan, op.Scan):
        return plan.name
    inputs = [formula(node) for node in plan.inputs]
    if isinstance(plan, op.Join):
        symbol = "×" if plan.kind == "inner" and plan.predicate is None else _JOINS[plan.kind]
        text = details(plan)
        return f"({inputs[0]} {symbol}{f'[{text}]' if text else ''} {inputs[1]})"
    if isinstance(plan, op.Aggregate):
        return f"{'γ' if plan.keys else 'α'}[{details(plan)}]({inputs[0]})"
    if len(inputs) == 2:
        return f"({inputs[0]} {_symbol(plan)} {inputs[1]})"
    text = details(plan)
    return f"{_symbol(plan)}{f'[{text}]' if text else ''}({', '.join(inputs)})"


def _numbered(plan: op.Node) -> dict[op.Node, int]:
    numbers: dict[op.Node, int] = {}
    for node in plan.walk():
        numbers.setdefault(node, len(numbers))
    return numbers


def to_json(plan: op.Node) -> str:
    """The plan as a graph: numbered operators with inputs, details and schema."""
    numbers = _numbered(plan)
    nodes: list[dict[str, Any]] = [
        {
            "id": number,
            "operator": title(node),
            "details": details(node),
            "inputs": [numbers[i] for i in node.inputs],
            "schema": [
                {"name": f.name, "type": str(f.type), "nullable": f.nullable}
                for f in node.schema
                if not f.hidden
            ],
        }
        for node, number in numbers.items()
    ]
    return json.dumps({"result": numbers[plan], "operators": nodes}, indent=2, ensure_ascii=False)


def to_graphviz(plan: op.Node) -> str:
    """The plan as a Graphviz digraph, data flowing upwards."""
    numbers = _numbered(plan)
    lines = ["digraph plan {", "  rankdir=BT;", "  node [shape=box];"]
    for node, number in numbers.items():
        label = f"{title(node)}\n{details(node)}".strip().replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'  n{number} [label="{label}"];'.replace("\n", "\\n"))
        lines += [f"  n{numbers[i]} -> n{number};" for i in node.inputs]
    return "\n".join([*lines, "}"])


def to_mermaid(plan: op.Node) -> str:
    """The plan as a Mermaid flowchart, data flowing upwards."""
    numbers = _numbered(plan)
    lines = ["flowchart BT"]
    for node, number in numbers.items():
        label = f"{title(node)} {details(node)}".strip().replace('"', "#quot;")
        lines.append(f'  n{number}["{label}"]')
        lines += [f"  n{numbers[i]} --> n{number}" for i in node.inputs]
    return "\n".join(lines)
