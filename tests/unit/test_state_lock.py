"""A state directory belongs to one graph at a time; the lock is free as soon as its process is gone, however it ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.errors import Diagnostic
from tidegate.runtime.holding import LOCK, Hold
from tidegate.runtime.ledger import Ledger, Manifest
from tidegate.storage import Storage

HOLDER = """
import sys
from tidegate.runtime.holding import Hold
from tidegate.storage import Storage
hold = Hold(Storage(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def refused(storage: Storage) -> Diagnostic:
    with pytest.raises(Diagnostic) as found:
        Hold(storage)
    assert found.value.condition == "STATE_IN_USE"
    assert str(storage.local) in found.value.message
    assert found.value.help is not None
    return found.value


def test_a_process_that_is_killed_leaves_the_directory_free(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    program = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert f"process {holder.pid} " in refused(storage).message
        os.kill(holder.pid, signal.SIGSTOP)
        assert f"process {holder.pid} " in refused(storage).message
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        Hold(storage).release()


def test_two_graphs_of_one_process_do_not_share_a_directory(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    first = Hold(storage)
    assert f"process {os.getpid()} (this one)" in refused(storage).message
    first.release()
    second = Hold(storage)
    refused(storage)
    del second  # whoever forgets to release it
    Hold(storage).release()


def test_nothing_is_collected_without_the_lock(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    ledger = Ledger.held(storage)
    in_flight = [
        storage.write_sealed("state/00000001", "arrow", b"in flight"),
        storage.write_sealed("results/00000001-0", "parquet", b"in flight"),
        storage.write_sealed("quarantine/S/00000001-0", "parquet", b"in flight"),
    ]
    with pytest.raises(Diagnostic, match="runs a graph in"):
        Ledger.held(storage)
    Ledger(storage)  # who only reads
    assert all(Path(storage.path(name)).exists() for name in in_flight)
    ledger.release()
    Ledger.held(storage).release()
    assert not any(Path(storage.path(name)).exists() for name in in_flight)


def test_a_lock_that_is_taken_away_ends_the_run_before_its_next_manifest(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    first = Ledger.held(storage)
    first.commit(Manifest(1, 10))
    os.remove(storage.path(LOCK))
    second = Ledger.held(storage)
    second.commit(Manifest(2, 20))
    with pytest.raises(Diagnostic, match="taken away"):
        first.commit(Manifest(2, 30))
    assert Ledger(storage).latest == Manifest(2, 20)


def test_a_ledger_that_cannot_be_opened_is_not_held(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    ledger = Ledger.held(storage)
    ledger.commit(Manifest(1, 10))
    ledger.release()
    storage.delete("manifests/00000001.json")
    for _ in range(2):
        with pytest.raises(Diagnostic, match=r"00000001\.json is missing") as found:
            Ledger.held(storage)
        assert found.value.condition == "STATE_DAMAGED"
