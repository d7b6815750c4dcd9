"""A cluster of two workers, without Tidegate on them, gives the answers of the reference to generated queries."""

from __future__ import annotations

import os
from pathlib import Path

from tests.cluster.programs import Programs, of
from tests.servers.cluster import Cluster

ROUNDS = int(os.environ.get("TIDEGATE_CLUSTER_ROUNDS", "1"))
FIRST = int(os.environ.get("TIDEGATE_FUZZ_SEED", "600000"))


def test_generated_queries_on_a_cluster_are_the_references(
    cluster: Cluster, programs: Programs, tmp_path: Path
) -> None:
    done = programs.start("tests.cluster.generated", *of(cluster), tmp_path / "state", FIRST, ROUNDS).done()
    assert "compared: " in done, done
    assert any(b"Finished task" in log.read_bytes() for log in cluster.place.glob("worker-*/app-*/*/stderr"))
