"""Rows that were refused are kept once, in few files, for as long as answers are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spark.test_runtime import DEFINITIONS, S
from tidegate.exchange.messages import ResultFile, RowCounts
from tidegate.runtime.engine import Engine
from tidegate.runtime.ledger import Ledger, Manifest
from tidegate.runtime.merging import merged
from tidegate.storage import Storage
from tidegate.worker.result_files import write_refused


class BrokenError(Exception):
    """The epoch does not count."""


def test_an_epoch_that_is_repeated_refuses_its_rows_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Engine(spark, str(tmp_path), partitions=2).start({"q": S.scan}, DEFINITIONS, begin=False)
    run.graph.advance({"S": [(1, 1.0, 50)]})
    rows = [(2, 2.0, None), (3, 2.0, None), (1, 2.0, 60)]
    folder = run.graph.storage.path("quarantine/S")

    def fail(_: object, manifest: Manifest) -> None:
        raise BrokenError

    with monkeypatch.context() as broken:
        broken.setattr(Ledger, "commit", fail)
        with pytest.raises(BrokenError):
            run.graph.advance({"S": rows})
    assert list(Path(folder).iterdir()), "the attempt that failed has written its files"
    run.graph.advance({"S": rows})
    assert sorted(r.raw for r in spark.read.parquet(folder).collect()) == sorted(
        r.raw
        for f in run.graph.ledger.refused
        for r in spark.read.parquet(run.graph.storage.path(f.file)).collect()
    )
    assert spark.read.parquet(folder).count() == 2
    # Whoever opens it next collects what an attempt left that nobody repeated.
    with monkeypatch.context() as broken:
        broken.setattr(Ledger, "commit", fail)
        with pytest.raises(BrokenError):
            run.graph.advance({"S": rows})
    run.stop()
    again = Engine(spark, str(tmp_path)).start({"q": S.scan}, DEFINITIONS, begin=False)
    assert spark.read.parquet(folder).count() == 2
    again.stop()


def refuse(ledger: Ledger, epoch: int) -> None:
    """An epoch of one instant in which two sources refuse a row each."""
    files = []
    for source in ("R", "S"):
        rows = pa.table({"epoch": [epoch], "reason": ["no time"], "raw": [f"{source}{epoch}"]})
        name = write_refused(ledger.storage, source, f"{epoch:08d}-0", rows)
        files.append(ResultFile(name, source, RowCounts(1, 0, 0, epoch, epoch + 1, epoch + 1)))
    ledger.commit(replace(ledger.latest, epoch=epoch, upto=epoch + 1, results=tuple(files)))


def texts(ledger: Ledger, source: str) -> list[str]:
    found = []
    for file in ledger.refused:
        if file.section == source:
            rows = pq.read_table(pa.BufferReader(ledger.storage.read_sealed(file.file)))
            assert rows.num_rows == file.counts.rows
            found += rows.column("raw").to_pylist()
    return found


def tidy(ledger: Ledger, horizon: int | None) -> None:
    ledger.tidy(lambda epoch, files: merged(ledger.storage, epoch, files, horizon, 4))


@pytest.mark.parametrize("retention", [None, 50])
def test_files_are_merged_and_go_with_the_answers(tmp_path: Path, retention: int | None) -> None:
    ledger = Ledger.held(Storage(str(tmp_path)))
    most = 0
    for epoch in range(1, 401):
        refuse(ledger, epoch)
        horizon = None if retention is None else epoch - retention
        if horizon is not None:
            ledger.forget_before(horizon)
        tidy(ledger, horizon)
        most = max(most, len(ledger.storage.names("quarantine/S")))
        if epoch % 90 == 0:
            ledger.release()
            ledger = Ledger.held(ledger.storage)
    assert most <= 5 * 4, "at most five of each level"
    first = 1 if retention is None else 400 - retention
    for source in ("R", "S"):
        found = texts(ledger, source)
        there = pq.read_table(ledger.storage.path(f"quarantine/{source}")).column("raw").to_pylist()
        assert sorted(there) == sorted(found), "whoever reads the folder finds every row once"
        assert len(found) == len(set(found))
        assert {f"{source}{e}" for e in range(first, 401)} <= set(found)
        # A file goes when its newest row does; of the largest ones that is so many epochs later.
        assert len(found) <= (400 if retention is None else retention + 5**3)
