"""The shell in a real terminal, with a Spark of its own: answers, Ctrl-C, errors, and what is left behind."""

from __future__ import annotations

from pathlib import Path

from tests.spark.terminals import terminal

ROOMS = "room,degrees,t\na,75,1\nb,90,3\na,85,4\nc,81,6\nb,70,7\na,79,9\n"


def test_the_shell_answers_is_interrupted_goes_on_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "rooms.csv").write_text(ROOMS)
    (tmp_path / "big.csv").write_text("a,t\n" + "".join(f"{i},{i}\n" for i in range(30_000)))
    (tmp_path / "tmp").mkdir()
    places = {"XDG_STATE_HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "tmp")}
    with terminal("shell", **places) as shell:
        shell.expect("tidegate>")
        shell.type(
            f"CREATE STREAM Temp(room STRING, degrees INT, t BIGINT) SOURCE csv('{tmp_path}/rooms.csv') ORDERED BY t;\r"
        )
        shell.type(f"CREATE STREAM Big(a INT, t BIGINT) SOURCE csv('{tmp_path}/big.csv') ORDERED BY t;\r")
        # A window of five ticks: 90 of 3 is valid in [3, 8), 85 of 4 in [4, 9), 81 of 6 in [6, 11).
        shell.type(
            "SELECT room, degrees FROM Temp WINDOW(RANGE 5) -- hot;\rWHERE room <> ';' AND degrees > 80;\r"
        )
        answer = shell.expect(r"3 rows in [0-9.]+ s")
        rows = [line.replace("│", " ").split() for line in answer.splitlines() if line.startswith("│")]
        assert rows == [["b", "90", "3", "8"], ["a", "85", "4", "9"], ["c", "81", "6", "11"]]

        shell.expect("tidegate>")

        # 900 million pairs take minutes; the statement ends with Ctrl-C, and the shell does not.
        shell.type(
            "SELECT COUNT(*) AS n FROM Big WINDOW(RANGE UNBOUNDED) x, Big WINDOW(RANGE UNBOUNDED) y WHERE x.a < y.a + 1;\r"
        )
        shell.expect(r"y\.a \+ 1;")
        shell.expect("starting Spark|running")
        shell.type("\x03")
        shell.expect("stopped")
        shell.type("SELECT room, 10 / (degrees - 90) AS x FROM Temp;\r")
        failed = shell.expect(r"error\[DIVIDE_BY_ZERO\][^$]*?tidegate>")
        assert "SELECT room, 10 / (degrees - 90) AS x FROM Temp;" in failed.split("error[")[1]
        shell.type("SELECT room FROM Temp WINDOW(RANGE 5) AS OF 8;\r")
        shell.expect(r"3 rows in [0-9.]+ s")  # a of 4, c of 6, b of 7
        shell.type("\\q\r")
        assert shell.end() == 0
        for internal in ("Traceback", "Exception", "org.apache", "java.", "WARN", "lane"):
            assert internal not in shell.shown
    assert sorted(p.name for p in (tmp_path / "home" / "tidegate").iterdir()) == ["history", "java.log"]
    assert [p.name for p in (tmp_path / "tmp").iterdir() if p.name.startswith("tidegate")] == []
