"""Plans as text tree, formula, JSON, Graphviz and Mermaid."""

from __future__ import annotations

import json
import re

import pytest

from tests.language.world import World
from tidegate.algebra import operators as op
from tidegate.algebra.printing import formula, to_graphviz, to_json, to_mermaid, tree

STREAMS = """
CREATE STREAM S(a INT, b INT, s STRING, t BIGINT) SOURCE memory('S') ORDERED BY t;
CREATE STREAM R(a INT, c INT, t BIGINT) SOURCE memory('R') ORDERED BY t;
"""

SHARED = """
SELECT a FROM S WINDOW(RANGE 5) WHERE b = (SELECT MAX(b) FROM S WINDOW(RANGE 5))
"""


@pytest.fixture(scope="module")
def world() -> World:
    return World().run(STREAMS)


def test_a_shared_part_is_printed_once_and_then_named(world: World) -> None:
    assert tree(world.plan(SHARED)) == "\n".join(
        [
            "Project a",
            "  SemiJoin b = `MAX(b)`",
            "    [1] Window RANGE 5",
            "      Scan S",
            "    Aggregate MAX(b)",
            "      Project b",
            "        = [1]",
        ]
    )


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM S", "μ[a, b, s](S)"),
        ("SELECT DISTINCT a FROM S", "δ(μ[a](S))"),
        ("SELECT a FROM S WHERE b > 1", "μ[a](σ[b > 1](S))"),
        ("SELECT a FROM S UNION ALL SELECT a FROM R", "(μ[a](S) ∪ μ[a](R))"),
        ("SELECT a FROM S EXCEPT ALL SELECT a FROM R", "(μ[a](S) - μ[a](R))"),
        ("SELECT a FROM S INTERSECT SELECT a FROM R", "(μ[a](S) ∩ μ[a](R))"),
        ("SELECT c FROM S CROSS JOIN R", "μ[c]((S × R))"),
        ("SELECT c FROM S LEFT JOIN R ON b = c", "μ[c]((S ⟕[b = c] R))"),
        ("SELECT c FROM S RIGHT JOIN R ON b = c", "μ[c]((S ⟖[b = c] R))"),
        ("SELECT c FROM S FULL JOIN R ON b = c", "μ[c]((S ⟗[b = c] R))"),
        ("SELECT a FROM S LEFT SEMI JOIN R ON b = c", "μ[a]((S ⋉[b = c] R))"),
        ("SELECT a FROM S LEFT ANTI JOIN R ON b = c", "μ[a]((S ▷[b = c] R))"),
        ("SELECT a, COUNT(*) FROM S GROUP BY a", "γ[a; COUNT(*)](μ[a](S))"),
        ("SELECT SUM(DISTINCT b) FROM S WINDOW(RANGE 5) x", "α[SUM(DISTINCT b)](μ[b](ω[RANGE 5](S)))"),
        ("SELECT QUANTILE(b, 0.25) AS q FROM S", "μ[`QUANTILE(b, 0.25)` AS q](α[QUANTILE(b, 0.25)](μ[b](S)))"),
        ("SELECT a FROM S WINDOW(ROWS 3 SLIDE 2) x", "μ[a](ω[ROWS 3 SLIDE 2](S))"),
        ("SELECT a FROM S WINDOW(PARTITION BY s, b ROWS UNBOUNDED) x", "μ[a](ω[PARTITION BY s, b ROWS UNBOUNDED](S))"),
        ("SELECT a FROM S WINDOW(RANGE 9 SLIDE 4 ROWS) x", "μ[a](ω[RANGE 9 SLIDE 4 ROWS](S))"),
        ("SELECT a FROM S ORDER BY a DESC LIMIT 2 OFFSET 1", "τ[a DESC NULLS LAST LIMIT 2 OFFSET 1](μ[a](S))"),
        ("ISTREAM(SELECT a FROM S)", "istream(μ[a](S))"),
        ("DSTREAM(SELECT a FROM S)", "dstream(μ[a](S))"),
        ("RSTREAM(SELECT a FROM S) EVERY 5", "rstream[EVERY 5](μ[a](S))"),
        ("SELECT 1 AS x", "μ[1 AS x](one())"),
    ],
)  # fmt: skip
def test_formulas(world: World, query: str, expected: str) -> None:
    assert formula(world.plan(query)) == expected


def test_json_is_a_graph_in_which_shared_parts_are_one(world: World) -> None:
    plan = world.plan(SHARED)
    graph = json.loads(to_json(plan))
    operators = {o["id"]: o for o in graph["operators"]}
    assert [o["operator"] for o in graph["operators"]].count("Window") == 1
    assert len(operators) == len(set(plan.walk())) == 6
    result = operators[graph["result"]]
    assert result["operator"] == "Project"
    assert result["schema"] == [{"name": "a", "type": "INT", "nullable": True}]
    (join,) = (operators[i] for i in result["inputs"])
    window, aggregate = join["inputs"]
    assert operators[operators[aggregate]["inputs"][0]]["inputs"] == [window]
    assert all(i in operators for o in graph["operators"] for i in o["inputs"])


def edges(plan: op.Node) -> int:
    return sum(len(node.inputs) for node in set(plan.walk()))


def test_graphviz_has_a_box_per_operator_and_an_arrow_per_input(world: World) -> None:
    plan = world.plan(SHARED)
    text = to_graphviz(plan)
    assert text.startswith("digraph plan {")
    assert text.endswith("}")
    assert len(re.findall(r"^  n\d+ \[label=", text, re.M)) == len(set(plan.walk()))
    assert len(re.findall(r"^  n\d+ -> n\d+;$", text, re.M)) == edges(plan)


def test_graphviz_escapes_quotes(world: World) -> None:
    text = to_graphviz(world.plan("""SELECT a FROM S WHERE s = 'say "hi"'"""))
    assert '\\"hi\\"' in text
    for line in text.splitlines():
        assert len(re.findall(r'(?<!\\)"', line)) % 2 == 0, line


def test_mermaid(world: World) -> None:
    plan = world.plan(SHARED)
    lines = to_mermaid(plan).splitlines()
    assert lines[0] == "flowchart BT"
    assert sum(" --> " in line for line in lines) == edges(plan)
    assert sum('["' in line for line in lines) == len(set(plan.walk()))
    assert '"hi"' not in to_mermaid(world.plan("""SELECT a FROM S WHERE s = 'say "hi"'"""))


TIMED = """
CREATE STREAM T(room STRING, temperature INT, t TIMESTAMP) SOURCE memory('T') ORDERED BY t;
CREATE STREAM N OVER T KEY room;
"""


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT room FROM T WINDOW(RANGE 5 MINUTES)", "Window RANGE 5 MINUTES"),
        ("SELECT room FROM T WINDOW(RANGE 60 MINUTES SLIDE 90 SECONDS)", "Window RANGE 1 HOUR SLIDE 90 SECONDS"),
        ("SELECT room FROM T WINDOW(RANGE 1500)", "Window RANGE 1500 MICROSECONDS"),
        ("SELECT room FROM T WINDOW(RANGE UNBOUNDED)", "Window RANGE UNBOUNDED"),
        ("SELECT room FROM T WINDOW(RANGE 14 DAYS SLIDE 3 ROWS)", "Window RANGE 2 WEEKS SLIDE 3 ROWS"),
        ("SELECT room FROM T WINDOW(ROWS 3 SLIDE 10 SECONDS)", "Window ROWS 3 SLIDE 10 SECONDS"),
        ("SELECT room FROM T WINDOW(SESSION 30 SECONDS)", "Window SESSION 30 SECONDS"),
        ("SELECT room FROM T WINDOW(FROM 2*i SECONDS TO 2*i+3 SECONDS EVERY 2 SECONDS DELAY 500 MILLISECONDS)",
         "Window FROM 2 * i SECONDS TO 2 * i + 3 SECONDS EVERY 2 SECONDS DELAY 500 MILLISECONDS"),
        ("RSTREAM(SELECT room FROM T WINDOW(RANGE 1 DAY)) EVERY 1 MINUTE", "Rstream EVERY 1 MINUTE"),
        ("SELECT room FROM N SYNC BY CLOCK(2 SECONDS)", "Sync BY every 2 seconds"),
        ("SELECT room FROM T WHERE temperature > 30", "Filter temperature > 30"),
    ],
)  # fmt: skip
def test_times_are_times_and_columns_have_names(query: str, expected: str) -> None:
    assert expected in [line.strip() for line in tree(World().run(TIMED).plan(query)).splitlines()]
