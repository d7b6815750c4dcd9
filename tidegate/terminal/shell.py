"""The shell: statements one after the other. An error or Ctrl-C ends the statement, and only `\\q` or the end of the input the shell."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tidegate.errors import Diagnostic, did_you_mean, foreign
from tidegate.remote import RemoteQuery
from tidegate.runtime.running import LiveQuery
from tidegate.session import Session
from tidegate.spark.values import quote
from tidegate.terminal.answers import Form, Printer, Rows, console, rows_of
from tidegate.terminal.completing import StatementCompleter
from tidegate.terminal.options import text_of_script
from tidegate.terminal.progress import Report, interruptible, with_progress
from tidegate.terminal.reading import PipedReader, Reader, TerminalReader
from tidegate.terminal.remote_shell import RemoteShellSession

SHELL_ROWS = 1000
"""How many rows of an answer the shell shows, page by page, where nobody says."""

WELCOME = "Tidegate. Statements end with ;   \\? lists the commands, \\q leaves."

_HELP = """\
Statements end with ; and may span lines. For example:
  CREATE STREAM S(a INT, t BIGINT) SOURCE csv('s.csv') ORDERED BY t;
  SELECT a, COUNT(*) AS n FROM S WINDOW(RANGE 10) GROUP BY a;
  SELECT a FROM S WINDOW(ROWS 3) AS OF 7;
  EXPLAIN SELECT …;   VERIFY SELECT …;   SHOW QUERIES;   SHOW GRAPH;
Ctrl-C stops a statement, Tab completes, the arrow keys and Ctrl-R find earlier statements.
"""


@dataclass(frozen=True)
class Command:
    """A command of the shell: how it is written, what it does."""

    form: str
    meaning: str
    do: Callable[[Shell, str], None]

    @property
    def name(self) -> str:
        return self.form.split()[0]


class Shell:
    """Reads statements and shows their results."""

    def __init__(
        self,
        session: Session | RemoteShellSession,
        printer: Printer | None = None,
        reader: Reader | None = None,
    ) -> None:
        found: Any = session
        self.is_remote = isinstance(session, RemoteShellSession)
        self.session: Any = session  # a remote one has what is asked of it here
        session.here = True
        self.timing, self.paging = True, True
        printer = printer or Printer()
        self.printer = replace(printer, rows=printer.rows or SHELL_ROWS, more="\\rows N", paged=self._paged)
        commands = [c.name for c in COMMANDS.values()]
        if reader is None:
            terminal = sys.stdin.isatty() and sys.stdout.isatty()
            reader = TerminalReader(StatementCompleter(found, commands)) if terminal else PipedReader()
        self.reader = reader
        self.left = False

    def run(self) -> None:
        """Until somebody leaves. Spark starts meanwhile, so that the first answer does not wait for all of it."""
        self.session.starting.begin()
        if isinstance(self.reader, TerminalReader):
            console.print(WELCOME, markup=False, highlight=False)
        while not self.left:
            try:
                text = self.reader.read()
            except EOFError:
                break
            except KeyboardInterrupt:
                continue
            self.take(text)
        self._end()

    def take(self, text: str) -> None:
        """Statements or a command; whatever goes wrong is told."""
        with self._telling():
            bare = text.strip().rstrip(";").strip()
            if bare.lower() in ("quit", "exit"):
                self.left = True
            elif bare.lower() == "help":
                _show_help(self, "")
            elif bare.startswith("\\"):
                self.command(bare)
            elif bare:
                self.execute(text)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except KeyboardInterrupt:
            console.print("stopped")
        except Diagnostic as diagnostic:
            _tell(diagnostic)
        except Exception as problem:
            _tell(foreign(problem))

    def execute(self, text: str) -> None:
        """Run statements one after the other, up to the first that fails."""
        began = time.perf_counter()
        for result, found in with_progress(self.session, lambda report: self._results(text, report)):
            if isinstance(result, LiveQuery | RemoteQuery):
                name = result.name if result.name.isidentifier() else quote(result.name)
                self.printer.say(f"query {name} is running: SELECT * FROM {name} AS OF …, \\dq, STOP {name}")
            elif found is not None:
                self.printer.print(result, found)
                if self.timing:
                    self.printer.say(_took(len(found.values), time.perf_counter() - began), style="dim")
            began = time.perf_counter()

    def _results(self, text: str, report: Report) -> Iterator[tuple[Any, Rows | None]]:
        """What statements give, each with its rows: computed and fetched where Ctrl-C can end it."""
        results = self.session.results(text, report)

        def following() -> list[tuple[Any, Rows | None]]:
            for result in results:
                shown = result is not None and not isinstance(result, LiveQuery | RemoteQuery)
                return [(result, rows_of(result, self.printer.limit) if shown else None)]
            return []

        while found := interruptible(self.session, following):
            yield found[0]

    def command(self, text: str) -> None:
        """A command that begins with a backslash."""
        name, _, rest = text.partition(" ")
        command = COMMANDS.get(name)
        if command is None:
            known = did_you_mean(name, list(COMMANDS), "commands")
            raise Diagnostic(
                "UNKNOWN_COMMAND", f"there is no command {name}", help=f"{known} (\\? lists them)"
            )
        command.do(self, rest.strip())

    def _end(self) -> None:
        if self.is_remote:  # what runs is the server's
            self.session.close()
        elif self.session.running.names:
            with console.status("stopping the queries that run"), self._telling():
                self.session.close()

    @contextmanager
    def _paged(self, lines: int) -> Iterator[None]:
        if self.paging and console.is_terminal and lines > console.height - 2:
            with console.pager(styles=True):
                yield
        else:
            yield


def _tell(diagnostic: Diagnostic) -> None:
    console.print(str(diagnostic), markup=False, highlight=False, soft_wrap=True)


def _took(rows: int, seconds: float) -> str:
    return f"{rows:,} row{'s' * (rows != 1)} in {seconds:.1f} s"


# ---------------------------------------------------------------------------------------------- commands


def _show_help(shell: Shell, _: str) -> None:
    width = max(len(c.form) for c in COMMANDS.values())
    lines = [f"  {c.form.ljust(width)}  {c.meaning}" for c in COMMANDS.values()]
    console.print(_HELP + "\n".join(lines), markup=False, highlight=False)


def _leave(shell: Shell, _: str) -> None:
    shell.left = True


def _describe(shell: Shell, name: str) -> None:
    if name:
        shell.printer.show(shell.session.describe(name.strip("`")))
        return
    catalog, running = shell.session.catalog, shell.session.running
    kinds = {"STREAMS": "stream", "VIEWS": "view", "TABLES": "table"}
    rows = [(d.name, kinds.get(d.kind, d.kind.lower())) for d in catalog.definitions.values()]
    rows += [(name, "running query") for name in running.names]
    if rows:
        shell.printer.table(Rows(("name", "kind"), tuple(sorted(rows))))
    else:
        shell.printer.say("there is nothing yet: CREATE STREAM … SOURCE csv('…') ORDERED BY …;")


def _listed(kind: str) -> Callable[[Shell, str], None]:
    def do(shell: Shell, part: str) -> None:
        found = shell.session.shown(kind)
        if part and isinstance(found, list):
            found = [entry for entry in found if part.lower() in str(entry).lower()]
        shell.printer.show(found)

    return do


def _include(shell: Shell, file: str) -> None:
    if not file:
        raise Diagnostic("WRONG_ARGUMENTS", "\\i needs a file", help="as in \\i examples/rooms.sql")
    shell.execute(text_of_script(Path(file).expanduser()))


def _set_rows(shell: Shell, said: str) -> None:
    if said and not said.isdecimal():
        raise Diagnostic("WRONG_ARGUMENTS", f"'{said}' is no number of rows", help="as in \\rows 100")
    if said:
        shell.printer = replace(shell.printer, rows=int(said))
    shell.printer.say(f"at most {shell.printer.limit:,} rows of an answer are shown")


def _set_format(shell: Shell, said: str) -> None:
    forms = [form.value for form in Form]
    if said and said not in forms:
        raise Diagnostic(
            "WRONG_ARGUMENTS", f"there is no format '{said}'", help=f"formats: {', '.join(forms)}"
        )
    if said:
        shell.printer = replace(shell.printer, form=Form(said))
    shell.printer.say(f"answers are written as {shell.printer.form.value}")


def _switch(name: str, what: str) -> Callable[[Shell, str], None]:
    def do(shell: Shell, said: str) -> None:
        if said not in ("", "on", "off"):
            raise Diagnostic("WRONG_ARGUMENTS", f"'{said}' is neither on nor off")
        setattr(shell, name, said == "on" if said else not getattr(shell, name))
        shell.printer.say(f"{what} is {'on' if getattr(shell, name) else 'off'}")

    return do


COMMANDS = {
    command.name: command
    for command in (
        Command("\\d [NAME]", "what there is; the columns of a stream, view or table", _describe),
        Command("\\ds", "streams", _listed("STREAMS")),
        Command("\\dv", "views", _listed("VIEWS")),
        Command("\\dt", "tables", _listed("TABLES")),
        Command(
            "\\df [PART]", "functions and aggregates, those whose names hold a part", _listed("FUNCTIONS")
        ),
        Command("\\dq", "running queries", _listed("QUERIES")),
        Command("\\i FILE", "run the statements of a file", _include),
        Command("\\rows [N]", "how many rows of an answer are shown", _set_rows),
        Command("\\format [FORM]", "how answers are written: table, csv or json", _set_format),
        Command(
            "\\timing [on|off]", "whether it is said how long a statement took", _switch("timing", "timing")
        ),
        Command(
            "\\pager [on|off]", "whether long answers are shown page by page", _switch("paging", "the pager")
        ),
        Command("\\?", "this list", _show_help),
        Command("\\q", "leave", _leave),
    )
}
