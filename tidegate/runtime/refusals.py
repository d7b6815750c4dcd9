"""Rows that were refused: what a run says about them at its end, and the run that stops at the first of them.

rows in = rows used + rows refused, and nobody has to ask for the second number: it is told where a run ends. A stream of
which nothing could be used is no answer but a failure.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from pyspark.sql import SparkSession

from tidegate.connectors.files import local_path
from tidegate.connectors.registry import SOURCES
from tidegate.errors import Diagnostic
from tidegate.exchange.messages import Message, Quarantined, Refused
from tidegate.language.catalog import StreamDefinition
from tidegate.runtime.ledger import SourceProgress
from tidegate.storage import Storage

LOG = logging.getLogger("tidegate")

ASIDE = "the file is set aside"
"""The reason under which whole files are counted."""


def stop_at_refused(
    spark: SparkSession, definitions: Mapping[str, StreamDefinition], messages: Iterable[Message]
) -> None:
    """Raise the first refused row of a source that stops there, with its file, line, column and value."""
    first: dict[str, Refused] = {}
    for message in messages:
        if isinstance(message, Quarantined):
            for name, row in message.first.items():
                if name in definitions and definitions[name].stops:
                    first[name] = min(first.get(name, row), row, key=_order)
    for name, row in sorted(first.items()):
        raise _stopped(spark, definitions[name], row)


def _order(row: Refused) -> tuple[str, int]:
    return row.file or "", row.row or 0


def _stopped(spark: SparkSession, definition: StreamDefinition, row: Refused) -> Diagnostic:
    reason, where = row.reason, ""
    if row.file is not None:
        file = local_path(row.file)
        found = SOURCES.named(definition.source).first_refused(spark, definition, file)
        where = f" in {file}"
        if found is not None:
            reason, where = found[1], f"{where}, {found[0]}"
    else:
        where = f": {row.raw}" if row.raw is not None else ""
    return Diagnostic(
        "ROW_REFUSED",
        f"'{definition.name}' stops at a row that cannot be used: {reason}{where}",
        help="mend the row; without on_error = 'stop' such rows go to the quarantine",
    )


def lines(sources: Mapping[str, SourceProgress]) -> list[str]:
    """How many rows were refused and why, a line for each source that refused any.

    >>> lines({"S": SourceProgress(refused={"column 'a' is no INT": 2, "the time is NULL": 1})})
    ["'S' refused 3 rows: 2 x column 'a' is no INT, 1 x the time is NULL"]
    """
    found = []
    for name, source in sorted(sources.items()):
        if source.refused:
            rows = {reason: count for reason, count in source.refused.items() if reason != ASIDE}
            total, files = sum(rows.values()), source.refused.get(ASIDE, 0)
            why = ", ".join(
                f"{count:,} x {reason}" for reason, count in sorted(rows.items(), key=lambda r: -r[1])
            )
            parts = [f"refused {total:,} row{'s' * (total != 1)}: {why}"] if rows else []
            parts += [f"set {files:,} file{'s' * (files != 1)} aside"] if files else []
            found.append(f"'{name}' {' and '.join(parts)}")
    return found


def report(sources: Mapping[str, SourceProgress], storage: Storage) -> None:
    """Say it in the log, which goes to the terminal unless the program wants it elsewhere."""
    end = " until the program ends; for longer with a state directory" if storage.temporary else ""
    for line in lines(sources):
        LOG.warning("%s (kept in %s%s)", line, storage.path("quarantine"), end)


def all_refused(name: str, source: SourceProgress, example: Refused | None = None) -> Diagnostic:
    """Nothing of a stream could be used."""
    (line,) = lines({name: source})
    first = f"; the first: {example.reason}" if example is not None else ""
    where = f" in {local_path(example.file)}" if example is not None and example.file is not None else ""
    return Diagnostic(
        "ALL_ROWS_REFUSED",
        f"no row of '{name}' can be used: {line}{first}{where}",
        help="compare the declared columns, their types and the source's options with what it holds",
    )


def check_used(sources: Mapping[str, SourceProgress]) -> None:
    """A live source of which every row was refused has failed."""
    for name, source in sorted(sources.items()):
        refused = sum(count for reason, count in source.refused.items() if reason != ASIDE)
        if 0 < source.rows <= refused:
            raise all_refused(name, source)
