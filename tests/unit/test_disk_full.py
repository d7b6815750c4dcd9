"""A file that finds no room is told by its place, and leaves nothing behind."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tidegate.errors import Diagnostic
from tidegate.storage import Storage


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 kilobytes."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"only an administrator can mount a small file system: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.parametrize("durable", [False, True])
def test_what_finds_no_room_leaves_all_as_it_was(disk: Path, durable: bool) -> None:
    storage = Storage(str(disk), durable=durable)
    storage.publish("manifests/1.json", b"before")
    large = b"x" * 100_000
    for write in (
        lambda: storage.publish("manifests/1.json", large),
        lambda: storage.write_sealed("results/00000001", "parquet", large),
        lambda: storage.write_rows("blocks/1", pa.table({"a": pa.array(range(20_000), pa.int64())})),
    ):
        with pytest.raises(Diagnostic) as error:
            write()
        assert error.value.condition == "DISK_FULL"
        assert str(disk) in error.value.message
        assert "bytes are free" in error.value.message
    assert storage.read("manifests/1.json").to_pybytes() == b"before"
    assert [p.name for p in disk.rglob("*") if p.is_file()] == ["1.json"]
    storage.publish("manifests/1.json", b"after")
    assert storage.read("manifests/1.json").to_pybytes() == b"after"
