"""Readers beside a stream: how long epochs take on a server while 50,000 rows come in each second, without readers and with many of them.

    python benchmarks/serve_readers.py --readers 200 --rate 50000 --seconds 20

The server, whoever sends, and the readers are processes of their own. Readers ask for the latest answer, each once in a second.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx

SCRIPT = """
CREATE STREAM S(k INT, v INT, t BIGINT) SOURCE memory('S') ORDERED BY t;
START sums AS SELECT k, SUM(v) AS s, COUNT(*) AS n FROM S WINDOW(RANGE 200000) GROUP BY k;
"""
BATCHES = 5
"""Requests with rows in each second."""


def body(start: int, rows: int) -> bytes:
    """Rows of one request, one for each instant."""
    return "\n".join(f'{{"k":{t % 100},"v":{t % 7},"t":{t}}}' for t in range(start, start + rows)).encode()


def send(url: str, rate: int, since: int, seconds: float) -> tuple[int, float]:
    """Send rows at a rate; how many, and the rate that was reached."""
    began, sent, each = time.monotonic(), 0, rate // BATCHES
    with httpx.Client(base_url=url, timeout=120) as client:
        while time.monotonic() - began < seconds:
            client.post("/streams/S/rows", content=body(since + sent, each)).raise_for_status()
            sent += each
            time.sleep(max(0.0, began + sent / rate - time.monotonic()))
    return sent, sent / (time.monotonic() - began)


async def read(url: str, readers: int, seconds: float) -> list[float]:
    """The seconds of each answer that readers got."""
    end, taken = time.monotonic() + seconds, []

    async def one(client: httpx.AsyncClient, number: int) -> None:
        await asyncio.sleep(number / readers)
        while time.monotonic() < end:
            began = time.monotonic()
            (await client.get("/queries/sums/snapshot")).raise_for_status()
            taken.append(time.monotonic() - began)
            await asyncio.sleep(max(0.0, 1 - (time.monotonic() - began)))

    limits = httpx.Limits(max_connections=readers)
    async with httpx.AsyncClient(base_url=url, timeout=120, limits=limits) as client:
        await asyncio.gather(*(one(client, n) for n in range(readers)))
    return taken


def epochs(log: Path, since: int) -> list[dict[str, float]]:
    """The epochs with rows that the log tells from a byte on."""
    lines = log.read_bytes()[since:].decode().splitlines()
    found = [json.loads(line) for line in lines if line.startswith("{")]
    return [e for e in found if e.get("message") == "epoch" and e["rows"]]


def figures(values: list[float]) -> str:
    """Median, 95th percentile and longest."""
    ordered = sorted(values) or [0.0]
    middle, high = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.95)]
    return f"median {middle:.3f} s, 95% {high:.3f} s, longest {ordered[-1]:.3f} s"


def main() -> None:
    """Measure, and print the figures."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--readers", type=int, default=200)
    asked.add_argument("--rate", type=int, default=50_000)
    asked.add_argument("--seconds", type=float, default=20)
    asked.add_argument("--read", help=argparse.SUPPRESS)
    said = asked.parse_args()
    if said.read:
        print(json.dumps(asyncio.run(read(said.read, said.readers, said.seconds))))
        return
    with tempfile.TemporaryDirectory() as place, socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        number = port.getsockname()[1]
        port.close()
        measure(Path(place), number, said)


def measure(folder: Path, port: int, said: argparse.Namespace) -> None:
    """Both runs on one server, one after the other."""
    url, log = f"http://127.0.0.1:{port}", folder / "log"
    (folder / "graph.sql").write_text(SCRIPT)
    command = [
        sys.executable,
        "-m",
        "tidegate",
        "serve",
        "graph.sql",
        "--port",
        str(port),
        "--state",
        "state",
    ]
    with log.open("wb") as out:
        server = subprocess.Popen(command, cwd=folder, stdout=out, stderr=out)
        try:
            while not re.search(rb"listening", log.read_bytes()):
                if server.poll() is not None:
                    raise SystemExit(log.read_text())
                time.sleep(0.2)
            since, _ = send(url, said.rate, 0, said.seconds / 2)  # machine code, caches
            for readers in (0, said.readers, 0, said.readers):
                since = one_run(url, log, since, readers, said)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(120)


def one_run(url: str, log: Path, since: int, readers: int, said: argparse.Namespace) -> int:
    """One run with some readers; the instant after it."""
    begun, answers = log.stat().st_size, list[float]()
    command = [
        sys.executable,
        os.path.abspath(__file__),
        "--read",
        url,
        "--readers",
        str(readers),
        "--seconds",
        str(said.seconds),
    ]

    def reading() -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        answers.extend(json.loads(done.stdout))

    thread = threading.Thread(target=reading)
    if readers:
        thread.start()
    sent, rate = send(url, said.rate, since, said.seconds)
    if readers:
        thread.join()
    time.sleep(2)
    took = [e["seconds"] for e in epochs(log, begun)]
    print(f"{readers} readers, {rate:,.0f} rows/s: {len(took)} epochs, {figures(took)}", flush=True)
    if readers:
        print(f"  {len(answers):,} answers, {figures(answers)}", flush=True)
    return since + sent


if __name__ == "__main__":
    main()
