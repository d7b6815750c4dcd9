"""The comparison: every engine runs every query on the same files, one after another, in turn, as often as asked."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

import pyarrow.parquet as pq

from tidegate.errors import Diagnostic, did_you_mean
from tidegate.nexmark.catalog import query
from tidegate.nexmark.files import settings_of, write_stream
from tidegate.nexmark.generator import Nexmark
from tidegate.nexmark.measurements import Measured
from tidegate.nexmark.measuring import Run, measure

ENGINES = ("tidegate", "spark", "flink", "duckdb")
DISCARDING = "tidegate, discarding"
"""Tidegate in the table where it throws its answers away, as Flink and Structured Streaming do."""
OUTPUTS = ("keep", "discard")
"""What Tidegate does with its answers."""
PEERS = Path("build") / "peers"
"""Where `make bench-peers` puts what Tidegate itself does not need."""
SMALL = 100_000
"""Events of the stream on which an engine warms up."""


@dataclass(frozen=True)
class Entry:
    """All runs of one query on one engine."""

    engine: str
    query: str
    rows_in: int
    runs: tuple[Run, ...]
    events: int = 0
    """Of the whole stream."""

    def to_json(self) -> Measured:
        return asdict(self)

    @classmethod
    def of(cls, kept: Measured) -> Entry:
        """What `to_json` gave."""
        runs = tuple(Run(**{**r, "settings": tuple((k, v) for k, v in r["settings"])}) for r in kept["runs"])
        return cls(kept["engine"], kept["query"], kept["rows_in"], runs, kept["events"])

    @property
    def refused(self) -> str | None:
        return next((r.refused for r in self.runs if r.refused), None)

    @property
    def per_second(self) -> float:
        """Input rows per second of wall time, in the median run."""
        return self.rows_in / median(r.seconds for r in self.runs)

    @property
    def per_cpu_second(self) -> float:
        # processor time is counted in hundredths of a second
        return self.rows_in / max(0.01, median(r.cpu_seconds for r in self.runs))

    @property
    def peak_bytes(self) -> int:
        return max(r.peak_bytes for r in self.runs)

    def ratios(self, tidegate: Entry) -> list[float]:
        """How much more processor time this engine takes than Tidegate, run by run of the same turn.

        >>> fast, slow = Run("tidegate", "q1", cpu_seconds=2.0), Run("flink", "q1", cpu_seconds=5.0)
        >>> Entry("flink", "q1", 10, (slow,)).ratios(Entry("tidegate", "q1", 10, (fast,)))
        [2.5]
        """
        return [
            a.cpu_seconds / max(0.01, b.cpu_seconds) for a, b in zip(self.runs, tidegate.runs, strict=False)
        ]


def after(former: Sequence[Entry], entry: Entry) -> Entry:
    """A query's runs on an engine, behind those of earlier calls.

    >>> first, second = Run("flink", "q1", cpu_seconds=1.0), Run("flink", "q1", cpu_seconds=2.0)
    >>> found = after([Entry("flink", "q1", 10, (first,)), Entry("duckdb", "q1", 10, ())], Entry("flink", "q1", 10, (second,)))
    >>> [r.cpu_seconds for r in found.runs]
    [1.0, 2.0]
    """
    same = (
        e.runs for e in former if (e.engine, e.query, e.events) == (entry.engine, entry.query, entry.events)
    )
    return replace(entry, runs=(*next(same, ()), *entry.runs))


def prepare_data(events: int, place: Path, rate: int, seed: int = 1) -> tuple[Path, Path]:
    """(small stream, stream), generated unless they are there."""
    found = []
    for count, name in ((SMALL, "small"), (events, f"{events}")):
        folder = place / f"nexmark-{name}-{rate}-{seed}"
        wanted = {"events": count, "seed": seed, "rate": rate, "disorder": 1}
        try:
            there = settings_of(folder) == wanted
        except Diagnostic:
            there = False
        if not there:
            # several files even for a small stream, so that every engine can use all cores
            write_stream(Nexmark(count, seed, rate), folder, part=min(1_000_000, max(1, count // 4)))
        found.append(folder.resolve())
    return found[0], found[1]


def rows_in(name: str, data: Path) -> int:
    """The rows that a query reads."""
    files = [f for stream in query(name).reads - {"side"} for f in sorted((data / stream).glob("*.parquet"))]
    return sum(pq.read_metadata(f).num_rows for f in files)


def compare(
    names: Sequence[str],
    engines: Sequence[str],
    small: Path,
    data: Path,
    runs: int,
    cores: int,
    told: Callable[[Entry], None] = lambda _: None,
    limit: float = 1200,
    outputs: Sequence[str] = OUTPUTS[:1],
) -> list[Entry]:
    """Interleaved: each turn runs all engines once, Tidegate once per output, so that what the machine does besides hits all alike.

    `told` gets a query's runs on an engine so far, after each of them.
    """
    for asked, known, kind in ((engines, ENGINES, "engine"), (outputs, OUTPUTS, "output")):
        for name in asked:
            if name not in known:
                advice = did_you_mean(name, list(known), f"{kind}s")
                raise Diagnostic(f"UNKNOWN_{kind.upper()}", f"there is no {kind} '{name}'", help=advice)
    own = {"keep": "tidegate", "discard": DISCARDING}
    engines = [
        e for engine in engines for e in ([own[o] for o in outputs] if engine == "tidegate" else [engine])
    ]
    found: dict[tuple[str, str], Entry] = {}
    events = settings_of(data)["events"]
    for name in names:
        for _ in range(runs):
            for engine in engines:
                fresh = Entry(engine, name, rows_in(name, data), (), events)
                before = found.setdefault((name, engine), fresh)
                if before.refused:
                    continue
                command = _command(engine, name, small, data, cores)
                run = measure(engine, command, name, _environment(engine), limit)
                found[name, engine] = replace(before, runs=(*before.runs, run))
                told(found[name, engine])
    return list(found.values())


def _command(engine: str, name: str, small: Path, data: Path, cores: int) -> list[str]:
    python = sys.executable
    if engine == "flink":
        own = PEERS / "flink" / "bin" / "python"
        if not own.exists():
            raise Diagnostic(
                "PEER_MISSING",
                "Flink is not installed",
                help="make bench-peers, or leave flink out of --engines",
            )
        python = str(own.absolute())
    program = f"tidegate.nexmark.engines.of_{engine.split(',', maxsplit=1)[0]}"
    told = [name, str(cores), str(small), str(data)]
    if program.endswith("tidegate"):
        told.append("discard" if engine == DISCARDING else "keep")
    return [python, "-m", program, *told]


def _environment(engine: str) -> dict[str, str]:
    root = str(Path(__file__).resolve().parents[2])
    paths = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {
        "PYTHONPATH": paths,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    if engine == "flink":
        jars = sorted(str(p.absolute()) for p in (PEERS / "jars").glob("*.jar"))
        environment["NEXMARK_FLINK_JARS"] = os.pathsep.join(jars)
    return environment
