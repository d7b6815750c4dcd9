"""A worker and drivers that are killed in the middle of a live run on a cluster; every driver finds another number of workers."""

from __future__ import annotations

import re
import time
from pathlib import Path

from tests.cluster.programs import LIMIT, Program, Programs, of
from tests.servers.cluster import Cluster
from tests.spark.kept_graph import write_file

FILES = 6


def epochs(program: Program) -> list[tuple[int, int]]:
    """The epochs that count, with the number of partitions."""
    return [(int(e), int(p)) for e, p in re.findall(r"epoch (\d+) in (\d+)", program.said())]


def wait_for_epochs(program: Program, count: int) -> None:
    """Until so many epochs of a driver count."""
    until = time.monotonic() + LIMIT
    while len(epochs(program)) < count:
        assert program.process.poll() is None, program.said()
        assert time.monotonic() < until, program.said()
        time.sleep(0.02)


def test_a_worker_and_drivers_are_killed_and_nothing_is_lost(
    cluster: Cluster, programs: Programs, tmp_path: Path
) -> None:
    """A worker dies under the first driver, which goes on; that dies, and the next has one worker and other partitions; that dies, and the last has two again."""
    rows = tmp_path / "rows"
    for number in range(FILES):
        write_file(rows, number)

    def driver(partitions: int) -> Program:
        places = (rows, tmp_path / "state", tmp_path / "out")
        return programs.start("tests.cluster.kept", *of(cluster), *places, partitions)

    first = driver(2)
    wait_for_epochs(first, 1)
    cluster.kill_worker()
    after = len(epochs(first))
    wait_for_epochs(first, after + 1)
    first.process.kill()
    first.process.wait()

    second = driver(3)
    wait_for_epochs(second, 2)
    second.process.kill()
    second.process.wait()
    cluster.add_workers()

    last = driver(1)
    done = last.done()
    assert "compared" in done, done
    assert {p for _, p in epochs(first)} == {2}
    assert {p for _, p in epochs(second)} == {3}
    assert {p for _, p in epochs(last)} == {1}
    numbers = [e for program in (first, second, last) for e, _ in epochs(program)]
    assert numbers == sorted(set(numbers)), "an epoch was committed twice"
