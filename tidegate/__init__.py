"""Tidegate: answers over moving data that are exact at every instant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate.errors import Diagnostic
from tidegate.policy import CLOSED, OPEN, Policy, closed

if TYPE_CHECKING:
    from tidegate.query import Query
    from tidegate.session import Session, connect

__all__ = ["CLOSED", "OPEN", "Diagnostic", "Policy", "Query", "Session", "closed", "connect"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # Spark is imported when it is needed, so that the kernels' workers and `make check` never wait for it.
    if name in ("connect", "Session", "Query"):
        from tidegate import session

        return getattr(session, name)
    raise AttributeError(f"module 'tidegate' has no attribute {name!r}")
