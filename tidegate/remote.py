"""A session on a server: `tidegate.connect("http://host:8484", token=…)`. Answers are Arrow tables; neither Spark nor Java is needed here.

tg = tidegate.connect("http://localhost:8484", token="…")
h = tg.query("SELECT room, MAX(degrees) AS top FROM Temp WINDOW(RANGE 5) GROUP BY room").start("hot")
h.at(4).to_pandas()
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote as escaped

import pyarrow as pa

from tidegate.errors import Diagnostic, Kind, Position
from tidegate.redaction import learn

if TYPE_CHECKING:
    import httpx

VARIABLE = "TIDEGATE_TOKEN"
"""Where a token is looked for that nobody gives."""

PAGE = 50_000
"""Rows that are fetched at once."""

Instant = int | datetime | str


@dataclass(frozen=True)
class RemoteVerification:
    """Whether an answer equals the reference; true if it does."""

    holds: bool
    text: str

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        return self.text


class RemoteSession:
    """What runs on a server, as a session. Queries go on when this ends: they are the server's."""

    def __init__(self, url: str, token: str | None = None) -> None:
        try:
            import httpx
        except ModuleNotFoundError:
            raise Diagnostic(
                "PACKAGE_MISSING", "httpx is not installed", help="pip install 'tidegate[server]'"
            ) from None
        token = token or os.environ.get(VARIABLE)
        learn("token", token or "")
        headers = {} if not token else {"Authorization": f"Bearer {token}"}
        self.url = url.rstrip("/")
        self._client = httpx.Client(
            base_url=self.url, headers=headers, timeout=httpx.Timeout(600.0, connect=10.0)
        )

    def __repr__(self) -> str:
        return f"RemoteSession({self.url})"

    def asked(self, method: str, path: str, **more: Any) -> Any:
        """What the server answers; what it refuses is raised as it would be here."""
        import httpx

        try:
            response = self._client.request(method, path, **more)
        except httpx.HTTPError as problem:
            raise self._away(problem) from None
        return _checked(response)

    def _away(self, problem: Exception) -> Diagnostic:
        return Diagnostic(
            "SERVER_AWAY", f"{self.url} does not answer: {problem}", help="is `tidegate serve` running there?"
        )

    def sql(self, script: str) -> Any:
        """Run a script on the server; gives the last statement's result: an Arrow table, a running query, text, or None.

        Example: `tg.sql("SELECT * FROM hot AS OF 4").to_pylist()`
        """
        found = list(self.results(script))
        return found[-1] if found else None

    def results(self, script: str, progress: Any = None, rows: int = 100_000) -> Iterator[Any]:
        """What each statement of a script gives; what stands before an error is given, then the error is raised.

        Example: `for answer in tg.results("SHOW QUERIES; SHOW STREAMS"): print(answer)`
        """
        import httpx

        body = {"sql": script, "format": "arrow", "rows": rows}
        try:
            response = self._client.post("/sql", json=body)
        except httpx.HTTPError as problem:
            raise self._away(problem) from None
        said = _json(response)
        yield from (self._result(r) for r in said.get("results", ()))
        if response.is_error:
            raise _refusal(said, script, response.status_code)

    def _result(self, said: Mapping[str, Any]) -> Any:
        match said["kind"]:
            case "rows":
                return _table(said)
            case "query":
                return RemoteQuery(self, said["name"])
            case "text":
                return said["text"]
            case "verification":
                return RemoteVerification(said["holds"], said["text"])
        return None

    def query(self, text: str) -> RemoteText:
        """A query, not started.

        Example: `tg.query("SELECT room FROM Temp WINDOW(RANGE 5)").start("rooms")`
        """
        return RemoteText(self, text)

    def running(self, name: str) -> RemoteQuery:
        """The running query of a name.

        Example: `tg.running("hot").at(4)`
        """
        found = RemoteQuery(self, name)
        found.status()
        return found

    def queries(self) -> list[str]:
        """The names of the queries of the server.

        Example: `tg.queries()`
        """
        return [q["name"] for q in self.asked("GET", "/queries")["queries"]]

    def status(self) -> dict[str, Any]:
        """What there is on the server, and how it goes.

        Example: `tg.status()["streams"]`
        """
        found: dict[str, Any] = self.asked("GET", "/status")
        return found

    def describe(self, name: str) -> list[tuple[str, str]]:
        """The columns of a stream, view or table, with their types.

        Example: `tg.describe("Temp")`
        """
        rows = self.sql(f"DESCRIBE `{name}`").to_pylist()
        return [(r["column"], r["type"]) for r in rows]

    def push(self, name: str, rows: Iterable[Mapping[str, Any]]) -> tuple[int, int]:
        """Hand rows to a stream whose source is `memory`: how many were accepted, and how many went to its quarantine.

        Example: `tg.push("Temp", [{"room": "b", "degrees": 90, "t": 3}])`
        """
        body = "\n".join(json.dumps(row, default=str) for row in rows)
        path = f"/streams/{escaped(name, safe='')}/rows"
        said = self.asked(
            "POST", path, content=body.encode(), headers={"Content-Type": "application/x-ndjson"}
        )
        return said["accepted"], said["refused"]

    def advance(self, name: str, instant: Instant) -> None:
        """Promise that no row of a stream before this instant will come.

        Example: `tg.advance("Temp", 100)`
        """
        said = instant if isinstance(instant, int) else str(instant)
        self.asked("POST", f"/streams/{escaped(name, safe='')}/advance", json={"instant": said})

    def quarantine(self, name: str) -> pa.Table:
        """The rows that a stream has refused, with the reason.

        Example: `tg.quarantine("Temp").to_pylist()`
        """
        return _table(
            self.asked("GET", f"/streams/{escaped(name, safe='')}/quarantine", params={"format": "arrow"})
        )

    def close(self) -> None:
        """Let go of the server; what runs there goes on.

        Example: `tg.close()`
        """
        self._client.close()

    def lines(self, path: str, headers: Mapping[str, str], params: Mapping[str, Any]) -> Iterator[str]:
        """The lines of an answer that does not end."""
        import httpx

        try:
            with self._client.stream(
                "GET", path, headers=dict(headers), params=dict(params), timeout=60.0
            ) as found:
                if found.is_error:
                    found.read()
                    _checked(found)
                yield from found.iter_lines()
        except httpx.HTTPError as problem:
            raise self._away(problem) from None


@dataclass(frozen=True)
class RemoteText:
    """A query that is not started."""

    session: RemoteSession
    text: str

    def start(self, name: str, history: bool = False) -> RemoteQuery:
        """Start it on the server, for all who use it.

        Example: `h = tg.query("SELECT room FROM Temp WINDOW(RANGE 5)").start("rooms")`
        """
        self.session.asked("POST", "/queries", json={"name": name, "sql": self.text, "history": history})
        return RemoteQuery(self.session, name)

    def explain(self) -> str:
        """The plan.

        Example: `print(tg.query("SELECT room FROM Temp").explain())`
        """
        return str(self.session.sql(f"EXPLAIN {self.text}"))

    def verify(self) -> RemoteVerification:
        """Run it over recorded data, and compare with the reference.

        Example: `assert tg.query("SELECT room FROM Temp WINDOW(RANGE 5)").verify()`
        """
        found: RemoteVerification = self.session.sql(f"VERIFY {self.text}")
        return found


@dataclass(frozen=True)
class RemoteQuery:
    """A query that runs on a server."""

    session: RemoteSession
    name: str

    def _path(self, what: str = "") -> str:
        return f"/queries/{escaped(self.name, safe='')}{what}"

    def status(self) -> dict[str, Any]:
        """How far it has come, and what its operators do.

        Example: `h.status()["watermark"]`
        """
        found: dict[str, Any] = self.session.asked("GET", self._path())["status"]
        return found

    def at(self, instant: Instant) -> pa.Table:
        """The answer at an instant, which must be final.

        Example: `h.at("2026-01-01 12:00").to_pandas()`
        """
        return self._pages("/snapshot", {"at": str(instant)})

    def latest(self) -> pa.Table:
        """The latest complete answer.

        Example: `h.latest().to_pylist()`
        """
        first = self.session.asked("GET", self._path("/snapshot"), params={"format": "arrow", "limit": PAGE})
        return _table(first) if not first["more"] else self._pages("/snapshot", {"at": str(first["at"])})

    def intervals(self, since: Instant | None = None) -> pa.Table:
        """The rows so far with `valid_from` and `valid_to`.

        Example: `h.intervals().to_pandas()`
        """
        return self._pages("/intervals", {} if since is None else {"since": str(since)})

    def _pages(self, what: str, asked: Mapping[str, Any]) -> pa.Table:
        found: list[pa.Table] = []
        more = True
        while more:
            params = {**asked, "format": "arrow", "offset": PAGE * len(found), "limit": PAGE}
            said = self.session.asked("GET", self._path(what), params=params)
            found.append(_table(said))
            more = said["more"]
        return pa.concat_tables(found)

    def changes(self, since: Instant | None = None, after: str | None = None) -> Iterator[dict[str, Any]]:
        """What changes, instant by instant, as it becomes final: `ts`, `changes` (each with `op` and `row`), and `id`; `after` such an id, it goes on
        without a gap.

        Example: `for instant in h.changes(): print(instant["ts"], instant["changes"])`
        """
        headers = {} if after is None else {"Last-Event-ID": after}
        params = {} if since is None else {"since": str(since)}
        event: dict[str, str] = {}
        for line in self.session.lines(self._path("/changes"), headers, params):
            name, _, value = line.partition(": ")
            if line:
                event[name] = value
                continue
            kind, data = event.get("event"), json.loads(event.get("data", "{}"))
            if kind == "error":
                raise _diagnostic(data, "")
            if kind == "changes":
                yield {**data, "id": event.get("id")}
            event = {}

    def stop(self) -> None:
        """Stop it, for all who use it; started again, it goes on.

        Example: `h.stop()`
        """
        self.session.asked("POST", self._path("/stop"))


def _table(said: Mapping[str, Any]) -> pa.Table:
    with pa.ipc.open_stream(base64.b64decode(said["arrow"])) as reader:
        return reader.read_all()


def _json(response: httpx.Response) -> Any:
    try:
        return response.json() if response.content else None
    except ValueError:
        raise Diagnostic(
            "SERVER_AWAY", f"{response.url} is no server of Tidegate's (HTTP {response.status_code})"
        ) from None


def _checked(response: httpx.Response) -> Any:
    said = _json(response)
    if response.is_error:
        raise _refusal(said, "", response.status_code)
    return said


def _refusal(said: Any, text: str, code: int) -> Diagnostic:
    error = said.get("error") if isinstance(said, dict) else None
    if not isinstance(error, dict):
        return Diagnostic("SERVER_AWAY", f"the server refuses with HTTP {code}")
    return _diagnostic(error, text)


def _diagnostic(error: Mapping[str, Any], text: str) -> Diagnostic:
    """A diagnostic as it was on the server, with its place in the text that was sent."""
    place = None
    if error.get("line") is not None and text:
        place = Position(error["line"], error["column"], error["start"], error["end"])
    kind = Kind(error.get("kind", Kind.USER.value))
    return Diagnostic(error["condition"], error["message"], place, text or None, error.get("help"), kind)
