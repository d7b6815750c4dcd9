"""A live run in the terminal: where its queries go on, a line for each while they run, and where they stopped."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.live import Live
from rich.table import Table
from rich.text import Text

from tidegate.errors import Diagnostic
from tidegate.terminal.answers import Printer, console
from tidegate.time import MIN

if TYPE_CHECKING:
    from tidegate.runtime.running import LiveQuery
    from tidegate.session import Session


def beginning(query: LiveQuery) -> str:
    """Whether a query that was started goes on, and from where."""
    before = query.run.graph.ledger.latest
    if query.name not in before.queries or not before.epoch:
        joins = f": the others have come to {query.result.reached}{_complete(query)}" if before.epoch else ""
        known = query.run.graph.definitions
        if all(name in known and known[name].table for name in query.query.sources):
            joins += ". It reads tables only, so its answer will not change: ORDERED BY makes a file a stream"
        return f"query {query.name} is new{joins}"
    return f"query {query.name} goes on from {query.result.reached}, after epoch {before.epoch:,}"


def _complete(query: LiveQuery) -> str:
    """From when on nothing is missing in the answer of a query that comes later."""
    since = query.complete_from
    if since == MIN:
        return ""
    instant = None if since is None else query.result.said(since)
    what = (
        "rows from before may be missing in its answer"
        if instant is None
        else f"its answer is complete from {instant} on"
    )
    return f", and {what} (START name WITH HISTORY AS … reads what came before)"


def watch(session: Session, running: Sequence[LiveQuery], state: str | None, printer: Printer) -> None:
    """Lines of running queries until Ctrl-C or the end; then their latest answers, where they stopped, and how to go on."""
    from tidegate.runtime.refusals import check_used

    try:
        with Live(console=console, transient=True, auto_refresh=False, screen=False) as view:
            while not running[0].wait(1):
                if console.is_terminal:
                    view.update(figures(session, running), refresh=True)
    except KeyboardInterrupt:
        pass
    session.close()
    for query in running:
        if not answered(query):
            printer.say(f"query {query.name} has no complete answer yet")
            continue
        printer.say(f"latest complete answer of {query.name}, of what came before {query.result.reached}:")
        printer.show(query.latest())
    if not running[0].result.refused:
        printer.say("no rows were refused")
    for query in running:
        printer.say(stopped(query))
    if state is None:
        printer.say("stopped; the state was temporary: give --state DIRECTORY to be able to go on")
    else:
        printer.say(f"stopped; the same command with --state {state} goes on from here")
    for query in running:
        check_used(query.result.manifest().sources)


def answered(query: LiveQuery) -> bool:
    """Whether anything of its answer is final."""
    return query.result.manifest().upto > MIN


def stopped(query: LiveQuery) -> str:
    """Where a query stopped."""
    manifest = query.result.manifest()
    where = f"at {query.result.reached}" if answered(query) else "before its first answer"
    rows = sum(manifest.sources[name].rows for name in query.query.sources if name in manifest.sources)
    return f"query {query.name} stopped {where}, after epoch {manifest.epoch:,} and {rows:,} rows"


def figures(session: Session, running: Sequence[LiveQuery]) -> Table:
    """A line for each query: how far it is, its rate, delay, refused rows and state."""
    table = Table(box=None, pad_edge=False, show_edge=False)
    for name, side in (
        ("query", "left"),
        ("", "left"),
        ("has come to", "left"),
        ("rows/s", "right"),
        ("delay", "right"),
    ):
        table.add_column(name, justify=side)  # type: ignore[arg-type]
    for name in ("refused", "state"):
        table.add_column(name, justify="right")
    known = {line.name: line for line in session.running.lines()}
    for query in running:
        line = known.get(query.name)
        if line is not None:
            table.add_row(*(Text(cell) for cell in _cells(line, query)))
    table.caption, table.caption_justify = Text("Ctrl-C stops"), "left"
    return table


def _cells(line: Any, query: LiveQuery) -> Iterator[str]:
    sources = query.result.manifest().sources
    refused = sum(sum(sources[n].refused.values()) for n in query.query.sources if n in sources)
    yield line.name
    late = query.status()["catching_up"].get(query.name)
    yield line.state if late is None else f"catching up: {late:.0%}"
    yield query.result.reached
    yield "" if line.rate is None else f"{line.rate:,.0f}"
    yield "" if line.delay is None else f"{line.delay:.2f} s"
    yield f"{refused:,}"
    yield "" if line.rows is None else f"{line.rows:,} row{'s' * (line.rows != 1)}, {_bytes(line.size or 0)}"


def _bytes(count: float) -> str:
    """
    >>> _bytes(900), _bytes(1_500), _bytes(2_345_678)
    ('900 B', '1.5 kB', '2.3 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError


def show_state(state: str) -> None:
    """What a state directory says about its graphs: how far, how fast, of what, and what is wrong."""
    from tidegate.runtime.summary import describe_state

    found = describe_state(state)
    if not found:
        help = "give the --state directory of a live run"
        raise Diagnostic("NO_STATE", f"'{state}' holds no live run", help=help)
    for graph, known in found.items():
        when = f" ({ago(time.time() - known['noted'])})" if known["noted"] else ""
        said = f"{graph}: {known['state']}{when}, epoch {known['epoch']:,}, watermark {known['watermark']}"
        said += "" if known["delay"] is None else f", delay {known['delay']:.2f} s"
        _line(said)
        table = Table()
        for column in ("source", "rows", "rows/s", "newest", "promised", "quarantine"):
            table.add_column(column)
        for name, source in known["sources"].items():
            rate = "" if source["rate"] is None else f"{source['rate']:,.0f}"
            cells = (
                name,
                f"{source['rows']:,}",
                rate,
                source["newest"],
                source["promised"],
                f"{source['quarantine']:,}",
            )
            table.add_row(*map(Text, cells))
        console.print(table)
        if known["operators"]:
            console.print(operators_table(known["operators"]))
        if known["tables"]:
            _line(f"tables: {', '.join(known['tables'])}")
        since = [q if t == "none yet" else f"{q} (since {t})" for q, t in known["since"].items()]
        _line(f"queries: {', '.join(since)}")
        for line in known["refused"]:
            _line(line)
        if known["failure"]:
            _line(known["failure"])


def operators_table(operators: Sequence[Mapping[str, Any]]) -> Table:
    """What inputs and operators have done, a line each."""
    table = Table(title=Text("operators, since the graph was started"), title_justify="left")
    table.add_column("operator")
    for name in ("rows in", "rows out", "retractions", "keys", "skew", "state", "processor"):
        table.add_column(name, justify="right")
    for o in operators:
        cells = (
            f"{o['number']} {o['title']}",
            f"{o['total_rows_in']:,}",
            f"{o['total_rows_out']:,}",
            f"{o['total_retractions']:,}",
            "" if o["keys"] is None else f"{o['keys']:,}",
            "" if o["skew"] is None else f"{o['skew']:.2f}",
            f"{o['state_rows']:,} rows, {_bytes(o['state_bytes'])}" if o["state_rows"] else "",
            f"{o['total_cpu_seconds']:.2f} s",
        )
        table.add_row(*map(Text, cells))
    return table


def _line(text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def ago(seconds: float) -> str:
    """
    >>> ago(0.4), ago(90), ago(7_300), ago(200_000)
    ('now', '1 minute ago', '2 hours ago', '2 days ago')
    """
    for size, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {unit}{'s' * (count != 1)} ago"
    return "now" if seconds < 5 else f"{int(seconds)} seconds ago"
