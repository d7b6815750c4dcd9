"""Connectors by name: what the language knows of them, whoever wrote them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.connectors import registry
from tidegate.connectors.protocol import Option, Signature, Source
from tidegate.errors import Diagnostic
from tidegate.language.catalog import SourceCall, StreamDefinition
from tidegate.language.dialect import parse
from tidegate.language.statements import define
from tidegate.session import Session, connect

LANGUAGE = (Path(__file__).parents[2] / "docs" / "language.md").read_text(encoding="utf-8")


class Mqtt(Source):
    signature = Signature("mqtt", (Option("topic"),), (Option("quality", "integer"),), 1)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installed package with two sources: one that works, one that cannot be imported."""
    info = tmp_path / "seaside-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: seaside\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[tidegate.sources]\nmqtt = seaside:MQTT\nbuoy = seaside:BUOY\nempty = seaside:EMPTY\ncsv = seaside:MQTT\n"
    )
    (tmp_path / "seaside.py").write_text(f"from {__name__} import Mqtt\nMQTT = Mqtt()\nEMPTY = 5\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = dict(registry.SOURCES.own)
    yield tmp_path
    registry.SOURCES.own.clear()
    registry.SOURCES.own.update(before)


def defined(text: str) -> StreamDefinition:
    found = define(parse(text)[0], registry.catalog(), text).find("X")
    assert isinstance(found, StreamDefinition)
    return found


def refused(text: str, session: Session | None = None) -> Diagnostic:
    with pytest.raises(Diagnostic) as raised:
        (session or connect()).sql(text)
    return raised.value


def stream(call: str, more: str = "") -> str:
    return f"CREATE STREAM X(a INT, t BIGINT) SOURCE {call} ORDERED BY t {more}"


def test_options_are_kept_under_their_own_names_whatever_the_spelling() -> None:
    found = defined(
        stream("csv('x')", "WITH (DELIMITER = ';', maxFilesPerTrigger = 3, slack = 7, header = TRUE)")
    )
    assert found.source.option == {"separator": ";", "max_files_per_trigger": "3", "header": "true"}
    assert found.slack == 7


def test_what_spark_formats_take_is_theirs_to_say() -> None:
    assert defined(stream("spark('delta', 'x')", "WITH (versionAsOf = 3)")).source.option == {
        "versionAsOf": "3"
    }


def test_a_package_adds_a_source(package: Path) -> None:
    assert defined(stream("mqtt('tide')", "WITH (quality = 2)")).source == SourceCall(
        "mqtt", ("tide",), (("quality", "2"),)
    )
    found = refused(stream("mqtt('tide')", "WITH (qualty = 2)"))
    assert (found.condition, found.help) == ("UNKNOWN_OPTION", "did you mean 'quality'?")
    assert found.position is not None
    assert found.position.column == stream("mqtt('tide')", "WITH (").__len__() + 1
    assert refused(stream("mqtt('tide', 1)")).help == "mqtt('topic')"
    assert refused(stream("mqt('tide')")).help == "did you mean 'mqtt'?"


def test_a_broken_package_is_named_and_disturbs_nobody(package: Path) -> None:
    for name, why in (("buoy", "BUOY"), ("empty", "has no signature")):
        found = refused(stream(f"{name}('x')"))
        assert found.condition == "CONNECTOR_BROKEN"
        assert "'seaside'" in found.message
        assert why in found.message
    assert isinstance(defined(stream("csv('x')")).source.connector, registry.CsvFiles)


def test_a_function_of_the_program_is_checked_by_its_own_signature() -> None:
    session = connect()
    session.source("feed", lambda host, port=80, *, limit=10, loud=False: [])
    session.sql(stream("feed('h')", "WITH (limit = -5, loud = true)"))
    assert refused(stream("feed()").replace("X", "Y"), session).help == "feed('host'[, port])"
    found = refused(stream("feed('h')", "WITH (limt = 5)").replace("X", "Y"), session)
    assert found.help == "did you mean 'limit'?"
    assert (
        refused(stream("feed('h')", "WITH (loud = 5)").replace("X", "Y"), session).condition
        == "INVALID_OPTION"
    )
    assert refused(stream("feed('h')")).condition == "UNKNOWN_SOURCE", "another session knows nothing of it"


def test_names_that_everybody_knows_stay_what_they_are() -> None:
    session = connect()
    for _ in range(2):
        session.source("feed", list)
    with pytest.raises(Diagnostic, match="'csv'"):
        session.source("csv", list)
    with pytest.raises(Diagnostic, match="'Noop'"):
        session.sink("Noop", lambda epoch, changes: None)


@pytest.mark.parametrize(
    ("call", "condition", "help"),
    [
        ("cvs('o')", "UNKNOWN_SINK", "did you mean 'csv'?"),
        ("csv('o') WITH (seperator = ';')", "UNKNOWN_OPTION", "did you mean 'separator'?"),
        ("csv('o') WITH (separator = '--')", "INVALID_OPTION", "it takes one character"),
        ("parquet()", "WRONG_NUMBER_OF_ARGUMENTS", "parquet('directory')"),
        (
            "parquet('o') WITH (compression = 'rar')",
            "INVALID_OPTION",
            "it takes 'none' or 'snappy' or 'gzip' or 'lz4' or 'zstd'",
        ),
        ("noop() WITH (x = 1)", "UNKNOWN_OPTION", "there are no options yet"),
    ],
)
def test_sinks_are_checked_as_sources_are(call: str, condition: str, help: str) -> None:
    session = connect()
    session.sql("CREATE STREAM S(a INT, t BIGINT) SOURCE memory('S') ORDERED BY t")
    found = refused(f"INSERT INTO {call} SELECT a FROM S", session)
    assert (found.condition, found.help) == (condition, help)
    assert found.position is not None


def test_the_documentation_lists_what_the_registry_knows() -> None:
    assert registry.described() in LANGUAGE
    names = re.findall(r"^\| `(\w+)\(", registry.described(), re.M)
    assert set(names) == set(registry.SOURCES.own) | set(registry.SINKS.own)
