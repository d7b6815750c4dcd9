"""Tables of Delta Lake as sinks, by themselves: an epoch is there once, and a table is one query's."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tidegate.connectors.delta_sinks import DeltaSink, store_of
from tidegate.connectors.sinks import claim, make_sink, refuse_taken
from tidegate.errors import Diagnostic


def table(*values: int) -> pa.Table:
    instants = [datetime(2026, 1, 1, tzinfo=UTC)] * len(values)
    return pa.table(
        {"v": pa.array(values, pa.int32()), "ts": pa.array(instants, pa.timestamp("us", "Europe/Berlin"))}
    )


def sink(place: Path, owner: str = "a", **options: str) -> DeltaSink:
    found = make_sink("delta", (str(place),), list(options.items()))
    assert isinstance(found, DeltaSink)
    claim(found, owner)
    return found


def values(place: Path, version: int | None = None) -> list[int]:
    return sorted(DeltaTable(place, version=version).to_pyarrow_table().column("v").to_pylist())


def test_an_epoch_is_one_commit_and_is_taken_once(tmp_path: Path) -> None:
    place = tmp_path / "t"
    first = sink(place)
    assert not first.has(1)
    first.put(1, table(1, 2))
    first.put(1, table(1, 2))  # taken again
    again = sink(place)  # whoever goes on asks the table
    assert again.has(1)
    assert not again.has(2)
    again.put(1, table(1, 2))
    again.put(4, table(3))  # epochs without changes are none
    assert DeltaTable(place).version() == 1
    assert values(place) == [1, 2, 3]
    assert values(place, 0) == [1, 2]
    assert [again.has(epoch) for epoch in (1, 3, 4, 5)] == [True, True, True, False]
    assert pa.schema(DeltaTable(place).schema().to_arrow()).field("ts").type == pa.timestamp("us", "UTC")


def test_the_latest_answer_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    latest = sink(tmp_path / "t", answer="latest")
    assert latest.form == "complete"
    for epoch, rows in enumerate([(1, 2), (3,), ()], 1):
        latest.put(epoch, table(*rows))
        assert values(tmp_path / "t") == list(rows)
    assert [values(tmp_path / "t", version) for version in range(3)] == [[1, 2], [3], []]
    assert sink(tmp_path / "t").has(3)


def test_a_table_is_one_querys(tmp_path: Path) -> None:
    early, late = sink(tmp_path / "t", "a"), sink(tmp_path / "t", "b")
    early.put(1, table(1))
    with pytest.raises(Diagnostic, match="another query"):
        late.put(1, table(2))
    with pytest.raises(Diagnostic, match="another query"):
        refuse_taken(late, "b")
    write_deltalake(tmp_path / "other", table(5))
    with pytest.raises(Diagnostic, match="no query has signed"):
        sink(tmp_path / "other")
    assert values(tmp_path / "t") == [1]
    assert values(tmp_path / "other") == [5]


def test_what_the_store_is_told_is_not_shown() -> None:
    settings = {"storage.AWS_SECRET_ACCESS_KEY": "sesame", "answer": "changes"}
    assert store_of(settings) == {"AWS_SECRET_ACCESS_KEY": "sesame"}
    assert "sesame" not in repr(DeltaSink("s3://b/t", store_of(settings)))


def test_whole_answers_one_after_the_other_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Diagnostic) as raised:
        sink(tmp_path / "t", answer="complete")
    assert raised.value.condition == "SINK_FORM"
