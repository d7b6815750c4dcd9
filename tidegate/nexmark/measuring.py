"""What a run costs: wall time, processor time and memory of a program with all the processes it starts."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Run:
    """One run of one query on one engine; `refused` says why there is none."""

    engine: str
    query: str
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_bytes: int = 0
    rows_out: int = 0
    settings: tuple[tuple[str, str], ...] = ()
    refused: str | None = None


def processor_seconds(root: int) -> float:
    """Processor time of a process, its living descendants, and those of them that have ended and been waited for."""
    return sum(sum(float(v) for v in s[11:15]) for s in _tree(root)) / _TICK


def resident_bytes(root: int) -> int:
    """Memory of a process and its living descendants; pages that they share count for each."""
    return sum(int(s[21]) for s in _tree(root)) * _PAGE


def _tree(root: int) -> list[list[str]]:
    """The fields of /proc/PID/stat from the state on, of a process and its descendants."""
    stats: dict[int, list[str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue  # it has just ended
            stats[int(entry.name)] = text[text.rindex(")") + 2 :].split()
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        if pid in stats:
            found.append(stats[pid])
            todo += [p for p, s in stats.items() if int(s[1]) == pid]
    return found


def measure(
    engine: str, command: list[str], query: str, environment: dict[str, str], limit: float = 1200
) -> Run:
    """Start an engine's program, let it get ready, and measure the run of its query."""
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            env={**os.environ, **environment}, start_new_session=True,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            os.killpg(process.pid, 9)

        watchdog = threading.Timer(limit, expire)
        watchdog.start()
        try:
            first = _answer(process, log)
            if "refused" in first:
                return Run(engine, query, refused=first["refused"])
            peak = _Peak(process.pid)
            before, began = processor_seconds(process.pid), time.perf_counter()
            process.stdin.write("\n")
            process.stdin.flush()
            rows = _answer(process, log)["rows"]
            seconds = time.perf_counter() - began
            used = processor_seconds(process.pid) - before
            settings = tuple((k, str(v)) for k, v in first["ready"].items())
            return Run(engine, query, seconds, used, peak.stop(), rows, settings)
        except EngineError as failure:
            late = f"not finished after {limit:.0f} s, with its start"
            return Run(engine, query, refused=late if expired.is_set() else f"failed: {failure}")
        finally:
            watchdog.cancel()
            if process.poll() is None:
                os.killpg(process.pid, 9)
            process.wait()
            process.stdin.close()
            process.stdout.close()


class EngineError(Exception):
    """The engine's program ended without an answer."""


def _answer(process: subprocess.Popen[str], log: Any) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        process.wait()
        log.seek(0)
        lines = [text.strip() for text in log.read().splitlines() if text.strip()]
        told = [text for text in lines if "Error" in text or "Exception" in text]
        raise EngineError((told or lines or ["no message"])[-1][:300])
    found: dict[str, Any] = json.loads(line)
    return found


class _Peak:
    """The most memory seen, looked at four times a second."""

    def __init__(self, root: int) -> None:
        self._root, self._most, self._ended = root, 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while True:
            self._most = max(self._most, resident_bytes(self._root))
            if self._ended.wait(0.25):
                return

    def stop(self) -> int:
        self._ended.set()
        self._thread.join()
        return self._most
