"""SHOW GRAPH: its forms are what Graphviz and Mermaid read, whatever stands in names and texts."""

from __future__ import annotations

import html
import json
import re

import pytest

from tidegate.errors import Diagnostic
from tidegate.language.dialect import parse
from tidegate.runtime.activities import Activity
from tidegate.runtime.graph_drawing import GraphNode, RunningGraph, drawn

HOSTILE = 'a "quoted" \\ name; end] --> <b>`x`</b> #35; %% {y} \\n | é'

NODES = (
    GraphNode(1, 1, "source", f"source {HOSTILE}", "exchanged by c0", (), ("q", HOSTILE), "rows that wait", Activity(4, 3, 40, 39, 1, 64)),
    GraphNode(2, 1, "operator", "Filter", f"c0 = '{HOSTILE}'\nAND c1", (1,), ("q",), "no state", None),
    GraphNode(3, 2, "exchange", "rows of 2", "in any partition", (2,), tuple(f"q{i}" for i in range(1000)), "", Activity()),
)  # fmt: skip
GRAPHS = [
    RunningGraph("integers", 7, NODES, {"q": 3, HOSTILE: 1}),
    RunningGraph("timestamps", 2, NODES[:2], {"end": 2}),
]
ARROWS = [
    ("g0n1", "g0n2"), ("g0n2", "g0n3"), ("g0n3", "g0q0"), ("g0n1", "g0q1"), ("g1n1", "g1n2"), ("g1n2", "g1q0"),
]  # fmt: skip


def dot_tokens(text: str) -> list[str]:
    """The tokens of the DOT language; a character that begins none is an error."""
    token = re.compile(r'\s*("(?:[^"\\]|\\.)*"|->|[A-Za-z_]\w*|[{}\[\]=;,])', re.DOTALL)
    found, place = [], 0
    while text[place:].strip():
        match = token.match(text, place)
        assert match is not None, text[place : place + 40]
        found.append(match[1])
        place = match.end()
    return found


class Dot:
    """A recursive-descent reader of the part of DOT that is used: nodes with labels, edges, subgraphs."""

    def __init__(self, text: str) -> None:
        self.tokens, self.labels, self.edges = dot_tokens(text), dict[str, str](), list[tuple[str, str]]()
        self.take("digraph")
        self.take()
        self.block()
        assert not self.tokens

    def take(self, *wanted: str) -> str:
        token = self.tokens.pop(0)
        assert not wanted or token in wanted, (token, wanted)
        return token

    def block(self) -> None:
        self.take("{")
        while self.tokens[0] != "}":
            self.statement()
        self.take("}")

    def statement(self) -> None:
        first = self.take()
        assert re.fullmatch(r"[A-Za-z_]\w*", first), first
        if first == "subgraph":
            self.take()
            self.block()
            return
        if self.tokens[0] == "->":
            self.take()
            self.edges.append((first, self.take()))
        elif self.tokens[0] == "=":
            self.take()
            self.take()
        else:
            attributes = self.attributes()
            if first != "node":
                self.labels[first] = json.loads(attributes["label"].replace("\\l", "\\n"))
        self.take(";")

    def attributes(self) -> dict[str, str]:
        found = {}
        self.take("[")
        while self.tokens[0] != "]":
            name = self.take()
            self.take("=")
            found[name] = self.take()
            if self.tokens[0] == ",":
                self.take()
        self.take("]")
        return found


def test_graphviz_is_read_as_it_was_meant() -> None:
    found = Dot(drawn(GRAPHS, "graphviz"))
    assert found.edges == ARROWS
    assert list(found.labels) == ["g0n1", "g0n2", "g0n3", "g0q0", "g0q1", "g1n1", "g1n2", "g1q0"]
    assert found.labels["g0q1"] == HOSTILE
    assert found.labels["g0n1"].splitlines() == [
        f"1 source {HOSTILE}",
        "exchanged by c0",
        "4 rows in, 3 out; in total 40 in, 39 out",
        "keeps 1 row, 64 bytes: rows that wait",
        f"for q, {HOSTILE}",
    ]
    assert "has not run yet" in found.labels["g0n2"]
    assert found.labels["g0n3"].endswith("for q0, q1, q2, q3 and 996 more")


def test_mermaid_is_read_as_it_was_meant() -> None:
    lines = drawn(GRAPHS, "mermaid").splitlines()
    assert lines.pop(0) == "flowchart BT"
    labels, arrows, depth = {}, [], 0
    for line in lines:
        box = re.fullmatch(r'    (g\d[nq]\d+)(?:\["([^"]*)"\]|\(\["([^"]*)"\]\))', line)
        arrow = re.fullmatch(r"    (g\d[nq]\d+) --> (g\d[nq]\d+)", line)
        if box is not None:
            labels[box[1]] = box[2] or box[3]
        elif arrow is not None:
            arrows.append((arrow[1], arrow[2]))
        else:
            assert re.fullmatch(r'  subgraph g\d\["\w+"\]|  end', line), line
            depth += 1 if "subgraph" in line else -1
            assert depth in (0, 1)
    assert arrows == ARROWS
    # In a label stand characters that mean nothing, numbers of others, and breaks.
    for label in labels.values():
        assert re.fullmatch(r"(?:[\w ,.:=()+-]|#\d+;|<br/>)*", label), label
    texts = {name: html.unescape(re.sub(r"#(\d+);", r"&#\1;", label)) for name, label in labels.items()}
    assert texts["g0q1"] == HOSTILE
    assert texts["g0n2"].split("<br/>")[:3] == ["2 Filter", f"c0 = '{HOSTILE}'", "AND c1"]


def test_json_says_all() -> None:
    (first, second) = json.loads(drawn(GRAPHS, "json"))["graphs"]
    assert first["answers"] == {"q": 3, HOSTILE: 1}
    assert len(first["nodes"][2]["queries"]) == 1000
    said = first["nodes"][0]["figures"]
    assert [said[k] for k in ("taken", "given", "all_taken", "all_given", "kept", "size")] == [
        4,
        3,
        40,
        39,
        1,
        64,
    ]
    assert second["nodes"][1]["inputs"] == [1]


def test_without_queries_there_is_an_empty_graph() -> None:
    assert drawn([], "text") == "no query runs"
    assert Dot(drawn([], "graphviz")).labels == {}
    assert drawn([], "mermaid") == "flowchart BT"
    assert json.loads(drawn([], "json")) == {"graphs": []}


@pytest.mark.parametrize("text", ["SHOW GRAPH AS png", "SHOW GRAPH AS", "SHOW GRAPHS"])
def test_wrong_forms_are_told(text: str) -> None:
    with pytest.raises(Diagnostic, match="SYNTAX_ERROR") as raised:
        parse(text)
    assert raised.value.position is not None
    assert ("graphviz or mermaid" in raised.value.message) == (" AS" in text)
    assert ("QUARANTINE, QUERIES or GRAPH" in raised.value.message) == (" AS" not in text)
    with pytest.raises(Diagnostic, match="text, json, graphviz or mermaid"):
        drawn([], "png")
