"""Which files of a live source are let in, before Spark reads any."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tidegate.connectors.csv_files import CsvFiles
from tidegate.errors import Diagnostic
from tidegate.language.catalog import SourceCall, StreamDefinition
from tidegate.runtime.file_gate import FileGate, gate_of
from tidegate.storage import Storage
from tidegate.types import BIGINT, Field

COLUMNS = (Field("a", BIGINT), Field("t", BIGINT))


def gate(place: Path, stops: bool = False) -> FileGate:
    stream = StreamDefinition(
        "S", COLUMNS, SourceCall("csv", (str(place / "in"),)), ordered_by="t", stops=stops
    )
    found = gate_of(Storage(str(place / "state")), stream, CsvFiles())
    assert found is not None
    return found


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path


def names(files: dict[str, tuple[int, int]]) -> list[str]:
    return sorted(Path(file).name for file in files)


def links(place: Path) -> list[str]:
    return [Path(os.readlink(link)).name for link in sorted((place / "state" / "inbox" / "S").iterdir())]


def test_files_are_let_in_once_and_in_their_order(place: Path) -> None:
    for age, name in enumerate(("2.csv", "3.csv", "1.csv")):
        (place / "in" / name).write_text("a,t\n1,1\n")
        os.utime(place / "in" / name, (1_700_000_000 - age // 2, 1_700_000_000 - age // 2))
    first = gate(place)
    assert first.look(starting=True) == []
    assert first.look() == []
    assert links(place) == ["1.csv", "2.csv", "3.csv"]  # by age, then by name
    (place / "in" / "0.csv").write_text("a,t\n1,1\n")
    again = gate(place)
    assert again.look(starting=True) == []
    assert links(place) == ["1.csv", "2.csv", "3.csv", "0.csv"]
    assert again.changed == {}


def test_a_file_that_is_set_aside_is_looked_at_again_when_it_has_changed(place: Path) -> None:
    (place / "in" / "1.csv").write_text("a,t\n1,1\n")
    (place / "in" / "2.csv").write_text("t,a\n1,1\n")
    (place / "in" / "3.csv").write_text("")
    found = gate(place)
    (refused,) = found.look(starting=True)
    assert refused.reason.startswith("the file is set aside: ")
    assert refused.file == str(place / "in" / "2.csv")
    assert gate(place).look(starting=True) == []
    (place / "in" / "2.csv").write_text("a,t\n1,1\n\n")
    (place / "in" / "3.csv").write_text("a,t\n1,1\n")
    for again in (False, True):
        looking = gate(place) if again else found
        assert looking.look() == []
        assert (names(looking.let_in), names(looking.aside)) == (["1.csv", "2.csv", "3.csv"], [])
    (place / "in" / "1.csv").write_text("another,t\n")
    after = gate(place)
    after.look(starting=True)
    assert (names(after.changed), links(place)) == (["1.csv"], ["1.csv", "2.csv", "3.csv"])


def test_a_stream_that_stops_does_so_at_the_file(place: Path) -> None:
    (place / "in" / "1.csv").write_text("a,t\n1,1\n")
    found = gate(place, stops=True)
    found.look(starting=True)
    (place / "in" / "2.csv").write_text("b,t\n1,1\n")
    with pytest.raises(Diagnostic, match=r"no column 'a'.*2\.csv"):
        found.look()


def test_columns_in_the_names_of_folders_are_sparks(place: Path) -> None:
    (place / "in" / "day=1").mkdir()
    (place / "in" / "day=1" / "1.csv").write_text("a,t\n")
    stream = StreamDefinition("S", COLUMNS, SourceCall("csv", (str(place / "in"),)), ordered_by="t")
    assert gate_of(Storage(str(place / "state")), stream, CsvFiles()) is None
    assert gate_of(Storage("s3://bucket/state"), stream, CsvFiles()) is None


def test_a_file_that_is_gone_before_it_was_read_is_named(place: Path) -> None:
    """Spark's log has the files of each of its batches; an entry that sums up others has theirs, too."""
    for name in ("1.csv", "2.csv", "3.csv", "4.csv"):
        (place / "in" / name).write_text("a,t\n1,1\n")
    found = gate(place)
    found.look(starting=True)
    inbox = place / "state" / "inbox" / "S"
    log = place / "state" / "checkpoint" / "sources" / "S"
    log.mkdir(parents=True)
    lines = [
        json.dumps({"path": f"file://{link}", "timestamp": 1, "batchId": i})
        for i, link in enumerate(sorted(inbox.iterdir()))
    ]
    (log / "0").write_text("v1\n" + lines[0])
    (log / "1.compact").write_text("\n".join(["v1", *lines[:2]]))
    (log / "2").write_text("v1\n" + lines[2])
    for name in ("1.csv", "2.csv", "3.csv", "4.csv"):
        (place / "in" / name).rename(place / name)
    # The first two were read in epochs that counted, the third is planned, of the fourth Spark has not heard.
    lost = found.gone({"S": 1})
    assert [Path(str(r.file)).name for r in lost] == ["3.csv", "4.csv"]
    assert names(found.let_in) == ["1.csv", "2.csv"]
    assert links(place) == ["1.csv", "2.csv"]
    for name in ("1.csv", "3.csv"):
        (place / name).rename(place / "in" / name)
    again = gate(place)
    again.look()
    assert links(place) == ["1.csv", "2.csv", "3.csv"]
    assert again.gone({"S": 1}) == []
    (place / "in" / "3.csv").unlink()
    with pytest.raises(Diagnostic, match=r"3\.csv was gone"):
        gate(place, stops=True).gone({"S": 1})


@pytest.mark.parametrize("name", ["1.part", "1", "1.a b", "a=1.csv", "1.csv.~"])
def test_a_file_is_let_in_once_whatever_its_name_ends_with(place: Path, name: str) -> None:
    (place / "in" / name).write_text("a,t\n1,1\n")
    assert gate(place).look(starting=True) == []
    again = gate(place)
    again.look(starting=True)
    assert names(again.let_in) == [name]
    assert links(place) == [name]


def test_whoever_began_to_follow_files_goes_on(place: Path) -> None:
    """Spark knows files by the names under which it met them: by others, all of their rows would count again."""
    stream = StreamDefinition("S", COLUMNS, SourceCall("csv", (str(place / "in"),)), ordered_by="t")
    (place / "in" / "1.csv").write_text("a,t\n1,1\n")
    first = gate(place)
    first.look(starting=True)
    (place / "in" / "day=1").mkdir()
    late = place / "in" / "day=1" / "2.csv"
    late.write_text("a,t\n1,1\n")
    for again in (False, True):
        found = gate(place) if again else first
        found.look()
        assert (names(found.let_in), list(found.aside)) == (["1.csv"], [str(late)])
    other = Storage(str(place / "other"))
    other.make_folder("checkpoint/sources/S")
    late.unlink()
    assert gate_of(other, stream, CsvFiles()) is None


@pytest.mark.parametrize("name", ["notes.txt", "000000000002-8-1.csv"])
def test_what_is_no_link_of_ours_is_named(place: Path, name: str) -> None:
    """Spark would read it as rows that were let in."""
    (place / "in" / "1.csv").write_text("a,t\n1,1\n")
    gate(place).look(starting=True)
    stray = place / "state" / "inbox" / "S" / name
    stray.write_text("a,t\n9,9\n")
    with pytest.raises(Diagnostic, match="STATE_DAMAGED") as found:
        gate(place)
    assert str(stray) in found.value.message
    assert stray.exists()
