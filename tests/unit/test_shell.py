"""The shell where it needs no Spark: where statements end, what is completed, what commands do, and that nothing ends it."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from tidegate.runtime.system_tables import SYSTEM_TABLES
from tidegate.session import Session, connect
from tidegate.terminal.answers import Form
from tidegate.terminal.completing import StatementCompleter
from tidegate.terminal.progress import interruptible
from tidegate.terminal.reading import PipedReader, TerminalReader, is_whole
from tidegate.terminal.shell import COMMANDS, Shell

DEFINED = """
CREATE STREAM Temp(room STRING, degrees INT, t BIGINT) SOURCE csv('rooms.csv') ORDERED BY t;
CREATE TABLE Room(id STRING, floor INT) FROM csv('floors.csv');
CREATE VIEW Hot AS SELECT room, degrees * 2 AS twice FROM Temp WINDOW(RANGE 5);
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """History and logs of its own; and no Spark is started ahead."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("tidegate.spark.starting.Starting.begin", lambda _: None)
    return tmp_path / "home" / "tidegate"


@pytest.fixture
def session() -> Session:
    found = connect()
    found.sql(DEFINED)
    return found


# ------------------------------------------------------------------------------------------ where statements end


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("SELECT 1;", True),
        ("SELECT 1; ", True),
        ("SELECT 1", False),
        ("SELECT 1 -- a;", False),
        ("SELECT 1 -- a;\n;", True),
        ("SELECT ';", False),
        ("SELECT ';'", False),
        ("SELECT 'it''s;';", True),
        ("SELECT 1 /* ;", False),
        ("SELECT 1 /* ; */;", True),
        ("SELECT 1; SELECT 2", False),
        ("SELECT 1; -- that's all", True),
        ("SELECT `a;b`", False),
        ("\\d Temp", True),
        ("quit", True),
        ("exit;", True),
        ("", True),
        ("-- nothing", True),
    ],
)
def test_a_statement_ends_at_a_semicolon_that_is_one(text: str, whole: bool) -> None:
    assert is_whole(text) == whole


@contextmanager
def typing(text: str) -> Iterator[TerminalReader]:
    with create_pipe_input() as keys:
        keys.send_text(text)
        yield TerminalReader(StatementCompleter(connect(), COMMANDS), keys, DummyOutput())


def test_enter_ends_what_is_whole_and_goes_on_with_what_is_not() -> None:
    with typing("SELECT ';' -- one;\nFROM S\n;\nSELECT 2;\n\\q\n") as reader:
        assert reader.read() == "SELECT ';' -- one;\nFROM S\n;"
        assert reader.read() == "SELECT 2;"
        assert reader.read() == "\\q"


def test_ctrl_c_drops_what_was_typed_and_ctrl_d_leaves() -> None:
    with typing("SELECT nonsense \x03SELECT 1;\n\x04") as reader:
        with pytest.raises(KeyboardInterrupt):
            reader.read()
        assert reader.read() == "SELECT 1;"
        with pytest.raises(EOFError):
            reader.read()


def test_the_history_stays_without_secrets(home: Path) -> None:
    secret = "CREATE STREAM K(a INT) SOURCE kafka('h:9', 't') WITH (kafka.ssl.key.password = 'sesame');"
    with typing(f"SELECT 1;\n{secret}\n") as reader:
        reader.read()
        reader.read()
    assert (home / "history").stat().st_mode & 0o77 == 0
    assert "sesame" not in (home / "history").read_text()
    with typing("\x1b[A\x1b[A\n") as reader:  # two times up
        assert reader.read() == "SELECT 1;"


def test_statements_of_a_pipe_come_one_by_one() -> None:
    lines = iter(["SELECT 1 --;\n", ";\n", "\n", "\\d\n", "SELECT 2\n"])
    reader = PipedReader(lambda: next(lines, ""))
    assert [reader.read(), reader.read().strip(), reader.read()] == ["SELECT 1 --;\n;\n", "\\d", "SELECT 2\n"]
    with pytest.raises(EOFError):
        reader.read()


# ------------------------------------------------------------------------------------------ completion


def offered(session: Session, text: str) -> dict[str, str]:
    completer = StatementCompleter(session, COMMANDS)
    found = completer.get_completions(Document(text), CompleteEvent(completion_requested=True))
    return {c.text: c.display_meta_text for c in found}


def test_names_columns_functions_and_keywords_are_offered(session: Session) -> None:
    session.function("celsius", lambda f: f, "DOUBLE", 1)
    assert offered(session, "SELECT * FROM ") == {
        "Temp": "stream", "Room": "table", "Hot": "view", **dict.fromkeys(SYSTEM_TABLES, "table")
    }  # fmt: skip
    assert offered(session, "SELECT room FROM Temp WHERE deg") == {"degrees": "INT of Temp"}
    assert offered(session, "SELECT * FROM Hot WHERE tw") == {"twice": "INT of Hot"}
    assert offered(session, "SELECT * FROM Temp WINDOW(RANGE 5) x, Room y WHERE y.") == {
        "id": "STRING of Room", "floor": "INT of Room"
    }  # fmt: skip
    assert offered(session, "SELECT cel") == {"celsius": "your function"}
    assert offered(session, "SELECT deg") == {"degrees": "INT of Temp"}  # FROM comes later
    assert offered(session, "SELECT deg FROM Room WHERE deg") == {}
    assert offered(session, "select regexp_l") == {"regexp_like": "function"}
    assert "COUNT_IF" in offered(session, "SELECT COU")
    assert set(offered(session, "S")) == {"SELECT", "SHOW", "SET", "START", "STOP"}
    assert set(offered(session, "SHOW ")) == {
        "STREAMS", "VIEWS", "TABLES", "FUNCTIONS", "QUARANTINE", "QUERIES", "GRAPH"
    }  # fmt: skip
    assert {"csv", "parquet", "kafka"} <= set(offered(session, "CREATE STREAM X(a INT) SOURCE "))
    assert "console" in offered(session, "INSERT INTO ")
    assert "WINDOW" in offered(session, "SELECT * FROM Temp WIN")
    assert offered(session, "SELECT 1; dro") == {"drop": "keyword"}


def test_files_are_offered_inside_quotes_and_commands_after_a_backslash(
    session: Session, tmp_path: Path
) -> None:
    (tmp_path / "rooms.csv").write_text("")
    assert offered(session, f"CREATE STREAM X(a INT) SOURCE csv('{tmp_path}/ro").keys() == {"oms.csv"}
    assert offered(session, "SELECT 'a' AS x, 'it''s ").keys() == set()
    assert "\\df" in offered(session, "\\d")
    assert offered(session, "\\d Ro").keys() == {"Room"}
    assert offered(session, f"\\i {tmp_path}/ro").keys() == {"oms.csv"}


def test_completion_never_fails(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "catalog", None)
    assert offered(session, "SELECT * FROM ") == {}


# ------------------------------------------------------------------------------------------ commands and errors


class Said:
    """Statements of a test, as if somebody typed them."""

    def __init__(self, *texts: str | type[BaseException]) -> None:
        self.texts = list(texts)

    def read(self) -> str:
        if not self.texts:
            raise EOFError
        text = self.texts.pop(0)
        if isinstance(text, str):
            return text
        raise text


def told(session: Session, capsys: pytest.CaptureFixture[str], *texts: str | type[BaseException]) -> str:
    Shell(session, reader=Said(*texts)).run()
    return capsys.readouterr().out


def test_commands_show_what_there_is(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    shown = told(session, capsys, "\\d")
    for name, kind in (("Hot", "view"), ("Room", "table"), ("Temp", "stream")):
        assert any(name in line and kind in line for line in shown.splitlines())
    assert told(session, capsys, "\\d Temp").splitlines() == [
        "room     STRING",
        "degrees  INT",
        "t        BIGINT (TS)",
    ]
    assert [told(session, capsys, c).split() for c in ("\\ds", "\\dv", "\\dt")] == [
        ["Temp"], ["Hot"], ["Room"]
    ]  # fmt: skip
    assert told(session, capsys, "\\df arg_m").split() == ["ARG_MAX", "ARG_MIN"]
    helped = told(session, capsys, "\\?")
    assert all(command.form in helped for command in COMMANDS.values())


def test_settings_of_the_shell(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell(
        session, reader=Said("\\rows 7", "\\format json", "\\timing off", "\\pager", "SHOW STREAMS;")
    )
    shell.run()
    assert (shell.printer.limit, shell.printer.form, shell.timing, shell.paging) == (
        7,
        Form.JSON,
        False,
        False,
    )
    assert capsys.readouterr().out.splitlines()[-1] == '{"name": "Temp"}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\\dx", "error[UNKNOWN_COMMAND]: there is no command \\dx"),
        ("\\d Tmp", "did you mean 'Temp'?"),
        ("\\rows many", "'many' is no number of rows"),
        ("\\format xml", "formats: table, csv, json"),
        ("\\timing maybe", "neither on nor off"),
        ("\\i", "as in \\i examples/rooms.sql"),
        ("\\i nowhere.sql", "error[FILE_NOT_FOUND]"),
        ("SELEC 1;", "did you mean 'SELECT'?"),
        ("SELECT rom FROM Temp;", "did you mean 'room'?"),
        ("SELECT '", "a quote or comment is not closed"),
        ("SELECT room FROM Temp;", "error[SOURCE_NOT_FOUND] at line 1, column 18"),
    ],
)
def test_what_is_wrong_is_told_without_spark_and_the_shell_goes_on(
    session: Session, capsys: pytest.CaptureFixture[str], text: str, expected: str
) -> None:
    shown = told(session, capsys, text, "SHOW TABLES;")
    assert expected in shown
    assert shown.splitlines()[-2] == "Room"


@pytest.mark.parametrize(
    "problem", [KeyboardInterrupt, RuntimeError, MemoryError, RecursionError, OSError, SystemError]
)
def test_no_exception_ends_it(
    session: Session,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    problem: type[BaseException],
) -> None:
    before = session.execute
    calls: list[Any] = []

    def failing(statement: Any, text: str, progress: Any = None) -> Any:
        calls.append(statement)
        if len(calls) == 1:
            raise problem("\n\tat org.apache.spark.Thing(Thing.scala:1)")
        return before(statement, text, progress)

    monkeypatch.setattr(session, "execute", failing)
    shown = told(session, capsys, "SHOW STREAMS;", KeyboardInterrupt, "SHOW TABLES;")
    assert shown.splitlines()[-2] == "Room"
    assert "org.apache" not in shown
    assert "Traceback" not in shown


@pytest.mark.parametrize("leaving", ["quit", "EXIT;", "\\q", " quit ; "])
def test_leaving(session: Session, capsys: pytest.CaptureFixture[str], leaving: str) -> None:
    assert told(session, capsys, leaving, "SHOW STREAMS;") == ""


# ------------------------------------------------------------------------------------------ Ctrl-C


@pytest.fixture
def hears_ctrl_c() -> Iterator[None]:
    """Programs that a script starts in the background do not: shells see to that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("hears_ctrl_c")
def test_ctrl_c_ends_what_python_does(session: Session) -> None:
    ended = threading.Event()

    def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            number = 0
            while True:
                number += 1
        finally:
            ended.set()

    with pytest.raises(KeyboardInterrupt):
        interruptible(session, work)
    assert ended.is_set()


@pytest.mark.usefixtures("hears_ctrl_c")
def test_an_interrupt_that_meets_a_finalizer_is_told_again_and_to_nobody_else(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    finalized = threading.Event()

    class Slow:
        def __del__(self) -> None:
            try:
                while True:  # until it is interrupted: here Python loses the interrupt
                    pass
            finally:
                finalized.set()

    def work() -> None:
        slow = Slow()
        os.kill(os.getpid(), signal.SIGINT)
        del slow
        while True:
            pass

    before = sys.unraisablehook
    # What a program sees, not what pytest makes of it.
    sys.unraisablehook = sys.__unraisablehook__
    try:
        with pytest.raises(KeyboardInterrupt):
            interruptible(session, work)
    finally:
        sys.unraisablehook = before
    assert finalized.is_set()
    assert capsys.readouterr().err == ""


def test_what_work_gives_or_raises_is_passed_on(session: Session) -> None:
    assert interruptible(session, lambda: 7) == 7

    def failing() -> None:
        raise ValueError("so")

    with pytest.raises(ValueError, match="so"):
        interruptible(session, failing)


def test_the_commands_are_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "terminal.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\\\S.*?)` \| (.*) \|$", page, re.MULTILINE)
    assert [(form.replace("\\|", "|"), meaning) for form, meaning in rows] == [
        (c.form, c.meaning) for c in COMMANDS.values()
    ]
