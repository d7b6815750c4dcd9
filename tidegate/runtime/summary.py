"""What a state directory holds, read without starting Spark or touching a run."""

from __future__ import annotations

from typing import Any

from tidegate.runtime.ledger import latest_manifest
from tidegate.runtime.notes import Note, is_alive, read_note
from tidegate.runtime.prometheus import Reading, exposition
from tidegate.runtime.refusals import lines
from tidegate.storage import Storage
from tidegate.time import BATCHES, MIN, shown

TIMESTAMPS, INTEGERS, IN_BATCHES = "timestamps", "integers", "-in-batches"
"""What the names of graphs say about their time."""


def describe_state(uri: str) -> dict[str, dict[str, Any]]:
    """Every live graph of a state directory, in words for people: its latest manifest, and what it has noted of itself."""
    storage = Storage(uri)
    found = {}
    for name in storage.names("graphs"):
        graph = storage.below(f"graphs/{name}")
        latest = latest_manifest(graph)
        if latest is not None:
            note = read_note(graph)
            found[name] = {
                "epoch": latest.epoch,
                "watermark": "finished" if latest.finished else _shown(latest.upto, name),
                "state": _state(note, is_alive(graph), latest.finished),
                "noted": note.at,
                "failure": note.failure,
                "delay": note.delay,
                "queries": sorted(latest.queries),
                "since": {q: _shown(known.since, name) for q, known in sorted(latest.queries.items())},
                "refused": lines(latest.sources),
                "tables": sorted(note.tables),
                "operators": list(note.operators),
                "sources": {
                    stream: {
                        "rows": source.rows,
                        "rate": note.rates.get(stream),
                        "newest": _shown(source.newest, name),
                        "promised": _shown(source.promised, name),
                        "quarantine": sum(source.refused.values()),
                    }
                    for stream, source in latest.sources.items()
                    if stream not in note.tables
                },
            }
    return found


def prometheus_of(uri: str) -> str:
    """The figures of every live graph of a state directory in Prometheus' text format."""
    storage, found = Storage(uri), []
    for name in storage.names("graphs"):
        graph = storage.below(f"graphs/{name}")
        latest = latest_manifest(graph)
        if latest is not None:
            note = read_note(graph)
            running = note.state == "running" and is_alive(graph)
            found.append(Reading(name, latest, note, running, _width(name)))
    return exposition(found)


def _state(note: Note, alive: bool, finished: bool) -> str:
    """Whether a graph runs; one that was killed has not said that it does not."""
    if note.state == "running":
        return "running" if alive else "stopped: its process has ended"
    return "finished" if finished and note.state == "stopped" else note.state


def _shown(tick: int, graph: str) -> str:
    """The instant of a tick in a graph of some kind of time (see `runtime.running`)."""
    return "none yet" if tick == MIN else shown(tick, graph.startswith(TIMESTAMPS), _width(graph))


def _width(graph: str) -> int:
    return BATCHES if graph.endswith(IN_BATCHES) else 1
