"""Drivers as programs of their own, so that tests can kill them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.servers.cluster import Cluster

ROOT = Path(__file__).resolve().parents[2]

LIMIT = 400
"""Seconds that a driver may take."""


@dataclass
class Programs:
    """Programs with their output in files of a place."""

    place: Path
    environment: dict[str, str]
    begun: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, module: str, *arguments: object) -> Program:
        log = self.place / f"program-{len(self.begun)}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *map(str, arguments)],
                cwd=ROOT, env={**self.environment, "XDG_STATE_HOME": str(self.place)}, stdout=out, stderr=out,
            )  # fmt: skip
        self.begun.append(process)
        return Program(process, log)

    def end(self) -> None:
        for process in self.begun:
            if process.poll() is None:
                process.kill()
            process.wait()


@dataclass(frozen=True)
class Program:
    process: subprocess.Popen[bytes]
    log: Path

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def done(self) -> str:
        """What it said, when it has come to its end."""
        assert self.process.wait(LIMIT) == 0, self.said()
        return self.said()


def of(cluster: Cluster) -> tuple[str, str]:
    """How a driver gets to a cluster: its master, and the interpreter of its tasks."""
    return cluster.master, str(cluster.python)
