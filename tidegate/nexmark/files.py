"""The streams as files: one directory per stream, one file per part, in order of arrival."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from time import process_time

import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from tidegate.errors import Diagnostic, did_you_mean
from tidegate.nexmark import original
from tidegate.nexmark.generator import Nexmark, side_table

PART = 1_000_000
"""Events per file."""

Progress = Callable[[float], None]


def write_stream(
    stream: Nexmark, place: Path, form: str = "parquet", progress: Progress | None = None, part: int = PART
) -> tuple[float, float]:
    """Person, Auction and Bid below `place`, `part` events per file, with Q13's table and a note of the settings.

    Returns the processor seconds spent on generating (after the texts that rows share are made) and on writing.
    """
    _ = Nexmark(50, stream.seed).tables
    done, made, written = 0, 0.0, 0.0
    for number, some in enumerate(stream.parts(part)):
        began = process_time()
        tables = some.tables
        generated = process_time()
        for name, table in tables.items():
            _write(table, place / name.lower() / f"part-{number:05}", form)
        made, written = made + generated - began, written + process_time() - generated
        done += some.events
        if progress is not None:
            progress(done / stream.events)
    _write(side_table(), place / "side" / "part-00000", form)
    settings = {
        "events": stream.events,
        "seed": stream.seed,
        "rate": stream.rate,
        "disorder": stream.disorder,
    }
    (place / "nexmark.json").write_text(json.dumps(settings) + "\n", encoding="utf-8")
    return made, written


def write_original(bids: int, place: Path, seed: int = 1, form: str = "parquet") -> None:
    """The six relations of the original auction below `place`."""
    for name, table in original.generate(bids, seed).items():
        _write(table, place / name.lower() / "part-00000", form)


def settings_of(place: Path) -> dict[str, int]:
    """With what the stream below `place` was generated."""
    note = place / "nexmark.json"
    if not note.exists():
        raise Diagnostic(
            "FILE_NOT_FOUND", f"'{place}' holds no NEXMark stream", help=f"tidegate nexmark generate {place}"
        )
    found: dict[str, int] = json.loads(note.read_text(encoding="utf-8"))
    return found


def _write(table: pa.Table, path: Path, form: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if form == "parquet":
        # row groups small enough that the cores of a machine can share one file
        pq.write_table(table, f"{path}.parquet", row_group_size=250_000, compression="snappy")
    elif form == "csv":
        pyarrow.csv.write_csv(table, f"{path}.csv")
    elif form == "json":
        frame = pl.from_arrow(table)
        assert isinstance(frame, pl.DataFrame)
        frame.write_ndjson(f"{path}.json")
    else:
        raise Diagnostic(
            "FORMAT_UNKNOWN",
            f"'{form}' is no file format",
            help=did_you_mean(form, ["parquet", "csv", "json"], "formats"),
        )
