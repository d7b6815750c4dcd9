"""DROP QUERY where the query's graph does not run: it has ended for whoever comes next, too."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidegate.cli import app
from tidegate.errors import Diagnostic
from tidegate.physical.plan import Birth
from tidegate.runtime.holding import Hold
from tidegate.runtime.ledger import KnownQuery, Ledger, Manifest, SourceProgress
from tidegate.runtime.summary import describe_state
from tidegate.session import connect
from tidegate.storage import Storage


@pytest.fixture
def state(tmp_path: Path) -> str:
    """The state of two graphs that were stopped, one with two queries."""
    for graph, names in (("integers", ("Hot", "cold")), ("timestamps", ("late",))):
        ledger = Ledger.held(Storage(str(tmp_path / "graphs" / graph)))
        queries = {name: KnownQuery(Birth(0), 5, "x", name) for name in names}
        ledger.commit(Manifest(1, 7, 0, 2, queries=queries))
        ledger.release()
    return str(tmp_path)


def kept(state: str) -> dict[str, list[str]]:
    return {graph: found["queries"] for graph, found in describe_state(state).items()}


def test_a_state_shows_its_promises_as_instants(tmp_path: Path) -> None:
    """Where streams have batches, ticks are not instants; and nobody reads microseconds since 1970."""
    for graph, tick in (("integers-in-batches", 7_003), ("timestamps", 1_000_000)):
        ledger = Ledger.held(Storage(str(tmp_path / "graphs" / graph)))
        sources = {"S": SourceProgress(tick, 1, tick), "R": SourceProgress()}
        ledger.commit(Manifest(1, tick, 0, 2, sources=sources))
        ledger.release()
    found = describe_state(str(tmp_path))
    times = {
        g: [f["watermark"], *(s[n] for s in f["sources"].values() for n in ("newest", "promised"))]
        for g, f in found.items()
    }
    second = "1970-01-01 00:00:01.000000"
    assert times == {
        "integers-in-batches": ["7", "7", "7", "none yet", "none yet"],
        "timestamps": [second, second, second, "none yet", "none yet"],
    }
    said = CliRunner().invoke(app, ["status", str(tmp_path)], env={"COLUMNS": "200"})
    assert "promised" in said.output
    assert second in said.output


def test_a_dropped_query_is_gone_from_the_state(state: str) -> None:
    connect(state=state).sql("DROP QUERY hot")
    assert kept(state) == {"integers": ["cold"], "timestamps": ["late"]}
    found = Ledger(Storage(f"{state}/graphs/integers")).latest
    assert (found.epoch, found.upto, found.batch) == (2, 7, 0)
    connect(state=state).sql("DROP QUERY IF EXISTS hot; DROP QUERY late")
    assert kept(state) == {"integers": ["cold"], "timestamps": []}


def test_a_query_that_somebody_runs_is_not_dropped_by_another(state: str) -> None:
    hold = Hold(Storage(f"{state}/graphs/integers"))
    with pytest.raises(Diagnostic, match="STATE_IN_USE") as caught:
        connect(state=state).sql("DROP QUERY cold")
    assert caught.value.position is not None
    hold.release()
    assert kept(state)["integers"] == ["Hot", "cold"]
