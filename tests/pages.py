"""Pages that run: every block of a guide is carried out in order, and what it prints is what the page says.

The word behind the three backticks says what a block is:

    csv rooms.csv     a file of that name (any word, then a name); a second block of the same name takes its place
    sql               statements, run in the page's session `tg` and shown as the terminal shows them
    python            a program; the blocks of a page share their names
    console           commands behind `$ `, each followed by what it shows; `tidegate` runs in this process, all else in bash
    text              what the sql or python block before it shows

and a block without a word is only for reading: commands for machines that a test does not have.

In what is shown, `…` stands for anything, also for lines. A command with `--live` gets Ctrl-C when it has read all there is.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from typer.testing import CliRunner

import tidegate
from tidegate.cli import app
from tidegate.errors import Diagnostic
from tidegate.runtime.summary import describe_state
from tidegate.terminal.answers import Printer

ROOT = Path(__file__).resolve().parents[1]
_FENCE = re.compile(r"^```(\w*)[ ]?([^\n]*)\n(.*?)^```$", re.M | re.S)
SHOWN = "text"


@dataclass(frozen=True)
class Block:
    """What stands between fences: its word, the name behind it, its text, and the line of the page where it begins."""

    word: str
    name: str
    text: str
    line: int


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page.

    >>> blocks("a\\n```csv x.csv\\n1\\n```\\n")
    [Block(word='csv', name='x.csv', text='1\\n', line=2)]
    """
    return [
        Block(m[1], m[2].strip(), m[3], page.count("\n", 0, m.start()) + 1) for m in _FENCE.finditer(page)
    ]


def same(shown: str, said: str) -> bool:
    """Whether what is shown is what a page says.

    >>> same("a  \\nb 17 s\\n", "a\\nb … s"), same("a\\nb", "a"), same("a\\nb\\nc", "a\\n…\\nc")
    (True, False, True)
    """
    lines = [line.rstrip() for line in said.strip("\n").splitlines()]
    pattern = re.escape("\n".join(lines)).replace("…", r"(?:.|\n)*?")
    return (
        re.fullmatch(pattern, "\n".join(line.rstrip() for line in shown.strip("\n").splitlines())) is not None
    )


@dataclass
class Page:
    """One page on its way: the directory that its files are in, and the names of its programs."""

    path: Path
    place: Path
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "guide"})

    def run(self) -> int:
        """Carry out the page; how many blocks did something."""
        found = blocks(self.path.read_text(encoding="utf-8"))
        try:
            for block, after in zip(found, [*found[1:], None], strict=True):
                said = after.text if after is not None and after.word == SHOWN else ""
                self._step(block, said)
        finally:
            for session in {
                id(s): s for s in self.names.values() if isinstance(s, tidegate.Session)
            }.values():
                session.close()
        return sum(b.word not in (SHOWN, "") for b in found)

    def _step(self, block: Block, said: str) -> None:
        if block.name:
            target = self.place / block.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text, encoding="utf-8")
        elif block.word == "console":
            for command, shown in commands(block.text):
                self._compare(block, f"$ {command}", self._command(command), shown)
        elif block.word in ("sql", "python"):
            self._compare(block, block.text, self._program(block), said)
        else:
            assert block.word in (SHOWN, ""), (
                f"{self._at(block)}: nobody knows what to do with '{block.word}'"
            )

    def _at(self, block: Block) -> str:
        return f"{self.path.name}, line {block.line}"

    def _compare(self, block: Block, done: str, shown: str, said: str) -> None:
        assert same(shown, said), f"{self._at(block)}\n{done}\nshows\n{shown}\nand the page says\n{said}"

    def _program(self, block: Block) -> str:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            try:
                if block.word == "python":
                    exec(compile(block.text, self._at(block), "exec"), self.names)
                else:
                    session = self.names.setdefault("tg", None) or tidegate.connect()
                    self.names["tg"] = session
                    for result in session.results(block.text):
                        Printer().show(result)
            except Diagnostic as diagnostic:
                print(diagnostic)
        return out.getvalue()

    def _command(self, command: str) -> str:
        program, *arguments = shlex.split(command, comments=True)
        if program != "tidegate":
            done = subprocess.run(
                ["bash", "-c", command], cwd=self.place, capture_output=True, text=True, check=False
            )
            return done.stdout + done.stderr
        state = arguments[arguments.index("--state") + 1] if "--live" in arguments else None
        with interrupted_when_idle(state) if state else contextlib.nullcontext():
            found = CliRunner().invoke(app, arguments)
        if isinstance(found.exception, Diagnostic):
            return found.output + str(found.exception)
        if found.exception is not None and not isinstance(found.exception, SystemExit):
            raise found.exception
        return found.output


def commands(text: str) -> list[tuple[str, str]]:
    """Commands and what they show.

    >>> commands("$ ls\\na\\nb\\n$ cat a\\n")
    [('ls', 'a\\nb\\n'), ('cat a', '')]
    """
    parts = re.split(r"^\$ (.*)\n", text, flags=re.M)[1:]
    return [*zip(parts[::2], parts[1::2], strict=True)]


def _busy() -> bool:
    """Whether Spark works: sinks may be written after an epoch counts."""
    context = SparkContext._active_spark_context
    return context is not None and bool(context.statusTracker().getActiveJobsIds())


@contextlib.contextmanager
def interrupted_when_idle(state: str) -> Iterator[None]:
    """Ctrl-C for this process, once a live run that keeps this state has had nothing to do for a while."""
    ended, main = threading.Event(), threading.main_thread().ident
    assert main is not None

    def come() -> dict[str, Any]:
        return {name: (graph["epoch"], graph["watermark"]) for name, graph in describe_state(state).items()}

    def watch() -> None:
        began = before = come()
        since = time.monotonic()
        limit = since + 120
        while not ended.wait(0.2):
            found = come()
            if found != before or _busy():
                before, since = found, time.monotonic()
            if (found != began and time.monotonic() - since > 2) or time.monotonic() > limit:
                signal.pthread_kill(main, signal.SIGINT)
                return

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(10)
