"""When a running plan is replaced by a cheaper one because streams are not as they were expected to be.

    replace  if by what was measured in the last epochs a plan that means the same costs less than 1 / FACTOR of the one that runs, in CONFIRMED looks one after the other

A look is taken every EVERY epochs. A query whose plan was replaced is left alone for PATIENCE epochs, twice as long after each time, so that streams that come and go do not
turn plans back and forth. Until the new plan has taken over both run, so a replacement that pays off little is worth nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tidegate.optimizer.cost import Costs
from tidegate.optimizer.search import Found, has_choice, search
from tidegate.runtime.queries import Query

EVERY = 16
FACTOR = 1.5
CONFIRMED = 2
PATIENCE = 64
LONGEST = 4_096


@dataclass(frozen=True)
class Replacement:
    """A plan that was replaced: after which epoch, from which instant on, and what both were expected to cost (seconds of processor for the time of an epoch)."""

    query: str
    epoch: int
    until: int
    before: float
    after: float

    @property
    def reason(self) -> str:
        return f"by what was measured, the new plan costs {self.after:.3g} instead of {self.before:.3g} seconds of processor for the time of an epoch"

    def __str__(self) -> str:
        return (
            f"after epoch {self.epoch}: '{self.query}' is answered by a plan that is expected to cost "
            f"{self.after:.3g} instead of {self.before:.3g}, from {self.until} on"
        )


@dataclass
class Reoptimizer:
    """What is remembered from one look to the next."""

    replaced: tuple[Replacement, ...] = ()
    _confirmed: dict[str, int] = field(default_factory=dict)
    """Looks, one after the other, in which a plan of a query was much cheaper."""
    _quiet: dict[str, int] = field(default_factory=dict)
    """The epoch up to which a query is left alone."""
    _patience: dict[str, int] = field(default_factory=dict)

    def is_due(self, epoch: int) -> bool:
        return epoch % EVERY == 0

    def proposed(self, query: Query, epoch: int, costs: Callable[[], Costs | None]) -> Found | None:
        """A plan that is to take over from that of a query, if one has been much cheaper for some time."""
        if query.leaving or query.as_one is not None or epoch < self._quiet.get(query.name, 0):
            return None
        if not has_choice(query.plan) or (given := costs()) is None:
            return None
        found = search(query.plan, given)
        if not found.is_other or found.cost.weight * FACTOR >= found.greedy.weight:
            self._confirmed.pop(query.name, None)
            return None
        self._confirmed[query.name] = self._confirmed.get(query.name, 0) + 1
        return found if self._confirmed[query.name] >= CONFIRMED else None

    def note(self, query: str, epoch: int, until: int | None, found: Found) -> None:
        """What became of a proposal; `until` None: the plan cannot take over."""
        patience = self._patience.get(query, PATIENCE)
        self._patience[query] = min(2 * patience, LONGEST)
        self._quiet[query] = epoch + patience
        self._confirmed.pop(query, None)
        if until is not None:
            done = Replacement(query, epoch, until, found.greedy.weight, found.cost.weight)
            self.replaced = (*self.replaced, done)
