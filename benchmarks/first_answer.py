"""How long a first answer takes: a fresh process each time, from its start to its end.

Three doors: `tidegate run examples/rooms.sql` (a query, AS OF, VERIFY), the same as the first thing ever run on a machine (nothing compiled is
kept from before), and the shell, from its start to its first answer. Usage: python benchmarks/first_answer.py [--runs 5]
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "examples" / "rooms.sql"
PROGRAM = [sys.executable, "-m", "tidegate"]


def run_script(environment: dict[str, str]) -> None:
    """The whole of the example."""
    subprocess.run([*PROGRAM, "run", str(SCRIPT)], cwd=ROOT, env=environment, check=True, capture_output=True)


def ask_shell(environment: dict[str, str]) -> None:
    """The shell, until the first table is there; then it is left."""
    text = SCRIPT.read_text("utf-8").split("-- How many")[0]
    with subprocess.Popen(
        [*PROGRAM, "shell"],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as shell:
        assert shell.stdin is not None
        assert shell.stdout is not None
        shell.stdin.write(text)
        shell.stdin.flush()
        for line in shell.stdout:
            if "valid_from" in line:
                shell.kill()
                return
    raise SystemExit("the shell gave no answer")


def measured(door: str, runs: int) -> tuple[list[float], list[float]]:
    """Seconds of each run, and seconds of processor time of its own."""
    seconds, processor = [], []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as empty:
            environment = dict(os.environ, PYTHONUNBUFFERED="1")
            if door == "ever":
                environment["NUMBA_CACHE_DIR"] = empty
            began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
            (ask_shell if door == "shell" else run_script)(environment)
            seconds.append(time.perf_counter() - began)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            processor.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return seconds, processor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    asked = parser.parse_args()
    print(
        f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, {asked.runs} runs each, medians (greatest)"
    )
    doors = {
        "script": "tidegate run examples/rooms.sql",
        "ever": "the same, nothing kept",
        "shell": "shell, first answer",
    }
    for door, name in doors.items():
        seconds, processor = measured(door, asked.runs)
        print(
            f"{name:34} {statistics.median(seconds):5.1f} s ({max(seconds):.1f}), "
            f"processor {statistics.median(processor):.1f} s"
        )


if __name__ == "__main__":
    main()
