"""The queries: one file of SQL each, with a comment that says in words what is asked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from sqlglot import exp

from tidegate.errors import Diagnostic, did_you_mean
from tidegate.language.dialect import parse

FOLDER = Path(__file__).parent / "queries"


@dataclass(frozen=True)
class NexmarkQuery:
    """A query file: definitions of its own, then one query over the streams of its family."""

    name: str
    family: str
    """`nexmark`, `original`, or `sliding`: what other engines can only do in part, over the first family's streams."""
    text: str

    @property
    def question(self) -> str:
        """What is asked, in words."""
        lines = re.match(r"(?:--.*\n)+", self.text)
        return " ".join(line.removeprefix("--").strip() for line in (lines[0] if lines else "").splitlines())

    def script(self, data: Path | str) -> str:
        """The streams over the files below `data`, and the query."""
        return prelude(self.family, data) + self.text.replace("$DATA", str(data))

    def statements(self, data: Path | str) -> tuple[str, str]:
        """(definitions, the query itself): the query stands last."""
        own, semicolon, asked = self._bare.replace("$DATA", str(data)).rpartition(";")
        return prelude(self.family, data) + own + semicolon, asked.strip()

    @property
    def reads(self) -> frozenset[str]:
        """The files that the query reads, by the names of their directories."""
        named = {t.name.lower() for s in parse(self.text) for t in s.find_all(exp.Table)}
        return frozenset(re.findall(r"\$DATA/(\w+)", self.text)) | (named & set(_STREAMS))

    @property
    def _bare(self) -> str:
        """The text without its comments and its last semicolon."""
        lines = [line for line in self.text.splitlines() if not line.startswith("--")]
        return "\n".join(lines).rstrip().removesuffix(";")


_STREAMS = ("person", "auction", "bid", "openauction", "closedauction", "item", "category")


def prelude(family: str, data: Path | str) -> str:
    """The definitions of a family's streams over the files below `data`."""
    place = FOLDER / family if family == "original" else FOLDER
    return (place / "streams.sql").read_text(encoding="utf-8").replace("$DATA", str(data))


@lru_cache(maxsize=1)
def queries() -> dict[str, NexmarkQuery]:
    """Every query by name: the public ones as q0, q1, …, then the original ones.

    >>> list(queries())[:3], queries()["q2"].question
    (['q0', 'q1', 'q2'], 'The bids on one auction of 123, with their prices.')
    """
    found = {}
    families = {"nexmark": FOLDER, "original": FOLDER / "original", "sliding": FOLDER / "sliding"}
    for family, place in families.items():
        for path in sorted(place.glob("*.sql"), key=lambda p: _order(p.stem)):
            if path.stem != "streams":
                found[path.stem] = NexmarkQuery(path.stem, family, path.read_text(encoding="utf-8"))
    return found


def query(name: str) -> NexmarkQuery:
    """A query by name."""
    known = queries()
    if name not in known:
        raise Diagnostic(
            "UNKNOWN_QUERY", f"there is no query '{name}'", help=did_you_mean(name, list(known), "queries")
        )
    return known[name]


def _order(name: str) -> tuple[int, str]:
    number = re.match(r"q(\d+)", name)
    return (int(number[1]) if number else 0, name)
