"""The rows, and DuckDB over them."""

from __future__ import annotations

import os

import pytest

from tests.tpch.rows import Made, make
from tests.tpch.world import Judge

ORDERS = int(os.environ.get("TIDEGATE_TPCH_ORDERS", "600"))
"""Few by default, so that every run of the tests can afford them; `make fuzz` takes more."""


@pytest.fixture(scope="package")
def made() -> Made:
    return make(ORDERS)


@pytest.fixture(scope="package")
def judge(made: Made) -> Judge:
    return Judge(made)
