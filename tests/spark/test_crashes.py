"""A driver killed at any point of a commit, and started again, delivers the same changes as one that was left alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

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


def play(folder: Path, place: Path, fault: str | None = None) -> int:
    environment = {k: v for k, v in os.environ.items() if k != "TIDEGATE_FAULT"}
    environment["PYTHONPATH"] = str(ROOT)
    if fault is not None:
        environment["TIDEGATE_FAULT"] = fault
    program = [sys.executable, str(Path(__file__).with_name("crash_run.py")), str(folder)]
    done = subprocess.run(
        [*program, str(place / "state"), str(place / "out")],
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


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[object, ...]]]:
    base = tmp_path_factory.mktemp("undisturbed")
    write_files(base / "rows")
    assert play(base / "rows", base) == 0
    rows = delivered(base)
    # Every row comes and goes: twice as many changes as rows of the answer, of which there are many.
    assert len(rows) > 4 * FILES
    assert sum(1 if r[0] == "+" else -1 for r in rows) == 0
    return base / "rows", rows


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_driver_goes_on_as_if_nothing_had_happened(
    point: str, undisturbed: tuple[Path, list[tuple[object, ...]]], tmp_path: Path
) -> None:
    folder, expected = undisturbed
    assert play(folder, tmp_path, f"{point}:2") == -signal.SIGKILL
    assert delivered(tmp_path) != expected
    assert play(folder, tmp_path) == 0
    assert delivered(tmp_path) == expected
