"""Queries made for one rule: those of `families` with other windows and streams, as parts of larger queries, over generated rows."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field

from sqlglot import parse_one

from tests.fuzz.queries import Case
from tests.fuzz.streams import IN_BATCHES, INTEGERS, generate
from tests.optimizer.families import ALTERNATIVE_QUERIES, ONE_EACH, R5, RULE_QUERIES, S5, plan_of
from tidegate.algebra import operators as op
from tidegate.algebra.windows import TimeWindow
from tidegate.errors import Diagnostic
from tidegate.scalars.expressions import ref
from tidegate.types import Field

EVERY = {**RULE_QUERIES, **ALTERNATIVE_QUERIES}

OTHERS = {
    S5: ("S WINDOW(RANGE 1)", "S WINDOW(RANGE 9)", "S WINDOW(RANGE 6 SLIDE 3)", "S WINDOW(RANGE 2 SLIDE 4)", "S WINDOW(RANGE UNBOUNDED)",
         "S WINDOW(ROWS 3)", "S WINDOW(PARTITION BY a ROWS 2)", "K", "K2"),
    R5: ("R WINDOW(RANGE 2)", "R WINDOW(RANGE 8)", "R WINDOW(RANGE 4 SLIDE 4)", "R WINDOW(RANGE UNBOUNDED)", "R WINDOW(ROWS 4)",
         "R WINDOW(PARTITION BY a ROWS 1)", "Y", "N"),
}  # fmt: skip
"""What may stand in the place of a window that most queries have: items with the same columns."""


@dataclass
class Composer:
    """A query in which a rule is expected to fire, most of the time."""

    name: str
    seed: int
    dice: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.dice = random.Random(f"{self.name} {self.seed}")

    def case(self) -> Case:
        """A query over generated streams; where it has windows over derived streams, these have no batches."""
        text = self._part()
        for _ in range(self.dice.choice((0, 0, 1, 1, 2))):
            larger = self._larger(text)
            text = larger if _binds(larger) else text
        return case_of(text, self.seed)

    def made_plan(self) -> op.Node:
        """A plan for a rule about what no query says, over streams with integer time."""
        n, size = self.dice.randint(-1, 2), self.dice.randint(1, 9)
        slid = plan_of(f"SELECT DISTINCT a, s FROM S WINDOW(RANGE {size} SLIDE {self.dice.randint(1, 4)})")
        keyed = ("SELECT a, b FROM K", f"SELECT a, COUNT(*) AS n FROM {S5} GROUP BY a")
        if self.name == "push_filter_below_single_row":
            condition = parse_one(f"c0 > {n} AND c1 > {self.dice.randint(-1, 2)}")
            return op.Filter(op.SingleRow(plan_of(self._varied(ONE_EACH)), (0,)), condition)
        if self.name == "drop_redundant_single_row":
            return op.SingleRow(plan_of(self._varied(self.dice.choice(keyed))), (0,))
        if self.name == "drop_now_window":
            return op.Window(slid, TimeWindow(1))
        assert self.name == "remove_identity_project", self.name
        return op.Project(slid, (ref(0), ref(1)), slid.schema)

    def _part(self) -> str:
        positive, negative = EVERY[self.name]
        others = [t for t in negative if "/ 0" not in t]
        return self._varied(self.dice.choice(positive if self.dice.random() < 0.8 else others))

    def _varied(self, text: str) -> str:
        for known, others in OTHERS.items():
            pieces = text.split(known)
            text = pieces[0] + "".join(
                (self.dice.choice(others) if self.dice.random() < 0.35 else known) + p for p in pieces[1:]
            )
        return text

    def _larger(self, text: str) -> str:
        """A query over a query; one that does not bind is not used."""
        shown = [f for f in plan_of(text).schema if not f.hidden]
        names = [f.name for f in shown]
        a, b = self.dice.choice(names), self.dice.choice(names)
        n = self.dice.randint(-1, 3)
        number = self.dice.choice([f.name for f in shown if f.type.name == "INT"] or names)
        other = self._varied(text)
        forms = [
            f"SELECT DISTINCT {a} FROM ({text}) o",
            f"SELECT {a}, COUNT(*) AS counted, MAX({b}) AS most FROM ({text}) o GROUP BY {a}",
            f"SELECT * FROM ({text}) o WHERE {_condition(self.dice.choice(shown), n)}",
            f"SELECT * FROM (SELECT {a} AS u, {b} AS v FROM ({text}) o) p WHERE {_condition(self.dice.choice(shown), n, 'v')} OR u IS NULL",
            f"SELECT o.{a} AS u, p.{b} AS v FROM ({text}) o {self.dice.choice(('JOIN', 'LEFT JOIN', 'FULL JOIN'))} ({other}) p ON o.{a} = p.{a}",
            f"SELECT o.{b} AS u FROM ({text}) o LEFT {self.dice.choice(('SEMI', 'ANTI'))} JOIN ({other}) p ON o.{a} = p.{a}",
            f"SELECT o.{a} AS u, k.b AS v FROM ({text}) o, K k WHERE o.{number} = k.a",
            f"SELECT * FROM ({text}) o UNION ALL SELECT * FROM ({other}) p",
            f"SELECT * FROM ({text}) o {self.dice.choice(('EXCEPT', 'EXCEPT ALL', 'INTERSECT', 'INTERSECT ALL'))} SELECT * FROM ({other}) p",
            f"SELECT * FROM ({text}) o WHERE {a} IN (SELECT {a} FROM ({other}) p)",
            f"SELECT * FROM ({text}) o WHERE {a} >= ALL (SELECT {a} FROM ({other}) p)",
            f"SELECT * FROM ({text}) o ORDER BY {a}, {b} LIMIT {self.dice.randint(1, 3)}",
            f"SELECT * FROM ({text}) o SYNC BY (SELECT Timepoint FROM CLOCK WHERE Timepoint % {self.dice.choice((1, 2, 3))} = 0)",
            f"SELECT * FROM ({self.dice.choice(('ISTREAM', 'DSTREAM'))}({text})) o",
        ]
        return self.dice.choice(forms)


def _condition(column: Field, n: int, name: str | None = None) -> str:
    value = f"{'xyz'[n % 3]!r}" if column.type.name == "STRING" else str(n)
    return f"{name or column.name} >= {value}"


def _binds(text: str) -> bool:
    try:
        plan_of(text)
    except Diagnostic:
        return False
    return True


def case_of(text: str, seed: int) -> Case:
    """A query over generated streams; what batches do not allow, or not in the same way, has none."""
    dice = random.Random(seed)
    allowed = re.search(r"\) WINDOW\(|CLOCK|GRANULARITY|RSTREAM", text) is None
    mode = IN_BATCHES if seed % 3 == 2 and allowed else INTEGERS
    return Case(seed, generate(dice, mode, dice.choice((0, 3))), text)
