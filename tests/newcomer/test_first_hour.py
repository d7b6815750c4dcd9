"""A new user's first hour, in more than forty steps: commands, the shell in a real terminal, a notebook, and a typed program.

Nothing here reaches into Tidegate: what is typed is what people type, and what is looked at is what they see.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.spark.terminals import terminal

ROOT = Path(__file__).resolve().parents[2]
ROOMS = "room,degrees,t\na,75,1\nb,90,3\na,85,4\nc,81,6\nb,70,7\na,79,9\n"
"""In a window of five ticks, those above 80: b's 90 in [3, 8), a's 85 in [4, 9), c's 81 in [6, 11)."""


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with one file of data and one script."""
    (tmp_path / "rooms.csv").write_text(ROOMS)
    (tmp_path / "top.sql").write_text(
        "SELECT MAX(degrees) AS top FROM Temp WINDOW(RANGE UNBOUNDED) AS OF 9;\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    return tmp_path


COMMANDS = [
    (["--version"], 0, r"tidegate \d+\.\d+\.\d+"),
    (["--help"], 0, r"verify"),
    (["run", "nothere.sql"], 2, r"error\[FILE_NOT_FOUND\]"),
    (["run", "-c", "SELEC 1"], 2, r"error\[SYNTAX_ERROR\]"),
    (["status", "nowhere"], 2, r"error\[NO_STATE\]"),
]


@pytest.mark.parametrize(("arguments", "code", "shown"), COMMANDS, ids=[" ".join(c[0]) for c in COMMANDS])
def test_commands_that_need_no_spark(arguments: list[str], code: int, shown: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tidegate", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), "JAVA_HOME": "/nonexistent"},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == code
    assert re.search(shown, done.stdout + done.stderr)
    assert "Traceback" not in done.stderr


STEPS = [
    (r"\?", r"\\timing"),
    ("DESCRIBE 'rooms.csv';", r"degrees\s+BIGINT"),
    ("SELECT * FROM 'rooms.csv' ORDERED BY t;", r"6 rows in"),
    (
        "CREATE STREAM Temp(room STRING, degrees INT, t BIGINT) SOURCE csv('rooms.csv') ORDERD BY t;",
        r"error\[SYNTAX_ERROR\]",
    ),
    ("CREATE STREAM Temp(room STRING, degrees INT, t BIGINT) SOURCE csv('rooms.csv') ORDERED BY t;", ""),
    (r"\ds", r"Temp"),
    (r"\d Temp", r"degrees\s+INT"),
    ("SELECT room, degres FROM Temp;", r"did you mean 'degrees'\?"),
    ("SELECT room, degrees FROM Temp WINDOW(RANGE 5) WHERE degrees > 80;", r"3 rows in"),
    ("SELECT COUNT(*) AS n FROM Temp WINDOW(RANGE 5) AS OF 8;", r"│ 3\s+│"),
    (
        "SELECT room, MAX(degrees) AS top\rFROM Temp WINDOW(RANGE 5)\rGROUP BY room AS OF 8;",
        r"│ a\s+│ 85\s+│",
    ),
    ("SELECT room FROM Temp ORDER BY room;", r"error\[ORDER_WITHOUT_LIMIT\]"),
    ("SELECT room FROM Temp WINDOW(RANGE 5) ORDER BY room LIMIT 1 AS OF 8;", r"│ a\s+│"),
    ("CREATE VIEW Hot AS SELECT room, degrees FROM Temp WINDOW(RANGE 5) WHERE degrees > 80;", ""),
    (r"\dv", r"Hot"),
    # 1 in [3, 4), 2 in [4, 6), 3 in [6, 8), 2 in [8, 9), 1 in [9, 11)
    ("SELECT COUNT(*) AS n FROM Hot;", r"5 rows in"),
    ("VERIFY SELECT COUNT(*) AS n FROM Hot;", r"verified: the answer equals the reference"),
    ("EXPLAIN SELECT room FROM Hot;", r"Temp"),
    (r"\df MED", r"MEDIAN"),
    (r"\format csv", ""),
    ("SELECT room, degrees FROM Hot ORDER BY room LIMIT 1 AS OF 8;", r"a,85"),
    (r"\format table", ""),
    ("INSERT INTO csv('out') SELECT room, degrees FROM Hot;", r"rows? in"),
    ("INSERT INTO csv('out') SELECT room FROM Hot;", r"error\[SINK_TAKEN\]"),
    (r"\i top.sql", r"│ 90\s+│"),
    ("DROP VIEW Hot;", ""),
    ("SELECT * FROM Hot;", r"error\[UNKNOWN_STREAM\]"),
]
"""What is typed, and what must be shown then; nothing: only the next prompt."""


def test_the_shell_step_by_step(desk: Path) -> None:
    with terminal("shell") as shell:
        shell.expect("tidegate>")
        for typed, shown in STEPS:
            shell.type(typed + "\r")
            if shown:
                shell.expect(shown)
            shell.expect("tidegate>")
        shell.type("\\q\r")
        assert shell.end() == 0
        assert "Traceback" not in shell.shown
    assert [p for p in (desk / "out").glob("epoch=*/*.csv") if p.stat().st_size]


CELLS = [
    ("import tidegate\ntg = tidegate.connect()\ntg.spark.version", r"4\.3"),
    ("tg.stream('Temp', [('a', 75, 1), ('b', 90, 3), ('a', 85, 4)], schema='room STRING, degrees INT, t BIGINT', ordered_by='t')", ""),
    ("q = tg.query('SELECT room, MAX(degrees) AS top FROM Temp WINDOW(RANGE 5) GROUP BY room')\nr = q.run()\nr", r"<table"),
    ("r.to_pandas(4).sort_values('room').values.tolist()", r"\[\['a', 85\], \['b', 90\]\]"),
    ("r.at(8)", r"<table"),
    ("print(q.verify())", r"verified: the answer equals the reference"),
    ("tg.query('SELECT rom FROM Temp')", r"did you mean 'room'\?"),
    ("help(tg.stream)", r"ordered_by"),
    ("h = q.start('top')\ntg.push('Temp', [('c', 60, 9)])\ntg.advance('Temp', 10)\nfor change in h.subscribe():\n    if change.ts == 9 and change.op == '+':\n        break\nchange.row.room, change.row.top", r"\('c', 60\)"),
    ("tg.close()", ""),
]  # fmt: skip
"""Cells of a notebook, and what their outputs must hold."""


def test_a_notebook_cell_by_cell(desk: Path) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source, _ in CELLS])
    NotebookClient(
        notebook, timeout=300, allow_errors=True, resources={"metadata": {"path": str(desk)}}
    ).execute()
    for cell, (source, wanted) in zip(notebook.cells, CELLS, strict=True):
        shown = "\n".join(map(text_of, cell.outputs))
        assert re.search(wanted, shown), f"{source}\nshows\n{shown}"
        assert any(o.output_type == "error" for o in cell.outputs) == ("rom FROM" in source), shown


def text_of(output: nbformat.NotebookNode) -> str:
    """What a cell shows, of whatever kind it is."""
    if output.output_type == "stream":
        return str(output.text)
    if output.output_type == "error":
        return f"{output.ename}: {output.evalue}"
    return "\n".join(map(str, output.data.values()))


TYPED = """
import tidegate


def hottest(rows: list[dict[str, object]]) -> list[str]:
    tg = tidegate.connect()
    tg.stream("Temp", rows, ordered_by="t")
    query: tidegate.Query = tg.query("SELECT room FROM Temp")
    try:
        return [str(row.room) for row in query.run().at(3).collect()]
    except tidegate.Diagnostic as error:
        return [error.condition]
"""
WRONG = """
import tidegate

tidegate.connect(partitions="four")
tg = tidegate.connect()
tg.stream("Temp", [], order_by="t")
print(tg.query("SELECT 1").rum())
"""


def installed(place: Path) -> Path:
    """The interpreter of an environment in which the package is installed, not edited: types count only by its py.typed."""
    venv.create(place, with_pip=False, symlinks=True)
    site = next((place / "lib").glob("python*/site-packages"))
    (site / "tidegate").symlink_to(ROOT / "tidegate")
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return place / "bin" / "python"


def test_types_are_checked_in_a_users_program(desk: Path) -> None:
    (desk / "typed.py").write_text(TYPED)
    (desk / "wrong.py").write_text(WRONG)
    options = ["--strict", "--python-executable", str(installed(desk / "environment"))]
    options += ["--cache-dir", str(ROOT / ".mypy_cache" / "newcomer")]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "typed.py", "wrong.py"],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    found = re.findall(r"^(\w+\.py):(\d+): error: .*\[([\w-]+)\]", done.stdout, re.M)
    wanted = [
        ("wrong.py", "4", "call-overload"),
        ("wrong.py", "6", "call-arg"),
        ("wrong.py", "7", "attr-defined"),
    ]
    assert found == wanted, done.stdout + done.stderr
