"""Generated requests against the described interface: whatever is sent, no answer is a failure of the server's own.

TIDEGATE_SCHEMA_EXAMPLES says how many are tried for each operation.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings

from tests.server.running import Server

SCRIPT = """
CREATE STREAM Temp(room STRING, degrees INT, t BIGINT) SOURCE memory('Temp') ORDERED BY t;
START hot AS SELECT room, MAX(degrees) AS top FROM Temp WINDOW(RANGE 5) GROUP BY room;
"""
EXAMPLES = int(os.environ.get("TIDEGATE_SCHEMA_EXAMPLES", "4"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    found = Server(tmp_path_factory.mktemp("schema"), SCRIPT)
    yield found
    assert found.stop() == 0


@pytest.fixture
def interface(server: Server) -> schemathesis.BaseSchema:
    described = httpx.get(f"{server.url}/openapi.json").json()
    found = schemathesis.openapi.from_dict(described)
    found.config.update(base_url=server.url)
    return found


def test_no_request_makes_the_server_fail(interface: schemathesis.BaseSchema) -> None:
    tried = Counter[str]()
    for found in interface.get_all_operations():
        operation = found.ok()

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            derandomize=EXAMPLES < 10,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def answered(case: schemathesis.Case) -> None:
            if case.path.endswith("/changes"):
                case.path_parameters = {"name": "none"}  # the changes of one that runs have no end
            response = case.call(timeout=120)
            tried[case.path] += 1
            assert response.status_code < 500, response.text

        answered()
    print(sum(tried.values()), "requests")
    assert len(tried) >= 15
