"""Statements of random size and shape, at and beyond the limits of width, depth and length."""

from __future__ import annotations

import random
from collections.abc import Callable

W = "S WINDOW(RANGE 5)"


def _chain(operator: str, term: str) -> Callable[[int], str]:
    return lambda n: operator.join(term.format(i=i) for i in range(n))


def _nested(inner: str, outer: str) -> Callable[[int], str]:
    def build(n: int) -> str:
        head, tail = outer.split("{t}")
        heads = "".join(head.format(i=i) for i in reversed(range(n)))
        return heads + inner + "".join(tail.format(i=i) for i in range(n))

    return build


def _where(condition: Callable[[int], str]) -> Callable[[int], str]:
    return lambda n: f"SELECT a FROM {W} WHERE {condition(n)}"


def _value(value: Callable[[int], str]) -> Callable[[int], str]:
    return lambda n: f"SELECT {value(n)} AS x FROM {W}"


def _doubling(n: int) -> str:
    ctes = ", ".join(
        f"c{i} AS (SELECT x.s FROM c{i - 1} x, c{i - 1} y WHERE x.s = y.s)" for i in range(1, n + 1)
    )
    return f"WITH c0 AS (SELECT s FROM {W}), {ctes} SELECT s FROM c{n}"


def _joins(n: int) -> str:
    items = ", ".join(f"{W} x{i}" for i in range(n))
    return f"SELECT x0.s FROM {items} WHERE " + " AND ".join(f"x0.s = x{i}.s" for i in range(1, max(n, 2)))


SHAPES: dict[str, tuple[Callable[[int], str], int]] = {
    "OR": (_where(_chain(" OR ", "a = {i}")), 3_000),
    "AND": (_where(_chain(" AND ", "a <> -{i}")), 3_000),
    "AND of OR": (_where(_chain(" AND ", "(a <> {i} OR b > {i})")), 1_500),
    "sum": (_value(_chain(" + ", "b")), 700),
    "difference": (_value(_chain(" - ", "a")), 700),
    "concat": (_value(_chain(" || ", "s")), 700),
    "UNION": (_chain(" UNION ", f"SELECT a + {{i}} AS a FROM {W}"), 120),
    "UNION ALL": (_chain(" UNION ALL ", f"SELECT a FROM {W} WHERE a > {{i}}"), 600),
    "EXCEPT": (_chain(" EXCEPT ", f"SELECT a FROM {W} WHERE a > {{i}}"), 60),
    "INTERSECT": (_chain(" INTERSECT ", f"SELECT a FROM {W} WHERE a < {{i}}0"), 60),
    "columns": (_value(lambda n: ", ".join(f"a + {i} AS c{i}" for i in range(n)) + ", 1"), 3_000),
    "IN list": (_where(lambda n: f"a IN ({', '.join(map(str, range(n)))})"), 3_000),
    "CASE": (_value(lambda n: "CASE " + " ".join(f"WHEN a = {i} THEN {i}" for i in range(n)) + " ELSE 0 END"), 2_500),
    "CASE in CASE": (_value(_nested("a", "CASE WHEN a = {i} THEN {i} ELSE {t} END")), 400),
    "parentheses": (_value(_nested("a", "({t})")), 6_000),
    "calls": (_value(_nested("a", "ABS({t})")), 900),
    "coalesce": (_value(lambda n: f"COALESCE({', '.join(['NULL'] * n)}, a)"), 2_500),
    "NOT": (_where(lambda n: "NOT " * n + "a = 1"), 3_000),
    "minus": (_value(lambda n: "- " * n + "a"), 3_000),
    "FROM in FROM": (_nested(f"SELECT a FROM {W}", "SELECT a FROM ({t}) x{i}"), 60),
    "sums of sums": (_nested(f"SELECT a FROM {W}", "SELECT a + a AS a FROM ({t}) x{i}"), 60),
    "IN in IN": (_nested(f"SELECT a FROM {W}", f"SELECT a FROM {W} WHERE a IN ({{t}})"), 50),
    "NOT IN": (_nested(f"SELECT a FROM {W}", f"SELECT a FROM {W} WHERE a NOT IN ({{t}})"), 50),
    "IN under OR": (_nested(f"SELECT a FROM {W}", f"SELECT a FROM {W} WHERE a IN ({{t}}) OR a = {{i}}"), 40),
    "EXISTS": (_nested(f"SELECT a FROM {W}", f"SELECT a FROM {W} WHERE EXISTS ({{t}})"), 50),
    "values": (_nested("SELECT 1", "SELECT 1 + ({t})"), 50),
    "WITH twice": (_doubling, 24),
    "joins": (_joins, 130),
    "aggregates": (_value(lambda n: ", ".join(f"SUM(a + {i}) AS c{i}" for i in range(n)) + ", COUNT(*)"), 400),
    "groups": (lambda n: f"SELECT COUNT(*) AS n FROM {W} GROUP BY " + ", ".join(f"a + {i}" for i in range(n)), 300),
    "long text": (_value(lambda n: "'" + "x" * (n * 1_000) + "'"), 2_500),
    "long name": (lambda n: f"SELECT a AS `{'n' * n}` FROM {W}", 600),
    "long comment": (lambda n: f"SELECT a FROM {W} /* " + "(" * (n * 1_000) + " */", 2_500),
    "arrays": (_value(_nested("a", "ARRAY({t})")), 400),
    "interval": (_where(lambda n: f"a < {'9' * n}"), 80),
    "statements": (lambda n: "; ".join([f"SELECT a FROM {W}"] * n), 400),
}  # fmt: skip
"""How a statement of some size looks, and the size that is well beyond what is allowed or likely."""


def statements(count: int, seed: int) -> list[tuple[str, int, str]]:
    """Name, size and text: sizes are spread over the powers of ten, so that small ones occur, too."""
    chance = random.Random(seed)
    names = list(SHAPES)
    found = []
    for number in range(count):
        name = names[number % len(names)]
        build, largest = SHAPES[name]
        size = largest if number < len(names) else max(2, round(largest ** chance.uniform(0.3, 1.0)))
        found.append((name, size, build(size)))
    return found
