"""A standalone cluster of Spark's on this machine: a master and workers, each a process of its own with one core.

The interpreter of its tasks has the packages that Tidegate needs, and not Tidegate.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

LIMIT = 120
"""Seconds that a process may take to say that it is there."""


def waited(what: str, pattern: str, log: Path, process: subprocess.Popen[bytes]) -> re.Match[str]:
    """What a process writes into its log when it is there."""
    until = time.monotonic() + LIMIT
    while time.monotonic() < until:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise AssertionError(f"{what} did not start:\n{log.read_text(errors='replace')[-2000:]}")


def interpreter_without_tidegate(place: Path) -> Path:
    """An environment with all packages of this one, but for Tidegate."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    (own,) = place.glob("lib/python3*/site-packages")
    packages = [p for p in sys.path if p.endswith("site-packages")]
    (own / "packages.pth").write_text("".join(f"{p}\n" for p in packages))
    python = place / "bin" / "python"
    for name, there in (("pyarrow", True), ("tidegate", False)):
        asked = f"import importlib.util, sys; sys.exit(importlib.util.find_spec('{name}') is None)"
        clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        found = subprocess.run([str(python), "-c", asked], check=False, cwd=place, env=clean).returncode == 0
        assert found == there, (
            f"{name} {'cannot' if there else 'can'} be imported by the workers' interpreter"
        )
    return python


@dataclass
class Cluster:
    """A master, and the workers that run."""

    place: Path
    python: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    master: str = ""

    @classmethod
    def started(cls, place: Path, workers: int = 2) -> Cluster:
        cluster = cls(place, interpreter_without_tidegate(place / "env"))
        try:
            master = cluster._launch("master", "master.Master", "--port", "0")
            cluster.master = waited("the master", r"Starting Spark master at (spark://\S+)", *master)[1]
            cluster.add_workers(workers)
        except BaseException:
            cluster.stop()
            raise
        return cluster

    def add_workers(self, count: int = 1) -> None:
        """Start more workers, and wait until the master knows them."""
        begun = []
        for _ in range(count):
            name = f"worker-{len(self.processes)}"
            size = ("--cores", "1", "--memory", "768m", "--port", "0", "--work-dir", str(self.place / name))
            begun.append(self._launch(name, "worker.Worker", *size, self.master))
        for log, process in begun:
            waited("a worker", "Successfully registered with master", log, process)
            self.workers.append(process)

    def kill_worker(self) -> None:
        """A machine is gone: its worker, the executors on it, and their Python processes, without a word."""
        victim = self.workers.pop()
        for pid in family(victim.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, 9)
        victim.wait()

    def executors(self) -> int:
        """How many executors run on the workers."""
        return sum(1 for w in self.workers for pid in children(w.pid) if is_executor(pid))

    def stop(self) -> None:
        for process in self.processes:
            for pid in family(process.pid) if process.poll() is None else ():
                with suppress(ProcessLookupError):
                    os.kill(pid, 9)
            process.wait()

    def _launch(self, name: str, part: str, *arguments: str) -> tuple[Path, subprocess.Popen[bytes]]:
        home = Path(pyspark.__file__).parent
        log = self.place / f"{name}.log"
        environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYSPARK_PYTHON")}
        environment |= {
            "SPARK_HOME": str(home),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1",
        }
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{part}"]
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*command, "--host", "127.0.0.1", "--webui-port", "0", *arguments],
                env=environment, stdout=out, stderr=out, cwd=self.place, start_new_session=True,
            )  # fmt: skip
        self.processes.append(process)
        return log, process


def children(pid: int) -> list[int]:
    """The processes that a process has started, itself or through others."""
    below: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                rest = (entry / "stat").read_text().rpartition(")")[2]
            except (FileNotFoundError, ProcessLookupError):
                continue
            below.setdefault(int(rest.split()[1]), []).append(int(entry.name))
    found = list(below.get(pid, []))
    for each in found:
        found += below.get(each, [])
    return found


def family(pid: int) -> list[int]:
    return [pid, *children(pid)]


def is_executor(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return b"CoarseGrainedExecutorBackend" in words and b"java" in words.split(b"\0")[0]
