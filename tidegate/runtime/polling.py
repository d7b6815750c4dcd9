"""Sources that are asked for their rows: what they give is stored with the next offset before it is used.

The rows of an answer are one file of the stream's inbox, which holds the next offset too; then the offset itself is noted. If
the program dies in between, the file that was not noted tells how far the source had come, so no answer is taken twice.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.codec import read_signed_json, signed_json
from tidegate.connectors.protocol import Source
from tidegate.errors import Diagnostic
from tidegate.language.catalog import StreamDefinition
from tidegate.storage import Storage, name_in_path

_NEXT = b"tidegate.next"


@dataclass
class Polled:
    """A source of a run, and how far it has come."""

    storage: Storage
    definition: StreamDefinition
    source: Source
    begun: bool
    """Whether rows of it have been used."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _known: tuple[int, Any] | None = None

    def advance(self) -> bool:
        """Ask once; whether there was anything."""
        with self._lock:
            number, offset = self._known = self._known or self._reached()
            found = self.source.poll(self.definition, offset)
            if found is None:
                return False
            rows, after = found
            text = self._text(after)
            if rows.num_rows:
                self.storage.publish(self._file(number), _parquet(rows, text))
            self._note(number + 1, text)
            self._known = number + 1, json.loads(text)
            return True

    def _reached(self) -> tuple[int, Any]:
        """The number of the next answer, and its offset."""
        name = name_in_path(self.definition.name)
        if f"{name}.json" in self.storage.names("offsets"):
            noted = read_signed_json(self.storage.read(f"offsets/{name}.json").to_pybytes())
            if noted is None:
                raise self.storage.damaged(
                    f"offsets/{name}.json", "has been changed: its checksum is another"
                )
            number, offset = noted["number"], noted["offset"]
        elif self.begun:
            raise self.storage.damaged(
                f"offsets/{name}.json", "is missing: it says what the source has given"
            )
        else:
            number, offset = 0, None
        if self._file(number).rsplit("/", 1)[1] in self.storage.names(f"inbox/{name}"):
            stored = pq.read_schema(pa.BufferReader(self.storage.read(self._file(number))))
            text = stored.metadata[_NEXT].decode()
            self._note(number + 1, text)
            return number + 1, json.loads(text)
        return number, offset

    def _note(self, number: int, offset: str) -> None:
        noted = signed_json({"number": number, "offset": json.loads(offset)})
        self.storage.publish(f"offsets/{name_in_path(self.definition.name)}.json", noted)

    def _file(self, number: int) -> str:
        return f"inbox/{name_in_path(self.definition.name)}/{number:020d}.parquet"

    def _text(self, offset: Any) -> str:
        try:
            return json.dumps(offset)
        except (TypeError, ValueError) as problem:
            raise Diagnostic(
                "OFFSET_NOT_JSON",
                f"the source of '{self.definition.name}' gives an offset that cannot be stored: {problem}",
                help="use numbers, texts, lists and dicts of them",
            ) from None


def _parquet(rows: pa.Table, after: str) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(rows.replace_schema_metadata({_NEXT: after}), sink)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]
