"""What people have defined over the network, so that a server that is started again has it, too: the last word about each name, in the order in which it was said."""

from __future__ import annotations

import json
import os
from pathlib import Path

from sqlglot import exp

from tidegate.language import syntax
from tidegate.redaction import masked
from tidegate.spark.values import quote

FILE = "server.json"


class Journal:
    """Statements by what they are about; a file of the state directory, or nowhere."""

    def __init__(self, state: str | None) -> None:
        local = state is not None and "://" not in state
        self._file = Path(str(state)) / FILE if local else None
        self._said: dict[str, str] = {}
        if self._file is not None and self._file.exists():
            self._said = dict(json.loads(self._file.read_text(encoding="utf-8")))

    @property
    def statements(self) -> list[str]:
        return list(self._said.values())

    def note(self, statement: exp.Expression, text: str, query: str | None) -> bool:
        """Remember a statement that has been done; `query` is the name of the one that it started. Whether it could be: secrets are in no file."""
        about = _about(statement, query)
        if about is None:
            return True
        said = dict(self._said)
        said.pop(about, None)
        if not _ends(statement):
            if masked(text) != text:
                return False
            said[about] = _again(statement, text, query)
        if said != self._said:
            self._said = said
            self._write()
        return True

    def _write(self) -> None:
        if self._file is None:
            return
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = self._file.with_suffix(".new")
        with os.fdopen(
            os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8"
        ) as file:
            json.dump(self._said, file, ensure_ascii=False)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, self._file)


def _about(statement: exp.Expression, query: str | None) -> str | None:
    if isinstance(statement, syntax.StopQuery | syntax.AlterQuery):
        return f"query {statement.this.name.lower()}"
    if isinstance(statement, syntax.DropDefinition) and statement.args["kind"] == "QUERY":
        return f"query {statement.this.name.lower()}"
    if isinstance(statement, syntax.CreateBase | syntax.CreateView | syntax.DropDefinition):
        return f"name {statement.this.name.lower()}"
    if isinstance(statement, syntax.SetOption):
        return f"option {statement.this.name.lower()}"
    return None if query is None else f"query {query.lower()}"


def _ends(statement: exp.Expression) -> bool:
    return isinstance(statement, syntax.StopQuery | syntax.DropDefinition)


def _again(statement: exp.Expression, text: str, query: str | None) -> str:
    """The statement that brings about the same when a server begins."""
    if isinstance(statement, syntax.AlterQuery) and query is not None:
        # A query that was altered goes on with its newest text.
        place = text.upper().index(" AS ", text.upper().index(statement.this.name.upper()))
        return f"START {quote(query)}{text[place:]}"
    return text
