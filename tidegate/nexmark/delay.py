"""How long a live row takes to show: from its creation at the source to the commit of the epoch that shows its effect.

The source gives each event the instant of its creation as its time (`origin`), so an epoch that ends before `upto` and is committed
at C shows every event of [last upto, upto) with the delay C - t. Events are created evenly, so the delays between two commits are a
straight line and their distribution over all events is known exactly.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise

from tidegate.nexmark.charts import curves
from tidegate.nexmark.measurements import Measured
from tidegate.nexmark.source import register
from tidegate.runtime.running import LiveQuery
from tidegate.session import Session, connect
from tidegate.time import MIN

Commit = tuple[float, float]
"""(when an epoch was committed, up to when its answers are final), in seconds of the clock."""

QUERIES = {
    "filter": ("SELECT auction, price FROM Bid WHERE auction % 123 = 0", ("bid",)),
    "aggregate": (
        "SELECT auction, COUNT(*) AS n, SUM(price) AS s, MAX(price) AS m FROM Bid WINDOW(RANGE 10 SECONDS) GROUP BY auction",
        ("bid",),
    ),
    "join": (
        "SELECT B.auction, B.price, A.seller FROM Bid WINDOW(RANGE 10 SECONDS) B JOIN Auction WINDOW(RANGE 10 SECONDS) A "
        "ON B.auction = A.id",
        ("auction", "bid"),
    ),
}
RATES = (1_000, 10_000, 50_000, 100_000, 200_000, 400_000, 800_000)

_COLUMNS = {
    "bid": {"auction": "BIGINT NOT NULL", "price": "BIGINT NOT NULL", "dateTime": "TIMESTAMP NOT NULL"},
    "auction": {"id": "BIGINT NOT NULL", "seller": "BIGINT NOT NULL", "dateTime": "TIMESTAMP NOT NULL"},
}


@dataclass(frozen=True)
class Delay:
    """The delays of one query at one rate, in seconds."""

    query: str
    rate: int
    median: float
    p99: float
    epochs: int
    keeps_up: bool
    """The delay did not go on growing."""

    def to_json(self) -> Measured:
        return asdict(self)


def quantile(commits: Sequence[Commit], since: float, until: float, part: float) -> float:
    """The delay that so large a part of the events created in [since, until) does not exceed.

    Epochs committed at 2 and 4 that show what was created before 1 and before 3: events of [1, 3) wait 3 to 1 seconds.

    >>> commits = [(2.0, 1.0), (4.0, 3.0)]
    >>> quantile(commits, 1.0, 3.0, 0.5), quantile(commits, 1.0, 3.0, 1.0)
    (2.0, 3.0)
    """
    # between two commits delays go evenly from C - low down to C - high
    spans = [
        (committed - min(high, until), committed - max(low, since))
        for (_, low), (committed, high) in pairwise(commits)
        if min(high, until) > max(low, since)
    ]
    edges = sorted({edge for span in spans for edge in span})
    wanted, passed = part * sum(b - a for a, b in spans), 0.0
    for left, right in pairwise(edges):
        here = (right - left) * sum(a <= left and right <= b for a, b in spans)
        if passed + here >= wanted:
            return left + (right - left) * (wanted - passed) / here if here else left
        passed += here
    return edges[-1]


def measure(session: Session, name: str, rate: int, seconds: float, warm: float, every: float) -> Delay:
    """Run a query live at one rate; delays of the events created after the first `warm` seconds."""
    register()
    own = connect(spark=session.spark)
    text, streams = QUERIES[name]
    origin = time.time()
    for stream in streams:
        columns = ", ".join(f"{c} {t}" for c, t in _COLUMNS[stream].items())
        own.sql(
            f"CREATE STREAM {stream.title()}({columns}) SOURCE spark('nexmark') ORDERED BY dateTime WITH (stream = '{stream}', "
            f"rate = {rate}, origin = {round(origin * 1e6)}, columns = '{','.join(_COLUMNS[stream])}')"
        )
    live = own.query(text).start(epoch=every, retention=60_000_000)
    since = origin + warm
    until = since + seconds
    try:
        commits = [(origin, origin), *_commits(live, until, until + warm + seconds)]
    finally:
        own.close()
    shown = commits[-1][1] >= until
    if not shown:
        # what has not shown by now takes at least until now
        commits.append((time.time(), until))
    middle = (since + until) / 2
    early, late = quantile(commits, since, middle, 0.5), quantile(commits, middle, until, 0.5)
    return Delay(
        name,
        rate,
        quantile(commits, since, until, 0.5),
        quantile(commits, since, until, 0.99),
        sum(since <= committed for committed, _ in commits),
        shown and late < 1.3 * early + 0.5,
    )


def _commits(live: LiveQuery, until: float, give_up: float) -> Iterator[Commit]:
    """Every commit that brings answers, until all that was created before `until` is final, or it takes too long."""
    shown = MIN
    while (now := time.time()) < give_up and shown < until * 1e6:
        upto = live.run.graph.ledger.latest.upto
        if upto > shown:
            shown = upto
            yield now, upto / 1e6
        elif not live.run.is_active:
            live.wait(1)  # raises what went wrong
            return
        time.sleep(0.002)


def table(delays: Sequence[Delay]) -> str:
    """A line per rate, two columns per query."""
    names = list(dict.fromkeys(d.query for d in delays))
    found = {(d.query, d.rate): d for d in delays}
    lines = [
        "| events per second | " + " | ".join(f"{n}: median, p99" for n in names) + " |",
        "|---:|" + "---:|" * len(names),
    ]
    for rate in sorted({d.rate for d in delays}):
        cells = []
        for name in names:
            delay = found.get((name, rate))
            said = "" if delay is None else f"{delay.median:.2f} s, {delay.p99:.2f} s"
            cells.append(said if delay is None or delay.keeps_up else f"{said}, growing")
        lines.append(f"| {rate:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def picture(delays: Sequence[Delay]) -> str:
    """The same as curves: a panel per query; rates at which delays go on growing are left out."""
    panels = {}
    for name in dict.fromkeys(d.query for d in delays):
        mine = sorted((d for d in delays if d.query == name and d.keeps_up), key=lambda d: d.rate)
        panels[f"{name}, events per second"] = {
            "median": [(d.rate, d.median) for d in mine],
            "p99": [(d.rate, d.p99) for d in mine],
        }
    return curves({t: p for t, p in panels.items() if p["median"]}, "seconds from creation to commit")
