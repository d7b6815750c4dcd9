"""The command line: run, explain and verify scripts, a shell, and the demonstration that `make run` shows."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tidegate import policy
from tidegate.errors import Diagnostic, internal
from tidegate.nexmark.commands import bench, nexmark
from tidegate.policy import Policy
from tidegate.redaction import masked

app = typer.Typer(
    name="tidegate",
    help="Answers over moving data that are exact at every instant.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(nexmark, name="nexmark")
app.add_typer(bench, name="bench")
console = Console()
errors = Console(stderr=True)

Script = Annotated[Path, typer.Argument(metavar="FILE.sql", help="A script of statements.")]
Master = Annotated[str | None, typer.Option(help="Spark master (default: all cores of this machine).")]
State = Annotated[str | None, typer.Option(help="Directory or URI for state and results.")]
Partitions = Annotated[
    int | None, typer.Option(min=1, help="Parts of work and state (default: the cores, or as the state has).")
]
Rows = Annotated[int, typer.Option(help="How many rows of an answer to show.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show Spark's own messages.")]
Closed = Annotated[
    bool, typer.Option("--closed", help="Statements reach nothing but what --read and --write name.")
]
Read = Annotated[
    list[str] | None, typer.Option(help="With --closed: files below this directory may be read.")
]
Write = Annotated[
    list[str] | None, typer.Option(help="With --closed: files below this directory may be written.")
]


def _policy(closed: bool, read: list[str] | None, write: list[str] | None) -> Policy:
    """What a script's statements may reach; directories are named for statements that reach no others."""
    if (read or write) and not closed:
        raise Diagnostic("WRONG_ARGUMENTS", "--read and --write need --closed", help="add --closed")
    return policy.closed(read or (), write or ()) if closed else policy.OPEN


@app.command()
def run(
    script: Script,
    master: Master = None,
    state: State = None,
    partitions: Partitions = None,
    rows: Rows = 20,
    live: Annotated[
        bool, typer.Option("--live", help="Go on reading files as new ones come, until Ctrl-C.")
    ] = False,
    epoch: Annotated[
        float | None,
        typer.Option(help="Seconds from one epoch to the next, for live data: 0.2, or 1 where Spark feeds."),
    ] = None,
    verbose: Verbose = False,
    closed: Closed = False,
    read: Read = None,
    write: Write = None,
) -> None:
    """Run a script; show the answer of each query. Queries over live sources run until Ctrl-C."""
    from tidegate.runtime.running import LiveQuery
    from tidegate.session import connect

    text = _read(script)
    rules = _policy(closed, read, write)
    session = connect(master=master, state=state, partitions=partitions, verbose=verbose, policy=rules)
    session.live, session.epoch = live, epoch
    running: list[LiveQuery] = []
    for result in _with_progress(lambda progress: session.results(text, progress)):
        if isinstance(result, LiveQuery):
            running.append(result)
            console.print(f"query {result.name} is running", markup=False)
        else:
            _show(result, rows)
    running = [query for query in running if query.is_in_graph]  # STOP may have ended some
    if running:
        _watch(session, running, state, rows)


def _watch(session: Any, running: list[Any], state: str | None, rows: int) -> None:
    """Status of running queries until Ctrl-C; then their latest answers and how to go on."""
    from tidegate.runtime.refusals import check_used

    try:
        with console.status("") as line:
            while not running[0].wait(1):
                found = running[0].status()
                quarantine = sum(sum(s["quarantine"].values()) for s in found["sources"].values())
                line.update(
                    f"epoch {found['epoch']}, watermark {found['watermark']}, "
                    f"{found['rows_per_second']:,.0f} rows per second, {quarantine} rows in quarantine (Ctrl-C stops)"
                )
    except KeyboardInterrupt:
        pass
    session.close()
    for query in running:
        reached = query.result.reached
        console.print(f"latest complete answer of {query.name}, of what came before {reached}:", markup=False)
        _table(query.latest().limit(rows + 1), None, rows)
    _tell_refused(running[0].result)
    if state is None:
        console.print("stopped; the state was temporary: give --state DIRECTORY to be able to go on")
    else:
        console.print(f"stopped; the same command with --state {state} goes on from here", markup=False)
    for query in running:
        check_used(query.result.manifest().sources)


@app.command()
def status(
    state: Annotated[str, typer.Argument(metavar="DIRECTORY", help="The state directory of a live run.")],
) -> None:
    """Where the live runs of a state directory are, also while they run."""
    from tidegate.runtime.summary import describe_state

    found = describe_state(state)
    if not found:
        raise Diagnostic(
            "NO_STATE", f"'{state}' holds no live run", help="give the --state directory of a live run"
        )
    for graph, manifest in found.items():
        table = Table(
            title=f"{graph}: epoch {manifest['epoch']}, watermark {manifest['watermark']}",
            title_justify="left",
        )
        columns = ("rows", "newest", "promised", "quarantine")
        for column in ("source", *columns):
            table.add_column(column)
        for name, source in manifest["sources"].items():
            table.add_row(name, *(str(source[column]) for column in columns))
        console.print(table)
        console.print("queries: " + ", ".join(manifest["queries"]), markup=False)
        for line in manifest["refused"]:
            console.print(line, markup=False)


@app.command()
def explain(
    script: Script,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    graphviz: Annotated[bool, typer.Option("--graphviz", help="As a Graphviz digraph.")] = False,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As a Mermaid flowchart.")] = False,
    master: Master = None,
    closed: Closed = False,
    read: Read = None,
    write: Write = None,
) -> None:
    """Show the plan of each query of a script, without running it."""
    form = "json" if json else "graphviz" if graphviz else "mermaid" if mermaid else "text"
    rules = _policy(closed, read, write)
    _each_query(script, master, rules, lambda query: print(query.explain(form)))


@app.command()
def verify(
    script: Script,
    instants: Annotated[int, typer.Option(help="How many change points to compare; 0: all.")] = 0,
    master: Master = None,
    closed: Closed = False,
    read: Read = None,
    write: Write = None,
) -> None:
    """Run each query of a script and compare its answer with the reference, instant by instant."""
    wrong: list[str] = []

    def check(query: Any) -> None:
        with _progress("verifying") as progress:
            found = query.verify(instants or "all", progress)
        console.print(f"{query.name}: {found}", markup=False)
        if not found:
            wrong.append(query.name)

    _each_query(script, master, _policy(closed, read, write), check)
    if wrong:
        raise typer.Exit(1)


@app.command()
def shell(
    master: Master = None,
    state: State = None,
    partitions: Partitions = None,
    rows: Rows = 20,
    verbose: Verbose = False,
    closed: Closed = False,
    read: Read = None,
    write: Write = None,
) -> None:
    """Ask queries one after the other."""
    from tidegate.session import connect
    from tidegate.shell import Shell

    rules = _policy(closed, read, write)
    session = connect(master=master, state=state, partitions=partitions, verbose=verbose, policy=rules)
    Shell(session, lambda result: _show(result, rows)).run()


@app.command()
def demo(
    bids: Annotated[int, typer.Option(help="How many bids to generate.")] = 20_000,
    instants: Annotated[int, typer.Option(help="How many change points of each answer to verify.")] = 200,
    master: Master = None,
    verbose: Verbose = False,
) -> None:
    """Generate an online auction, answer PIPES' queries Q1 to Q6 on it, and verify the answers."""
    from tidegate import auction
    from tidegate.session import connect

    console.print(f"Generating an auction with {bids:,} bids …")
    data = auction.generate(bids)
    console.print("Starting Spark …")
    session = connect(master=master, verbose=verbose)
    session.function(
        "DolToEuro", lambda dollars: None if dollars is None else round(dollars * 0.92, 4), "DOUBLE", 1
    )
    session.sql(auction.SCHEMA + auction.VIEWS)
    session.data.update(data.tables)
    _ = session.spark
    wrong = []
    for name, text in auction.QUERIES.items():
        console.rule(f"[bold]{name}")
        console.print(_dedent(text), markup=False, highlight=False)
        query = session.query(text)
        began = time.perf_counter()
        total = sum(data.tables[d].num_rows for d in query.definitions)
        with _progress(name, total) as progress:
            result = query.run(progress)
        seconds = time.perf_counter() - began
        console.print(f"{total:,} rows in {seconds:.1f} s: {total / seconds:,.0f} rows per second")
        _table(result.intervals().orderBy("valid_from").limit(5), "first rows of the answer")
        with _progress("verifying") as progress:
            found = query.verify(instants, progress, result)
        console.print(str(found), style="green" if found else "red", markup=False)
        if not found:
            wrong.append(name)
    console.rule()
    if wrong:
        errors.print(f"WRONG: {', '.join(wrong)}", style="bold red")
        raise typer.Exit(1)
    console.print("All answers equal the reference. Next: docs/first-query.md, or `tidegate shell`.")


def _each_query(script: Path, master: str | None, rules: Policy, do: Callable[[Any], None]) -> None:
    from sqlglot import exp

    from tidegate.language import syntax
    from tidegate.language.dialect import parse
    from tidegate.session import connect

    text = _read(script)
    session = connect(master=master, policy=rules)
    asked = 0
    for statement in parse(text):
        while isinstance(
            statement, (syntax.Explain, syntax.Verify, syntax.StartQuery, syntax.InsertInto, syntax.AsOf)
        ):
            statement = statement.args["query"]
        if isinstance(statement, syntax.StopQuery):
            continue
        if isinstance(statement, exp.Query):
            asked += 1
            do(session.bound_query(statement, text))
        else:
            session.execute(statement, text)
    if not asked:
        raise Diagnostic("NO_QUERY", f"'{script}' holds no query", help="add a SELECT")


def _read(script: Path) -> str:
    if not script.exists():
        folder = script.parent if script.parent.exists() else Path()
        near = sorted(p.name for p in folder.glob("*.sql"))
        raise Diagnostic(
            "FILE_NOT_FOUND",
            f"there is no file '{script}'",
            help=f"scripts there: {', '.join(near)}" if near else "give the path of a file with statements",
        )
    return script.read_text(encoding="utf-8")


def _show(result: Any, rows: int) -> None:
    """An answer, whatever kind it is."""
    from pyspark.sql import DataFrame

    from tidegate.runtime.results import Result

    if result is None:
        return
    if isinstance(result, Result):
        frame = result.intervals()
        order = [c for c in ("valid_from", "valid_to") if c in frame.columns]
        _table(frame.orderBy(*order).limit(rows + 1), None, rows)
        _tell_refused(result)
    elif isinstance(result, DataFrame):
        _table(result.limit(rows + 1), None, rows)
    elif isinstance(result, list):
        for line in result:
            console.print("  ".join(line) if isinstance(line, tuple) else str(line), markup=False)
    else:
        console.print(str(result), markup=False, highlight=False, soft_wrap=True)


def _tell_refused(result: Any) -> None:
    """What was refused stands in the log, which is on the terminal."""
    if not result.refused:
        console.print("no rows were refused")


def _table(frame: Any, title: str | None, rows: int | None = None) -> None:
    table = Table(title=title, title_justify="left")
    for name in frame.columns:
        table.add_column(name)
    found = frame.collect()
    for row in found[:rows]:
        table.add_row(*("NULL" if v is None else str(v) for v in row))
    console.print(table)
    if rows is not None and len(found) > rows:
        console.print(f"only the first {rows} rows are shown (--rows)")


@contextmanager
def _progress(what: str, rows: int = 0) -> Iterator[Callable[[float], None]]:
    """A bar for the part that is done; with the number of `rows` it also shows rows per second."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        bar = bars.add_task(what, total=None, rate="")
        began = time.perf_counter()

        def report(part: float) -> None:
            rate = part * rows / max(1e-9, time.perf_counter() - began)
            bars.update(bar, completed=part, total=1.0, rate=f"{rate:,.0f} rows per second" if rows else "")

        yield report


def _with_progress(started: Callable[[Callable[[float], None]], Iterator[Any]]) -> Iterator[Any]:
    """Results one after the other, with a bar while one is waited for and none while it is shown."""
    bar: list[Callable[[float], None]] = []

    def report(part: float) -> None:
        bar[0](part)

    results, done = started(report), object()
    while True:
        with _progress("running") as current:
            bar[:] = [current]
            result = next(results, done)
        if result is done:
            return
        yield result


def _dedent(text: str) -> str:
    from textwrap import dedent

    return dedent(text).strip()


def main() -> None:
    """Errors are told, not dumped; Ctrl-C stops cleanly."""
    try:
        app(standalone_mode=True)
    except Diagnostic as diagnostic:
        errors.print(str(diagnostic), markup=False, highlight=False)
        sys.exit(2)
    except KeyboardInterrupt:
        errors.print("stopped; nothing is lost: run the same command with the same --state to go on")
        sys.exit(130)
    except (RuntimeError, AssertionError, TypeError, KeyError, ValueError, AttributeError) as defect:
        errors.print(str(internal(f"{type(defect).__name__}: {defect}")), markup=False, highlight=False)
        errors.print(masked("".join(traceback.format_exception(defect))), markup=False, highlight=False)
        sys.exit(70)


if __name__ == "__main__":
    main()
