"""The shell on a server: what it asks of a session, asked of a remote one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.language.catalog import Catalog
from tidegate.remote import RemoteSession


@dataclass(frozen=True)
class _Named:
    name: str
    kind: str


class _NoSpark:
    """No Spark starts here, and what is asked for goes on where it runs."""

    awaited = False

    def begin(self) -> None:
        """Nothing is begun."""

    def tag(self, name: str) -> None:
        """Nobody can be told."""

    def interrupt(self, name: str) -> None:
        """Nobody can be told."""


@dataclass(frozen=True)
class _Names:
    session: RemoteSession

    @property
    def names(self) -> list[str]:
        """The queries of the server."""
        return self.session.queries()


@dataclass(frozen=True)
class _Definitions:
    """Names for the Tab key and for lists; the language's own are the same everywhere."""

    session: RemoteSession

    @property
    def definitions(self) -> Mapping[str, _Named]:
        """Streams, views and tables of the server."""
        said = self.session.status()
        kinds = {"streams": "STREAMS", "views": "VIEWS", "tables": "TABLES"}
        return {n: _Named(n, kind) for key, kind in kinds.items() for n in said[key]}

    @property
    def named(self) -> list[_Named]:
        return list(self.definitions.values())

    def __getattr__(self, name: str) -> Any:
        return getattr(Catalog(), name)


class RemoteShellSession:
    """A remote session as the shell uses one."""

    is_remote = True
    here = True

    def __init__(self, session: RemoteSession) -> None:
        self.session = session
        self.starting, self.running, self.catalog = _NoSpark(), _Names(session), _Definitions(session)

    def results(self, script: str, progress: Any = None) -> Iterator[Any]:
        """What the statements of a script give."""
        return self.session.results(script)

    def describe(self, name: str) -> list[tuple[str, str]]:
        """The columns of a stream, view or table."""
        return self.session.describe(name)

    def shown(self, kind: str) -> Any:
        """What SHOW lists."""
        found = self.session.sql(f"SHOW {kind}")
        return found if kind == "QUERIES" else [row["name"] for row in found.to_pylist()]

    def close(self) -> None:
        """Let go of the server."""
        self.session.close()
