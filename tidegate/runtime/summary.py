"""What a state directory holds, read without starting Spark or touching a run."""

from __future__ import annotations

from typing import Any

from tidegate.runtime.ledger import latest_manifest
from tidegate.runtime.refusals import lines
from tidegate.storage import Storage
from tidegate.time import BATCHES, MIN, shown

TIMESTAMPS, INTEGERS, IN_BATCHES = "timestamps", "integers", "-in-batches"
"""What the names of graphs say about their time."""


def describe_state(uri: str) -> dict[str, dict[str, Any]]:
    """The latest manifest of every live graph of a state directory, in words for people."""
    storage = Storage(uri)
    found = {}
    for name in storage.names("graphs"):
        graph = storage.below(f"graphs/{name}")
        latest = latest_manifest(graph)
        if latest is not None:
            found[name] = {
                "epoch": latest.epoch,
                "watermark": "finished" if latest.finished else _shown(latest.upto, name),
                "queries": sorted(latest.queries),
                "refused": lines(latest.sources),
                "sources": {
                    stream: {
                        "rows": source.rows,
                        "newest": _shown(source.newest, name),
                        "promised": _shown(source.promised, name),
                        "quarantine": sum(source.refused.values()),
                    }
                    for stream, source in latest.sources.items()
                },
            }
    return found


def _shown(tick: int, graph: str) -> str:
    """The instant of a tick in a graph of some kind of time (see `runtime.running`)."""
    width = BATCHES if graph.endswith(IN_BATCHES) else 1
    return "none yet" if tick == MIN else shown(tick, graph.startswith(TIMESTAMPS), width)
