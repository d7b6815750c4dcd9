"""Ctrl-C in a live run: it stops after what it has, says how to go on, and going on loses nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tidegate.runtime.summary import describe_state

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPT = """
CREATE STREAM Beat(n BIGINT, at TIMESTAMP) SOURCE rate(5) ORDERED BY at;
INSERT INTO console() SELECT n FROM Beat WINDOW(RANGE 1 SECOND);
"""


def epoch_of(state: Path) -> int:
    (graph,) = describe_state(str(state)).values()
    return int(graph["epoch"])


def interrupted(script: Path, state: Path, beyond: int) -> str:
    """What a run says after Ctrl-C, which comes with the first change that is told after a later epoch than `beyond`.

    A run that goes on first tells the changes of an epoch that was committed but not told.
    """
    running = subprocess.Popen(
        [sys.executable, "-m", "tidegate.cli", "run", str(script), "--state", str(state), "--epoch", "0.1"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # As a terminal does, the signal goes to all that was started here.
        start_new_session=True,
    )
    assert running.stdout is not None
    said = []
    try:
        for line in running.stdout:
            said.append(line)
            if line.startswith("+ ") and epoch_of(state) > beyond:
                break
        os.killpg(running.pid, signal.SIGINT)
        rest, _ = running.communicate()
    finally:
        running.kill()
    assert running.returncode == 0, "".join([*said, rest])
    return rest


def test_ctrl_c_stops_a_live_run_cleanly_and_says_how_to_go_on(tmp_path: Path) -> None:
    script, state = tmp_path / "beat.sql", tmp_path / "state"
    script.write_text(SCRIPT)
    reached = [0]
    for _ in range(2):
        rest = interrupted(script, state, reached[-1])
        assert f"the same command with --state {state} goes on from here" in rest
        assert "Traceback" not in rest
        assert "Exception" not in rest
        reached.append(epoch_of(state))
        assert reached[-1] > reached[-2]
