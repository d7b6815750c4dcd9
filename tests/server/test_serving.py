"""`tidegate serve`, through the door that people use: a process, HTTP, tokens, statements of strangers, restarts."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.hostile import HOSTILE
from tests.server.running import Server, events, until
from tidegate.reference.snapshots import Arrivals, Reference
from tidegate.session import connect

SCRIPT = """
CREATE STREAM Temp(room STRING, degrees INT, t BIGINT) SOURCE memory('Temp') ORDERED BY t;
CREATE STREAM S(k INT, v INT, t BIGINT) SOURCE memory('S') ORDERED BY t;
CREATE STREAM Own(a STRING, t BIGINT) SOURCE csv('own') ORDERED BY t;
START hot AS SELECT room, MAX(degrees) AS top FROM Temp WINDOW(RANGE 5) GROUP BY room;
START sums AS SELECT k, SUM(v) AS s FROM S WINDOW(RANGE 5) GROUP BY k;
"""
TOKENS = {role: f"{role}-0123456789abcdef" for role in ("read", "ask", "define")}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    (folder / "own").mkdir()
    (folder / "own" / "a.csv").write_text("a,t\nx,1\n")
    tokens = folder / "tokens"
    tokens.write_text("".join(f"{role} {token}\n" for role, token in TOKENS.items()))
    tokens.chmod(0o600)
    found = Server(folder, SCRIPT, "--token-file", "tokens", env={"SESAME": "very-secret-value"})
    yield found
    if found.process.poll() is None:
        found.stop()


@pytest.fixture
def define(server: Server) -> Iterator[httpx.Client]:
    with server.client(TOKENS["define"]) as client:
        yield client


def sql(client: httpx.Client, text: str, **asked: Any) -> httpx.Response:
    return client.post("/sql", json={"sql": text, **asked})


def rows_of(response: httpx.Response) -> list[Any]:
    assert response.status_code == 200, response.text
    return response.json()["results"][-1]["rows"]


def test_a_walk_through_the_interface(server: Server, define: httpx.Client) -> None:
    rows = [{"room": "a", "degrees": 75, "t": 1}, {"room": "b", "degrees": 90, "t": 3}]
    bad = [{"room": 7, "degrees": 1, "t": 3}, {"room": "c", "degrees": "x", "t": 4}, {"rom": "c"}, 3]
    body = "\n".join(json.dumps(r) for r in [*rows, *bad, {"room": "a", "degrees": 85, "t": 9}]) + "\nno json"
    said = define.post("/streams/Temp/rows", content=body)
    assert (said.status_code, said.json()) == (200, {"accepted": 3, "refused": 5})
    # A stream that is silent holds the others of its graph back, unless somebody promises for it.
    assert define.post("/streams/S/advance", json={"instant": 100}).status_code == 204
    until(lambda: define.get("/queries/hot/snapshot", params={"at": 8}).status_code == 200, "the epoch")

    at = define.get("/queries/hot/snapshot", params={"at": 4}).json()
    assert sorted(map(tuple, at["rows"])) == [("a", 75), ("b", 90)]
    intervals = define.get("/queries/hot/intervals").json()["rows"]
    assert ["a", 75, 1, 6] in intervals
    assert ["b", 90, 3, 8] in intervals
    refused = until(lambda: define.get("/streams/Temp/quarantine").json()["rows"], "the quarantine")
    assert len(refused) == 5
    reasons = " ".join(r[2] for r in refused)
    for word in ("column 'room'", "column 'degrees'", "no column 'rom'", "a row is an object", "no JSON"):
        assert word in reasons
    status = define.get("/queries/hot").json()["status"]["sources"]["Temp"]
    assert (status["rows"], sum(status["quarantine"].values())) == (8, 5), "rows in = rows used + refused"

    assert sorted(rows_of(sql(define, "SELECT room, top FROM hot AS OF 4"))) == [["a", 75], ["b", 90]]
    assert rows_of(sql(define, "SELECT * FROM hot AS OF 1")) == [["a", 75]]
    assert (
        "Aggregate"
        in define.post("/explain", json={"sql": "SELECT room, COUNT(*) FROM Temp GROUP BY room"}).text
    )
    assert "tidegate_epochs_total" in define.get("/metrics").text
    assert define.get("/health/ready").json() == {"status": "ready"}
    assert {q["name"] for q in define.get("/queries").json()["queries"]} == {"hot", "sums"}

    started = define.post("/queries", json={"name": "rooms", "sql": "SELECT room FROM Temp WINDOW(RANGE 2)"})
    assert started.status_code == 201, started.text
    again = define.post("/queries", json={"name": "rooms", "sql": "SELECT room FROM Temp WINDOW(RANGE 2)"})
    assert again.status_code == 409
    assert define.delete("/queries/rooms").status_code == 200
    assert define.get("/queries/rooms/snapshot").status_code == 404


def test_an_error_has_its_caret(define: httpx.Client) -> None:
    response = sql(define, "SHOW STREAMS;\nSELECT rom FROM Temp AS OF 3")
    error = response.json()["error"]
    assert (response.status_code, error["condition"], error["line"], error["column"]) == (
        400,
        "UNKNOWN_COLUMN",
        2,
        8,
    )
    assert "  SELECT rom FROM Temp AS OF 3\n         ^^^" in error["text"]
    assert error["help"] == "did you mean 'room'?"
    assert len(response.json()["results"]) == 1


@pytest.mark.parametrize(
    ("method", "path", "body", "needed"),
    [
        ("GET", "/queries", None, "read"),
        ("GET", "/status", None, "read"),
        ("GET", "/metrics", None, "read"),
        ("GET", "/queries/hot", None, "read"),
        ("GET", "/queries/hot/snapshot", None, "read"),
        ("GET", "/queries/hot/intervals", None, "read"),
        ("GET", "/streams/Temp/quarantine", None, "read"),
        ("POST", "/sql", {"sql": "SHOW QUERIES"}, "ask"),
        ("POST", "/explain", {"sql": "SELECT room FROM Temp"}, "ask"),
        ("POST", "/sql", {"sql": "CREATE OR REPLACE VIEW V AS SELECT room FROM Temp"}, "define"),
        ("POST", "/sql", {"sql": "SET reoptimize = 'off'"}, "define"),
        ("POST", "/streams/Temp/rows", [], "define"),
        ("POST", "/queries", {"name": "x", "sql": "SELECT nothing FROM Temp"}, "define"),
        ("DELETE", "/queries/none", None, "define"),
        ("POST", "/streams/Temp/advance", {"instant": 10}, "define"),
        ("POST", "/queries/none/stop", None, "define"),
    ],
)
def test_each_role_may_do_what_it_may(server: Server, method: str, path: str, body: Any, needed: str) -> None:
    order = ["read", "ask", "define"]
    for role in (None, "wrong", *order):
        token = None if role is None else TOKENS.get(role, "not-a-token-of-anybody")
        with server.client(token) as client:
            code = client.request(method, path, json=body).status_code
        if role not in order:
            assert code == 401
        elif order.index(role) < order.index(needed):
            assert code == 403
        else:
            assert code not in (401, 403)


@pytest.mark.parametrize("statement", HOSTILE)
def test_statements_of_strangers_reach_nothing(server: Server, define: httpx.Client, statement: str) -> None:
    text = statement.format(folder=server.folder)
    response = sql(define, text)
    assert response.status_code in (400, 403), response.text
    assert "very-secret-value" not in response.text
    assert response.json()["results"] == []


def test_what_the_operator_defined_may_be_asked(define: httpx.Client) -> None:
    assert "source Own" in define.post("/explain", json={"sql": "SELECT a FROM Own"}).text


def test_changes_go_on_over_a_restart(server: Server, define: httpx.Client) -> None:
    """No gap and no repetition: what two connections and two processes tell is what the reference says."""
    dice = random.Random(7)
    data = sorted(
        ((dice.randrange(3), dice.randrange(9), 100 + dice.randrange(60)) for _ in range(80)),
        key=lambda r: r[2],
    )
    halves = [[r for r in data if r[2] < 130], [r for r in data if r[2] >= 130]]
    define.post(
        "/queries", json={"name": "later", "sql": "SELECT k FROM S WINDOW(RANGE 1)"}
    ).raise_for_status()
    assert define.post("/streams/Temp/advance", json={"instant": 1_000}).status_code == 204
    found, last = [], None
    for number, half in enumerate(halves):
        if number == 1:
            assert server.stop() == 0
            server.start()
            assert {q["name"] for q in define.get("/queries").json()["queries"]} >= {"sums", "later"}
        for some in (half[: len(half) // 2], half[len(half) // 2 :]):
            sent = define.post("/streams/S/rows", json=[dict(zip("kvt", r, strict=True)) for r in some])
            assert sent.json() == {"accepted": len(some), "refused": 0}
        reached = half[-1][2]
        for kind, id_, event in events(define, "sums", last):
            last = id_
            if kind == "changes":
                found.append(event)
            if kind == "final" and event["before"] is not None and event["before"] >= reached:
                break
    assert [e["ts"] for e in found] == sorted({e["ts"] for e in found})
    session = connect()
    session.sql(SCRIPT.split("START", maxsplit=1)[0])
    plan = session.query("SELECT k, SUM(v) AS s FROM S WINDOW(RANGE 5) GROUP BY k").bound.plan
    reference = Reference({"S": Arrivals([(r, r[2]) for r in data])})
    table: Counter[tuple[int, int]] = Counter()
    told = {e["ts"]: e["changes"] for e in found}
    for t in range(reached):
        for change in told.get(t, ()):
            table[change["row"]["k"], change["row"]["s"]] += 1 if change["op"] == "+" else -1
        assert +table == Counter(reference.snapshot(plan, t)), t
        assert all(n >= 0 for n in table.values())
    assert len(told) > 20


def test_the_log_has_a_line_for_each_epoch_and_no_secret(server: Server) -> None:
    lines = [json.loads(line) for line in server.said.splitlines() if line.startswith("{")]
    epochs = [x["epoch"] for x in lines if x["message"] == "epoch"]
    assert epochs == sorted(set(epochs))
    assert len(epochs) >= 4
    assert not any(token in server.said for token in (*TOKENS.values(), "very-secret-value"))


def test_strange_pages_and_large_bodies_are_refused(server: Server, define: httpx.Client) -> None:
    assert define.get("/queries", headers={"Origin": "http://evil.example"}).status_code == 403
    large = define.post("/sql", content=b'{"sql": "' + b" " * (5 << 20) + b'"}')
    assert large.status_code == 413


@pytest.mark.parametrize(
    ("options", "condition"),
    [
        (["--host", "0.0.0.0"], "OPEN_TO_ALL"),
        (["--host", "0.0.0.0", "--token-file", "tokens"], "NOT_ENCRYPTED"),
        (["--token-file", "open"], "WRONG_TOKENS"),
        (["--certificate", "tokens"], "WRONG_ARGUMENTS"),
        (["--certificate", "tokens", "--key", "tokens"], "FILE_UNREADABLE"),
        (["--allow", "everything"], "WRONG_ARGUMENTS"),
    ],
)
def test_what_would_be_open_is_refused(tmp_path: Path, options: list[str], condition: str) -> None:
    for name, mode in (("tokens", 0o600), ("open", 0o644)):
        (tmp_path / name).write_text(f"define {TOKENS['define']}\n")
        (tmp_path / name).chmod(mode)
    done = subprocess.run(
        [sys.executable, "-m", "tidegate", "serve", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert f"error[{condition}]" in done.stderr
