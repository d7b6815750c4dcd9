"""A PostgreSQL server on loopback for tests: one for all of them, a database for each.

`postgres_server` is the fixture; where the server cannot run, tests that ask for it skip and say why.
"""

from __future__ import annotations

import glob
import itertools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
SETTINGS = """
listen_addresses = '127.0.0.1'
wal_level = logical
max_wal_senders = 20
max_replication_slots = 20
max_connections = 60
fsync = off
shared_buffers = 32MB
timezone = 'Europe/Berlin'
"""
"""No test turns the machine off, so nothing waits for disks. A zone other than UTC shows who forgets to say theirs."""


@dataclass
class PostgresServer:
    """A server in a directory of its own."""

    place: Path
    programs: Path
    port: int
    _user: str | None = None
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def data(self) -> Path:
        return self.place / "data"

    def dsn(self, database: str) -> str:
        return f"host=127.0.0.1 port={self.port} user=tg dbname={database}"

    def connect(self, database: str = "postgres") -> Any:
        """A connection on which each statement counts by itself."""
        import psycopg2

        connection = psycopg2.connect(self.dsn(database))
        connection.autocommit = True
        return connection

    def database(self) -> str:
        """The name of a new database."""
        name = f"db{next(self._numbers)}"
        connection = self.connect()
        connection.cursor().execute(f"CREATE DATABASE {name}")
        connection.close()
        return name

    def create(self) -> None:
        self._call(
            "initdb", "-A", "trust", "-U", "tg", "--no-sync", "-E", "UTF8", "--locale=C", "-D", str(self.data)
        )
        with (self.data / "postgresql.conf").open("a") as settings:
            settings.write(f"{SETTINGS}port = {self.port}\nunix_socket_directories = '{self.place}'\n")

    def start(self) -> None:
        self._call("pg_ctl", "-D", str(self.data), "-w", "-t", "60", "-l", str(self.place / "log"), "start")

    def stop(self, mode: str = "immediate") -> None:
        """`immediate` is what a crash looks like."""
        self._call("pg_ctl", "-D", str(self.data), "-w", "-m", mode, "stop")

    def restart(self) -> None:
        self.stop()
        self.start()

    def _call(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self.programs / program), *arguments],
            user=self._user,
            cwd=self.place,
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stderr}")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def started() -> PostgresServer:
    """A server that runs, or a skipped test."""
    pytest.importorskip("psycopg2")
    found = subprocess.run(
        [ROOT / "scripts/servers/postgres.sh"], capture_output=True, text=True, check=False
    )
    if found.returncode:
        pytest.skip(found.stderr.strip() or "PostgreSQL is not here")
    programs = Path(sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1])
    user = None
    place = Path(tempfile.mkdtemp(prefix="tidegate-postgres-"))
    if os.getuid() == 0:
        user = "postgres"  # it refuses to run as root
        try:
            pwd.getpwnam(user)
        except KeyError:
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
        shutil.chown(place, user)
    server = PostgresServer(place, programs, _free_port(), user)
    server.create()
    server.start()
    return server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One server for the whole run."""
    found = started()
    yield found
    found.stop()
    shutil.rmtree(found.place, ignore_errors=True)
