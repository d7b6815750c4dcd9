"""Which files a path leads to: those that Spark reads, whichever way they are read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidegate.connectors.files import existing, local_files
from tidegate.errors import Diagnostic
from tidegate.language.catalog import SourceCall, StreamDefinition
from tidegate.types import BIGINT, Field


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder into which a job of Spark's is writing, beside what it has written."""
    found = tmp_path / "in"
    for name in (
        "a.csv",
        "sub/b.csv",
        "_temporary/0/a.csv",
        ".hidden/a.csv",
        "_SUCCESS",
        ".a.csv.crc",
        "c.csv._COPYING_",
        "_k=1/d.csv",
    ):
        (found / name).parent.mkdir(parents=True, exist_ok=True)
        (found / name).write_text("a,t\n1,1\n")
    return found


def found(pattern: Path) -> list[str]:
    return [os.path.relpath(file, pattern.parent) for file in local_files(str(pattern))]


def test_what_is_under_way_or_hidden_is_passed_over_at_every_depth(place: Path) -> None:
    assert found(place) == ["in/_k=1/d.csv", "in/a.csv", "in/sub/b.csv"]


def test_a_pattern_means_what_it_means_to_spark(place: Path) -> None:
    # What a pattern names itself is read, also where it is hidden from a listing; hidden files never are.
    assert found(place / "[^a]*") == [".hidden/a.csv", "_k=1/d.csv", "_temporary/0/a.csv", "sub/b.csv"]
    assert found(place / "*.csv") == ["a.csv"]


def test_links_to_folders_are_followed_and_circles_are_not(place: Path, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "e.csv").write_text("a,t\n1,1\n")
    (place / "linked").symlink_to(tmp_path / "far")
    (place / "sub" / "back").symlink_to(place)
    assert found(place) == ["in/_k=1/d.csv", "in/a.csv", "in/linked/e.csv", "in/sub/b.csv"]


def test_a_file_that_would_be_passed_over_is_no_source(tmp_path: Path) -> None:
    (tmp_path / "_in.csv").write_text("a,t\n1,1\n")
    call = SourceCall("csv", (str(tmp_path / "_in.csv"),))
    with pytest.raises(Diagnostic, match=r"SOURCE_NOT_FOUND.*_in\.csv"):
        existing(StreamDefinition("S", (Field("a", BIGINT), Field("t", BIGINT)), call, "t"))
