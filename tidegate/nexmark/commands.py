"""`tidegate nexmark …` and `tidegate bench nexmark …`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tidegate.errors import Diagnostic

nexmark = typer.Typer(help="The NEXMark auction: streams and queries.", no_args_is_help=True)
bench = typer.Typer(help="Measure Tidegate, also against other engines.", no_args_is_help=True)
console = Console()

QUERIES = "q0,q1,q2,q3,q4,q5,q7,q8,q9,q11,q15,q17,q18,q19,q20"


def count(text: str) -> int:
    """A number of events as people write it.

    >>> count("10M"), count("250k"), count("5_000")
    (10000000, 250000, 5000)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmMgG]?)", text.replace("_", "").replace(",", ""))
    if match is None:
        raise Diagnostic(
            "INVALID_NUMBER", f"'{text}' is not a number of events", help="as in 500000, 250k or 10M"
        )
    return int(float(match[1]) * {"": 1, "k": 1000, "m": 1_000_000, "g": 1_000_000_000}[match[2].lower()])


@nexmark.command()
def generate(
    place: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="Where the files go.")],
    events: Annotated[str, typer.Option(help="How many events, as in 10M.")] = "1M",
    rate: Annotated[int, typer.Option(help="Events per second of event time.")] = 100_000,
    disorder: Annotated[
        int, typer.Option(help="Events are out of order within groups of so many; 1: in order.")
    ] = 1,
    seed: Annotated[int, typer.Option(help="The same seed gives the same bytes.")] = 1,
    form: Annotated[str, typer.Option("--format", help="parquet, csv or json.")] = "parquet",
    original: Annotated[
        bool, typer.Option("--original", help="The original auction schema, with so many bids.")
    ] = False,
) -> None:
    """Generate persons, auctions and bids as files."""
    from tidegate.nexmark.files import write_original, write_stream
    from tidegate.nexmark.generator import Nexmark

    total = count(events)
    if min(total, rate, disorder) < 1:
        raise Diagnostic("INVALID_NUMBER", "events, rate and disorder are at least 1")
    if original:
        write_original(total, place, seed, form)
        console.print(f"{total:,} bids with their auctions in {place}", markup=False)
        return
    made, written = write_stream(Nexmark(total, seed, rate, disorder), place, form)
    console.print(
        f"{total:,} events in {place}: generated at {total / made:,.0f} events per second and core, "
        f"written at {total / written:,.0f}",
        markup=False,
    )


@nexmark.command("queries")
def list_queries(
    name: Annotated[str | None, typer.Argument(metavar="[QUERY]", help="Show the SQL of this one.")] = None,
) -> None:
    """List the queries with what they ask, or show one."""
    from tidegate.nexmark.catalog import queries, query

    if name is not None:
        console.print(query(name).text, markup=False, highlight=False)
        return
    for found in queries().values():
        console.print(f"{found.name:15} {found.question}", markup=False, highlight=False)


@bench.command("nexmark")
def bench_nexmark(
    queries: Annotated[str, typer.Option(help="Names with commas between them.")] = QUERIES,
    events: Annotated[str, typer.Option(help="How many events, as in 10M.")] = "1M",
    engines: Annotated[str, typer.Option(help="Of tidegate, spark, flink, duckdb.")] = "tidegate,duckdb",
    runs: Annotated[int, typer.Option(help="How often each engine runs each query.")] = 1,
    rate: Annotated[int, typer.Option(help="Events per second of event time.")] = 100_000,
    cores: Annotated[int, typer.Option(help="Cores that an engine may use; 0: all.")] = 0,
    data: Annotated[Path, typer.Option(help="Where generated streams are kept.")] = Path("build") / "bench",
    page: Annotated[
        Path | None, typer.Option(help="A Markdown page whose NEXMark section is rewritten.")
    ] = None,
    note: Annotated[str, typer.Option(help="A remark for the page: under what conditions it ran.")] = "",
) -> None:
    """Compare engines on the same files: rows per second, per CPU-second, memory, and the ratio to Tidegate."""
    import os

    from tidegate.nexmark import report
    from tidegate.nexmark.bench import Entry, compare, prepare_data
    from tidegate.nexmark.catalog import query
    from tidegate.nexmark.measuring import Run

    names, total, used = queries.split(","), count(events), cores or os.cpu_count() or 1
    for name in names:
        query(name)
    small, stream = prepare_data(total, data, rate)

    def told(run: Run) -> None:
        what = (
            run.refused
            or f"{run.seconds:.1f} s, {run.cpu_seconds:.1f} s of processors, {run.peak_bytes / 2**30:.1f} GB"
        )
        console.print(f"{run.query} on {run.engine}: {what}", markup=False, highlight=False)

    conditions = (
        f"{total:,} events at {rate:,} per second of event time, in order; {runs} run{'s' * (runs != 1)} of each, in turn; "
        f"{report.machine()}; engines use {used} cores. {note}"
    ).rstrip()
    entries: list[Entry] = []
    for name in names:
        entries += compare([name], engines.split(","), small, stream, runs, used, told)
        if page is not None:  # a long comparison that is stopped has not been for nothing
            report.write(page, conditions, entries)
    console.print(report.table(entries), markup=False, highlight=False)
    console.print(report.settings(entries), markup=False, highlight=False)
