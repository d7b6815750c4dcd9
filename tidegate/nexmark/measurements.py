"""Measurements kept between calls: a long series may be made in parts, and its page is written from all of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

Measured = dict[str, Any]


def load(file: Path) -> list[Measured]:
    """What is kept; nothing if there is no such file."""
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def keep(file: Path, fresh: Iterable[Measured], identity: Sequence[str]) -> list[Measured]:
    """Add measurements in place of those that are equal in the fields `identity`; all that is kept then.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "kept"
    ...     _ = keep(file, [{"query": "q1", "s": 1}, {"query": "q2", "s": 2}], ["query"])
    ...     keep(file, [{"query": "q1", "s": 3}], ["query"])
    [{'query': 'q1', 's': 3}, {'query': 'q2', 's': 2}]
    """
    found = {tuple(m.get(k) for k in identity): m for m in load(file)}
    found |= {tuple(m.get(k) for k in identity): m for m in fresh}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(m) + "\n" for m in found.values()), encoding="utf-8")
    return list(found.values())
