"""A driver killed at any point of a commit, and started again, delivers the same changes as one that was left alone.

It is started with another number of partitions each time.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq

from tidegate.runtime.faults import POINTS

ROOT = Path(__file__).resolve().parent.parent.parent
FILES = 4


def write_files(folder: Path) -> None:
    folder.mkdir()
    for i in range(FILES):
        rows = [{"k": j % 3, "v": j, "t": 7 * i + (j * 5) % 9} for j in range(6)]
        path = folder / f"{i}.json"
        path.write_text("".join(json.dumps(r) + "\n" for r in rows))
        # Spark takes files in order of their age.
        os.utime(path, (1_700_000_000 + i, 1_700_000_000 + i))


def play(folder: Path, place: Path, fault: str | None = None, partitions: int = 2) -> int:
    environment = {k: v for k, v in os.environ.items() if k != "TIDEGATE_FAULT"}
    environment["PYTHONPATH"] = str(ROOT)
    if fault is not None:
        environment["TIDEGATE_FAULT"] = fault
    program = [sys.executable, str(Path(__file__).with_name("crash_run.py")), str(folder)]
    done = subprocess.run(
        [*program, str(place / "state"), str(place / "out"), str(partitions)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


def delivered(place: Path) -> list[tuple[object, ...]]:
    rows = []
    for path in sorted((place / "out").glob("epoch=*/*.parquet")):
        rows += [tuple(r.values()) for r in pq.read_table(path, partitioning=None).to_pylist()]
    return sorted(rows, key=repr)


KILLS = (
    "before state:2",
    "after state:1",
    "moved state:1",
    "before manifest:1",
    "after manifest:1",
    "before sink:1",
    "after sink:1",
    "before index:1",
    "after index:1",
)
"""One after the other on the same state, so that each restart finds what the kill before it left."""


RANDOM_KILLS = max(3, int(os.environ.get("TIDEGATE_KILLS", "0")) // 6)
SEED = int(os.environ.get("TIDEGATE_FUZZ_SEED", "7"))


def test_a_driver_killed_at_random_delivers_what_one_left_alone_does(tmp_path: Path) -> None:
    dice = random.Random(SEED)
    write_files(tmp_path / "rows")
    assert play(tmp_path / "rows", tmp_path / "alone") == 0
    expected = delivered(tmp_path / "alone")
    kills, place = 0, tmp_path / "0"
    while kills < RANDOM_KILLS:
        fault, partitions = f"any:{dice.randint(1, 20)}", dice.randint(1, 3)
        if play(tmp_path / "rows", place, fault, partitions) == 0:
            # It came to its end before the kill: the next ones begin from nothing.
            assert delivered(place) == expected, (SEED, place.name)
            place = tmp_path / str(int(place.name) + 1)
        else:
            kills += 1
    assert play(tmp_path / "rows", place) == 0
    assert delivered(place) == expected, (SEED, place.name)


def test_a_driver_killed_at_every_commit_point_delivers_what_one_left_alone_does(tmp_path: Path) -> None:
    # At the others graphs die in tests/fuzz/test_killed_migrations.py: a run of so few epochs does not reach them often enough.
    assert {k.split(":")[0] for k in KILLS} == set(POINTS) - {"after old state", "after merge"}
    write_files(tmp_path / "rows")
    alone, killed = tmp_path / "alone", tmp_path / "killed"
    assert play(tmp_path / "rows", alone) == 0
    expected = delivered(alone)
    # Every row of the answer comes and goes, and there are many.
    assert len(expected) > 10 * FILES
    assert sum(1 if r[0] == "+" else -1 for r in expected) == 0
    for i, fault in enumerate(KILLS):
        assert play(tmp_path / "rows", killed, fault, 1 + i % 3) == -signal.SIGKILL, fault
        assert delivered(killed) != expected
    assert play(tmp_path / "rows", killed) == 0
    assert delivered(killed) == expected
