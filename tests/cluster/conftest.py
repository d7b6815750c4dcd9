"""One cluster for all tests here; they start programs that use it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.programs import Programs
from tests.servers.cluster import Cluster
from tests.servers.s3 import Store


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    found = Cluster.started(tmp_path_factory.mktemp("cluster"))
    yield found
    found.stop()


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    found = Store.started(tmp_path_factory.mktemp("s3"))
    yield found
    found.stop()


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    """Drivers that a test starts; none is left behind."""
    found = Programs(tmp_path, dict(os.environ))
    yield found
    found.end()
