"""`console()`: each change on a line, as `+ 1, 2 @ 5`, or the rows of each answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from pyspark.sql import DataFrame

from tidegate.connectors.protocol import ANSWER, Sink, form_of
from tidegate.language.signatures import Option, Signature
from tidegate.spark.values import rows_in_utc


@dataclass
class ConsoleSink:
    """Prints, and knows what it has printed while the program runs."""

    null: str = "NULL"
    form: Literal["changes", "complete"] = "changes"
    _done: int = field(default=0)
    place: ClassVar[str] = "the console"
    forgets: ClassVar[bool] = True

    def has(self, epoch: int) -> bool:
        return epoch <= self._done

    def write(self, epoch: int, changes: DataFrame) -> None:
        # The time is the last column, or the one before the batch.
        after = -2 if changes.columns[-1] == "batch" and self.form == "changes" else -1
        if self.form == "complete":
            print(f"the answer after epoch {epoch}:", flush=True)
        for row in rows_in_utc(changes):
            if self.form == "complete":
                print(self._values(row), flush=True)
            else:
                print(f"{row[0]} {self._values(row[1:after])} @ {row[after]}", flush=True)
        self._done = epoch

    def _values(self, values: Sequence[Any]) -> str:
        return ", ".join(self.null if v is None else str(v) for v in values)


class Console:
    signature = Signature(
        "console",
        options=(ANSWER, Option("null", meaning="how NULL is printed")),
        meaning="one change per line, or one row of the answer",
    )

    def open(self, arguments: Sequence[Any], settings: dict[str, str]) -> Sink:
        return ConsoleSink(settings.get("null", "NULL"), form_of(settings))
