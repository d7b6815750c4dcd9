"""An S3 store on this machine: moto's server, a process of its own, with a bucket and settings by which Spark reaches it."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tidegate.object_store import PREFIX, Access

ROOT = Path(__file__).resolve().parents[2]
BUCKET = "bucket"
KEY, SECRET = "the-key-of-the-tests", "the-secret-of-the-tests"
LIMIT = 60


@dataclass
class Store:
    """A store that runs."""

    process: subprocess.Popen[bytes]
    endpoint: str

    @classmethod
    def started(cls, place: Path) -> Store:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with (place / "s3.log").open("wb") as log:
            command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
            process = subprocess.Popen(command, stdout=log, stderr=log)
        store = cls(process, f"http://127.0.0.1:{port}")
        until = time.monotonic() + LIMIT
        while True:
            try:
                made = urllib.request.Request(f"{store.endpoint}/{BUCKET}", method="PUT")
                urllib.request.urlopen(made, timeout=5).close()
                return store
            except OSError:
                assert process.poll() is None, (place / "s3.log").read_text()
                assert time.monotonic() < until, (place / "s3.log").read_text()
                time.sleep(0.05)

    @property
    def settings(self) -> dict[str, str]:
        """What a user says to Spark."""
        said = {
            "endpoint": self.endpoint,
            "endpoint.region": "us-east-1",
            "path.style.access": "true",
            "access.key": KEY,
            "secret.key": SECRET,
            "connection.ssl.enabled": "false",
            "optimized.copy.from.local.enabled": "false",
        }
        return {f"{PREFIX}{name}": value for name, value in said.items()}

    @property
    def access(self) -> Access:
        return Access.of(self.settings)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def hadoop_jars() -> tuple[list[str], str]:
    """The jars by which Spark reaches a store; or none, and why."""
    done = subprocess.run(
        [str(ROOT / "scripts" / "servers" / "s3.sh")], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        return [], f"Hadoop's S3 file system could not be fetched: {done.stderr.strip()[-300:]}"
    there = {jar.name for jar in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    found = sorted((Path(done.stdout.strip()) / "jars").glob("*.jar"))
    return [
        str(jar)
        for jar in found
        if jar.name not in there and not jar.name.startswith(("netty-", "slf4j-", "commons-"))
    ], ""
