"""`noop()`: changes are computed and thrown away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from pyspark.sql import DataFrame

from tidegate.connectors.protocol import Sink
from tidegate.language.signatures import Signature


@dataclass
class NoSink:
    _done: int = field(default=0)
    place: ClassVar[str] = "nowhere"
    form: ClassVar[Literal["changes", "complete"]] = "changes"

    def has(self, epoch: int) -> bool:
        return epoch <= self._done

    def write(self, epoch: int, changes: DataFrame) -> None:
        changes.write.format("noop").mode("overwrite").save()
        self._done = epoch


class Noop:
    signature = Signature("noop", meaning="nowhere: changes are computed and thrown away")

    def open(self, arguments: Sequence[Any], settings: dict[str, str]) -> Sink:
        return NoSink()
