"""Spark Connect: a client at `sc://` runs recorded and live queries on a cluster that has no Tidegate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.programs import Programs
from tests.servers.cluster import Cluster
from tests.servers.connect import ConnectServer


@pytest.fixture
def server(cluster: Cluster) -> Iterator[ConnectServer]:
    pytest.importorskip("grpc")
    found = ConnectServer.started(cluster)
    yield found
    found.stop()


def test_a_client_of_spark_connect_runs_verifies_and_goes_on(
    server: ConnectServer, programs: Programs, tmp_path: Path
) -> None:
    done = programs.start("tests.cluster.connected", f"sc://{server.address}", tmp_path / "state").done()
    assert "connected" in done, done


def test_a_server_that_is_not_there_is_a_diagnostic(programs: Programs) -> None:
    failed = programs.start("tests.cluster.connected", "sc://127.0.0.1:9", "state")
    assert failed.process.wait(120) != 0
    assert "error[SPARK_START]: no session at sc://127.0.0.1:9" in failed.said()
