"""A client of Spark Connect: a recorded run, VERIFY, and a live run that is stopped and goes on.

Arguments: the address of the server, a state directory.
"""

from __future__ import annotations

import sys
import time

from pyspark.sql import DataFrame

import tidegate
from tidegate.errors import Diagnostic
from tidegate.runtime.running import LiveQuery

LIMIT = 120
"""Seconds until an instant must be final."""

QUERY = "SELECT k, COUNT(*) AS n FROM S WINDOW(RANGE 5) GROUP BY k"


def final(live: LiveQuery, instant: int) -> DataFrame:
    """The answer at an instant, as soon as that is final."""
    until = time.monotonic() + LIMIT
    while True:
        try:
            return live.at(instant)
        except Diagnostic as early:
            if early.condition != "NOT_FINAL" or time.monotonic() > until:
                raise
            time.sleep(0.1)


def main(address: str, state: str) -> None:
    tg = tidegate.connect(master=address, state=state, partitions=2)
    tg.stream("S", [{"k": i % 3, "t": i} for i in range(12)], ordered_by="t")
    query = tg.query(QUERY)
    # 7 to 11 are in the window at 11
    assert sorted(tuple(r) for r in query.run().at(11).collect()) == [(0, 1), (1, 2), (2, 2)]
    verified = query.verify()
    assert str(verified).startswith("verified"), verified
    for times, asked, expected in (((20, 22, 30), 22, [(1, 2)]), ((41, 43, 50), 43, [(1, 2)])):
        live = query.start("live")
        tg.push("S", [{"k": 1, "t": t} for t in times])
        tg.advance("S", times[-1] + 5)
        found = sorted(tuple(r) for r in final(live, asked).collect())
        assert found == expected, found
        live.stop()
    print("connected")


if __name__ == "__main__":
    main(*sys.argv[1:])
