"""What a state directory holds, read without starting Spark or touching a run."""

from __future__ import annotations

from typing import Any

from tidegate.runtime.ledger import latest_manifest
from tidegate.runtime.refusals import lines
from tidegate.storage import Storage
from tidegate.time import MAX, MIN


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
                "watermark": {MIN: "none yet", MAX: "finished"}.get(latest.upto, latest.upto),
                "queries": sorted(latest.queries),
                "refused": lines(latest.sources),
                "sources": {
                    name: {
                        "rows": source.rows,
                        "newest": "none yet" if source.newest == MIN else source.newest,
                        "quarantine": sum(source.refused.values()),
                    }
                    for name, source in latest.sources.items()
                },
            }
    return found
