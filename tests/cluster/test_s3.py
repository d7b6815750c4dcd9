"""State in an S3 store: a live run on a cluster whose driver is killed and started again in other partitions."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import fs

from tests.cluster.programs import Program, Programs, of
from tests.cluster.test_kills import epochs, wait_for_epochs
from tests.servers.cluster import Cluster
from tests.servers.s3 import BUCKET, KEY, SECRET, Store, hadoop_jars
from tests.spark.kept_graph import write_file

FILES = 3


def test_a_driver_with_its_state_in_a_store_is_killed_and_goes_on(
    cluster: Cluster, store: Store, programs: Programs, tmp_path: Path
) -> None:
    jars, missing = hadoop_jars()
    if missing:
        pytest.skip(missing)
    for number in range(FILES):
        write_file(tmp_path / "rows", number)
    settings = {**store.settings, "spark.jars": ",".join(jars)}

    def driver(partitions: int) -> Program:
        places = (tmp_path / "rows", f"s3a://{BUCKET}/state", tmp_path / "out")
        said = [f"{name}={value}" for name, value in settings.items()]
        return programs.start("tests.cluster.kept", *of(cluster), *places, partitions, *said)

    first = driver(2)
    wait_for_epochs(first, 2)
    first.process.kill()
    first.process.wait()
    last = driver(1)
    done = last.done()
    assert "compared" in done, done
    assert {p for _, p in epochs(first)} == {2}
    assert {p for _, p in epochs(last)} == {1}
    system = store.access.file_system()
    kept = [f.path for f in system.get_file_info(fs.FileSelector(BUCKET, recursive=True)) if f.is_file]
    assert any("/manifests/" in path for path in kept)
    for path in kept:
        content = system.open_input_stream(path).read()
        assert KEY.encode() not in content, path
        assert SECRET.encode() not in content, path
    logs = [p for place in (tmp_path, cluster.place) for p in place.rglob("*.log")]
    assert logs
    for log in [*logs, *cluster.place.rglob("stderr")]:
        assert SECRET not in log.read_text(errors="replace"), log
