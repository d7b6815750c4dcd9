"""The command line: run, explain and verify scripts, a shell, and the demonstration that `make run` shows."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from tidegate import __version__
from tidegate.errors import Diagnostic, internal
from tidegate.experiments.commands import experiment
from tidegate.nexmark.commands import bench, nexmark
from tidegate.policy import Policy
from tidegate.redaction import masked
from tidegate.server.command import serve
from tidegate.terminal.answers import Form, Printer, console, errors, fetched
from tidegate.terminal.options import (
    Closed,
    Command,
    Conf,
    Format,
    Master,
    Packages,
    Partitions,
    Read,
    RowCount,
    Script,
    ScriptOrNone,
    State,
    Verbose,
    Write,
    conf_of,
    packages_of,
    policy_of,
    text_of_script,
)
from tidegate.terminal.progress import progress_bar, with_progress
from tidegate.terminal.watching import beginning, show_state, watch

app = typer.Typer(
    name="tidegate",
    help="Answers over moving data that are exact at every instant.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(nexmark, name="nexmark")
app.add_typer(bench, name="bench")
app.add_typer(experiment, name="experiment")
app.command()(serve)


def _version(asked: bool) -> None:
    if asked:
        print(f"tidegate {__version__}")
        raise typer.Exit


@app.callback()
def program(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    """Answers over moving data that are exact at every instant."""


@app.command()
def run(
    script: ScriptOrNone = None,
    command: Command = None,
    master: Master = None,
    state: State = None,
    partitions: Partitions = None,
    format: Format = Form.TABLE,
    rows: RowCount = None,
    packages: Packages = None,
    conf: Conf = None,
    live: Annotated[
        bool, typer.Option("--live", help="Go on reading files as new ones come, until Ctrl-C.")
    ] = False,
    name: Annotated[str | None, typer.Option(help="The name of the live query, where there is one.")] = None,
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
    from tidegate.language.dialect import parse
    from tidegate.runtime.running import LiveQuery
    from tidegate.script import needs_spark
    from tidegate.session import connect

    text = text_of_script(script, command)
    session = connect(
        master=master,
        state=state,
        partitions=partitions,
        verbose=verbose,
        policy=policy_of(closed, read, write),
        packages=packages_of(packages),
        conf=conf_of(conf),
    )
    session.live, session.epoch, session.unnamed = live, epoch, _only_name(name, text)
    session.here = True
    printer = Printer(format, rows)
    running: list[LiveQuery] = []
    if live or any(map(needs_spark, parse(text))):
        session.starting.begin()
    for result in with_progress(session, lambda progress: session.results(text, progress)):
        if isinstance(result, LiveQuery):
            running.append(result)
            printer.say(beginning(result))
        else:
            printer.show(result)
    running = [query for query in running if query.is_in_graph]  # STOP may have ended some
    if running:
        watch(session, running, state, printer)


def _only_name(name: str | None, text: str) -> str | None:
    """A name for the one query of a script that has none."""
    from sqlglot import exp

    from tidegate.language import syntax
    from tidegate.language.dialect import parse

    if name is None:
        return None
    nameless = [
        s
        for s in parse(text)
        if isinstance(s, exp.Query) or (isinstance(s, syntax.InsertInto) and s.this is None)
    ]
    if len(nameless) != 1:
        raise Diagnostic(
            "WRONG_ARGUMENTS",
            f"--name names one query, and {len(nameless)} have no name",
            help="name them in the script: START name AS SELECT …, INSERT INTO sink AS name SELECT …",
        )
    return name


@app.command()
def status(
    state: Annotated[str, typer.Argument(metavar="DIRECTORY", help="The state directory of a live run.")],
    prometheus: Annotated[bool, typer.Option("--prometheus", help="As Prometheus reads it.")] = False,
) -> None:
    """Where the live runs of a state directory are, also while they run: how fast they are, what their operators do, and why they failed."""
    if prometheus:
        from tidegate.runtime.summary import prometheus_of

        print(prometheus_of(state), end="")
    else:
        show_state(state)


@app.command()
def explain(
    script: Script,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    graphviz: Annotated[bool, typer.Option("--graphviz", help="As a Graphviz digraph.")] = False,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As a Mermaid flowchart.")] = False,
    analyze: Annotated[
        bool, typer.Option("--analyze", help="Run the queries, and show what was measured.")
    ] = False,
    master: Master = None,
    closed: Closed = False,
    read: Read = None,
    write: Write = None,
) -> None:
    """Show the plan of each query of a script, without running it, or with what was measured when it ran."""
    form = "json" if json else "graphviz" if graphviz else "mermaid" if mermaid else "text"
    rules = policy_of(closed, read, write)
    _each_query(script, master, rules, lambda query: print(query.explain(form, analyze)))


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
        with progress_bar("verifying") as progress:
            found = query.verify(instants or "all", progress)
        console.print(f"{query.name}: {found}", markup=False)
        if not found:
            wrong.append(query.name)

    _each_query(script, master, policy_of(closed, read, write), check)
    if wrong:
        raise typer.Exit(1)


@app.command()
def shell(
    master: Master = None,
    state: State = None,
    partitions: Partitions = None,
    format: Format = Form.TABLE,
    rows: RowCount = None,
    packages: Packages = None,
    conf: Conf = None,
    verbose: Verbose = False,
    closed: Closed = False,
    read: Read = None,
    write: Write = None,
    server: Annotated[
        str | None, typer.Option(metavar="URL", help="Ask a server; its token is in TIDEGATE_TOKEN.")
    ] = None,
) -> None:
    """Ask queries one after the other."""
    from tidegate.session import connect
    from tidegate.terminal.shell import Shell

    if server is not None:
        from tidegate.remote import RemoteSession
        from tidegate.terminal.remote_shell import RemoteShellSession

        remote = RemoteSession(server)
        remote.status()  # whoever cannot be reached is told before anybody types
        Shell(RemoteShellSession(remote), Printer(format, rows)).run()
        return
    session = connect(
        master=master,
        state=state,
        partitions=partitions,
        verbose=verbose,
        policy=policy_of(closed, read, write),
        packages=packages_of(packages),
        conf=conf_of(conf),
    )
    Shell(session, Printer(format, rows)).run()


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
        with progress_bar(name, total) as progress:
            result = query.run(progress)
        seconds = time.perf_counter() - began
        console.print(f"{total:,} rows in {seconds:.1f} s: {total / seconds:,.0f} rows per second")
        first = fetched(result.intervals().orderBy("valid_from").limit(5), None)
        Printer().table(first, "first rows of the answer")
        with progress_bar("verifying") as progress:
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

    text = text_of_script(script)
    session = connect(master=master, policy=rules)
    asked = 0
    for statement in parse(text):
        while isinstance(
            statement,
            (
                syntax.Explain,
                syntax.Preview,
                syntax.Verify,
                syntax.StartQuery,
                syntax.InsertInto,
                syntax.AsOf,
            ),
        ):
            statement = statement.args["query"]
        if isinstance(statement, syntax.StopQuery | syntax.AlterQuery):
            continue
        if isinstance(statement, exp.Query):
            asked += 1
            do(session.bound_query(statement, text))
        else:
            session.execute(statement, text)
    if not asked:
        raise Diagnostic("NO_QUERY", f"'{script}' holds no query", help="add a SELECT")


def _dedent(text: str) -> str:
    from textwrap import dedent

    return dedent(text).strip()


def main() -> None:
    """Errors are told, not dumped; Ctrl-C stops cleanly."""
    try:
        app(standalone_mode=True)
    except Diagnostic as diagnostic:
        errors.print(str(diagnostic), markup=False, highlight=False, soft_wrap=True)
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
