"""What the Tab key offers in the shell: words of the language, streams, columns, functions, files, commands.

What may follow is told by the words before: after FROM a name, after SOURCE a source, inside quotes a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from tidegate.language.aggregation import SQL_AGGREGATES
from tidegate.language.binder import bind
from tidegate.language.catalog import ViewDefinition
from tidegate.language.dialect import CLAUSES, STATEMENTS, unclosed
from tidegate.language.show_syntax import KINDS as SHOWN
from tidegate.runtime.settings import OPTIONS
from tidegate.scalars.meaning import FUNCTIONS
from tidegate.time import UNITS

if TYPE_CHECKING:
    from tidegate.session import Session

KEYWORDS = tuple(
    sorted(
        {
            *STATEMENTS, *CLAUSES, "ALL", "AND", "ANTI", "ANY", "AS", "AS OF", "ASC", "BATCH", "BETWEEN", "BY", "CASE", "CLOCK", "COMPLETE",
            "CROSS", "DELAY", "DESC", "DISTINCT", "ELSE", "END", "EVERY", "EXISTS", "FILTER", "FOR", "FULL", "GRANULARITY", "GROUP BY",
            "HISTORY", "IF EXISTS", "IN", "INNER", "INSTANTS", "INTO", "IS", "KEY", "LEFT", "LIKE", "NATURAL", "NOT", "NULL", "OFFSET", "ON",
            "OPERATION", "OR", "OR REPLACE", "ORDER BY", "ORDERED BY", "OUTER", "OVER", "PARTITION BY", "PRIORITY", "QUALIFY", "QUERY", "RANGE", "RIGHT",
            "ROWS", "SEMI", "SESSION", "SLIDE", "SOME", "SOURCE", "STARTING AT", "STEP", "STREAM", "STREAMED", "SYNC BY", "TABLE", "THEN",
            "TICKS", "TO", "UNBOUNDED", "USING", "VALID", "VIEW", "WHEN", "WHILE", "WITH", *(u for u in UNITS if u.endswith("S")),
        }
    )
)  # fmt: skip

_TYPES = ("BIGINT", "BOOLEAN", "DATE", "DECIMAL", "DOUBLE", "FLOAT", "INT", "SMALLINT", "STRING", "TIMESTAMP")
_KINDS = ("STREAM", "VIEW", "TABLE")
_WORD = re.compile(r"[\w$]+$")

Offer = tuple[str, str]
"""A text, and what it is."""


class StatementCompleter(Completer):
    """Offers for the word before the cursor; `commands` are those of the shell that begin with a backslash."""

    def __init__(self, session: Session, commands: Iterable[str] = ()) -> None:
        self.session, self.commands = session, tuple(commands)
        self.files = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        try:
            yield from self._offered(document, complete_event)
        except Exception:  # nothing that is typed may end the shell
            return

    def _offered(self, document: Document, event: CompleteEvent) -> Iterator[Completion]:
        text = document.text_before_cursor
        if text.lstrip().startswith("\\"):
            yield from self._command(text.lstrip(), event)
            return
        if (inside := open_quote(text)) is not None:
            yield from self.files.get_completions(Document(text[inside:]), event)
            return
        statement = text[text.rfind(";") + 1 :]
        found = _WORD.search(statement)
        word = found[0] if found else ""
        before = statement[: len(statement) - len(word)]
        for offer, kind in self._fitting(before, document.text):
            if offer.lower().startswith(word.lower()) and offer != word:
                keyword = kind in ("keyword", "function", "aggregate", "type")
                shown = offer.lower() if keyword and word.islower() else offer
                yield Completion(shown, -len(word), display_meta=kind)

    def _command(self, text: str, event: CompleteEvent) -> Iterator[Completion]:
        name, space, rest = text.partition(" ")
        if not space:
            yield from (Completion(c, -len(name)) for c in self.commands if c.startswith(name))
        elif name == "\\i":
            yield from self.files.get_completions(Document(rest), event)
        else:
            names = self._names() if name.startswith("\\d") else ()
            fitting = ((n, kind) for n, kind in names if n.lower().startswith(rest.lower()))
            yield from (Completion(n, -len(rest), display_meta=kind) for n, kind in fitting)

    def _fitting(self, before: str, whole: str) -> Iterator[Offer]:
        """What may stand behind some words, in the order in which it is offered."""
        words = re.findall(r"[\w$]+|[^\s\w]", before.upper())
        last = words[-1] if words else ""
        if not words:
            yield from ((w, "keyword") for w in STATEMENTS)
            return
        special = self._after(words, last)
        if special is not None:
            yield from special()
            return
        if last == ".":
            qualifier = words[-2] if len(words) > 1 else ""
            yield from self._columns(whole, qualifier)
            return
        yield from self._columns(whole)
        yield from ((w, "keyword") for w in KEYWORDS)
        yield from self._functions()
        yield from self._names()
        if words[0] in ("CREATE", "REGISTER"):
            yield from ((t, "type") for t in _TYPES)

    def _after(self, words: list[str], last: str) -> Callable[[], Iterable[Offer]] | None:
        """What alone may follow the last word."""
        catalog = self.session.catalog
        offers: dict[str, Callable[[], Iterable[Offer]]] = {
            "SHOW": lambda: ((k, "keyword") for k in SHOWN),
            "SET": lambda: ((o, "option") for o in OPTIONS),
            "SOURCE": lambda: ((s, "source") for s in catalog.sources),
            "INTO": lambda: ((s, "sink") for s in catalog.sinks),
            "STOP": self._queries,
            "CREATE": lambda: ((k, "keyword") for k in (*_KINDS, "STREAMED VIEW", "OR REPLACE")),
            "DROP": lambda: ((k, "keyword") for k in (*_KINDS, "QUERY")),
            "DESCRIBE": self._names,
            "OVER": self._names,
            "FROM": self._names,
            "JOIN": self._names,
        }
        if words[0] == "DROP" and last in _KINDS:
            return self._names
        if words[0] == "DROP" and last == "QUERY":
            return self._queries
        if words[:-1] == ["SHOW"] and last == "QUARANTINE":
            return self._names
        if last == "FROM" and words[:2] == ["CREATE", "TABLE"]:
            return offers["SOURCE"]
        return offers.get(last)

    def _names(self) -> Iterator[Offer]:
        yield from ((d.name, d.kind.lower().rstrip("s")) for d in self.session.catalog.definitions.values())
        yield from self._queries()

    def _queries(self) -> Iterator[Offer]:
        return ((name, "query") for name in self.session.running.names)

    def _functions(self) -> Iterator[Offer]:
        catalog = self.session.catalog
        yield from ((f.name, "your function") for f in catalog.functions.values())
        yield from ((a.name, "your aggregate") for a in catalog.aggregates.values())
        yield from ((name, "aggregate") for name in SQL_AGGREGATES)
        yield from ((name, "function") for name in FUNCTIONS)

    def _columns(self, text: str, qualifier: str = "") -> Iterator[Offer]:
        """The columns of the streams that a statement names (of all, where it names none yet); with a qualifier, those of the stream that it stands for."""
        named = {w.upper() for w in re.findall(r"\w+", text)}
        known = [*self.session.catalog.definitions.values()]
        found = [d for d in known if d.name.upper() in named]
        if not found and not qualifier and text.lstrip()[:6].upper() == "SELECT":
            found = known
        if qualifier:
            aliased = re.search(
                rf"(\w+)\s+(?:WINDOW\s*\([^)]*\)\s*)?(?:AS\s+)?{re.escape(qualifier)}\b", text, re.IGNORECASE
            )
            meant = {qualifier.upper(), aliased[1].upper() if aliased else ""}
            found = [d for d in found if d.name.upper() in meant] or found
        seen: set[str] = set()
        for definition in found:
            for name, kind in self._fields(definition):
                if name.lower() not in seen:
                    seen.add(name.lower())
                    yield name, f"{kind} of {definition.name}"

    def _fields(self, definition: object) -> list[Offer]:
        with suppress(Exception):  # a view may need Spark to be understood: it is not started for this
            if isinstance(definition, ViewDefinition):
                plan = bind(definition.query, self.session.catalog, definition.text, None).plan
                names = definition.columns or [f.name for f in plan.schema]
                return [(n, str(f.type)) for n, f in zip(names, plan.schema, strict=False)]
            columns = getattr(definition, "columns", ())
            return [(c.name, str(c.type)) for c in columns]
        return []


def open_quote(text: str) -> int | None:
    """Where the text begins that a quote has opened and none has closed; None outside of quotes.

    >>> open_quote("SOURCE csv('data/ro"), open_quote("SELECT 'it''s'"), open_quote("-- it's\\nSELECT ")
    (12, None, None)
    """
    opening = unclosed(text)
    return opening + 1 if opening is not None and text[opening] == "'" else None
