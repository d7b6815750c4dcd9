"""Queries come and go, and their plans are replaced by others, at random in a running graph, whose program ends, is killed at points of a commit, and goes on in other numbers of partitions:
each answer is the reference's from the instant on from which the query says to be complete, and nothing stays on the disk that nobody uses.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.spark.changing_graph import BASE, QUERIES, STREAMS, TABLE, VIEWS, kind_of, steps
from tidegate.connectors import registry
from tidegate.language.binder import bind
from tidegate.language.dialect import parse
from tidegate.language.statements import define
from tidegate.reference.snapshots import Arrivals, Reference, Source, Validity, snapshot
from tidegate.time import MAX, MIN

ROOT = Path(__file__).resolve().parent.parent.parent
EPOCHS = int(os.environ.get("TIDEGATE_GRAPH_EPOCHS", "30"))
SEED = int(os.environ.get("TIDEGATE_FUZZ_SEED", "7"))
POINTS = 120
"""At so many instants an answer is compared, if it changes more often."""


def played(place: Path, retention: int, fault: str | None) -> bool:
    """Play, perhaps up to a kill; whether the program came to its end."""
    environment = {k: v for k, v in os.environ.items() if k != "TIDEGATE_FAULT"} | {"PYTHONPATH": str(ROOT)}
    if fault is not None:
        environment["TIDEGATE_FAULT"] = fault
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("changing_graph.py")), str(place), str(SEED), str(EPOCHS), str(retention)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode in (0, -signal.SIGKILL), f"seed {SEED}, {fault}: {done.stderr[-4000:]}"
    return done.returncode == 0


class Judge:
    """The reference over all rows."""

    def __init__(self, rows: dict[str, list[tuple[Any, ...]]]) -> None:
        catalog = registry.catalog()
        columns = STREAMS | {"T": "k INT, label STRING"}
        for name, schema in columns.items():
            kind, order = ("TABLE", "FROM") if name == "T" else ("STREAM", "SOURCE")
            text = f"CREATE {kind} {name}({schema}) {order} memory('{name}')" + (
                " ORDERED BY t" if name != "T" else ""
            )
            catalog = define(parse(text)[0], catalog, text)
        for statement in parse(VIEWS):
            catalog = define(statement, catalog, VIEWS)
        self.plans = {n: bind(parse(text)[0], catalog, text).plan for n, text in QUERIES.items()}
        sources: dict[str, Source] = {n: Arrivals([(r, r[-1]) for r in found]) for n, found in rows.items()}
        sources["T"] = Validity([(e, MIN, MAX, 1) for e in TABLE])
        self.reference = Reference(sources)

    def difference(self, name: str, found: dict[str, Any], dice: random.Random) -> str | None:
        """The first instant at which a saved answer is not the reference's."""
        if found["complete"] is None:
            return None
        plan = self.plans[kind_of(name)]
        answer = [(tuple(e), ts, te, n) for e, ts, te, n in found["rows"]]
        low = max(found["complete"], found["since"])
        changes = {*self.reference.change_points(plan), *(p for _, a, b, _ in answer for p in (a, b)), low}
        points = sorted(p for p in changes if low <= p < found["upto"] and p != MIN)
        if len(points) > POINTS:
            points = sorted({*points[:10], *points[-10:], *dice.sample(points, POINTS - 20)})
        for t in points:
            ours, theirs = snapshot(answer, t), self.reference.snapshot(plan, t)
            if ours != theirs:
                return f"{name} at {t} (complete from {found['complete']}, since {found['since']}): {ours} instead of {theirs}"
        return None


@pytest.mark.parametrize("retention", [40] if EPOCHS <= 60 else [0, 40])
def test_queries_come_and_go_whatever_is_killed(tmp_path: Path, retention: int) -> None:
    dice, kills = random.Random(SEED + retention), 0
    while not played(
        tmp_path, retention, f"any:{dice.randint(20, 150)}" if kills < max(2, EPOCHS // 30) else None
    ):
        kills += 1
    story = steps(SEED, EPOCHS)
    judge = Judge(story[-1].rows)
    answers = {f.stem: json.loads(f.read_text()) for f in (tmp_path / "answers").glob("*.json")}
    assert set(answers) == {BASE, *(name for step in story for name, _ in step.starts)}
    wrong = [d for name, found in answers.items() if (d := judge.difference(name, found, dice)) is not None]
    assert not wrong, f"seed {SEED}, {kills} kills:\n" + "\n".join(wrong)
    told = [a for a in answers.values() if a["complete"] is not None and a["rows"]]
    assert len(told) > len(answers) // 2, "most answers can be judged"
    assert kills > 0
    replaced = (tmp_path / "replaced").read_text().splitlines()
    assert len(replaced) > EPOCHS // 4
    print(
        f"\n{EPOCHS} epochs, {kills} kills, {len(told)} of {len(answers)} answers judged, {len(replaced)} plans replaced"
    )
