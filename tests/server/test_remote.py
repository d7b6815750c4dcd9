"""A session on a server, from Python and in the shell."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

import tidegate
from tests.server.running import Server, until
from tidegate.errors import Diagnostic
from tidegate.remote import RemoteSession

SCRIPT = """
CREATE STREAM Temp(room STRING, at TIMESTAMP, price DECIMAL(9, 2)) SOURCE memory('Temp') ORDERED BY at;
START latest AS SELECT room, MAX(price) AS top FROM Temp WINDOW(RANGE 5 SECONDS) GROUP BY room;
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    found = Server(tmp_path_factory.mktemp("remote"), SCRIPT)
    yield found
    assert found.stop() == 0


@pytest.fixture(scope="module")
def tg(server: Server) -> RemoteSession:
    return tidegate.connect(server.url)


def test_a_session_on_a_server(tg: RemoteSession) -> None:
    rows = [{"room": "a", "at": f"2026-01-01 00:00:0{s}", "price": f"{s}.50"} for s in (1, 2, 9)]
    assert tg.push("Temp", [*rows, {"room": "b", "at": "never", "price": "1"}]) == (3, 1)
    hot = tg.running("latest")
    until(lambda: hot.status()["watermark"], "an answer")
    at = hot.at("2026-01-01 00:00:02")
    assert [(r["room"], str(r["top"])) for r in at.to_pylist()] == [("a", "2.50")]
    assert hot.intervals().column_names == ["room", "top", "valid_from", "valid_to"]
    first = next(hot.changes())
    assert (first["ts"], first["changes"]) == (
        "2026-01-01 00:00:01.000000",
        [{"op": "+", "row": {"room": "a", "top": "1.50"}}],
    )
    assert next(hot.changes(after=first["id"]))["ts"] == "2026-01-01 00:00:02.000000"
    assert tg.describe("Temp")[0] == ("room", "STRING")
    assert "Aggregate" in tg.query("SELECT room, COUNT(*) AS n FROM Temp GROUP BY room").explain()
    other = tg.query("SELECT room FROM Temp WINDOW(RANGE 1 SECOND)").start("other")
    assert set(tg.queries()) == {"latest", "other"}
    other.stop()
    assert (
        until(lambda: tg.quarantine("Temp").to_pylist(), "the quarantine")[0]["reason"]
        == "column 'at' cannot be \"never\""
    )
    with pytest.raises(Diagnostic) as caught:
        tg.sql("SHOW STREAMS;\nSELECT rom FROM Temp")
    assert "at line 2, column 8" in str(caught.value)
    assert "         ^^^" in str(caught.value)


def test_the_shell_works_on_a_server(server: Server, tg: RemoteSession) -> None:
    typed = "\\ds\nSHOW QUERIES;\nSELECT rom FROM Temp;\nSTART more AS SELECT room FROM Temp WINDOW(RANGE 2 SECONDS);\n\\d Temp\n"
    command = [sys.executable, "-m", "tidegate", "shell", "--server", server.url]
    done = subprocess.run(
        command,
        input=typed,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert done.returncode == 0, done.stderr
    for said in (
        "Temp",
        "latest",
        "error[UNKNOWN_COLUMN]",
        "       ^^^",
        "query more is running",
        "TIMESTAMP",
    ):
        assert said in done.stdout
    assert "more" in tg.queries(), "leaving the shell stops nothing"


def test_nobody_at_the_address() -> None:
    with pytest.raises(Diagnostic, match="SERVER_AWAY"):
        tidegate.connect("http://127.0.0.1:9").queries()
