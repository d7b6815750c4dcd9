"""Files of answers are merged a few at a time, and what has ended goes: what is kept reads as before, however much there is."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from tidegate.exchange.messages import ResultFile
from tidegate.runtime import merging
from tidegate.runtime.ledger import Ledger
from tidegate.storage import Storage
from tidegate.time import MAX
from tidegate.worker.result_files import read_rows, write_results

KEYS = 7


def changes(dice: random.Random, values: dict[int, int], since: int, upto: int) -> pl.DataFrame:
    """What an aggregate says of some instants: the value of a key is taken back and said anew."""
    rows = []
    for t in range(since, upto):
        for key in dice.sample(range(KEYS), 3):
            if key in values:
                rows.append((key, values.pop(key), t, MAX, -1))
            if dice.random() < 0.8:
                values[key] = dice.randrange(1000)
                rows.append((key, values[key], t, MAX, 1))
    return pl.DataFrame(rows, schema=["c0", "c1", "ts", "te", "n"], orient="row")


def snapshot(rows: pl.DataFrame, t: int) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for key, value, n in (
        rows.filter((pl.col("ts") <= t) & (t < pl.col("te"))).select("c0", "c1", "n").iter_rows()
    ):
        found[key, value] += n
    return Counter({row: n for row, n in found.items() if n})


def rows_of(storage: Storage, files: list[ResultFile]) -> pl.DataFrame:
    names = ["c0", "c1", "ts", "te", "n"]
    return pl.concat(rows.select(names) for f in files for rows in read_rows(storage, f).values())


@pytest.mark.parametrize("kept", [None, 40, 90])
def test_merging_is_bounded_and_changes_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int | None
) -> None:
    monkeypatch.setattr(merging, "LARGE", 120)
    read: list[int] = []
    together = merging._together

    def watched(parts: list[pl.DataFrame], horizon: int | None) -> pl.DataFrame:
        read.append(sum(p.height for p in parts))
        return together(parts, horizon)

    monkeypatch.setattr(merging, "_together", watched)
    storage, dice, values = Storage(str(tmp_path)), random.Random(3), dict[int, int]()
    files: list[ResultFile] = []
    every: list[pl.DataFrame] = []
    counts = []
    for epoch in range(1, 301):
        said = changes(dice, values, 2 * epoch, 2 * epoch + 2)
        every.append(said)
        new = write_results(storage, f"{epoch:08d}-0", {"op": said})
        horizon = None if kept is None else 2 * epoch - kept
        files = merging.merged(storage, epoch, [*files, *new], horizon, limit=8)
        counts.append((len(files), sum(f.counts.rows for f in files)))
        if epoch % 30 == 0:
            now, whole = rows_of(storage, files), pl.concat(every)
            for t in range(max(2, 0 if horizon is None else horizon), 2 * epoch + 2, 7):
                assert snapshot(now, t) == snapshot(whole, t), (epoch, t)
    assert read
    assert max(read) <= 3 * 120
    if kept is not None:
        # instants of some six changes each, a few more that wait to be merged, and no more as time passes
        assert max(rows for _, rows in counts[100:]) <= 15 * kept
        assert max(rows for _, rows in counts[200:]) <= 1.2 * max(rows for _, rows in counts[100:200])
        assert max(n for n, _ in counts[100:]) <= 20
    else:
        assert counts[-1][1] == sum(rows.height for rows in every)
        assert counts[-1][0] < 60


def test_an_operator_that_is_alone_in_some_epochs_keeps_its_answer(tmp_path: Path) -> None:
    """A row is then in a file of many operators and its closing in one of its own, or the other way round."""
    storage, dice = Storage(str(tmp_path)), random.Random(5)
    values: dict[str, dict[int, int]] = {"a": {}, "b": {}, "c": {}}
    every: dict[str, list[pl.DataFrame]] = {name: [] for name in values}
    files: list[ResultFile] = []
    sizes = []
    for epoch in range(1, 241):
        speaking = dice.choice((["a"], ["b"], ["a", "b"], ["a", "b", "c"]))
        said = {name: changes(dice, values[name], 2 * epoch, 2 * epoch + 2) for name in speaking}
        for name, rows in said.items():
            every[name].append(rows)
        horizon = 2 * epoch - 30
        files = merging.merged(
            storage, epoch, [*files, *write_results(storage, f"{epoch:08d}-0", said)], horizon, limit=5
        )
        sizes.append(sum(f.counts.rows for f in files))
        for name in values if epoch % 20 == 0 else ():
            found = [rows for f in files for n, rows in read_rows(storage, f).items() if n == name]
            now = pl.concat(rows.select("c0", "c1", "ts", "te", "n") for rows in found)
            for t in range(max(2, horizon), 2 * epoch + 2):
                assert snapshot(now, t) == snapshot(pl.concat(every[name]), t), (name, epoch, t)
    # closings and what they close meet: no more is kept as time passes
    assert max(sizes[160:]) <= 1.3 * max(sizes[60:140])


@pytest.mark.parametrize("killed", [False, True])
def test_epochs_go_on_while_files_are_merged(tmp_path: Path, killed: bool) -> None:
    """Files that come meanwhile are kept, readers find those that are read; a process that ends before the end has lost nothing."""
    storage, dice, values = Storage(str(tmp_path)), random.Random(8), dict[int, int]()
    ledger, background, go = Ledger(storage), merging.InBackground(), threading.Event()
    every: list[pl.DataFrame] = []

    def epoch() -> None:
        number = ledger.latest.epoch + 1
        every.append(changes(dice, values, 2 * number, 2 * number + 2))
        files = write_results(storage, f"{number:08d}-0", {"op": every[-1]})
        ledger.commit(replace(ledger.latest, epoch=number, upto=2 * number + 2, results=tuple(files)))

    def merge(files: Sequence[ResultFile]) -> list[ResultFile]:
        assert go.wait(20)
        return merging.merged(storage, 9, files, None, 4)

    for _ in range(9):
        epoch()
    assert merging.rows_to_merge(storage, ledger.files, None, 4) == sum(r.height for r in every)
    background.start(storage, ledger.files, merge)
    old = ledger.files
    for _ in range(3):
        epoch()
        assert not background.is_due
    go.set()
    background.wait()
    assert background.is_due
    if not killed:
        assert ledger.tidy(lambda number, files: background.take(files))
        assert len(ledger.files) == 4
        assert background.is_free
        assert all(read_rows(storage, f) for f in old), "a reader has them until the next merge"
    again = Ledger(storage)
    assert again.latest.epoch == 12
    now, whole = rows_of(storage, list(again.files)), pl.concat(every)
    for t in range(2, 26):
        assert snapshot(now, t) == snapshot(whole, t), t
    ledger = Ledger.held(storage)
    left = {f"results/{n}" for n in storage.names("results")}
    assert left == {f.file for f in ledger.files}, "what nobody took over is collected"
    ledger.release()


def test_what_goes_wrong_while_files_are_merged_is_told(tmp_path: Path) -> None:
    background = merging.InBackground()

    def full(files: Sequence[ResultFile]) -> list[ResultFile]:
        raise OSError("no space left on device")

    background.start(Storage(str(tmp_path)), [], full)
    with pytest.raises(OSError, match="no space left"):
        background.take([])
    assert background.is_free


def test_retention_leaves_what_is_being_merged(tmp_path: Path) -> None:
    storage, ledger = Storage(str(tmp_path)), Ledger(Storage(str(tmp_path)))
    rows = pl.DataFrame({"c0": [1], "ts": [2], "te": [3], "n": [1]})
    files = tuple(write_results(storage, "00000001-0", {"op": rows}))
    ledger.commit(replace(ledger.latest, epoch=1, upto=50, results=files))
    ledger.forget_before(40, files)
    assert ledger.files == files
    ledger.forget_before(40)
    assert not ledger.files
    assert not storage.names("results")
