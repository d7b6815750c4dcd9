"""A full disk ends an epoch cleanly: nothing of it counts, and with room again every row counts once."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tidegate
from tidegate import Diagnostic
from tidegate.runtime.running import LiveQuery

PAGE = 4096


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of eight megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f"only an administrator can mount a small file system: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(disk: Path, pages: int) -> Path:
    """Leave so many pages."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * PAGE)
        except OSError:
            pass
    size = filler.stat().st_size
    with filler.open("ab") as file:
        file.truncate(max(0, size - pages * PAGE))
    return filler


def test_a_full_disk_ends_epochs_cleanly_and_everything_counts_once(spark: SparkSession, disk: Path) -> None:
    def begun() -> LiveQuery:
        session = tidegate.connect(spark, state=str(disk / "state"), partitions=1)
        session.stream("S", [], schema="a INT NOT NULL, t BIGINT", ordered_by="t")
        found = session.query("SELECT a, COUNT(*) AS n FROM S WINDOW(RANGE UNBOUNDED) GROUP BY a").start(
            "q", begin=False, epochs="driver"
        )
        assert isinstance(found, LiveQuery)
        return found

    query, handed_in, places = begun(), 0, set()
    for attempt in range(16):
        filler = fill(disk, attempt)
        try:
            row = {"a": attempt % 3, "t": attempt}
            query.run.push("S", [row, {"a": 1, "t": None}])
            handed_in += 1
            query.run.drain()
        except Diagnostic as problem:
            if problem.condition != "DISK_FULL":
                raise
            places.add(problem.message.split(" has no room")[0].removeprefix(str(disk)).split("/")[-1])
        filler.unlink()
        if attempt % 5 == 4:
            query.stop()
            query = begun()
        else:
            query.run.drain()
    query.finish()
    assert places, "the disk was never full"
    assert sum(r.n for r in query.at(1000).collect()) == handed_in
    assert query.quarantine("S").count() == handed_in
    progress = query.status()["sources"]["S"]
    assert progress["rows"] == 2 * handed_in
    assert not list(disk.rglob("*.part"))
    query.stop()
