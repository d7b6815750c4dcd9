"""What statements may reach: a closed session is left by nobody, an open one reads and does not delete."""

from __future__ import annotations

import os
import stat
import uuid
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.language.hostile import HOSTILE
from tidegate import CLOSED, Diagnostic, Session, closed, connect
from tidegate.cli import app
from tidegate.connectors.file_sinks import FileSink
from tidegate.connectors.registry import SOURCES
from tidegate.connectors.sinks import open_sink
from tidegate.language.catalog import SourceCall
from tidegate.redaction import is_secret, masked
from tidegate.runtime.file_gate import gate_of
from tidegate.storage import Storage, name_in_path

CASES = [line.partition(" ") for line in HOSTILE.strip().splitlines()]


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    """A directory that may be read and one that may be written, each with a link that leads out."""
    found = {name: str(tmp_path / name) for name in ("inside", "outside", "sink")}
    for place in found.values():
        os.mkdir(place)
    for name in ("inside", "outside"):
        Path(found[name], "secret.csv" if name == "outside" else "a.csv").write_text("a,t\nx,1\n")
    for name in ("inside", "sink"):
        os.symlink(found["outside"], os.path.join(found[name], "out"))
    return found


def session(places: dict[str, str]) -> Session:
    found = connect(policy=closed(read=[places["inside"]], write=[places["sink"]]))
    found.stream("S", [{"a": "x", "t": 1}], ordered_by="t")
    return found


def refused(found: Session, text: str) -> Diagnostic:
    with pytest.raises(Diagnostic) as caught:
        found.sql(text)
    return caught.value


@pytest.mark.parametrize(("condition", "marked"), [(c, t) for c, _, t in CASES], ids=[t for _, _, t in CASES])
def test_a_hostile_statement_is_refused_where_it_is_hostile(
    places: dict[str, str], condition: str, marked: str
) -> None:
    marked = marked.format(**places)
    found = refused(session(places), marked.replace("‸", ""))
    assert found.position is not None
    assert (found.condition, found.position.start) == (condition, marked.index("‸"))


def test_there_are_enough_hostile_statements() -> None:
    assert len(CASES) >= 70


def test_what_is_named_may_be_reached(places: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    found = session(places)
    for path in (
        f"{places['inside']}/a.csv",
        f"{places['inside']}/a*.csv",
        f"file://{places['inside']}/a.csv",
    ):
        found.sql(f"CREATE OR REPLACE STREAM X(a STRING, t BIGINT) SOURCE csv('{path}') ORDERED BY t")
        assert list(found.query("SELECT a FROM X").definitions) == ["X"]
    monkeypatch.chdir(places["inside"])
    found.sql("CREATE OR REPLACE STREAM X(a STRING, t BIGINT) SOURCE csv('a.csv') ORDERED BY t")


@pytest.mark.usefixtures("spark")
def test_a_link_that_came_later_leads_nowhere(places: dict[str, str]) -> None:
    found = session(places)
    os.mkdir(f"{places['inside']}/more")
    found.sql(f"CREATE STREAM X(a STRING, t BIGINT) SOURCE csv('{places['inside']}/more') ORDERED BY t")
    query = found.query("SELECT a FROM X")
    os.symlink(f"{places['outside']}/secret.csv", f"{places['inside']}/more/b.csv")
    for use in (query.run, query.start, query.verify):
        with pytest.raises(Diagnostic) as caught:
            use()
        assert caught.value.condition == "NOT_ALLOWED"
        assert caught.value.position is not None


@pytest.mark.usefixtures("spark")
def test_a_link_that_comes_where_spark_alone_follows_ends_the_stream(
    places: dict[str, str], tmp_path: Path
) -> None:
    """Folders with columns in their names are Spark's: whoever follows them looks again before each epoch."""
    more = f"{places['inside']}/more"
    os.makedirs(f"{more}/day=1")
    pq.write_table(pa.table({"a": ["x"], "t": [1]}), f"{more}/day=1/a.parquet")
    found = connect(policy=closed(read=[places["inside"]]), state=str(tmp_path / "state"))
    found.sql(f"CREATE STREAM X(a STRING, day INT, t BIGINT) SOURCE parquet('{more}') ORDERED BY t")
    live = found.query("SELECT a, day FROM X").start("q", begin=False)
    live.run.drain()
    os.symlink(f"{places['outside']}/secret.csv", f"{more}/day=1/b.parquet")
    with pytest.raises(Diagnostic) as caught:
        live.run.drain()
    assert caught.value.condition == "NOT_ALLOWED"
    found.close()


@pytest.mark.parametrize("pattern", ["more", "more/*", "mor[^f]"])
def test_a_link_behind_a_link_or_hidden_leads_nowhere(places: dict[str, str], pattern: str) -> None:
    os.remove(f"{places['inside']}/out")
    os.makedirs(f"{places['inside']}/beside/sub")
    os.mkdir(f"{places['inside']}/more")
    text = f"CREATE OR REPLACE STREAM X(a STRING, t BIGINT) SOURCE csv('{places['inside']}/{pattern}') ORDERED BY t"
    os.symlink(f"{places['inside']}/beside", f"{places['inside']}/more/.beside")
    os.symlink(f"{places['inside']}/more", f"{places['inside']}/beside/back")
    found = session(places)
    found.sql(text)
    os.symlink(places["outside"], f"{places['inside']}/beside/sub/out")
    assert refused(found, text).condition == "NOT_ALLOWED"


def test_a_link_that_comes_while_a_stream_is_followed_is_set_aside(places: dict[str, str]) -> None:
    found = session(places)
    os.mkdir(f"{places['inside']}/more")
    found.sql(f"CREATE STREAM X(a STRING, t BIGINT) SOURCE csv('{places['inside']}/more') ORDERED BY t")
    definition = found.query("SELECT a FROM X").definitions["X"]
    gate = gate_of(Storage(f"{places['sink']}/state"), definition, SOURCES.named(definition.source))
    assert gate is not None
    assert gate.look(starting=True) == []
    os.symlink(f"{places['outside']}/secret.csv", f"{places['inside']}/more/b.csv")
    os.symlink(f"{places['inside']}/a.csv", f"{places['inside']}/more/c.csv")
    (aside,) = gate.look()
    assert aside.file == f"{places['inside']}/more/b.csv"
    assert list(gate.let_in) == [f"{places['inside']}/more/c.csv"]


def test_a_sink_is_where_its_uri_says(places: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's functions take a URI for a path below the current directory, where nobody said that answers may go."""
    monkeypatch.chdir(places["outside"])
    for uri in (f"file:{places['sink']}/x", f"file://{places['sink']}/y"):
        sink = open_sink(SourceCall("csv", (uri,)))
        assert isinstance(sink, FileSink)
        sink.claim("me")
    assert sorted(os.listdir(places["sink"])) == ["out", "x", "y"]
    query = connect()
    query.stream("S", [{"a": "x", "t": 1}], ordered_by="t")
    for uri in ("s3a://bucket/x", f"file://host{places['sink']}"):
        found = refused(query, f"INSERT INTO csv('{uri}') SELECT a FROM S")
        assert found.condition == "UNSUPPORTED"
        assert found.position is not None
    assert os.listdir(".") == ["secret.csv"]


def test_sinks_given_by_a_program_pass_too(places: dict[str, str]) -> None:
    query = session(places).query("SELECT a FROM S")
    for use in (
        lambda: query.start(sink=FileSink(places["outside"])),
        lambda: query.into(SourceCall("csv", (places["outside"],))),
        lambda: query.into(SourceCall("console")),
    ):
        with pytest.raises(Diagnostic) as caught:
            use()
        assert caught.value.condition == "NOT_ALLOWED"


def test_what_a_program_adds_may_be_used_but_its_paths_are_looked_at() -> None:
    found = connect(policy=CLOSED)
    found.source("feed", lambda path, limit=3: [], again=True)
    assert refused(
        found, "CREATE STREAM X(a INT, t BIGINT) SOURCE feed('/etc/passwd') ORDERED BY t"
    ).condition == ("NOT_ALLOWED")
    found.source("clock", lambda limit=3: [], again=True)
    found.sql("CREATE STREAM X(a INT, t BIGINT) SOURCE clock(5) ORDERED BY t")


def test_functions_can_be_named() -> None:
    found = connect(policy=replace(CLOSED, functions=frozenset({"levenshtein"})))
    found.stream("S", [{"a": "x", "t": 1}], ordered_by="t")
    assert refused(found, "SELECT soundex(a) FROM S").condition == "FUNCTION_NOT_ALLOWED"


def test_a_program_may_call_its_function_as_it_likes() -> None:
    found = connect(policy=CLOSED)
    found.stream("S", [{"a": "x", "t": 1}], ordered_by="t")
    found.function("reflect", str.upper, "STRING", 1)
    assert [f.name for f in found.query("SELECT reflect(a) AS b FROM S").schema] == ["b"]


@pytest.mark.parametrize(
    "options",
    ["cleanSource = 'delete'", "CLEAN_SOURCE = 'archive'", "sourceArchiveDir = '/x'", "prepareQuery = 'DROP TABLE x'",
     "url = 'jdbc:derby:;databaseName=x;create=true'"],
)  # fmt: skip
def test_an_open_session_reads_and_changes_nothing(options: str) -> None:
    text = f"CREATE STREAM X(a STRING, t BIGINT) SOURCE spark('csv', 'x') ORDERED BY t WITH ({options})"
    found = refused(connect(), text)
    assert found.condition == "NOT_ALLOWED"
    assert found.position is not None
    assert found.position.start == text.index(options)


def test_the_command_line_closes(places: dict[str, str], tmp_path: Path) -> None:
    script = tmp_path / "x.sql"
    script.write_text(f"CREATE TABLE X(a STRING) FROM csv('{places['outside']}/secret.csv'); SELECT * FROM X")
    for command in ("run", "explain", "verify"):
        found = CliRunner().invoke(app, [command, str(script), "--closed", "--read", places["inside"]])
        assert isinstance(found.exception, Diagnostic)
        assert found.exception.condition == "NOT_ALLOWED"
    found = CliRunner().invoke(app, ["run", str(script), "--read", places["inside"]])
    assert isinstance(found.exception, Diagnostic)


# ------------------------------------------------------------------------------------------ secrets

SECRETS = ("open-sesame-1", "open-sesame-2", "open-sesame-3", "s3")
WITH_SECRETS = (
    'kafka.sasl.jaas.config = \'Plain required username="ann" password="open-sesame-1";\'',
    "kafka.ssl.key.password = 'open-sesame-2'",
    "kafka.bootstrap = 'sasl://ann:open-sesame-3@host:9'",
    "kafka.token = 's3'",
)


def test_no_message_tells_a_secret() -> None:
    found, start = connect(), "CREATE STREAM X(a STRING, t BIGINT) SOURCE kafka('h:9', 't') ORDERED BY "
    given = ", ".join(WITH_SECRETS)
    texts = [
        f"{start}t WITH ({given}, nonsense = 1)",
        f"{start}u WITH ({given})",
        f"{start}t WITH ({given}) nonsense",
        f"{start}t WITH ({given}, max_offsets_per_trigger = 'open-sesame-2')",
        f"{start}t WITH ({given}); SELECT nothing FROM X",
        f"{start}t WITH ({given}",
        f"{start}t WITH ({given[:-1]}",
    ]
    for text in texts:
        diagnostic = refused(found, text)
        told = f"{diagnostic}{diagnostic!r}{diagnostic.text}{diagnostic.message}{diagnostic.args}"
        assert [s for s in SECRETS if s in told] == []
        assert diagnostic.text is not None
        assert len(diagnostic.text) == len(text)
    found = connect()
    found.sql(f"{start}t WITH ({given})")
    query = found.query("SELECT a FROM X -- password = 'open-sesame-1'")
    told = f"{found.catalog!r}{query!r}{query.definitions!r}"
    assert [s for s in SECRETS[:3] if s in told] == []
    # They are kept where they are needed.
    assert query.definitions["X"].source.option["kafka.ssl.key.password"] == "open-sesame-2"


@pytest.mark.parametrize(
    "written",
    [
        "kafka.ssl.key.password                        = '‸'",
        "kafka.ssl.key.password =\n                   '‸'",
        "kafka.ssl.key.password /* of the store */ = -- not for others\n '‸'",
        "'kafka.ssl.key.password' = '‸'",
        "\"kafka.ssl.key.password\" = '‸'",
        "kafka.bootstrap = 'sasl://ann:p@‸@host:9'",
    ],
)
def test_a_secret_is_hidden_however_it_is_laid_out(written: str) -> None:
    """Nothing is known yet of a statement that cannot be read: its text alone tells what is secret."""
    secret = f"open-sesame-{uuid.uuid4().hex}"
    option = written.replace("‸", secret)
    text = (
        f"CREATE STREAM X(a STRING, t BIGINT) SOURCE kafka('h:9', 't') ORDERED BY t WITH ({option}) nonsense"
    )
    diagnostic = refused(connect(), text)
    assert diagnostic.text is not None
    assert len(diagnostic.text) == len(text)
    assert secret not in f"{diagnostic}{diagnostic.text}"


@pytest.mark.parametrize(
    "name", ["password", "kafka.ssl.truststore.password", "fs.s3a.secret.key", "api_key", "TOKEN"]
)
def test_names_of_secrets_are_known(name: str) -> None:
    assert is_secret(name)


def test_what_is_no_secret_stays() -> None:
    text = "CREATE STREAM Keys(key INT, t BIGINT) SOURCE csv('https://host:80/x@y') WITH (separator = ';')"
    assert masked(text) == text


@pytest.mark.parametrize(
    ("option", "allowed"),
    [
        ("kafka.interceptor.classes = 'x.Y'", False),
        ("kafka.ssl.engine.factory.class = 'x.Y'", False),
        ("kafka.sasl.client.callback.handler.class = 'x.Y'", False),
        ("kafka.security.providers = 'x.Y'", False),
        ("kafka.metric.reporters = 'x.Y'", False),
        ("kafka.sasl.jaas.config = 'com.sun.security.auth.module.JndiLoginModule required;'", False),
        (
            "kafka.sasl.jaas.config = 'org.apache.kafka.common.security.plain.PlainLoginModule required;'",
            True,
        ),
        ("kafka.security.protocol = 'SASL_SSL'", True),
    ],
)
def test_an_allowed_connector_loads_no_code_by_its_name(option: str, allowed: bool) -> None:
    found = connect(policy=replace(CLOSED, sources=frozenset({"kafka"})))
    text = f"CREATE STREAM X(a STRING, t BIGINT) SOURCE kafka('h:9', 't') ORDERED BY t WITH ({option})"
    if allowed:
        found.sql(text)
    else:
        assert refused(found, text).condition == "NOT_ALLOWED"
    connect().sql(text)


def test_a_path_holds_no_password() -> None:
    text = "CREATE TABLE X(a STRING) FROM csv('s3a://key:open-sesame-4@bucket/x')"
    found = refused(connect(), text)
    assert found.condition == "NOT_ALLOWED"
    assert "sesame" not in str(found)


# -------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize(
    "name", ["../../x", "/etc/x", "a/b", "..", ".", "", "x\0y", "Ünïcödé", "x" * 5000, "a b", "CON", "%2e%2e"]
)
def test_a_name_is_one_short_part_of_a_path(name: str) -> None:
    found = name_in_path(name)
    assert os.path.basename(found) == found
    assert found not in ("", ".", "..")
    assert len(found.encode()) <= 80
    assert found.isascii()


def test_different_names_are_different_files_also_where_case_does_not_count() -> None:
    names = ["bids", "bids ", "Bids ", "BIDS ", "../bids", "../Bids", "x" * 100, "X" * 100, "ß", "ss"]
    names.append(name_in_path("a b"))
    assert len({name_in_path(n).lower() for n in names}) == len(names)


def test_what_is_stored_is_the_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        storage = Storage(str(tmp_path / "a" / "b"))
        storage.write("c/d", b"1")
        storage.publish("c/e", b"2")
        storage.make_folder("f/g")
    finally:
        os.umask(before)
    for folder, folders, files in os.walk(tmp_path / "a"):
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
        assert [f for f in files if stat.S_IMODE(os.stat(os.path.join(folder, f)).st_mode) != 0o600] == []
        assert folders or files or folder.endswith("g")


def test_a_link_in_the_place_of_a_file_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("whole")
    (tmp_path / "state").mkdir()
    os.symlink(tmp_path / "victim", tmp_path / "state" / "x")
    with pytest.raises(OSError, match="symbolic links"):
        Storage(str(tmp_path / "state")).write("x", b"broken")
    Storage(str(tmp_path / "state")).publish("x", b"new")
    assert (tmp_path / "victim").read_text() == "whole"
    assert (tmp_path / "state" / "x").read_bytes() == b"new"
