"""A graph whose state was damaged goes on exactly, or says which file it is: never other answers, never a crash."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.fuzz.damages import KINDS, SEED, Copy, content, report, tried, victims
from tests.spark.kept_graph import QUERIES, answer, refused, started, write_file
from tidegate.errors import Diagnostic
from tidegate.physical.lowering import Program
from tidegate.runtime import checkpoint
from tidegate.runtime.ledger import Manifest
from tidegate.storage import Storage

RESTARTS = int(os.environ.get("TIDEGATE_DAMAGED_RESTARTS", "6"))
PLAIN = "part=1"
"""Files in such folders are followed by Spark alone, without links in the state: only so can a copy of the state go on."""
BEFORE, AFTER = 6, 2
"""So many files are read before the damage, and come after it."""


@dataclass(frozen=True)
class Kept:
    """A graph that was stopped, and what whoever goes on with it must find."""

    folder: Path
    programs: dict[int, Program]
    content: Any
    final: dict[str, Any]


@pytest.fixture(scope="module")
def kept(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    place = tmp_path_factory.mktemp("kept")
    for number in range(BEFORE // 2):
        write_file(place / "rows", number, PLAIN)
    run = started(spark, place / "rows", place / "state", 2)
    run.graph.files_limit = 1
    run.drain()
    assert run.graph.ledger.index.epoch
    run.graph.files_limit = 64  # no index takes over from the manifests that follow
    for number in range(BEFORE // 2, BEFORE):
        write_file(place / "rows", number, PLAIN)
    run.drain()
    plan = run.graph._ready().plan
    programs = {wave: plan.program(wave) for wave in range(1, plan.depth + 1)}
    run.stop()
    for number in range(BEFORE, BEFORE + AFTER):
        write_file(place / "rows", number, PLAIN)
    alone = started(spark, place / "rows", place / "alone", 2)
    final = finished(spark, alone)
    storage = Storage(str(place / "state" / "graphs" / "live"))
    return Kept(place, programs, content(storage, programs), final)


def finished(spark: SparkSession, run: Any) -> dict[str, Any]:
    run.drain()
    run.graph.finish()
    found = {name: answer(run.result(name)) for name in QUERIES}
    return {**found, "refused": refused(spark, run)}


def resumed(spark: SparkSession, rows: Path, state: Path) -> dict[str, Any]:
    run = started(spark, rows, state)
    try:
        return finished(spark, run)
    finally:
        run.stop()


def test_a_graph_goes_on_exactly_or_says_what_is_damaged(
    spark: SparkSession, kept: Kept, tmp_path: Path
) -> None:
    dice, told, harmless = random.Random(SEED + 1), Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for number in range(RESTARTS):
        # A place of its own each time: workers remember what they have read of the others.
        copy = Copy(kept.folder / "state", tmp_path / str(number))
        graph = copy.fresh() / "graphs" / "live"
        place = dice.choice(["state", "results", "quarantine", "checkpoint", "checkpoint", "checkpoint"])
        path, kind = dice.choice(victims(graph)[place]), dice.choice(KINDS)
        kind(path, dice)
        what = f"seed {SEED + 1}: {kind.__name__} of {path.relative_to(graph)}"
        found = tried(lambda at=copy.place: resumed(spark, kept.folder / "rows", at))
        if isinstance(found, Diagnostic):
            assert found.condition == "STATE_DAMAGED", (what, found)
            told[kind.__name__, place] += 1
        else:
            assert found == kept.final, what
            harmless[kind.__name__, place] += 1
    report(told, harmless)


def test_what_is_missing_is_named(kept: Kept, tmp_path: Path) -> None:
    """The cases that people meet: something newest is gone, or is another one's."""
    copy = Copy(kept.folder / "state" / "graphs" / "live", tmp_path / "graph")
    storage = Storage(str(copy.fresh()))
    latest: Manifest = kept.content[0]
    newest = f"manifests/{latest.epoch:08d}.json"
    for file in (
        newest,
        "index/results.json",
        next(iter(latest.segments())),
        "checkpoint/metadata",
        f"checkpoint/offsets/{latest.batch}",
    ):
        (copy.place / file).unlink()
        with pytest.raises(Diagnostic) as found:
            content(storage, kept.programs)
        assert found.value.condition == "STATE_DAMAGED"
        assert str(copy.place / file) in found.value.message
        copy.mend()
    for folder in ("checkpoint", "checkpoint/sources", "manifests", "results", "state", "quarantine"):
        shutil.rmtree(copy.place / folder)
        with pytest.raises(Diagnostic, match=str(copy.place / folder)):
            content(storage, kept.programs)
        copy.fresh()
    # Another graph's checkpoint is whole, but another.
    path = copy.place / "checkpoint" / "metadata"
    path.write_text(path.read_text().translate(str.maketrans("0123456789", "1234567890")))
    path.with_name(".metadata.crc").write_bytes(checkpoint.hadoop_sums(path.read_bytes()))
    with pytest.raises(Diagnostic, match="is not that of the checkpoint"):
        content(storage, kept.programs)
