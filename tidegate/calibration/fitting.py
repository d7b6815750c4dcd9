"""Prices of kernels by measurement: plans that use them run at steady state at several sizes, and the prices are those that fit best.

    seconds = step + kept * K + taken * I + taken_values * I * w + given * O + given_values * O * v

No price is below zero. Errors count in relation to what was measured, so that small steps are fitted as well as large ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from tidegate.calibration.steady import Work, World, catalog, compared
from tidegate.optimizer.prices import Price, Prices

SIZES: tuple[tuple[float, int], ...] = ((0.3, 600), (1.0, 2_000), (3.0, 6_000), (1.0, 20_000), (5.0, 20_000))
"""Rows per tick, and the ticks of an epoch."""

LASTS = 6_000
TEMPLATES = (
    "SELECT a + b AS z, x * 2 AS y, s FROM S WHERE b < 20 AND x > 10",
    "SELECT a, COUNT(*) AS n, SUM(x) AS m FROM S WINDOW(RANGE {w}) GROUP BY a",
    "SELECT a, b, AVG(x) AS m, MAX(x) AS h FROM S WINDOW(RANGE {w}) GROUP BY a, b",
    "SELECT MIN(x) AS m, COUNT(*) AS n FROM S WINDOW(RANGE {w})",
    "SELECT s, COUNT(*) AS n FROM S WINDOW(RANGE {w} SLIDE 500) GROUP BY s",
    "SELECT S.x, R.y FROM S WINDOW(RANGE {h}) JOIN R WINDOW(RANGE {h}) ON S.a = R.a",
    "SELECT S.s, S.x, R.y, Q.d FROM S WINDOW(RANGE 300) JOIN R WINDOW(RANGE 300) ON S.a = R.a JOIN Q WINDOW(RANGE 300) ON R.c = Q.c",
    "SELECT S.b, R.c FROM S WINDOW(RANGE 30) JOIN R WINDOW(RANGE 30) ON S.x < R.y",
    "SELECT S.x, T.name FROM S WINDOW(RANGE {w}) JOIN T ON S.a = T.a",
    "SELECT DISTINCT a, b FROM S WINDOW(RANGE {h})",
    "SELECT a FROM S WINDOW(RANGE {h}) EXCEPT SELECT a FROM R WINDOW(RANGE 100)",
    "SELECT a, x FROM S WINDOW(RANGE {h}) WHERE a IN (SELECT a FROM R WINDOW(RANGE 100))",
    "SELECT a, x FROM S WINDOW(RANGE {h}) WHERE NOT EXISTS (SELECT 1 FROM R WINDOW(RANGE 100) WHERE R.a = S.a)",
    "SELECT S.x, R.y FROM S WINDOW(RANGE 300) LEFT JOIN R WINDOW(RANGE 300) ON S.a = R.a",
    "SELECT a, x FROM S WINDOW(RANGE {w}) ORDER BY x DESC LIMIT 10",
    "SELECT a, COUNT(*) AS n FROM S WINDOW(ROWS 100) GROUP BY a",
    "SELECT a, SUM(b) AS n FROM S WINDOW(ROWS 5000) GROUP BY a",
    "SELECT a, b FROM S WINDOW(PARTITION BY a ROWS 5)",
    "SELECT a, COUNT(*) AS n, SUM(b) AS m FROM S WINDOW(RANGE {w}) GROUP BY a",
    "SELECT a, COUNT(DISTINCT b) AS n FROM S WINDOW(RANGE {w}) GROUP BY a",
    "SELECT s, MAX(x) AS n FROM S WINDOW(RANGE {h} SLIDE 100) GROUP BY s",
    "SELECT b, COUNT(*) AS n, SUM(x) AS m FROM K GROUP BY b",
    "SELECT a FROM S WINDOW(RANGE 100) UNION ALL SELECT a FROM R WINDOW(RANGE 100)",
    "SELECT * FROM ISTREAM(SELECT a, COUNT(*) AS n FROM S WINDOW(RANGE {h}) GROUP BY a) x",
)


def measurements(
    told: Callable[[str], None],
    templates: Sequence[str] = TEMPLATES,
    sizes: Sequence[tuple[float, int]] = SIZES,
) -> list[Work]:
    """Every template at every size, twice as much as it takes to forget the first epochs."""
    known, found = catalog(), []
    for text in templates:
        for number, (rate, epoch) in enumerate(sizes):
            rates = {"S": rate, "R": rate / 2, "Q": rate / 4, "P": rate / 4}
            keys = {"a": (100, 1_000)[number % 2], "b": 50, "c": 200, "d": 40, "e": 40}
            query = text.format(w=(5_000, 1_500)[number % 2], h=(800, 300)[number % 2])
            told(query)
            found += [c.work for c in compared(query, known, World(rates, keys), epoch, LASTS, 4)]
    return found


def fitted(found: Iterable[Work]) -> Prices:
    """The prices of each kernel that was measured."""
    kernels: dict[str, list[Work]] = {}
    for work in found:
        kernels.setdefault(work.kernel, []).append(work)
    return {name: price(every) for name, every in sorted(kernels.items())}


def price(every: Sequence[Work]) -> Price:
    """The prices that fit measurements best."""
    kept = [w for w in every if w.seconds > 1e-6]
    features = np.array([[1.0, w.kept, w.taken, w.taken * w.width, w.given, w.given * w.made] for w in kept])
    seconds = np.array([w.seconds for w in kept])
    if not kept:
        return Price()
    found = least(features / seconds[:, None], np.ones(len(kept)))
    return Price(*(float(v) for v in found))


def least(matrix: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The x >= 0 for which |matrix x - wanted| is least (Lawson and Hanson).

    >>> least(np.array([[1.0, 1.0], [1.0, 3.0]]), np.array([2.0, 4.0])).round(6).tolist()
    [1.0, 1.0]
    >>> least(np.array([[1.0, 1.0], [1.0, 3.0]]), np.array([2.0, 1.0])).round(6).tolist()[1]
    0.0
    """
    scale = np.maximum(np.abs(matrix).max(axis=0), 1e-300)
    a = matrix / scale
    x, free = np.zeros(a.shape[1]), np.zeros(a.shape[1], dtype=bool)
    for _ in range(10 * a.shape[1]):
        slope = a.T @ (wanted - a @ x)
        slope[free] = -np.inf
        best = int(slope.argmax())
        if slope[best] <= 1e-9:
            break
        free[best] = True
        while True:
            s = np.zeros_like(x)
            s[free] = np.linalg.lstsq(a[:, free], wanted, rcond=None)[0]
            if (s[free] > 0).all():
                x = s
                break
            down = free & (s <= 0)
            step = np.min(x[down] / np.maximum(x[down] - s[down], 1e-300))
            x = x + step * (s - x)
            free &= x > 1e-12
    return np.asarray(x / scale)
