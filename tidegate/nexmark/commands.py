"""`tidegate nexmark …` and `tidegate bench nexmark …`."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tidegate.errors import Diagnostic, did_you_mean

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


Cores = Annotated[int, typer.Option(help="Cores that may be used; 0: all.")]
Data = Annotated[Path, typer.Option(help="Where generated streams and all measurements are kept.")]
Page = Annotated[
    Path | None, typer.Option(help="A Markdown page whose section is rewritten, from all that is kept.")
]
BENCH = Path("build") / "bench"


@bench.command("nexmark")
def bench_nexmark(
    queries: Annotated[str, typer.Option(help="Names with commas between them.")] = QUERIES,
    events: Annotated[str, typer.Option(help="How many events, as in 10M.")] = "1M",
    engines: Annotated[str, typer.Option(help="Of tidegate, spark, flink, duckdb.")] = "tidegate,duckdb",
    runs: Annotated[int, typer.Option(help="How often each engine runs each query.")] = 1,
    rate: Annotated[int, typer.Option(help="Events per second of event time.")] = 100_000,
    limit: Annotated[int, typer.Option(help="Seconds after which a run is given up.")] = 1200,
    output: Annotated[
        str,
        typer.Option(
            help="What Tidegate does with its answers: keep, discard, or both in turn with a comma."
        ),
    ] = "keep",
    cores: Cores = 0,
    data: Data = BENCH,
    page: Page = None,
    add: Annotated[
        bool, typer.Option(help="Add runs to those that are kept, instead of replacing them.")
    ] = False,
    note: Annotated[str, typer.Option(help="A remark for the page: under what conditions it ran.")] = "",
) -> None:
    """Compare engines on the same files: rows per second, per CPU-second, memory, and the ratio to Tidegate."""
    from tidegate.nexmark import report
    from tidegate.nexmark.bench import Entry, after, compare, prepare_data
    from tidegate.nexmark.catalog import query
    from tidegate.nexmark.measurements import keep, load

    names, total, used = queries.split(","), count(events), cores or os.cpu_count() or 1
    for name in names:
        query(name)
    small, stream = prepare_data(total, data, rate)

    said = (
        f"{total:,} events at {rate:,} per second of event time, in order; {runs} run{'s' * (runs != 1)} of each, in turn; "
        f"{report.machine()}; engines use {used} cores. {note}"
    ).rstrip()
    conditions = keep(data / "conditions.jsonl", [{"events": total, "said": said}], ("events",))
    former = [Entry.of(m) for m in load(data / "nexmark.jsonl")] if add else []

    def told(entry: Entry) -> None:
        run = entry.runs[-1]
        what = f"{run.seconds:.1f} s, {run.cpu_seconds:.1f} s of processors, {run.peak_bytes / 2**30:.1f} GB"
        _say(f"{run.query} on {run.engine}: {run.refused or what}")
        # a long comparison that is stopped has not been for nothing
        known = after(former, entry).to_json()
        kept = keep(data / "nexmark.jsonl", [known], ("query", "engine", "events"))
        if page is not None:
            every = report.ordered(Entry.of(m) for m in kept)
            report.write(page, {c["events"]: c["said"] for c in conditions}, every)

    entries = compare(names, engines.split(","), small, stream, runs, used, told, limit, output.split(","))
    _say(report.table(entries))
    _say(report.settings(entries))


@bench.command("growth")
def bench_growth(
    curves: Annotated[str, typer.Option(help="Of window, keys, rate, queries.")] = "window,keys,rate,queries",
    events: Annotated[str, typer.Option(help="Events of each recorded run.")] = "2M",
    limit: Annotated[
        int, typer.Option(help="Seconds after which no larger number of queries is tried.")
    ] = 300,
    cores: Cores = 0,
    data: Data = BENCH,
    page: Page = None,
) -> None:
    """Processor time per event against the size of windows, the numbers of keys and queries, and the rate of events."""
    from tidegate.nexmark import growth, report
    from tidegate.nexmark.measurements import keep

    asked = curves.split(",")
    for name in asked:
        if name not in growth.TITLES:
            known = did_you_mean(name, list(growth.TITLES), "curves")
            raise Diagnostic("UNKNOWN_CURVE", f"there is no curve '{name}'", help=known)
    bench = growth.prepared(count(events), data / "growth", cores or os.cpu_count() or 1)
    kept = []
    for name in asked:
        for point in bench.curve(name, limit):
            _say(
                f"{growth.TITLES[name]} {point.size:,.0f}, {point.series}: {point.micros:.1f} us of processors per event, "
                f"{point.seconds:.1f} s"
            )
            kept = keep(data / "growth.jsonl", [point.to_json()], ("curve", "series", "size"))
    points = [growth.Point(**m) for m in kept]
    if page is not None:
        picture = page.with_name("growth.svg")
        picture.write_text(growth.picture(points), encoding="utf-8")
        shown = f"![microseconds of processors per event]({picture.name})"
        report.insert(page, "Growth", f"{report.machine()}.\n\n{shown}\n\n{growth.table(points)}")


@bench.command("live")
def bench_live(
    queries: Annotated[str, typer.Option(help="Of filter, aggregate, join.")] = "filter,aggregate,join",
    rates: Annotated[
        str, typer.Option(help="Events per second, rising; the last is the first that is too much.")
    ] = "",
    seconds: Annotated[float, typer.Option(help="How long each rate is watched.")] = 15,
    warm: Annotated[float, typer.Option(help="How long it runs before that.")] = 8,
    epoch: Annotated[
        float, typer.Option(help="Seconds from one epoch to the next; 0: one after another.")
    ] = 0,
    cores: Cores = 0,
    data: Data = BENCH,
    page: Page = None,
) -> None:
    """The delay from a row's creation to the commit that shows its effect, against the rate, up to saturation."""
    from tidegate.nexmark import delay, report
    from tidegate.nexmark.measurements import keep
    from tidegate.session import connect

    asked, kept = queries.split(","), []
    for name in asked:
        if name not in delay.QUERIES:
            known = did_you_mean(name, list(delay.QUERIES), "queries")
            raise Diagnostic("UNKNOWN_QUERY", f"there is no live query '{name}'", help=known)
    session = connect(master=f"local[{cores or os.cpu_count() or 1}]")
    for name in asked:
        delay.measure(session, name, 1000, 2, warm, epoch)  # code is compiled and workers are started
        for rate in [count(r) for r in rates.split(",")] if rates else delay.RATES:
            found = delay.measure(session, name, rate, seconds, warm, epoch)
            _say(
                f"{name}, {rate:,} events/s: median {found.median:.2f} s, p99 {found.p99:.2f} s, {found.epochs} epochs"
                + ("" if found.keeps_up else "; the delay goes on growing")
            )
            kept = keep(data / "live.jsonl", [found.to_json()], ("query", "rate"))
            if not found.keeps_up:
                break
    if page is not None:
        delays = [delay.Delay(**m) for m in kept]
        picture = page.with_name("live.svg")
        picture.write_text(delay.picture(delays), encoding="utf-8")
        shown = f"![delay against rate]({picture.name})"
        report.insert(page, "Live", f"{report.machine()}.\n\n{shown}\n\n{delay.table(delays)}")


def _say(text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
    console.file.flush()  # long runs are watched through files as well


@bench.command("calibrate")
def bench_calibrate(
    to: Annotated[Path, typer.Option(help="The file of prices to write.")] = Path("prices.json"),
) -> None:
    """Measure what the work of each kernel costs on this machine; name the file in TIDEGATE_PRICES to use it."""
    import platform

    from tidegate.calibration.fitting import fitted, measurements
    from tidegate.optimizer.prices import prices, written

    found = measurements(lambda text: console.print(text, markup=False, highlight=False))
    about = {"machine": platform.machine(), "cores": os.cpu_count(), "operators": len(found)}
    to.write_text(written({**prices(), **fitted(found)}, about), "utf-8")
    console.print(f"the prices of {len({w.kernel for w in found})} kernels are in {to}", markup=False)
