"""Every error is one Diagnostic: its condition, its caret, its kind, and nothing half-registered."""

from __future__ import annotations

import pickle

import pytest

from tests.language.world import World
from tests.language.wrong import BASE, cases
from tidegate.errors import Diagnostic, Kind
from tidegate.language import syntax
from tidegate.language.binder import bind
from tidegate.language.catalog import Catalog
from tidegate.language.dialect import parse
from tidegate.language.statements import define
from tidegate.scalars.functions import AggregateFunction, ScalarFunction
from tidegate.types import DOUBLE, INT

CARET = "‸"


def world() -> World:
    twice = ScalarFunction("twice", lambda x: 2 * x, INT, 1)
    gmean = AggregateFunction("gmean", float, lambda a, b: a * b, lambda p: p, DOUBLE, 1)
    return World().function(twice).function(gmean).run(BASE)


def run(text: str, catalog: Catalog) -> Catalog:
    for statement in parse(text):
        if isinstance(statement, (syntax.CreateBase, syntax.CreateView, syntax.DropDefinition)):
            catalog = define(statement, catalog, text)
        else:
            bind(statement, catalog, text)
    return catalog


def wrong(text: str, catalog: Catalog) -> Diagnostic:
    with pytest.raises(Diagnostic) as raised:
        run(text, catalog)
    return raised.value


def place(marked: str) -> tuple[int, int]:
    """Line and column of the mark, both counted from 1."""
    before = marked[: marked.index(CARET)].split("\n")
    return len(before), len(before[-1]) + 1


@pytest.mark.parametrize(("condition", "marked"), cases())
def test_condition_and_caret(condition: str, marked: str) -> None:
    text = marked.replace(CARET, "")
    catalog = world().catalog
    before = dict(catalog.definitions), dict(catalog.functions), dict(catalog.aggregates)
    found = wrong(text, catalog)
    assert found.condition == condition
    assert found.kind == (Kind.UNSUPPORTED if condition == "UNSUPPORTED" else Kind.USER)
    assert found.position is not None
    if CARET in marked:
        assert (found.position.line, found.position.column) == place(marked)
    assert (dict(catalog.definitions), dict(catalog.functions), dict(catalog.aggregates)) == before
    assert str(found).splitlines()[1].strip() in text, "the line of the text is shown"


def test_there_are_many() -> None:
    assert len(cases()) >= 60
    assert len(set(cases())) == len(cases())


def test_the_base_is_not_wrong() -> None:
    """Each clause that the table misuses has a use that works."""
    good = """
    SELECT a, COUNT(*) FROM S WINDOW(PARTITION BY a ROWS 5 SLIDE 2) x GROUP BY a HAVING COUNT(*) > 1;
    SELECT itemID FROM Bid WINDOW(RANGE 5 MINUTES SLIDE 1 MINUTE) x ORDER BY price LIMIT 1 OFFSET 1;
    SELECT * EXCEPT (s) FROM S JOIN R USING (a) WHERE twice(a) > (SELECT gmean(c) FROM R);
    WITH x(p) AS (SELECT a FROM S) SELECT * FROM x WHERE p = ANY (SELECT a FROM P);
    SELECT FIRST(a), QUANTILE(b, 0.25), TOP_K(b, 2) FROM S WINDOW(RANGE 3) x;
    RSTREAM(SELECT a FROM S) EVERY 5;
    CREATE OR REPLACE VIEW V AS SELECT a, b AS n FROM S;
    DROP VIEW V; DROP TABLE T; DROP STREAM IF EXISTS Nothing;
    """
    after = run(good, world().catalog)
    assert sorted(after.names) == ["Bid", "P", "R", "S"]


def test_a_script_stops_at_its_first_error() -> None:
    """What came before the wrong statement stays, nothing of it or after it does."""
    there = world()
    with pytest.raises(Diagnostic):
        there.run(
            "CREATE VIEW A AS SELECT a FROM S; CREATE VIEW B AS SELECT zz FROM S; CREATE VIEW C AS SELECT a FROM S;"
        )
    assert there.catalog.find("A") is not None
    assert there.catalog.find("B") is there.catalog.find("C") is None


def test_syntax_errors_come_before_anything_is_defined() -> None:
    there = world()
    with pytest.raises(Diagnostic):
        there.run("CREATE VIEW A AS SELECT a FROM S; CREATE VIEW B SELECT a FROM S;")
    assert there.catalog.find("A") is None


@pytest.mark.parametrize(
    ("text", "help"),
    [
        ("SELECT prise FROM Bid", "did you mean 'price'?"),
        ("SELECT zz FROM S", "existing columns: a, b, s"),
        ("SELECT a FROM Bids", "did you mean 'Bid'?"),
        ("SELECT a FROM S, R", "say which: S.a or R.a"),
        ("SELECT a FROM S WEHRE a = 1", "did you mean 'WHERE' instead of 'WEHRE'?"),
        ("SELECT a FROM S ORDER BY a", "add LIMIT k, or leave ORDER BY out"),
        ("SELECT * FROM Bid WINDOW(RANGE 5 MINUTS) x", "did you mean 'minutes'?"),
        ("SELECT a FROM S HAVING a > 3", "use WHERE"),
        ("DROP STREAM S", "DROP VIEW V first"),
        ("CREATE STREAM X(a INT, t BIGINT) SOURCE kafak('X') ORDERED BY t", "did you mean 'kafka'?"),
        ("CREATE TABLE X(a INT) FROM csv('x') WITH (seperator = ';')", "did you mean 'separator'?"),
        ("CREATE TABLE X(a INT) FROM csv('x') WITH (header = 2)", "it takes true or false"),
        ("CREATE TABLE X(a INT) FROM kafka('x')", "kafka('servers', 'topic')"),
    ],
)
def test_help_says_what_would_work(text: str, help: str) -> None:
    assert wrong(text, world().catalog).help == help


def test_the_message_shows_the_line_and_the_caret() -> None:
    found = wrong("SELECT a\nFROM S\nWHERE zz = 1", world().catalog)
    assert str(found) == (
        "error[UNKNOWN_COLUMN] at line 3, column 7: there is no column 'zz'\n"
        "  WHERE zz = 1\n"
        "        ^^\n"
        "help: existing columns: a, b, s"
    )


def test_the_streams_of_mixed_time_are_named() -> None:
    assert (
        "'Bid' is ordered by timestamps, 'S' by integers"
        in wrong("SELECT * FROM S, Bid", world().catalog).message
    )


def test_diagnostics_cross_processes() -> None:
    found = wrong("SELECT zz FROM S", world().catalog)
    assert str(pickle.loads(pickle.dumps(found))) == str(found)


def test_deep_nesting_is_an_error_of_the_statement() -> None:
    found = wrong("SELECT " + "(" * 5000 + "1" + ")" * 5000, world().catalog)
    assert (found.condition, found.kind) == ("STATEMENT_TOO_LARGE", Kind.USER)
    assert found.position is not None
