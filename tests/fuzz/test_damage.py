"""State that was damaged is read exactly or named in an error: never other rows, never a crash.

All that a restart reads is there: manifests, index, segments, files of answers and of refused rows, Spark's checkpoint. What a real graph
does with it is the subject of `tests/spark/test_damage.py`.
"""

from __future__ import annotations

import json
import os
import random
import uuid
from collections import Counter
from itertools import count, islice
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from tests.fuzz.damages import KINDS, SEED, Copy, content, damages, report, tried
from tests.fuzz.players import check, frames
from tests.fuzz.queries import Generator
from tests.fuzz.streams import INTEGERS
from tidegate.errors import Diagnostic
from tidegate.exchange.messages import Log, ResultFile, RowCounts
from tidegate.physical.lowering import Program, compile_plan
from tidegate.runtime import checkpoint
from tidegate.runtime.holding import LOCK
from tidegate.runtime.ledger import Ledger, Manifest
from tidegate.runtime.merging import merged
from tidegate.storage import Storage
from tidegate.time import MIN
from tidegate.worker import tasks as worker
from tidegate.worker.result_files import write_refused, write_results
from tidegate.worker.segments import WAITING
from tidegate.worker.tasks import Epoch, PackedPlan

TRIES = int(os.environ.get("TIDEGATE_DAMAGES", "150"))
EPOCHS, MERGED = 9, 6
"""Of so many epochs, the first ones are taken over by an index."""


class Player:
    """A generated query whose state and answers are stored epoch by epoch, as a task would."""

    def __init__(self, wave: int, seed: int) -> None:
        self.wave, case = wave, Generator(seed, INTEGERS).case()
        self.usable = check(case) is None
        if self.usable:
            self.program = compile_plan(case.plan, {**case.catalog.functions, **case.catalog.aggregates})
            self.chunks = frames(case.plan, case.streams.sources(case.width))
            self.states: Any = self.program.initial()
            self.log = Log()

    def play(self, storage: Storage, number: int, since: int, upto: int) -> tuple[ResultFile, ...]:
        arrived = {
            n: f.filter((pl.col("ts") >= since) & (pl.col("ts") < upto)) for n, f in self.chunks.items()
        }
        self.states, out = self.program.step(self.states, arrived, upto)
        epoch = Epoch(PackedPlan("", b"", {}), self.wave, number, since, upto, storage, {}, True, False, 1)
        self.log = worker._save(epoch, f"{self.wave}@0", 0, self.log, {**self.states, WAITING: {}})
        self.states = {s: {n: t.settled for n, t in tables.items()} for s, tables in self.states.items()}
        return write_results(storage, f"{number:08d}-0", {f"q{self.wave}": out, f"r{self.wave}": out.head(2)})


def write_entry(place: Path, name: str, text: str) -> None:
    """A file as Spark writes it, with Hadoop's checksum beside it."""
    path = place / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.with_name(f".{path.name}.crc").write_bytes(checkpoint.hadoop_sums(text.encode()))


def built(folder: Path) -> dict[int, Program]:
    """A graph's directory after some epochs; the programs of its waves."""
    storage = Storage(str(folder))
    ledger = Ledger.held(storage)
    candidates = (Player(1, seed) for seed in count(700_000))
    players = list(islice((p for p in candidates if p.usable and any(p.program.layouts.values())), 2))
    for wave, player in enumerate(players, 1):
        player.wave = wave
    write_entry(folder / "checkpoint", "metadata", json.dumps({"id": str(uuid.uuid4())}))
    since = MIN
    for number in range(1, EPOCHS + 1):
        batch, upto = number - 1, 2 * number - 3
        write_entry(folder / "checkpoint", f"offsets/{batch}", f'v2\n{{"S": {batch}}}')
        write_entry(folder / "checkpoint", f"sources/S/{batch}", f'v1\n{{"path": "file:///{batch}.json"}}')
        results = [r for player in players for r in player.play(storage, number, since, upto)]
        rows = pa.table({"epoch": [number], "reason": ["no time"], "raw": [str(number)]})
        name = write_refused(storage, "S", f"{number:08d}-0", rows)
        results.append(ResultFile(name, "S", RowCounts(1, 0, 0, since, upto, upto)))
        logs = {f"{p.wave}@0": p.log for p in players}
        seen = checkpoint.observe(storage, batch)
        ledger.commit(Manifest(number, upto, batch, 1, logs=logs, results=tuple(results), checkpoint=seen))
        write_entry(folder / "checkpoint", f"commits/{batch}", "v1\n{}")
        if number <= MERGED:
            ledger.tidy(lambda epoch, files: merged(storage, epoch, files, None, 2))
        since = upto
    ledger.release()
    assert all(p.log.segments for p in players)
    return {p.wave: p.program for p in players}


def test_what_was_damaged_is_exact_or_named(tmp_path: Path) -> None:
    programs = built(tmp_path / "kept")
    expected = content(Storage(str(tmp_path / "kept")), programs)
    dice, told, harmless = random.Random(SEED), Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    copy = Copy(tmp_path / "kept", tmp_path / "graph")
    storage = Storage(str(copy.fresh()))
    for kind, place, path, added in damages(dice, copy.place, TRIES):
        what = f"seed {SEED}: {kind} of {path.relative_to(copy.place)}"
        found = tried(lambda: content(storage, programs))
        if isinstance(found, Diagnostic):
            assert found.condition == "STATE_DAMAGED", (what, found)
            assert str(copy.place) in found.message, (what, found)
            told[kind, place] += 1
        else:
            assert found == expected, what
            assert all(p.exists() for p in added), f"{what}: what is not ours was deleted"
            harmless[kind, place] += 1
        copy.mend(path)
    assert content(storage, programs) == expected
    assert sum(told.values()) + sum(harmless.values()) == TRIES
    report(told, harmless)
    if TRIES >= 200:
        # What lies beside the files changes nothing, and what is gone or changed is noticed where it counts.
        # Among Spark's files, what is named like an entry of a log is one.
        assert {kind for kind, place in told if place != "checkpoint"} == {k.__name__ for k in KINDS} - {
            "stray"
        }
        for place in ("state", "manifests", "index", "results", "quarantine", LOCK):
            assert harmless["flip", place] == 0, place
