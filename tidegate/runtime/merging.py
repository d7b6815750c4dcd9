"""Many small result files become few: the rows stay, so no answer changes.

Files of one level are merged into one of the next, so a row is rewritten as often as there are levels, and their number grows
with the logarithm of the number of epochs. Where answers are kept for a while only, all files of before the horizon become one: a row and its
closing meet there, and what ended before the horizon is left out; of the others, neighbours become one. Rows that were refused are merged by
levels in any case: a file of them goes when its newest epoch is before the horizon.

A file is made of no more than some millions of rows, as merging happens in memory. What is little is merged between two epochs; more than that by a thread of its
own (`InBackground`), while epochs go on: it reads files that do not change and writes files that nobody knows yet. Between two later epochs the index takes them over, all at once, with what has
come meanwhile; until then, and if the process ends before, the files that it has read are the answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.exchange.messages import ResultFile
from tidegate.kernels.rows import Frame
from tidegate.runtime.faults import reach
from tidegate.runtime.ledger import Ledger
from tidegate.runtime.results import matched
from tidegate.storage import Storage, level_of
from tidegate.worker.result_files import (
    is_refused,
    read_directory,
    read_rows,
    summed,
    write_refused,
    write_results,
)

FILES = 64
"""More files of one level than this are merged."""

LARGE = 2_000_000
"""Files are merged into one of no more rows than this: merging happens in memory."""

AT_ONCE = 200_000
"""So many rows are merged between two epochs: less than the pause between them takes."""

Merged = Callable[[Storage, int, Sequence[ResultFile], int, int | None], list[ResultFile]]
"""Makes files of a level of others, without what ended before a horizon."""


def rows_to_merge(storage: Storage, files: Sequence[ResultFile], horizon: int | None, limit: int) -> int:
    """How many rows `merged` would write again."""
    counted = 0

    def count(_: Storage, epoch: int, chosen: Sequence[ResultFile], level: int, horizon: int | None) -> list[ResultFile]:  # fmt: skip
        nonlocal counted
        counted += sum(f.counts.rows for f in chosen)
        return list(chosen)

    merged(storage, 0, files, horizon, limit, count)
    return counted


class InBackground:
    """One merge at a time, by a thread of its own."""

    def __init__(self) -> None:
        self.files: tuple[ResultFile, ...] = ()
        """The files as they were when it began; none may be deleted before its end."""
        self._thread: threading.Thread | None = None
        self._after: list[ResultFile] = []
        self._problem: BaseException | None = None

    @property
    def is_due(self) -> bool:
        """Whether a merge has come to its end and was not taken yet."""
        return self._thread is not None and not self._thread.is_alive()

    @property
    def is_free(self) -> bool:
        return self._thread is None

    def tidy(self, ledger: Ledger, horizon: int | None, limit: int) -> None:
        """Between two epochs: take over what was merged, or merge what is little, or begin to merge what is more."""
        if self.is_due:
            ledger.tidy(lambda epoch, files: self.take(files))
        elif self.is_free:
            storage = ledger.storage
            merge = partial(merged, storage, ledger.latest.epoch, horizon=horizon, limit=limit)
            if rows_to_merge(storage, ledger.files, horizon, limit) > AT_ONCE:
                self.start(storage, ledger.files, merge)
            else:
                ledger.tidy(lambda epoch, files: merge(files))

    def start(self, storage: Storage, files: Sequence[ResultFile], merge: Callable[[Sequence[ResultFile]], list[ResultFile]]) -> None:  # fmt: skip
        """Begin to merge."""
        self.files = tuple(files)

        def work() -> None:
            try:
                after = merge(self.files)
                known = {f.file for f in self.files}
                storage.sync(f.file for f in after if f.file not in known)
                reach("after merge")
                self._after = after
            except BaseException as problem:  # told to whoever takes what was merged
                self._problem = problem

        self._thread = threading.Thread(target=work, name="tidegate-merging", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait for the end of what runs."""
        if self._thread is not None:
            self._thread.join()

    def abandon(self) -> None:
        """Wait for the end of what runs and leave it: whoever opens the directory next collects what was written."""
        self.wait()
        self.files, self._thread, self._after, self._problem = (), None, [], None

    def take(self, files: Sequence[ResultFile]) -> list[ResultFile]:
        """The files of now with those that were merged in the place of what they were made of; what went wrong is raised."""
        self.wait()
        before, after, problem = {f.file for f in self.files}, self._after, self._problem
        self.abandon()
        if problem is not None:
            raise problem
        now = {f.file for f in files}
        kept = [f for f in after if f.file in now or f.file not in before]
        return [*kept, *(f for f in files if f.file not in before)]


def merged(
    storage: Storage,
    epoch: int,
    files: Sequence[ResultFile],
    horizon: int | None,
    limit: int = FILES,
    merge: Merged | None = None,
) -> list[ResultFile]:
    """The files as they are after merging; new ones are written, old ones still exist."""
    after: list[ResultFile] = []
    merge_answers = merge or _merge
    if horizon is not None:
        kept = [f for f in files if not is_refused(f)]
        after = _all_kept(storage, epoch, kept, horizon, limit, merge_answers)
        files = [f for f in files if is_refused(f)]
    for refused, section in dict.fromkeys((is_refused(f), f.section) for f in files):
        mine = given = [f for f in files if f.section == section and is_refused(f) == refused]
        # What is made here is not merged again here: nobody would know that it has to be deleted.
        for level in range(max((level_of(f.file) for f in given), default=0) + 1):
            same = [f for f in given if level_of(f.file) == level]
            chosen = _fitting(same, LARGE) if len(same) > limit else []
            if len(chosen) > 1:
                how = (merge or _merge_refused) if refused else merge_answers
                together = how(storage, epoch, chosen, level + 1, None)
                mine = [f for f in mine if f not in chosen] + together
        after += mine
    return after


def _all_kept(
    storage: Storage, epoch: int, files: Sequence[ResultFile], horizon: int, limit: int, merge: Merged
) -> list[ResultFile]:
    """The files of answers that are kept for a while: those of many operators, and each operator's own.

    An operator is alone in some epochs and has company in others, so a row and its closing may be in files of both kinds: they meet when
    those of many are merged.
    """
    of_many = [f for f in files if f.section is None]
    own: dict[str, list[ResultFile]] = {}
    for file in files:
        if file.section is not None:
            own.setdefault(file.section, []).append(file)
    groups: list[list[ResultFile]] = [of_many]
    if len(of_many) > limit:
        inside = {section for f in of_many for section in read_directory(storage, f.file)}
        of_many += [f for section in sorted(inside) for f in own.pop(section, [])]
    groups += own.values()
    after = []
    for mine in groups:
        after += _merge_kept(storage, epoch, mine, horizon, merge) if len(mine) > limit else mine
    return after


def _merge_kept(
    storage: Storage, epoch: int, files: Sequence[ResultFile], horizon: int, merge: Merged
) -> list[ResultFile]:
    """The files with what has ended before the horizon left out, as far as it is in files that all began before it."""
    # Later epochs say nothing of earlier instants, so this is the order of epochs, merged or not.
    rest = sorted(files, key=lambda f: f.counts.max_ts)
    if sum(f.counts.rows for f in rest) <= LARGE:
        return merge(storage, epoch, rest, 1, horizon)
    # The first of them holds what lasts. It is written again when much has come that may have ended, however large it is.
    lasting = rest[0].counts.rows
    old = _fitting([f for f in rest if f.counts.max_ts < horizon], 2 * max(LARGE, lasting))
    worth = 2 * sum(f.counts.rows for f in old[1:]) >= lasting
    after = merge(storage, epoch, old, 1, horizon) if len(old) > 1 and worth else old
    rest = rest[len(old) :]
    while rest:
        group = _fitting(rest, LARGE)
        # A closing may stand for a row of an earlier file: here they only stand together.
        after += merge(storage, epoch, group, 1, None) if len(group) > 1 else group
        rest = rest[len(group) :]
    return after


def _fitting(files: Sequence[ResultFile], most: int) -> list[ResultFile]:
    """The first of the files, and those after it that have no more rows together than this."""
    rows, count = 0, 0
    for file in files:
        rows += file.counts.rows
        if count and rows > most:
            break
        count += 1
    return list(files[:count])


def _merge(
    storage: Storage, epoch: int, files: Sequence[ResultFile], level: int, horizon: int | None
) -> list[ResultFile]:
    parts: dict[str, list[Frame]] = {}
    for file in files:
        for section, rows in read_rows(storage, file).items():
            parts.setdefault(section, []).append(rows)
    sections = {section: _together(rows, horizon) for section, rows in parts.items()}
    return list(write_results(storage, f"{epoch:08d}-m", sections, level))


def _merge_refused(
    storage: Storage, epoch: int, files: Sequence[ResultFile], level: int, _: int | None
) -> list[ResultFile]:
    source = files[0].section
    assert source is not None
    tables = [pq.read_table(pa.BufferReader(storage.read_sealed(f.file))) for f in files]
    rows = pa.concat_tables(tables, promote_options="default")
    name = write_refused(storage, source, f"{epoch:08d}-m", rows, level)
    return [ResultFile(name, source, summed([f.counts for f in files]))]


def _together(parts: Sequence[Frame], horizon: int | None) -> Frame:
    rows = pl.concat(parts)
    if horizon is not None:
        payload = [c for c in rows.columns if c not in ("ts", "te", "n")]
        rows = rows.filter(pl.col("te") >= horizon)
        if not any(rows.schema[c].is_nested() for c in payload):
            whole, rest = _apart(rows, payload)
            rows = pl.concat([matched(whole, payload).filter(pl.col("te") >= horizon), rest])
    return rows.sort("ts", maintain_order=True)


def _apart(rows: Frame, payload: Sequence[str]) -> tuple[Frame, Frame]:
    """The rows of payloads of which nothing is closed before it has come, and the others: they close rows of other files.

    >>> rows = pl.DataFrame({"c0": [7, 8, 8], "ts": [5, 1, 4], "te": [99] * 3, "n": [-1, 1, -1]})
    >>> [part["c0"].to_list() for part in _apart(rows, ["c0"])]
    [[8, 8], [7]]
    """
    numbered = rows.with_row_index("g")
    first = pl.col("g").first()
    group = numbered.select(first.over(list(payload)) if payload else pl.col("g") * 0)
    each = rows.select("ts", "te", "n", group["g"])
    starts = each.select("g", "n", t="ts")
    ends = each.select("g", -pl.col("n"), t="te")
    net = pl.concat([starts, ends]).group_by("g", "t").agg(pl.col("n").sum()).sort("t")
    low = net.filter(pl.col("n").cum_sum().over("g") < 0)["g"].unique()
    open_ended = group["g"].is_in(low.implode())
    return rows.filter(~open_ended), rows.filter(open_ended)
