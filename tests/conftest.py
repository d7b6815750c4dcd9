"""What all tests share: one Spark session, reproducible property tests, and who needs a JVM."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.servers.postgres import postgres_server  # noqa: F401 - a fixture of all tests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.servers.kafka import Broker

ROOT = Path(__file__).resolve().parent.parent

NEEDS_JVM = (
    "tests/cluster",
    "tests/newcomer",
    "tests/server",
    "tests/spark",
    "tidegate/spark",
    "tidegate/runtime",
    "tidegate/query.py",
    "tidegate/session.py",
)
"""Tests and doctests below these paths may start Spark, also without the `spark` fixture."""

PROGRAMS = (
    "tests/cluster/", "tests/newcomer/", "tests/server/", "tests/spark/test_changing_graph", "tests/spark/test_crashes", "tests/spark/test_interrupt", "tests/spark/test_kills", "tests/spark/test_terminal",
)  # fmt: skip
"""Tests that start programs and end them: they need no session of their own, so they can run beside those that share one."""

VOLUME = (
    "tests/fuzz/", "tests/limits/", "tests/kernels/", "tests/optimizer/", "tests/nexmark/", "tests/tpch/", "tests/windows/test_sequence_kernels",
    "tests/syncsql/test_kernels", "tests/syncsql/test_shop",
)  # fmt: skip
"""Tests of many generated cases: `make check` is for seconds."""

# No deadlines: a shared machine is slow at times, and slowness is not a wrong answer.
settings.register_profile(
    "ci",
    max_examples=60,
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "fuzz",
    max_examples=int(os.environ.get("EXAMPLES", "2000")),
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# Workers must run the interpreter that holds the packages, not the first python3 on PATH.
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a JVM, so that `-m "not spark"` is true without anybody remembering to say it."""
    for item in items:
        path = item.path.relative_to(ROOT).as_posix() if item.path.is_relative_to(ROOT) else ""
        if path.startswith(VOLUME):
            item.add_marker(pytest.mark.volume)
        if path.startswith(PROGRAMS):
            item.add_marker(pytest.mark.programs)
        below = any(path == place or path.startswith(place + "/") for place in NEEDS_JVM)
        if below or {"spark", "broker"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One local session for the whole run: starting a JVM costs more than most tests."""
    from pyspark.sql import SparkSession

    place = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.builder.master("local[2]")
        .appName("tidegate-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(place / "warehouse"))
        .config("spark.driver.host", "localhost")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One Kafka broker for the whole run; topics belong to tests."""
    from tests.servers.kafka import Broker, MissingServerError, fetch

    pytest.importorskip("confluent_kafka")
    try:
        fetch()
    except MissingServerError as why:
        pytest.skip(f"no Kafka broker: {why}")
    found = Broker(tmp_path_factory.mktemp("kafka") / "broker")
    found.format()
    found.start()
    yield found
    found.stop()
