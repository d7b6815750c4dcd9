"""What a graph notes of itself, and what `tidegate status` makes of it."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidegate.cli import app
from tidegate.errors import Diagnostic
from tidegate.language.dialect import parse
from tidegate.physical.plan import Birth
from tidegate.runtime.ledger import KnownQuery, Ledger, Manifest, SourceProgress
from tidegate.runtime.notes import Note, is_alive, read_note, write_note
from tidegate.runtime.summary import describe_state
from tidegate.storage import Storage
from tidegate.terminal.answers import console

NOTE = Note(1_700_000_000.0, "running", None, {"S": 12.5}, 0.25, ("F",))


@pytest.fixture
def graph(tmp_path: Path) -> Storage:
    """A graph that was stopped, over a stream and a table."""
    storage = Storage(str(tmp_path / "graphs" / "timestamps"))
    ledger = Ledger.held(storage)
    sources = {
        "S": SourceProgress(2_000_000, 1_234, 1_000_000, {"column 'a' is no INT": 2}),
        "F": SourceProgress(),
    }
    queries = {"hot": KnownQuery(Birth(0), 1_000_000, "x", "me")}
    ledger.commit(Manifest(1, 1_000_000, 0, 2, sources=sources, queries=queries))
    ledger.release()
    return storage


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """No line is broken, whatever terminal the tests run in."""
    monkeypatch.setattr(console, "width", 200)


def said(graph: Storage) -> str:
    state = str(Path(str(graph.local)).parents[1])
    found = CliRunner().invoke(app, ["status", state])
    assert found.exception is None
    return found.output


def test_a_note_is_read_as_it_was_written(graph: Storage) -> None:
    assert read_note(graph) == Note()
    write_note(graph, NOTE)
    assert read_note(graph) == NOTE


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b"[1]", b'{"at": "x"}', b"null"])
def test_a_damaged_note_says_nothing(graph: Storage, content: bytes) -> None:
    Path(graph.path("note.json")).write_bytes(content)
    assert read_note(graph) == Note()


def test_whether_a_process_is_there(graph: Storage) -> None:
    assert is_alive(graph)  # this one was the last to hold it
    Path(graph.path("lock")).write_bytes(
        b"%10d %19d 00000000\n" % (2**22 + 1, 1)
    )  # no process has such a number
    assert not is_alive(graph)
    Path(graph.path("lock")).unlink()
    assert not is_alive(graph)
    assert os.getpid() > 0


def test_status_shows_rates_and_tables_apart(graph: Storage) -> None:
    # A slow machine may take a while to look.
    write_note(graph, Note(time.time() + 60, "running", None, {"S": 12.5}, 0.25, ("F",)))
    shown = said(graph)
    told = r"timestamps: running \((now|\d+ seconds ago)\), epoch 1, watermark 1970-01-01 00:00:01.000000, delay 0.25 s"
    assert re.search(told, shown)
    (row,) = [line.replace("│", " ").split() for line in shown.splitlines() if line.startswith("│")]
    assert row[:3] == ["S", "1,234", "12"]
    assert "tables: F" in shown
    assert "queries: hot (since 1970-01-01 00:00:01.000000)" in shown
    assert "'S' refused 2 rows: 2 x column 'a' is no INT" in shown


@pytest.mark.parametrize(
    ("state", "alive", "expected"),
    [
        ("running", False, "stopped: its process has ended"),
        ("running", True, "running"),
        ("stopped", True, "stopped"),
        ("failed", True, "failed"),
    ],
)
def test_what_runs_is_told_from_what_has_ended(
    graph: Storage, state: str, alive: bool, expected: str
) -> None:
    failure = "error[SINK_FAILED]: no room is left" if state == "failed" else None
    write_note(graph, Note(time.time() - 7_300, state, failure))
    if not alive:
        Path(graph.path("lock")).unlink()
    (known,) = describe_state(str(Path(str(graph.local)).parents[1])).values()
    assert known["state"] == expected
    shown = said(graph)
    assert f"timestamps: {expected} (2 hours ago)" in shown
    assert (failure is None) or (failure in shown)


# ------------------------------------------------------------------------------------------ names


def test_a_live_insert_has_a_name() -> None:
    (named,) = parse("INSERT INTO csv('out') WITH (header = true) AS hot SELECT a FROM S")
    assert named.this.name == "hot"
    (nameless,) = parse("INSERT INTO csv('out') SELECT a AS hot FROM S")
    assert nameless.this is None
    with pytest.raises(Diagnostic, match="named 'cold' already") as raised:
        parse("START cold AS INSERT INTO csv('out') AS hot SELECT a FROM S")
    assert raised.value.position is not None
    assert raised.value.position.column == 41
    with pytest.raises(Diagnostic, match="expected a name for the query"):
        parse("INSERT INTO csv('out') AS SELECT a FROM S")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("SELECT 1; SELECT 2", 2),
        ("SHOW STREAMS", 0),
        ("START hot AS SELECT 1; INSERT INTO noop() AS cold SELECT 2", 0),
        ("INSERT INTO noop() SELECT 1; SELECT 2", 2),
    ],
)
def test_one_name_is_for_one_query(text: str, count: int) -> None:
    found = CliRunner().invoke(app, ["run", "-c", text, "--name", "hot"]).exception
    assert isinstance(found, Diagnostic)
    assert f"--name names one query, and {count} have no name" in found.message
