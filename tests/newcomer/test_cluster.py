"""A cluster: a master, two workers and their executors, each a process of its own on this machine, answer a query."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark

ROOT = Path(__file__).resolve().parents[2]
QUERY = "SELECT room, COUNT(*) AS n FROM '{}' ORDERED BY t WINDOW(RANGE UNBOUNDED) GROUP BY room"


def spark_home(place: Path) -> Path:
    """Spark as it is installed, by links: its workers write into the directory `work` of their home, also after the program's end."""
    place.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        if part.name != "work":
            (place / part.name).symlink_to(part)
    return place


def test_workers_of_a_cluster_answer(tmp_path: Path) -> None:
    home = spark_home(tmp_path / "spark")
    command = ["run", "--master", "local-cluster[2,1,1024]", "--format", "csv", "-c"]
    done = subprocess.run(
        [sys.executable, "-m", "tidegate", *command, QUERY.format(ROOT / "examples" / "rooms.csv")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(tmp_path), "SPARK_HOME": str(home)},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    told = "".join(log.read_text(errors="replace") for log in home.glob("work/app-*/*/stderr"))
    assert done.returncode == 0, done.stderr
    # a comes at 1, 4 and 9, b at 3 and 7, c at 6
    expected = ["a,1,1,4", "a,2,4,9", "a,3,9,", "b,1,3,7", "b,2,7,", "c,1,6,"]
    assert sorted(done.stdout.splitlines()[1:]) == expected
    assert "Executor: Finished task" in told, "no executor has done anything"
