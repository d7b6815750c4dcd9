"""`console()`: each change on a line, as `+ 1, 2 @ 5`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from pyspark.sql import DataFrame

from tidegate.connectors.protocol import Sink
from tidegate.language.signatures import Option, Signature


@dataclass
class ConsoleSink:
    """Prints, and knows what it has printed while the program runs."""

    null: str = "NULL"
    _done: int = field(default=0)
    place: ClassVar[str] = "the console"
    form: ClassVar[Literal["changes", "complete"]] = "changes"

    def has(self, epoch: int) -> bool:
        return epoch <= self._done

    def write(self, epoch: int, changes: DataFrame) -> None:
        for row in changes.orderBy("ts", "op").toLocalIterator():
            op, *values, ts = row
            print(f"{op} {', '.join(self.null if v is None else str(v) for v in values)} @ {ts}", flush=True)
        self._done = epoch


class Console:
    signature = Signature(
        "console", options=(Option("null", meaning="how NULL is printed"),), meaning="one change per line"
    )

    def open(self, arguments: Sequence[Any], settings: dict[str, str]) -> Sink:
        return ConsoleSink(settings.get("null", "NULL"))
