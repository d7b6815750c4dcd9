"""How an engine's program talks with the one that measures it: lines of JSON, so that only the query's own run is measured.

The program gets ready (starts, and answers the query on a small stream), says so with its settings, waits, runs the query, says how many rows
came out, and waits again so that its processes can still be looked at. It imports nothing but the standard library and its engine.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any


def serve(prepare: Callable[[str, str, int], tuple[dict[str, Any], Callable[[str], int]]]) -> None:
    """Arguments: query, cores, small stream, stream. `prepare(query, small, cores)` gives settings and what runs the query on a stream."""
    query, cores, small, data = sys.argv[1:5]
    # what engines print must not be taken for an answer
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(**what: Any) -> None:
        answers.write(json.dumps(what) + "\n")
        answers.flush()

    try:
        settings, run = prepare(query, small, int(cores))
    except NotImplementedError as reason:
        say(refused=str(reason))
        return
    say(ready=settings)
    if sys.stdin.readline():  # otherwise nobody measures any more
        say(rows=run(data))
    sys.stdin.readline()
    answers.close()
    os._exit(0)  # engines may take their time to stop; nothing is left to be kept
