"""DROP QUERY where the query's graph does not run: it has ended for whoever comes next, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.errors import Diagnostic
from tidegate.physical.plan import Birth
from tidegate.runtime.holding import Hold
from tidegate.runtime.ledger import KnownQuery, Ledger, Manifest
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
