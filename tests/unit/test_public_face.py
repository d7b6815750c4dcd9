"""What people see in Python: exported names, docstrings with examples, errors and pictures; no Spark is needed."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import matplotlib as mpl
import polars as pl
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

import tidegate
from tidegate.errors import Diagnostic, Kind, position_at
from tidegate.runtime.notebook import NotebookProgress
from tidegate.runtime.plotting import MOST_LINES, bars, draw_bars, draw_steps, step_lines

NOT_FOR_PEOPLE = {
    "Session": {"execute", "bound_query", "sink_of", "start", "set_option", "shown", "engine", "spark"},
    "Query": {"asked", "foresee", "into", "opened", "written", "stable_name"},
    "Result": {"final_tick", "latest_tick", "horizon", "signed", "changes_between", "delivered", "first_tick", "kept_changes", "refuse_forgotten", "snapshot_at", "changes_in_ticks"},
    "LiveQuery": set(),
}  # fmt: skip


def public_functions() -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = [("connect", tidegate.connect)]
    for name, hidden in NOT_FOR_PEOPLE.items():
        for attribute, value in inspect.getmembers(getattr(tidegate, name), inspect.isfunction):
            if not attribute.startswith("_") and attribute not in hidden:
                found.append((f"{name}.{attribute}", value))
    return found


@pytest.mark.parametrize(
    ("name", "function"), public_functions(), ids=lambda v: v if isinstance(v, str) else ""
)
def test_every_public_function_has_an_example(name: str, function: Any) -> None:
    text = inspect.getdoc(function)
    assert text is not None, name
    assert "Example: `" in text, name


def test_exported_names_are_there_and_types_are_ours() -> None:
    for name in tidegate.__all__:
        assert getattr(tidegate, name) is not None
    assert (Path(tidegate.__file__).parent / "py.typed").exists()
    with pytest.raises(AttributeError):
        tidegate.nothing  # noqa: B018


@pytest.fixture
def shell() -> Any:
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    InteractiveShell.clear_instance()
    yield InteractiveShell.instance(config=config)
    InteractiveShell.clear_instance()


def shown(shell: Any, error: Exception) -> str:
    shell.user_ns["error"] = error
    with capture_output() as captured:
        shell.run_cell("def f():\n    raise error\nf()")
    return str(captured.stdout)


def test_an_error_shows_without_a_traceback(shell: Any) -> None:
    text = "SELECT * FROM Bidd"
    error = Diagnostic("UNKNOWN_STREAM", "there is no stream 'Bidd'", position_at(text, 14, 18), text)
    assert shown(shell, error).strip().split("\n") == str(error).split("\n")


def test_a_defect_shows_how_it_came_about(shell: Any) -> None:
    found = shown(shell, Diagnostic("BUG", "impossible", kind=Kind.INTERNAL))
    assert "Traceback" in found
    assert "impossible" in found


def test_progress_is_one_line_that_is_written_anew(shell: Any) -> None:
    with capture_output() as captured:
        report = NotebookProgress("q1", after=0, every=0)
        for part in (0.25, 0.5, 1.0):
            report(part)
    lines = [o.data["text/html"] for o in captured.outputs]
    assert [line.split("q1: ")[1].split(",")[0] for line in lines] == ["25%", "50%", "100%"]
    with capture_output() as captured:
        NotebookProgress("q1", after=60)(0.5)
    assert captured.outputs == []


PERIODS = pl.DataFrame(
    {
        "room": ["a", "a", "b", "a"],
        "n": [1, 2, 7, 4],
        "valid_from": [0, 3, 1, 8],
        "valid_to": [3, 5, None, 9],
    }
)


def test_steps_hold_their_value_and_stop_where_there_is_no_row() -> None:
    assert step_lines(PERIODS) == {
        "a": ([0, 3, 5, 8, 9], [1.0, 2.0, None, 4.0, None]),
        "b": ([1, 9], [7.0, None]),
    }
    assert bars(PERIODS, ["room"]) == {"a": [(0, 3), (3, 5), (8, 9)], "b": [(1, 9)]}


def test_pictures_are_drawn() -> None:
    mpl.use("agg")
    from matplotlib import pyplot

    axes = draw_steps(PERIODS, None, None)
    assert [line.get_label() for line in axes.get_lines()] == ["a", "b"]
    assert axes.get_lines()[0].get_drawstyle() == "steps-post"
    moments = PERIODS.with_columns(
        pl.col("valid_from", "valid_to") * 1_000_000
        + int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 10**6
    ).with_columns(pl.col("valid_from", "valid_to").cast(pl.Datetime("us", "UTC")))
    axes = draw_bars(moments, ["room"])
    assert [t.get_text() for t in axes.get_yticklabels()] == ["a", "b"]
    axes.figure.canvas.draw()
    pyplot.close("all")


def test_what_makes_no_picture_is_said() -> None:
    with pytest.raises(Diagnostic, match="no column of numbers"):
        step_lines(PERIODS.drop("n"))
    with pytest.raises(Diagnostic, match="did you mean 'room'"):
        bars(PERIODS, ["rooom"])
    many = pl.DataFrame({"k": range(MOST_LINES + 1), "valid_from": 0, "valid_to": 1})
    with pytest.raises(Diagnostic, match="make no picture"):
        bars(many)
