"""An interactive shell: statements end with a semicolon and may span lines."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tidegate.errors import Diagnostic
from tidegate.session import Session

_HELP = """\
Statements end with ; and may span lines. For example:
  CREATE STREAM S(a INT, t BIGINT) SOURCE csv('s.csv') ORDERED BY t;
  SELECT a, COUNT(*) AS n FROM S WINDOW(RANGE 10) GROUP BY a;
  SELECT a FROM S WINDOW(ROWS 3) AS OF 7;
  EXPLAIN SELECT …;   VERIFY SELECT …;   SHOW STREAMS;   SHOW QUERIES;   SHOW GRAPH;   DESCRIBE S;
Commands: help, quit."""


class Shell:
    """Reads statements and shows their results; an error ends the statement, not the shell."""

    def __init__(self, session: Session, show: Callable[[Any], None]) -> None:
        self.session = session
        self.show = show

    def run(self) -> None:
        with suppress(ImportError):
            import readline  # noqa: F401 - gives input() its line editing
        print("Tidegate. Statements end with ;   Type help or quit.")
        pending = ""
        while True:
            try:
                line = input("    ...> " if pending else "tidegate> ")
            except EOFError:
                print()
                return
            except KeyboardInterrupt:
                print("\n(statement dropped; type quit to leave)")
                pending = ""
                continue
            if not pending and line.strip().rstrip(";").lower() in ("quit", "exit"):
                return
            if not pending and line.strip().rstrip(";").lower() == "help":
                print(_HELP)
                continue
            pending += line + "\n"
            if line.rstrip().endswith(";"):
                self.execute(pending)
                pending = ""
            elif not pending.strip():
                pending = ""

    def execute(self, text: str) -> None:
        """Run statements; tell what is wrong."""
        try:
            for result in self.session.results(text):
                self.show(result)
        except Diagnostic as diagnostic:
            print(diagnostic)
        except KeyboardInterrupt:
            print("stopped")
