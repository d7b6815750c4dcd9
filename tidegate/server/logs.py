"""What a server says to standard error: one JSON object on each line, one line for each epoch. Secrets are starred out."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time

from tidegate.redaction import masked
from tidegate.runtime.live import LiveRun
from tidegate.runtime.running import Running
from tidegate.time import MAX, MIN, shown

LOG = logging.getLogger("tidegate.server")

LOOK = 0.1
"""Seconds after which it is looked whether epochs have come to their end. None is left out: the last hundred are remembered."""


class JsonLines(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        moment = (
            time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        )
        said = {"time": moment, "level": record.levelname.lower(), "message": record.getMessage()}
        said |= getattr(record, "fields", {})
        if record.exc_info:
            said["error"] = self.formatException(record.exc_info)
        return masked(json.dumps(said, ensure_ascii=False, default=str))


def begin_logs(level: str) -> None:
    """Let everything that is said go to standard error as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("tidegate", "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level.upper() if name == "tidegate" else logging.WARNING)


class EpochLog:
    """Tells each epoch of all graphs of a session, in a thread of its own."""

    def __init__(self, running: Running) -> None:
        self._running, self._told = running, dict[str, int]()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="tidegate-epoch-log", daemon=True)

    def start(self) -> None:
        for run in self._running.runs:
            self._told[run.graph.storage.uri] = run.graph.figures.manifest.epoch
        self._thread.start()

    def stop(self) -> None:
        """After the last epoch."""
        self._ending.set()
        self._thread.join()
        self.look()

    def _loop(self) -> None:
        while not self._ending.wait(LOOK):
            self.look()

    def look(self) -> None:
        """Tell what has come to its end since the last time."""
        for run in self._running.runs:
            self._tell(run)

    def _tell(self, run: LiveRun) -> None:
        figures, name = run.graph.figures, run.graph.storage.uri
        last = figures.manifest.epoch
        told = self._told.setdefault(name, 0)
        if last <= told:
            return
        self._told[name] = last
        recent = figures.epochs[-min(last - told, len(figures.epochs)) :] if figures.epochs else ()
        moments = name.rsplit("/", 1)[-1].startswith("timestamp")
        upto = figures.manifest.upto
        for number, epoch in enumerate(recent, last - len(recent) + 1):
            fields = {
                "graph": name.rsplit("/", 1)[-1],
                "epoch": number,
                "rows": epoch.rows,
                "seconds": round(epoch.seconds, 4),
                "streams": dict(epoch.streams),
                "queries": len(figures.queries),
            }
            if number == last and upto not in (MIN, MAX):
                fields["final_before"] = shown(upto, moments, figures.width)
            LOG.info("epoch", extra={"fields": fields})
