"""Points at which a test can kill the driver: every step of a commit.

`TIDEGATE_FAULT="before manifest:3"` kills the process, as `kill -9` would, when that point is reached the third time,
`TIDEGATE_FAULT="any:3"` at the third point that is reached, whichever it is.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

POINTS = (
    "before state",
    "after state",
    "moved state",
    "before manifest",
    "after manifest",
    "after old state",
    "before sink",
    "after sink",
    "after merge",
    "before index",
    "after index",
)

_reached: dict[str, int] = {}

on_reach: Callable[[str], None] | None = None
"""Told of each point that is reached: what it raises ends the attempt there, as a kill would, in a process that goes on."""


def reach(point: str) -> None:
    """Die here, if the environment says so."""
    assert point in POINTS, point
    if on_reach is not None:
        on_reach(point)
    wanted = os.environ.get("TIDEGATE_FAULT")
    if not wanted:
        return
    name, _, count = wanted.partition(":")
    if name in (point, "any"):
        _reached[name] = _reached.get(name, 0) + 1
        if _reached[name] == int(count or 1):
            os.kill(os.getpid(), signal.SIGKILL)
