"""What a worker remembers between two tasks: bounded by size, and shared fairly between those who use it."""

from __future__ import annotations

import os
import threading
from typing import Generic, TypeVar

V = TypeVar("V")


class FairCache(Generic[V]):
    """Values of known size by owner and key. When it is full, whoever holds most gives up what it used longest ago.

    >>> cache = FairCache[str](10)
    >>> for owner, key, size in [("a", 1, 4), ("b", 1, 2), ("a", 2, 4), ("a", 3, 3)]:
    ...     cache.put(owner, key, f"{owner}{key}", size)
    >>> cache.get("a", 1), cache.get("b", 1), cache.get("a", 3)
    (None, 'b1', 'a3')
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.Lock()  # graphs of one process run their epochs in threads
        self._held: dict[tuple[str, object], tuple[V, int]] = {}

    def get(self, owner: str, key: object) -> V | None:
        with self._lock:
            found = self._held.pop((owner, key), None)
            if found is None:
                return None
            self._held[owner, key] = found
            return found[0]

    def put(self, owner: str, key: object, value: V, size: int) -> None:
        """Keep a value; the newest one stays, however large it is."""
        with self._lock:
            self._held.pop((owner, key), None)
            self._held[owner, key] = (value, size)
            self._shrink(owner, key)

    def _shrink(self, owner: str, key: object) -> None:
        while len(self._held) > 1 and sum(size for _, size in self._held.values()) > self.limit:
            sums: dict[str, int] = {}
            for (holder, _), (_, held) in self._held.items():
                sums[holder] = sums.get(holder, 0) + held
            largest = max(sums, key=lambda o: sums[o])
            oldest = next((k for k in self._held if k[0] == largest and k != (owner, key)), None)
            del self._held[oldest if oldest is not None else next(iter(self._held))]

    def drop(self, owner: str, key: object) -> None:
        with self._lock:
            self._held.pop((owner, key), None)


def share_of_memory() -> int:
    """A quarter of the machine's memory, divided among its cores: one worker's share for what it remembers."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return memory // 4 // (os.cpu_count() or 1)
