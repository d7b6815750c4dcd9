"""The session of a server: the operator's script runs in it as it stands, and what comes over the network under a closed policy."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

from tidegate.errors import Diagnostic, foreign
from tidegate.language import syntax
from tidegate.language.dialect import Tidegate, parse
from tidegate.policy import Policy
from tidegate.redaction import masked
from tidegate.runtime.running import LiveQuery
from tidegate.runtime.snapshots import instant_of
from tidegate.runtime.waiting import WaitingQuery
from tidegate.server import reads
from tidegate.server.access import includes
from tidegate.server.encoding import Format, answer, table
from tidegate.server.journal import Journal
from tidegate.session import Session

LOG = logging.getLogger("tidegate.server")

ASKING = 4
"""So many questions that need Spark are answered at once; others wait."""


@dataclass(frozen=True)
class Statement:
    """One of a script, with all that stands before it blanked out, so that places are those of the script."""

    parsed: exp.Expression
    text: str


def statements(script: str) -> Iterator[Statement]:
    """The statements of a script, one after the other."""
    parse(script)  # a mistake anywhere is told before anything is done
    ends = [t.start for t in Tidegate().tokenize(script) if t.token_type == TokenType.SEMICOLON]
    start = 0
    for end in [*ends, len(script)]:
        text = re.sub(r"[^\n]", " ", script[:start]) + script[start:end]
        for parsed in parse(text):
            yield Statement(parsed, text)
        start = end + 1


def _only_table(query: exp.Expression) -> str | None:
    """The name in `SELECT * FROM name`; None: the query is another."""
    given = {key: value for key, value in query.args.items() if value}
    if not isinstance(query, exp.Select) or not set(given) <= {"expressions", "from", "from_"}:
        return None
    first, read = query.expressions[0], given.get("from") or given.get("from_")
    table = None if read is None else read.this
    if len(query.expressions) > 1 or not isinstance(first, exp.Star) or any(first.args.values()):
        return None
    if type(table) is not exp.Table or not isinstance(table.this, exp.Identifier):
        return None
    return table.name if {k for k, v in table.args.items() if v} == {"this"} else None


def role_for(statement: exp.Expression, session: Session) -> str:
    """The least role that may run a statement: what changes nothing is a question."""
    questions = (syntax.AsOf, syntax.Explain, syntax.Verify, syntax.Preview, syntax.ShowDefinitions)
    if isinstance(statement, (*questions, syntax.DescribeDefinition)) or session.is_snapshot(statement):
        return "ask"
    return "define"


class Host:
    """What everybody who comes over the network shares."""

    def __init__(self, session: Session, policy: Policy, state: str | None) -> None:
        self.session, self.journal = session, Journal(state)
        self._policy = policy
        self._defining, self._asking = threading.Lock(), threading.BoundedSemaphore(ASKING)

    def begin(self, script: str) -> None:
        """Run the operator's script as it stands, then, under the closed policy, what others had defined. Queries begin together."""
        with self.session.running.together():
            for _ in self.session.results(script):
                pass
            self.session.catalog = replace(self.session.catalog, policy=self._policy)
            self.session.__dict__.pop("_ask", None)
            for text in self.journal.statements:
                try:
                    for statement in statements(text):
                        self.session.execute(statement.parsed, statement.text)
                except Diagnostic as problem:
                    LOG.warning("what was defined before cannot be defined again: %s", problem)

    def run(
        self, script: str, role: str, form: Format, limit: int
    ) -> tuple[list[dict[str, Any]], Diagnostic | None]:
        """What the statements of a script give, up to the first that fails, and why it does."""
        found: list[dict[str, Any]] = []
        try:
            for statement in statements(script):
                needed = role_for(statement.parsed, self.session)
                if not includes(role, needed):
                    raise _role_needed(needed)
                found.append(self._answer(statement, needed, form, limit))
        except Exception as problem:
            return found, foreign(problem).locate(script)
        return found, None

    def _answer(self, statement: Statement, needed: str, form: Format, limit: int) -> dict[str, Any]:
        if needed == "ask":
            if (whole := self._whole(statement)) is not None:
                return table(whole.slice(0, limit), form, whole.num_rows > limit)
            with self._asking:
                return answer(self.session.execute(statement.parsed, statement.text), form, limit)
        with self._defining:
            result = self.session.execute(statement.parsed, statement.text)
            query = result.name if isinstance(result, LiveQuery | WaitingQuery) else None
            if not self.journal.note(statement.parsed, statement.text.strip(), query):
                LOG.warning("a definition that holds a secret is gone when the server is started again")
            return answer(result, form, limit)

    def _whole(self, statement: Statement) -> Any:
        """The answer to `SELECT * FROM query AS OF t`, which needs no plan; None: another question."""
        asked = statement.parsed
        if not isinstance(asked, syntax.AsOf) or asked.args.get("batch") is not None:
            return None
        name = _only_table(asked.args["query"])
        live = self.session.running.find(name) if name is not None else None
        if live is None:
            return None
        result = live.result
        try:
            instant = instant_of(asked.args["instant"], result.time_type, statement.text)
            return reads.snapshot(result, result.final_tick(instant))
        except Diagnostic as problem:
            raise problem.locate(statement.text) from None

    def query(self, name: str) -> LiveQuery:
        """A query that runs."""
        found = self.session.running.named(name)
        if isinstance(found, WaitingQuery):
            raise found.why
        return found

    def stop(self, name: str) -> None:
        """Stop a query: it can be started again, and goes on."""
        with self._defining:
            self.session.running.named(name).stop()
            self.journal.note(syntax.StopQuery(this=exp.to_identifier(name)), "", None)

    def failures(self) -> list[str]:
        """What has failed of all that runs."""
        found = [self.session.running.find(name) for name in self.session.running.names]
        runs = {id(live.run): live.run for live in found if live is not None}
        return [masked(str(run.trouble)) for run in runs.values() if run.trouble is not None]


def _role_needed(needed: str) -> Diagnostic:
    return Diagnostic(
        "ROLE_NEEDED", f"this needs a token with the role '{needed}'", help="ask whoever runs the server"
    )
