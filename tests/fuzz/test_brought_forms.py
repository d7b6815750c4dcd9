"""Forms of other systems over generated streams: kernels = reference at every change point, for any epochs."""

from __future__ import annotations

import random

import pytest

from tests.fuzz.players import check
from tests.fuzz.queries import Case
from tests.fuzz.streams import INTEGERS, TIMESTAMPS, generate

FORMS = {
    "tumble": "SELECT window_start, COUNT(*) AS n, SUM(b) AS s FROM TUMBLE(TABLE S, DESCRIPTOR(t), {3}) GROUP BY window_start, window_end",
    "tumble with an offset": "SELECT a, window_end FROM TUMBLE(TABLE S, DESCRIPTOR(t), {3}, {1})",
    "hop": "SELECT window_start, a, COUNT(*) AS n FROM HOP(TABLE S, DESCRIPTOR(t), {2}, {6}) GROUP BY window_start, window_end, a",
    "session": "SELECT a, window_start, window_end, MAX(b) AS m FROM SESSION(TABLE S PARTITION BY a, DESCRIPTOR(t), {2}) GROUP BY a, window_start, window_end",
    "over a range": "SELECT a, b, SUM(b) OVER (PARTITION BY a ORDER BY t RANGE BETWEEN {I3} PRECEDING AND CURRENT ROW) AS s FROM S",
    "over rows": "SELECT a, COUNT(b) OVER (PARTITION BY a ORDER BY t ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS s FROM S WHERE b > 0",
    "lag": "SELECT a, b, LAG(b, 2, -1) OVER (PARTITION BY a ORDER BY t) AS p, b - LAG(b) OVER (ORDER BY t) AS d FROM S",
    "over a snapshot": "SELECT a, b, MAX(b) OVER (PARTITION BY a) AS m, COUNT(*) OVER () AS n FROM S WINDOW(RANGE {4}) x",
    "explode": "SELECT a, e FROM S WINDOW(RANGE {4}) x LATERAL VIEW explode(ARRAY(a, b, NULL)) l AS e",
    "rollup": "SELECT a, b, COUNT(*) AS n, COLLECT_LIST(b) AS l FROM S WINDOW(ROWS 4) x GROUP BY ROLLUP(a, b)",
}  # fmt: skip


@pytest.mark.parametrize("mode", [INTEGERS, TIMESTAMPS])
@pytest.mark.parametrize("form", FORMS)
def test_kernels_equal_the_reference(form: str, mode: str) -> None:
    text = FORMS[form]
    for n in range(1, 7):
        text = text.replace(f"{{{n}}}", str(n) if mode == INTEGERS else f"INTERVAL {n} SECONDS")
        text = text.replace(f"{{I{n}}}", str(n) if mode == INTEGERS else f"INTERVAL '{n}' SECOND")
    for seed in range(4):
        streams = generate(random.Random(seed), mode, seed % 2 * 3)
        found = check(Case(seed, streams, text))
        assert found is None, found
