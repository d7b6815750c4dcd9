"""How much may be sent at once: a body is counted while it comes, whatever it says about itself."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

from tidegate.errors import Diagnostic

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

STATEMENTS = 4 << 20
ROWS = 64 << 20
"""Bytes of a body."""


class _TooLargeError(Exception):
    """More has come than may."""


class BodyLimit:
    """Refuses larger bodies before anybody has read them whole."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most = ROWS if scope["path"].endswith("/rows") else STATEMENTS
        come, refused = 0, False

        async def counted() -> Message:
            nonlocal come, refused
            message = await receive()
            come += len(message.get("body", b""))
            if come > most:
                refused = True
                await _refuse(send, most)
                raise _TooLargeError
            return message

        async def unless_refused(message: Message) -> None:
            if not refused:  # whoever reads bodies may have an answer of its own
                await send(message)

        with suppress(_TooLargeError):
            await self._app(scope, counted, unless_refused)


async def _refuse(send: Send, most: int) -> None:
    problem = Diagnostic("BODY_TOO_LARGE", f"at most {most >> 20} MB are taken at once", help="send parts")
    body = json.dumps(
        {"error": {"condition": problem.condition, "message": problem.message, "help": problem.help}}
    )
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": body.encode()})
