"""A graph whose driver, JVM or workers are frozen and killed at any moment, and that is started again, answers and delivers what one does
that was left alone. It is started with another number of partitions each time.

`test_crashes.py` kills the driver at every point of a commit.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.spark.kept_graph import DELIVERED, write_file

ROOT = Path(__file__).resolve().parent.parent.parent
FILES = 8

KILLS = int(os.environ.get("TIDEGATE_KILLS", "20"))
SEED = int(os.environ.get("TIDEGATE_FUZZ_SEED", "7"))

ERRORS = "errors.txt"


def launched(folder: Path, place: Path, partitions: int = 2) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    program = [sys.executable, str(Path(__file__).with_name("kill_run.py")), str(folder)]
    place.mkdir(parents=True, exist_ok=True)
    with (place / ERRORS).open("w") as errors:
        return subprocess.Popen(
            [*program, str(place / "state"), str(place / "out"), str(partitions)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )


def play(folder: Path, place: Path, partitions: int = 2) -> int:
    with launched(folder, place, partitions) as program:
        program.communicate()
    assert program.returncode in (0, -signal.SIGKILL), (place / ERRORS).read_text()
    return program.returncode


def delivered(place: Path) -> dict[str, Any]:
    """What the sinks got, and the answers if the run came to its end."""
    found: dict[str, Any] = {}
    for name in DELIVERED:
        rows = []
        for path in (place / "out" / name).glob("epoch=*/*.parquet"):
            rows += [tuple(r.values()) for r in pq.read_table(path, partitioning=None).to_pylist()]
        found[name] = sorted(rows, key=repr)
    answers = place / "out" / "answers.json"
    return {**found, "answers": json.loads(answers.read_text()) if answers.exists() else None}


def family(pid: int) -> dict[str, list[int]]:
    """A driver, its JVM, and the Python processes of that."""
    children: dict[int, list[int]] = {}
    names: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
            except (FileNotFoundError, ProcessLookupError):
                continue
            names[int(entry.name)] = name
            children.setdefault(int(rest.split()[1]), []).append(int(entry.name))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    jvm = [p for p in found if names.get(p) == "java"]
    workers = [p for p in found if p != pid and names.get(p, "").startswith("python")]
    return {"driver": [pid], "jvm": jvm, "worker": workers}


def killed_now(program: subprocess.Popen[str], dice: random.Random, whom: str) -> bool:
    """Kill one of a program's processes, frozen before or not; whether there was one."""
    found = family(program.pid)[whom]
    if not found:
        return False
    victim = dice.choice(found)
    try:
        if dice.random() < 0.5:
            os.kill(victim, signal.SIGSTOP)
            ended(program, dice.uniform(0.05, 0.5))
        os.kill(victim, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def ended(program: subprocess.Popen[str], seconds: float) -> bool:
    """Let a program run for a while; whether it came to its end."""
    try:
        program.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def disturbed(program: subprocess.Popen[str], dice: random.Random, kills: Counter[str], whole: float) -> bool:
    """Disturb a program that takes so many seconds alone; whether it came to its end, as it must if only workers died."""
    for _ in range(dice.randint(0, 7)):
        if ended(program, dice.uniform(0.01, 0.12) * whole):
            return True
        kills["worker"] += killed_now(program, dice, "worker")
    if ended(program, dice.uniform(0.01, 0.3) * whole):
        return True
    whom = dice.choice(["driver", "jvm"])
    kills[whom] += killed_now(program, dice, whom)
    if not ended(program, 30):
        # A driver may wait for ever for an answer of a JVM that is gone.
        program.kill()
    return program.wait() == 0


def test_whatever_is_killed_at_any_moment_nothing_is_lost(tmp_path: Path) -> None:
    dice, kills, rounds = random.Random(SEED), Counter[str](), 1
    for number in range(FILES):
        write_file(tmp_path / "rows", number)
    begun = time.monotonic()
    assert play(tmp_path / "rows", tmp_path / "alone") == 0
    whole = time.monotonic() - begun
    expected = delivered(tmp_path / "alone")
    place = tmp_path / "0"
    while kills.total() < KILLS:
        with launched(tmp_path / "rows", place, partitions=dice.randint(1, 3)) as program:
            assert program.stdout is not None
            assert program.stdout.readline().startswith("started"), (place / ERRORS).read_text()
            done = disturbed(program, dice, kills, whole)
        assert not done or program.returncode == 0, (place / ERRORS).read_text()
        if done:
            assert delivered(place) == expected, (SEED, place.name)
            place, rounds = tmp_path / str(int(place.name) + 1), rounds + 1
    assert play(tmp_path / "rows", place) == 0
    assert delivered(place) == expected, (SEED, place.name)
    print(f"\nkilled: {dict(kills)}, runs compared: {rounds}")
