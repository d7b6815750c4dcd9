"""Nobody in, on Spark: the functions there are, names in paths, private state, and secrets in no file and no log."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidegate import connect
from tidegate.connectors.sinks import make_sink
from tidegate.scalars.library import FUNCTIONS
from tidegate.scalars.spark_functions import ALLOWED, REFUSED, WORDS


def test_every_function_of_spark_was_looked_at(spark: SparkSession) -> None:
    """Its functions are allowed, refused with a reason, Tidegate's own, or words of the grammar."""
    existing = {
        row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect() if re.fullmatch(r"\w+", row[0])
    }
    assert existing - ALLOWED - set(REFUSED) - {n.lower() for n in FUNCTIONS} - WORDS == set()
    assert ALLOWED | set(REFUSED) <= existing
    assert ALLOWED & set(REFUSED) == frozenset()


def test_a_text_is_no_variable(spark: SparkSession) -> None:
    """Spark would put the environment into texts that look like its variables."""
    session = connect(spark)
    session.stream("S", [{"a": "x", "t": 1}], ordered_by="t")
    row = (
        session.query("SELECT '${env:PATH}' AS p, soundex('${system:user.name}') AS r FROM S")
        .run()
        .at(1)
        .collect()[0]
    )
    assert (row.p, row.r) == ("${env:PATH}", "${system:user.name}")


@pytest.mark.parametrize("name", ["../../x", "a/b", "Ünïcödé", "n" * 200])
def test_a_name_does_not_lead_out_of_the_state_directory(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    state = tmp_path / "deep" / "deeper" / "state"
    session = connect(spark, state=str(state))
    session.stream(name, [{"a": "x", "t": 1}, {"a": "y", "t": 2}, {"a": None, "t": None}], ordered_by="t")
    query = session.query(f"SELECT a FROM `{name}`").start(name=name + "q", begin=False)
    query.finish()
    assert sorted(r.a for r in query.changes().collect() if r.op == "+") == ["x", "y"]
    assert session.query(f"SELECT a FROM `{name}`").run().at(2).count() == 1
    session.close()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["deep"]
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["deeper"]
    assert [p.name for p in (tmp_path / "deep" / "deeper").iterdir()] == ["state"]


def test_state_is_the_owners_alone(spark: SparkSession, tmp_path: Path) -> None:
    state = tmp_path / "state"
    session = connect(spark, state=str(state))
    session.stream("S", [{"a": "x", "t": 1}, {"a": "y", "t": None}], ordered_by="t")
    session.query("SELECT a, COUNT(*) AS n FROM S GROUP BY a").start(begin=False).finish()
    session.query("SELECT a FROM S").run()
    session.close()
    open_to_others = [
        str(p) for p in (state, state / "graphs", state / "runs") if stat.S_IMODE(p.stat().st_mode) != 0o700
    ]
    assert open_to_others == []
    # What Java writes lies in directories that nobody else can enter.
    written = [
        p for p in state.rglob("*") if p.is_file() and "checkpoint" not in p.parts and not _is_sparks(p)
    ]
    assert written
    assert [str(p) for p in written if stat.S_IMODE(p.stat().st_mode) != 0o600] == []


def _is_sparks(path: Path) -> bool:
    return path.name.startswith((".", "_"))


def test_a_sink_follows_no_link_laid_before(spark: SparkSession, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    out = tmp_path / "out"
    out.mkdir()
    for guess in ("_epoch-1.part", "_epoch-1-part", "_epoch-1-"):
        os.symlink(victim, out / guess)
    session = connect(spark)
    session.stream("S", [{"a": "x", "t": 1}], ordered_by="t")
    make_sink("json", (str(out),)).write(1, session.query("SELECT a FROM S").run().changes())
    assert list(victim.iterdir()) == []
    assert (out / "epoch=1").is_dir()


SECRETS = ("sesame-one-77", "sesame-two-77", "sesame-three-77", "sesame-four-77")

SCRIPT = """
import logging, sys
logging.basicConfig(level=logging.DEBUG, filename=sys.argv[2])
import tidegate

tg = tidegate.connect(state=sys.argv[1])
uri = "mongodb://ann:sesame-three-77@host/x"
given = f"password = 'sesame-one-77', authToken = 'sesame-two-77', uri = '{uri}', header = 'true'"
kafka = "kafka.sasl.jaas.config = 'Plain required username=ann password=\\"sesame-four-77\\";'"

def tell(action):
    try:
        print(action())
    except tidegate.Diagnostic as problem:
        print(problem)
        print(repr(problem), problem.text)

tell(lambda: tg.sql(f"CREATE STREAM F(a STRING, t BIGINT) SOURCE spark('csv', '{sys.argv[3]}') ORDERED BY t WITH ({given})"))
tell(lambda: tg.sql(f"CREATE STREAM N(a STRING, t BIGINT) SOURCE spark('mongodb') ORDERED BY t WITH ({given})"))
tell(lambda: tg.sql(f"CREATE STREAM J(a STRING, t BIGINT) SOURCE spark('jdbc') ORDERED BY t WITH ({given}, dbtable = 'x', url = 'jdbc:postgresql://ann:sesame-three-77@127.0.0.1:1/x?password=sesame-one-77')"))
tell(lambda: tg.sql(f"CREATE STREAM K(a STRING, t BIGINT) SOURCE kafka('127.0.0.1:1', 'x') ORDERED BY t WITH ({kafka})"))
def follow(offset, *, password="", api_key=""):
    assert password == "sesame-one-77", "the source needs its password"
    return ([{"a": "x", "t": 1}, {"a": "y", "t": "soon"}], 1) if offset is None else ([], 1)

tg.source("feed", live=follow)
tell(lambda: tg.sql("CREATE STREAM L(a STRING, t BIGINT) SOURCE feed() ORDERED BY t WITH (password = 'sesame-one-77', api_key = 'sesame-two-77')"))
for name in "FNJKL":
    tell(lambda: tg.describe(name))
    tell(lambda: tg.sql(f"EXPLAIN SELECT a FROM {name}"))
    if name != "L":  # a live query that fails would end the others of its graph
        tell(lambda: tg.sql(f"SELECT a, 1 / (t - t) AS z FROM {name} -- password = 'sesame-one-77'"))
    tell(lambda: tg.query(f"SELECT a FROM {name}").start(name=f"live{name}", begin=False).finish())
    tell(lambda: repr(tg.query(f"SELECT a FROM {name}")))
tell(lambda: tg.sql("SHOW STREAMS"))
tell(lambda: tg.sql("SHOW QUERIES"))
tell(lambda: tg.running.find("liveL").status())
tell(lambda: tg.catalog)
tg.close()
"""


def test_no_file_log_or_message_tells_a_secret(tmp_path: Path) -> None:
    """A program of its own: what it prints, what Python logs, what Java prints, and every file that is left."""
    (tmp_path / "tmp").mkdir()
    (tmp_path / "rows.csv").write_text("a,t\nx,1\ny,2\n")
    (tmp_path / "script.py").write_text(SCRIPT)
    arguments = [str(tmp_path / name) for name in ("script.py", "state", "log", "rows.csv")]
    environment = {
        **os.environ,
        "TMPDIR": str(tmp_path / "tmp"),
        "XDG_STATE_HOME": str(tmp_path / "home"),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    done = subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    (tmp_path / "out").write_text(done.stdout + done.stderr)
    assert done.returncode == 0, done.stderr[-3000:]
    for expected in ("'liveL'", "'rows': 2", "error[", "Physical plan"):
        assert expected in done.stdout
    files = [p for p in tmp_path.rglob("*") if p.is_file() and p.name != "script.py"]
    assert len([p for p in files if "state" in p.parts]) > 5
    assert tmp_path / "home" / "tidegate" / "java.log" in files
    telling = {
        (str(p.relative_to(tmp_path)), s) for p in files for s in SECRETS if s.encode() in p.read_bytes()
    }
    assert telling == set()
