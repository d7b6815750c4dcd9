"""What the work of each kernel costs: the constants of the cost model, measured by `tidegate bench calibrate`.

The seconds of a step are `step + kept * K + taken * I + taken_values * I * w + given * O + given_values * O * v`, where K rows are kept, I rows of w
columns come and O rows of v columns go. The prices of the package are those of the machine that `docs/performance.md` names; ratios between
kernels carry over to other machines better than seconds do.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from tidegate.errors import Diagnostic

FILE = "TIDEGATE_PRICES"
"""The environment variable that names a file of prices, as `tidegate bench calibrate` writes it."""

GIVEN = Path(__file__).with_name("prices.json")


@dataclass(frozen=True)
class Price:
    """Seconds of one kernel: of a step, of a row that is kept while one is taken, of rows and values that come, and of those that go."""

    step: float = 1e-3
    kept: float = 0.0
    taken: float = 2e-7
    taken_values: float = 0.0
    given: float = 1e-7
    given_values: float = 0.0

    def seconds(self, kept: float, taken: float, width: float, given: float, made: float) -> float:
        """The seconds of rows alone, without those of the step itself."""
        come = taken * (self.taken + self.taken_values * width)
        return kept * self.kept + come + given * (self.given + self.given_values * made)


Prices = Mapping[str, Price]
"""By the name of a kernel without its suffix, as EXPLAIN shows it, and what it is used for if that has a price of its own (`Join with a table`);
`Exchange` and `Source` for what stands before kernels."""

OTHER = Price()
"""Of a kernel that nobody has measured."""


@lru_cache(maxsize=4)
def _read(place: str) -> dict[str, Price]:
    try:
        found = json.loads(Path(place).read_text("utf-8"))
        return {name: Price(**values) for name, values in found["kernels"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise Diagnostic(
            "PRICES_UNREADABLE",
            f"{place} is no file of prices: {problem}",
            help=f"write one with: tidegate bench calibrate --to FILE, and name it in {FILE}",
        ) from None


def prices() -> Prices:
    """Those of the file that the environment names, or else of the package."""
    return _read(os.environ.get(FILE) or str(GIVEN))


def written(found: Prices, about: Mapping[str, object]) -> str:
    """Prices as a file holds them."""
    kernels = {n: {k: float(f"{v:.3g}") for k, v in asdict(p).items()} for n, p in sorted(found.items())}
    return json.dumps({"measured": dict(about), "kernels": kernels}, indent=1) + "\n"
