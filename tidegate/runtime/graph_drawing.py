"""SHOW GRAPH: the operators that run, what has passed through them, and for whom they work; as text, JSON, Graphviz or Mermaid."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from tidegate.errors import Diagnostic
from tidegate.language.show_syntax import FORMS
from tidegate.physical.plan import Input, OperatorRows, Plan, united
from tidegate.physical.printing import captions, numbered
from tidegate.runtime.activities import Activity
from tidegate.runtime.figures import Figures

NAMED = 4
"""So many queries are named at an operator; all of them where a program reads it."""


@dataclass(frozen=True)
class GraphNode:
    """An operator, or an input: the rows of a source or of an operator on their way through an exchange."""

    number: int
    wave: int
    kind: Literal["source", "exchange", "operator"]
    title: str
    details: str
    inputs: tuple[int, ...]
    queries: tuple[str, ...]
    """The queries that use it."""
    state: str
    """What bounds its state."""
    figures: Activity | None
    """None: it has not run yet."""


@dataclass(frozen=True)
class RunningGraph:
    """The graph of one kind of time."""

    kind: str
    epoch: int
    nodes: tuple[GraphNode, ...]
    answers: Mapping[str, int]
    """Query -> the node that answers it."""


def running_graph(kind: str, figures: Figures) -> RunningGraph:
    """What the queries of a graph compute, with what was known after the last epoch."""
    plans = {name: query.whole for name, query in figures.queries.items()}
    plan = united(plans.values())
    users: dict[str, list[str]] = {}
    for name, mine in plans.items():
        for id_ in (*mine.inputs, *mine.operators):
            users.setdefault(id_, []).append(name)
    numbers, done = numbered(plan), figures.activities.by_id
    nodes = tuple(
        GraphNode(
            number,
            plan.waves[id_],
            _kind(plan.inputs.get(id_)),
            *captions(plan, id_, numbers),
            tuple(numbers[i] for i in _read_by(plan, id_)),
            tuple(users[id_]),
            str(plan.operators[id_].state) if id_ in plan.operators else "rows that wait for their instant",
            done.get(id_),
        )
        for id_, number in numbers.items()
    )
    answers = {name: numbers[id_] for name, id_ in plan.answers.items()}
    return RunningGraph(kind, figures.manifest.epoch, nodes, answers)


def drawn(graphs: Sequence[RunningGraph], form: str) -> str:
    """Graphs as text of a form."""
    if form not in _FORMS:
        raise Diagnostic(
            "WRONG_ARGUMENTS",
            f"a graph cannot be shown as {form!r}",
            help=f"use {', '.join(FORMS[:-1])} or {FORMS[-1]}",
        )
    return _FORMS[form](graphs)


def _kind(entry: Input | None) -> Literal["source", "exchange", "operator"]:
    if entry is None:
        return "operator"
    return "exchange" if isinstance(entry.origin, OperatorRows) else "source"


def _read_by(plan: Plan, id_: str) -> tuple[str, ...]:
    if id_ in plan.operators:
        return plan.operators[id_].inputs
    origin = plan.inputs[id_].origin
    return (origin.operator,) if isinstance(origin, OperatorRows) else ()


# Forms.


def _text(graphs: Sequence[RunningGraph]) -> str:
    lines = []
    for graph in graphs:
        lines.append(f"{graph.kind}, epoch {graph.epoch}")
        wave = 0
        for node in graph.nodes:
            if node.wave != wave:
                wave = node.wave
                lines.append(f"  wave {wave}")
            of = f" of {', '.join(map(str, node.inputs))}" if node.kind == "operator" else ""
            lines.append(f"    {node.number} {node.title}{of}{_more(node.details)}")
            lines += [f"      {line}" for line in _figures(node)]
        lines += [f"  {name} is answered by {number}" for name, number in graph.answers.items()]
    return "\n".join(lines) or "no query runs"


def _more(details: str) -> str:
    return f", {details}" if details else ""


def _figures(node: GraphNode) -> list[str]:
    """What has passed, what is kept, and for whom."""
    done = node.figures
    found = ["has not run yet"]
    if done is not None:
        found = [
            f"{done.taken:,} rows in, {done.given:,} out; in total {done.all_taken:,} in, {done.all_given:,} out"
        ]
        if done.kept:
            found.append(
                f"keeps {done.kept:,} row{'s' if done.kept > 1 else ''}, {done.size:,} bytes: {node.state}"
            )
    return [*found, f"for {_named(node.queries)}"]


def _named(queries: Sequence[str]) -> str:
    more = len(queries) - NAMED
    return ", ".join(queries[:NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _json(graphs: Sequence[RunningGraph]) -> str:
    return json.dumps({"graphs": [asdict(graph) for graph in graphs]}, indent=2, ensure_ascii=False)


def _graphviz(graphs: Sequence[RunningGraph]) -> str:
    lines = ["digraph running {", "  rankdir=BT;", "  node [shape=box];"]
    for number, graph in enumerate(graphs):
        lines += [f"  subgraph cluster_{number} {{", f"    label={_dot(graph.kind)};"]
        for name, text, rounded in _boxes(number, graph):
            lines.append(f"    {name} [label={_dot(text)}{', shape=ellipse' if rounded else ''}];")
        lines += [f"    {a} -> {b};" for a, b in _arrows(number, graph)]
        lines.append("  }")
    return "\n".join([*lines, "}"])


def _dot(text: str) -> str:
    """A text in quotes. Graphviz takes a backslash for the begin of an escape."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\r", " ").replace("\n", "\\n")
    return f'"{escaped}"'


def _mermaid(graphs: Sequence[RunningGraph]) -> str:
    lines = ["flowchart BT"]
    for number, graph in enumerate(graphs):
        lines.append(f"  subgraph g{number}[{_entities(graph.kind)}]")
        for name, text, rounded in _boxes(number, graph):
            begin, end = ("([", "])") if rounded else ("[", "]")
            lines.append(f"    {name}{begin}{_entities(text)}{end}")
        lines += [f"    {a} --> {b}" for a, b in _arrows(number, graph)]
        lines.append("  end")
    return "\n".join(lines)


def _entities(text: str) -> str:
    """A text in quotes, in which nothing is taken for Mermaid's, Markdown's or HTML's own."""
    plain = "".join(c if c.isalnum() or c in " ,.:=()+-\n" else f"#{ord(c)};" for c in text)
    return '"' + plain.replace("\n", "<br/>") + '"'


def _boxes(number: int, graph: RunningGraph) -> Iterable[tuple[str, str, bool]]:
    """Names and labels of nodes, and of queries (rounded)."""
    for node in graph.nodes:
        words = [f"{node.number} {node.title}", *([node.details] if node.details else []), *_figures(node)]
        yield f"g{number}n{node.number}", "\n".join(words), False
    for query, name in enumerate(graph.answers):
        yield f"g{number}q{query}", name, True


def _arrows(number: int, graph: RunningGraph) -> Iterable[tuple[str, str]]:
    for node in graph.nodes:
        yield from ((f"g{number}n{i}", f"g{number}n{node.number}") for i in node.inputs)
    for query, answer in enumerate(graph.answers.values()):
        yield f"g{number}n{answer}", f"g{number}q{query}"


_FORMS: Mapping[str, Callable[[Sequence[RunningGraph]], str]] = {
    "text": _text,
    "json": _json,
    "graphviz": _graphviz,
    "mermaid": _mermaid,
}
