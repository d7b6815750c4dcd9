"""Rows that leave windows, told by their ends and by rows of their own: processor seconds of NEXMark's windowed queries, in turn.

    python benchmarks/expiration.py --events 10M --times 2 [--page docs/experiments.md]

All answers are computed at every instant and thrown away. `auto` is what the cost model takes.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from tidegate.nexmark.catalog import query
from tidegate.nexmark.commands import count
from tidegate.nexmark.files import write_stream
from tidegate.nexmark.generator import Nexmark
from tidegate.nexmark.measuring import processor_seconds
from tidegate.nexmark.report import insert
from tidegate.query import Query
from tidegate.session import connect

QUERIES = ("q5", "q7", "q8", "sliding_max", "sliding_join", "interval_join")
WAYS = ("intervals", "negative", "auto")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", default="10M")
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--queries", default=",".join(QUERIES))
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    spark = connect(master=f"local[{os.cpu_count()}]").spark

    def asked(name: str, way: str, place: str) -> Query:
        session = connect(spark=spark)
        definitions, text = query(name).statements(place)
        session.sql(definitions)
        session.sql(f"SET expiration = '{way}'")
        return session.query(text)

    lines = [
        "| query | intervals | negative | auto takes | auto against the better |",
        "|---|---:|---:|---|---:|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        places = {events: f"{folder}/{events}" for events in (100_000, count(options.events))}
        for events, place in places.items():
            write_stream(Nexmark(events), Path(place))
        small, large = places.values()
        for name in options.queries.split(","):
            spent: dict[str, list[float]] = {way: [] for way in WAYS[:2]}
            for way in spent:
                asked(name, way, small).discard()
            for _ in range(options.times):
                for way, found in spent.items():
                    before = processor_seconds(os.getpid())
                    asked(name, way, large).discard()
                    found.append(processor_seconds(os.getpid()) - before)
            least = {way: min(found) for way, found in spent.items()}
            same = asked(name, "auto", large).plan == asked(name, "intervals", large).plan
            taken = "intervals" if same else "negative"
            ratio = least[taken] / min(least.values())
            lines.append(
                f"| {name} | {least['intervals']:.1f} | {least['negative']:.1f} | {taken} | {ratio:.2f} |"
            )
            print(lines[-1], flush=True)
    if options.page is not None:
        said = f"CPU-seconds at {options.events} events, answers discarded, the least of {options.times} runs each, in turn."
        insert(options.page, "Expiration in the engine", f"{said}\n\n" + "\n".join(lines))


if __name__ == "__main__":
    main()
