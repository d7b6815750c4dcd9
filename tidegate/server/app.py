"""The HTTP interface, as a FastAPI application."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import Depends, FastAPI, Header, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from tidegate import __version__
from tidegate.errors import Diagnostic, foreign
from tidegate.server import reads
from tidegate.server.access import ROLES, Tokens, includes, is_loopback
from tidegate.server.encoding import Format, answer, instant, status_of, told
from tidegate.server.host import Host
from tidegate.server.limits import BodyLimit
from tidegate.server.pushing import pushed
from tidegate.server.streaming import Streams, resumed
from tidegate.spark.values import quote
from tidegate.terminal.answers import plain

ROWS, MOST_ROWS = 1_000, 100_000
"""Rows of an answer: unless somebody says otherwise, and at most."""


class Asked(BaseModel):
    """Statements, and how their answers are wanted."""

    model_config = ConfigDict(extra="forbid")
    sql: str = Field(max_length=2_000_000)
    rows: int = Field(ROWS, ge=0, le=MOST_ROWS)
    format: Format = "json"


class Started(BaseModel):
    """A query to start, by its name."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(min_length=1, max_length=255)
    sql: str = Field(max_length=2_000_000)
    history: bool = False


class Promised(BaseModel):
    """An instant before which no row will come."""

    model_config = ConfigDict(extra="forbid")
    instant: int | str


Name = Annotated[str, Path(min_length=1, max_length=255)]
At = Annotated[str | None, Query(max_length=64)]
Offset = Annotated[int, Query(ge=0, le=2**31)]
Limit = Annotated[int, Query(ge=0, le=MOST_ROWS)]


def application(host: Host, tokens: Tokens) -> FastAPI:
    """The interface to a host."""
    shared = reads.Shared()
    streams = Streams(shared)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        streams.close()

    app = FastAPI(
        title="Tidegate",
        version=__version__,
        description="Answers over moving data that are exact at every instant.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.streams = streams
    app.add_middleware(BodyLimit)
    roles = Roles(*(_needs(role, tokens) for role in ROLES))
    _add_errors(app)
    _add_health(app, host, roles)
    _add_snapshots(app, host, roles, shared)
    _add_changes(app, host, roles, streams)
    _add_questions(app, host, roles)
    _add_definitions(app, host, roles)
    _add_feeds(app, host, roles)
    return app


@dataclass(frozen=True)
class Roles:
    """What a request has to show for each role."""

    read: Any
    ask: Any
    define: Any


def _needs(role: str, tokens: Tokens) -> Any:
    async def check(request: Request, authorization: Annotated[str | None, Header()] = None) -> str:
        _refuse_strangers(request, tokens)
        if not tokens:
            return "define"
        scheme, _, token = (authorization or "").partition(" ")
        found = tokens.role_of(token.strip()) if scheme.lower() == "bearer" else None
        if found is None:
            raise Diagnostic("TOKEN_NEEDED", "this server needs a token", help="Authorization: Bearer …")
        if not includes(found, role):
            raise Diagnostic("ROLE_NEEDED", f"this needs a token with the role '{role}'")
        return found

    return Depends(check)


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(Exception)
    async def failed(request: Request, problem: Exception) -> Response:
        diagnostic = foreign(problem)
        return JSONResponse({"error": told(diagnostic)}, status_of(diagnostic))

    @app.exception_handler(Diagnostic)
    async def refused(request: Request, problem: Exception) -> Response:
        diagnostic = foreign(problem)
        wanted = {"WWW-Authenticate": "Bearer"} if diagnostic.condition == "TOKEN_NEEDED" else None
        return JSONResponse({"error": told(diagnostic)}, status_of(diagnostic), headers=wanted)

    @app.exception_handler(RequestValidationError)
    async def misread(request: Request, problem: Exception) -> Response:
        assert isinstance(problem, RequestValidationError)
        said = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in problem.errors()[:5])
        return JSONResponse({"error": told(Diagnostic("WRONG_ARGUMENTS", said))}, 422)


def _add_health(app: FastAPI, host: Host, roles: Roles) -> None:
    read = roles.read

    @app.get("/health/live", tags=["health"])
    async def live() -> dict[str, str]:
        """Whether the process answers."""
        return {"status": "live"}

    @app.get(
        "/health/ready", tags=["health"], responses={503: {"description": "something that runs has failed"}}
    )
    async def ready() -> Response:
        """Whether everything that was started runs."""
        broken = bool(host.failures())
        return JSONResponse({"status": "failed" if broken else "ready"}, 503 if broken else 200)

    @app.get("/metrics", tags=["health"], dependencies=[read])
    def metrics() -> PlainTextResponse:
        """Figures for Prometheus."""
        return PlainTextResponse(host.session.prometheus())

    @app.get("/status", tags=["health"], dependencies=[read])
    def status() -> dict[str, Any]:
        """What there is and how it goes."""
        session = host.session
        return {
            "version": __version__,
            "streams": session.shown("STREAMS"),
            "views": session.shown("VIEWS"),
            "tables": session.shown("TABLES"),
            "queries": _lines(session.running.table()),
            "failures": host.failures(),
        }

    @app.get("/queries", tags=["queries"], dependencies=[read])
    def queries() -> dict[str, Any]:
        """All queries, as SHOW QUERIES lists them."""
        return {"queries": _lines(host.session.running.table())}

    @app.get("/queries/{name}", tags=["queries"], dependencies=[read])
    def query(name: Name) -> dict[str, Any]:
        """What a query is and how far it has come."""
        found: dict[str, Any] = _jsonable(reads.described(host.query(name)))
        return found


def _add_snapshots(app: FastAPI, host: Host, roles: Roles, shared: reads.Shared) -> None:
    read = roles.read

    @app.get("/queries/{name}/snapshot", tags=["answers"], dependencies=[read])
    async def snapshot(
        name: Name, at: At = None, offset: Offset = 0, limit: Limit = ROWS, format: Format = "json"
    ) -> Response:
        """The answer at an instant; without one, the latest complete answer."""
        found = host.query(name)
        result = found.result
        tick = reads.tick_of(result, instant(at))
        owner = found.query.known.owner
        rows = await shared.get((owner, "rows", tick), lambda: reads.snapshot(result, tick))

        def made() -> bytes:
            said = {"at": reads.said_instant(result, tick), **reads.page(rows, offset, limit, format)}
            return _json(said)

        return Response(
            await shared.get((owner, tick, offset, limit, format), made), media_type="application/json"
        )

    @app.get("/queries/{name}/intervals", tags=["answers"], dependencies=[read])
    def intervals(
        name: Name, since: At = None, offset: Offset = 0, limit: Limit = ROWS, format: Format = "json"
    ) -> Response:
        """The rows with their validity, in the order of their beginning."""
        result = host.query(name).result
        rows = reads.intervals(result, instant(since), offset + limit + 1)
        return _answered(reads.page(rows, offset, limit, format, ordered=True))


def _add_changes(app: FastAPI, host: Host, roles: Roles, streams: Streams) -> None:
    read = roles.read

    @app.get(
        "/queries/{name}/changes",
        tags=["answers"],
        dependencies=[read],
        responses={200: {"content": {"text/event-stream": {}}}},
        response_class=StreamingResponse,
    )
    async def changes(
        name: Name, since: At = None, last_event_id: Annotated[str | None, Header(max_length=32)] = None
    ) -> StreamingResponse:
        """What changes, as server-sent events; `Last-Event-ID` goes on behind the last one that was seen."""
        found = host.query(name)
        low = resumed(found, last_event_id, instant(since))
        streams.enter()
        return StreamingResponse(
            streams.events(found, low), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
        )

    @app.get("/streams/{name}/quarantine", tags=["streams"], dependencies=[read])
    def quarantine(name: Name, limit: Limit = ROWS, format: Format = "json") -> Response:
        """The rows that a stream or table has refused, with the reason."""
        return _answered(answer(host.session.quarantine(name), format, limit))


def _run(host: Host, sql: str, role: str, form: Format = "json", rows: int = ROWS) -> Response:
    """What statements give, up to the first that fails."""
    found, problem = host.run(sql, role, form, rows)
    if problem is None:
        return _answered({"results": found})
    return JSONResponse({"error": told(problem), "results": _jsonable(found)}, status_of(problem))


def _add_questions(app: FastAPI, host: Host, roles: Roles) -> None:
    ask = roles.ask

    @app.post("/sql", tags=["statements"])
    def sql(asked: Asked, role: str = ask) -> Response:
        """Run statements. Those that define or start something need the role `define`."""
        return _run(host, asked.sql, role, asked.format, asked.rows)

    @app.post("/explain", tags=["statements"])
    def explain(asked: Asked, role: str = ask) -> Response:
        """The plan of a query."""
        return _run(host, f"EXPLAIN {asked.sql}", role)

    @app.post("/verify", tags=["statements"])
    def verify(asked: Asked, role: str = ask) -> Response:
        """Run a query over recorded data, and compare its answer with the reference."""
        return _run(host, f"VERIFY {asked.sql}", role)


def _add_definitions(app: FastAPI, host: Host, roles: Roles) -> None:
    define = roles.define

    @app.post("/queries", tags=["queries"], status_code=201)
    def start(asked: Started, role: str = define) -> Response:
        """Start a query under a name."""
        history = "WITH HISTORY " if asked.history else ""
        response = _run(host, f"START {quote(asked.name)} {history}AS {asked.sql}", role)
        response.status_code = 201 if response.status_code == 200 else response.status_code
        return response

    @app.post("/queries/{name}/stop", tags=["queries"], dependencies=[define], status_code=204)
    def stop(name: Name) -> None:
        """Stop a query. What it knows is kept: started again, it goes on."""
        host.stop(name)

    @app.delete("/queries/{name}", tags=["queries"])
    def drop(name: Name, role: str = define) -> Response:
        """End a query for good, with its state."""
        return _run(host, f"DROP QUERY {quote(name)}", role)


def _add_feeds(app: FastAPI, host: Host, roles: Roles) -> None:
    define = roles.define

    @app.post(
        "/streams/{name}/rows",
        tags=["streams"],
        dependencies=[define],
        openapi_extra={
            "requestBody": {
                "content": {
                    "application/json": {"schema": {"type": "array", "items": {"type": "object"}}},
                    "application/x-ndjson": {"schema": {"type": "string"}},
                },
                "required": True,
            }
        },
    )
    async def rows(name: Name, request: Request) -> dict[str, int]:
        """Hand rows to a stream whose source is `memory`: a JSON array, or one object on each line. Those that were accepted are on the disk;
        what is no row of the stream is in its quarantine with the next epoch."""
        body = await request.body()
        return await asyncio.to_thread(pushed, host.session, name, body)

    @app.post("/streams/{name}/advance", tags=["streams"], dependencies=[define], status_code=204)
    def advance(name: Name, promised: Promised) -> None:
        """Promise that no row of a stream before an instant will come."""
        said = promised.instant
        host.session.advance(name, instant(said) if isinstance(said, str) else said)  # type: ignore[arg-type]


def _refuse_strangers(request: Request, tokens: Tokens) -> None:
    """A page of the web that somebody looks at must not speak to a server on that machine: neither under its own name, nor under one that leads there."""
    name = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    if not tokens and not is_loopback(name):
        raise Diagnostic("NOT_ALLOWED", "without tokens, a server is spoken to as localhost alone")
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise Diagnostic("NOT_ALLOWED", "pages of other places cannot speak to this server")


def _lines(rows: Any) -> list[dict[str, Any]]:
    return [{k: plain(v) for k, v in row.items()} for row in rows.to_pylist()]


def _jsonable(value: Any) -> Any:
    return json.loads(json.dumps(plain(value), default=str))


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, default=str).encode()


def _answered(value: dict[str, Any]) -> Response:
    return Response(_json(value), media_type="application/json")
