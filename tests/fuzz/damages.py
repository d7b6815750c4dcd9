"""Ways to damage a graph's directory, and everything that a restart reads of it, as values."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.errors import Diagnostic
from tidegate.physical.lowering import Program
from tidegate.runtime import checkpoint
from tidegate.runtime.holding import LOCK
from tidegate.runtime.ledger import Ledger
from tidegate.storage import Storage
from tidegate.worker import segments
from tidegate.worker.result_files import read_rows

SEED = int(os.environ.get("TIDEGATE_FUZZ_SEED", "7"))


def tried(call: Callable[[], Any]) -> Any:
    """What a call gives, or the complaint that it ends with; anything else is a crash."""
    try:
        return call()
    except Diagnostic as diagnostic:
        return diagnostic


def content(storage: Storage, programs: dict[int, Program]) -> Any:
    """Everything that a restart reads, as values."""
    ledger = Ledger.held(storage)
    try:
        latest = ledger.latest
        answers: dict[str, list[str]] = {}
        for file in ledger.results:
            for section, rows in read_rows(storage, file).items():
                answers.setdefault(section, []).extend(map(repr, rows.rows()))
        rows = [
            pq.read_table(pa.BufferReader(storage.read_sealed(f.file))).to_pylist() for f in ledger.refused
        ]
        checkpoint.check(storage, latest.checkpoint, latest.batch)
        states = {}
        for place, log in latest.logs.items():
            program = programs[int(place.split("@")[0])]
            found = segments.restored(storage, program, log.segments, latest.upto)
            states[place] = {
                (s, n): sorted(map(repr, t.rows.rows()))
                for s, tables in found.items()
                for n, t in tables.items()
            }
        return latest, ledger.index, states, {s: sorted(a) for s, a in answers.items()}, rows
    finally:
        ledger.release()


def flip(path: Path, dice: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    path.write_bytes(data)


def truncate(path: Path, dice: random.Random) -> None:
    os.truncate(path, dice.randrange(path.stat().st_size))


def extend(path: Path, dice: random.Random) -> None:
    with path.open("ab") as file:
        file.write(dice.randbytes(dice.randint(1, 64)))


def blank(path: Path, dice: random.Random) -> None:
    """A part of the file is zeros, as after a crash of the machine."""
    data = bytearray(path.read_bytes())
    start = dice.randrange(len(data))
    data[start : start + 512] = bytes(len(data[start : start + 512]))
    path.write_bytes(data)


def delete(path: Path, dice: random.Random) -> None:
    path.unlink()


def exchange(path: Path, dice: random.Random) -> None:
    """The file has the content of another one of its folder."""
    others = sorted(p for p in path.parent.iterdir() if p.is_file() and p != path)
    if others:
        shutil.copyfile(dice.choice(others), path)


def stray(path: Path, dice: random.Random) -> None:
    """A copy beside it, as editors, backups and interrupted copies leave it."""
    forms: list[Callable[[str], str]] = [
        lambda n: f"{n}~",
        lambda n: f"{n}.tmp",
        lambda n: f"{n}.bak",
        lambda n: f".{n}.swp",
        lambda n: f"{n}.4711.part",
        lambda n: f"copy of {n}",
        lambda n: f"0{n}",
        lambda n: n.upper() + "_",
        lambda n: "99999999.json~",
    ]
    beside = path.with_name(dice.choice(forms)(path.name))
    if not beside.exists():
        shutil.copyfile(path, beside)


KINDS = (flip, flip, flip, truncate, extend, blank, delete, delete, exchange, stray, stray)

PLACES = ("state", "manifests", "index", "results", "quarantine", "checkpoint", LOCK)


def victims(graph: Path) -> dict[str, list[Path]]:
    found = {p: sorted(f for f in (graph / p).rglob("*") if f.is_file()) for p in PLACES if p != LOCK}
    found[LOCK] = [graph / LOCK]
    assert all(found.values()), "every kind of file must be there to be damaged"
    return found


@dataclass
class Copy:
    """A copy of a state directory that is damaged again and again, each time from what it was."""

    master: Path
    place: Path

    def fresh(self) -> Path:
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(self.master, self.place)
        return self.place

    def mend(self, *changed: Path) -> None:
        """Put back what was changed, and what has come or gone."""
        here, there = (
            {p.relative_to(root) for p in root.rglob("*") if p.is_file()}
            for root in (self.place, self.master)
        )
        for name in here - there:
            (self.place / name).unlink()
        for name in (there - here) | {Path(LOCK)} | {p.relative_to(self.place) for p in changed}:
            (self.place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.master / name, self.place / name)


def damages(dice: random.Random, graph: Path, tries: int) -> Iterator[tuple[str, str, Path, set[Path]]]:
    """Damage a graph's directory in one way; the files that were put there are none of ours and must stay."""
    found = victims(graph)
    for number in range(tries):
        place = PLACES[number % len(PLACES)]
        path, kind = dice.choice(found[place]), dice.choice(KINDS)
        before = set(path.parent.iterdir())
        kind(path, dice)
        yield kind.__name__, place, path, set(path.parent.iterdir()) - before


def report(told: Counter[tuple[str, str]], harmless: Counter[tuple[str, str]]) -> None:
    print()
    for kind in dict.fromkeys(k.__name__ for k in KINDS):
        for place in PLACES:
            if told[kind, place] + harmless[kind, place]:
                print(f"{kind:9} {place:11} {told[kind, place]:4} named {harmless[kind, place]:4} exact")
