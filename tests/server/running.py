"""A server as people start it: a process of its own on a free port, which ends with the tests."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx

T = TypeVar("T")
PATIENCE = 60.0


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def until(found: Callable[[], T], what: str = "it", patience: float = PATIENCE) -> T:
    """What a function gives as soon as that is something."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if value := found():
            return value
        time.sleep(0.05)
    raise AssertionError(f"{what} did not come")


class Server:
    """A process; `tokens` by role."""

    def __init__(self, folder: Path, script: str, *options: str, env: dict[str, str] | None = None) -> None:
        self.folder, self.port, self.options, self.env = folder, free_port(), options, env or {}
        self.url = f"http://127.0.0.1:{self.port}"
        (folder / "script.sql").write_text(script)
        self.start()

    def start(self) -> None:
        """Begin, or begin again on the same state."""
        command = [
            sys.executable,
            "-m",
            "tidegate",
            "serve",
            "script.sql",
            "--port",
            str(self.port),
            "--state",
            "state",
            "--epoch",
            "0.05",
        ]
        self.log = (self.folder / "log").open("a")
        self.process = subprocess.Popen(
            [*command, *self.options],
            cwd=self.folder,
            stderr=self.log,
            stdout=self.log,
            env={**os.environ, **self.env},
        )
        until(self._answers, f"the server ({self.said})")

    def _answers(self) -> bool:
        assert self.process.poll() is None, self.said
        try:
            return httpx.get(f"{self.url}/health/live").status_code == 200
        except httpx.HTTPError:
            return False

    @property
    def said(self) -> str:
        return (self.folder / "log").read_text()

    def stop(self) -> int:
        """By SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        self.log.close()
        return code

    def client(self, token: str | None = None) -> httpx.Client:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60)


def events(
    client: httpx.Client, query: str, last: str | None = None, **asked: Any
) -> Iterator[tuple[str, str, Any]]:
    """The events of a query's changes: kind, id, data."""
    headers = {} if last is None else {"Last-Event-ID": last}
    with client.stream("GET", f"/queries/{query}/changes", headers=headers, params=asked) as response:
        assert response.status_code == 200, response.read()
        found: dict[str, str] = {}
        for line in response.iter_lines():
            if line:
                name, _, value = line.partition(": ")
                found[name] = value
            elif "event" in found:
                yield found["event"], found.get("id", ""), json.loads(found["data"])
                found = {}
            else:
                found = {}
