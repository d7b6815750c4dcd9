"""PostgreSQL's log of changes: what `test_decoding` writes, transaction by transaction, and the instants of commits.

`test_decoding` is part of every PostgreSQL, writes each value as the server does (wal2json turns NaN into NULL), and tells every
commit of the database, whichever tables it touched. The last is what instants rest on:

    instant(commit) = max(the commit's timestamp, instant(commit before it in the log) + 1 microsecond)

Commits whose timestamps are equal, or run backwards, thus have instants of their own, in the order of the log; and every
stream of the database computes the same instant for a commit, so a transaction that touched two tables is seen in both
streams at once. A stream begins with a message in the log that says its first instant, which all others take for their
own, too: from there on their sequences are one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

PREFIX = "tidegate"
"""Of messages in the log that are ours."""

_COLUMN = re.compile(
    r"""\s?(?:"((?:[^"]|"")+)"|([^\s"\[]+))\[(.*?)\]:(?:(null)|(unchanged-toast-datum)|B?'((?:[^']|'')*)'|(\S+))""",
    re.DOTALL,
)
_COMMIT = re.compile(r"COMMIT (?:\d+ )?\(at (.+)\)$")
_MESSAGE = re.compile(r"message: transactional: 1 prefix: (\S+), sz: \d+ content:(.*)$", re.DOTALL)
_BEGINNING = re.compile(r"begin (\S+) (\d+)$")

Image = Mapping[str, str | None]


class _Unchanged(str):
    """A large value that an update left as it was: the log does not repeat it."""


UNCHANGED = _Unchanged("(unchanged)")


@dataclass(frozen=True)
class Change:
    """What a statement did to a row of the table: the row after it, and of before it what the log tells."""

    kind: Literal["INSERT", "UPDATE", "DELETE", "TRUNCATE"]
    after: Image = field(default_factory=dict)
    before: Image = field(default_factory=dict)


@dataclass(frozen=True)
class Commit:
    """A transaction of the database: where its record ends, its instant, and what it did to the table."""

    end: int
    instant: int
    changes: tuple[Change, ...]


def quoted_name(name: str) -> str:
    """A name as the log writes it; the words that SQL keeps for itself are quoted there as well, so both forms are tried."""
    return name if re.fullmatch(r"[a-z_][a-z0-9_]*", name) else '"' + name.replace('"', '""') + '"'


def table_prefixes(schema: str, table: str) -> tuple[str, ...]:
    """How lines of the log about a table may begin."""
    forms = [{quoted_name(n), '"' + n.replace('"', '""') + '"'} for n in (schema, table)]
    return tuple(f"table {s}.{t}: " for s in sorted(forms[0]) for t in sorted(forms[1]))


def parse_image(text: str) -> dict[str, str | None]:
    """The columns of a line of the log.

    >>> parse_image("id[integer]:1 name[text]:'it''s' n[numeric]:NaN a[integer[]]:'{1,NULL}' x[text]:null")
    {'id': '1', 'name': "it's", 'n': 'NaN', 'a': '{1,NULL}', 'x': None}
    """
    found: dict[str, str | None] = {}
    place = 0
    while place < len(text):
        match = _COLUMN.match(text, place)
        if match is None:
            raise ValueError(f"a line of the log cannot be read at {text[place : place + 40]!r}")
        quoted, plain, _, null, unchanged, value, bare = match.groups()
        name = quoted.replace('""', '"') if quoted is not None else plain
        if null is not None:
            found[name] = None
        elif unchanged is not None:
            found[name] = UNCHANGED
        else:
            found[name] = value.replace("''", "'") if value is not None else bare
        place = match.end()
    return found


def parse_change(text: str) -> Change:
    """A line of the log without the name of its table.

    >>> parse_change("DELETE: id[integer]:1")
    Change(kind='DELETE', after={}, before={'id': '1'})
    """
    kind, _, rest = text.partition(": ")
    if kind == "INSERT":
        return Change("INSERT", parse_image(rest))
    if kind == "DELETE":
        return Change("DELETE", {}, {} if rest.startswith("(no-tuple") else parse_image(rest))
    if kind == "TRUNCATE":
        return Change("TRUNCATE")
    if kind != "UPDATE":
        raise ValueError(f"the log tells of a change that nobody knows: {kind[:40]}")
    if rest.startswith("old-key: "):
        before, _, after = _split_update(rest)
        return Change("UPDATE", parse_image(after), parse_image(before))
    return Change("UPDATE", parse_image(rest))


def _split_update(rest: str) -> tuple[str, str, str]:
    """The old and the new image; the word between them may be part of a value, too."""
    place = len("old-key: ")
    while not rest.startswith(" new-tuple: ", place):
        match = _COLUMN.match(rest, place)
        if match is None:
            raise ValueError(f"a line of the log cannot be read at {rest[place : place + 40]!r}")
        place = match.end()
    return rest[len("old-key: ") : place], "", rest[place + len(" new-tuple: ") :]


def microseconds(text: str) -> int:
    """A timestamp of the log in microseconds since 1970.

    >>> microseconds("1970-01-01 00:00:01.5+00")
    1500000
    """
    moment = datetime.fromisoformat(text).astimezone(UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


@dataclass(frozen=True)
class Position:
    """How far a stream has read: the end of the last commit's record, and the instant of it.

    While `awaits` is not None the message of that name, which ends the beginning, has not come: all commits until then belong to
    the first instant.
    """

    slot: str
    end: int
    instant: int
    awaits: str | None = None

    def after(
        self, end: int, stamp: int, messages: tuple[str, ...], changes: tuple[Change, ...]
    ) -> tuple[Position, Commit]:
        """The position behind a commit, and the commit with its instant."""
        if self.awaits is not None and not any(self._ends_beginning(m) for m in messages):
            return replace(self, end=end), Commit(end, self.instant, changes)
        known = max([self.instant, *(int(m[2]) for m in map(_BEGINNING.match, messages) if m)])
        instant = max(stamp, known + 1)
        return Position(self.slot, end, instant), Commit(end, instant, changes)

    def _ends_beginning(self, message: str) -> bool:
        found = _BEGINNING.match(message)
        return found is not None and found[1] == self.awaits

    @property
    def promised(self) -> int:
        """The instant before which no commit will be."""
        return self.instant if self.awaits is not None else self.instant + 1


def beginning(token: str, instant: int) -> str:
    """The message with which a stream begins."""
    return f"begin {token} {instant}"


@dataclass
class Transactions:
    """Makes transactions of the log's messages, one after the other."""

    prefixes: tuple[str, ...]
    _changes: list[Change] = field(default_factory=list)
    _messages: list[str] = field(default_factory=list)

    def take(self, text: str, end: int) -> tuple[int, int, tuple[str, ...], tuple[Change, ...]] | None:
        """Where a commit ends, its timestamp, our messages in it, and its changes; None: it is not complete."""
        for prefix in self.prefixes:
            if text.startswith(prefix):
                self._changes.append(parse_change(text[len(prefix) :]))
                return None
        if text.startswith("BEGIN"):
            self._changes, self._messages = [], []
        elif (committed := _COMMIT.match(text)) is not None:
            return end, microseconds(committed[1]), tuple(self._messages), tuple(self._changes)
        elif (message := _MESSAGE.match(text)) is not None and message[1] == PREFIX:
            self._messages.append(message[2])
        return None


def messages(cursor: Any) -> Iterator[Any]:
    """What has come from the server, until nothing is there."""
    while (message := cursor.read_message()) is not None:
        yield message
