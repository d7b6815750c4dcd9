"""Tidegate: answers over moving data that are exact at every instant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate.errors import Diagnostic
from tidegate.policy import CLOSED, OPEN, Policy, closed

if TYPE_CHECKING:
    from tidegate.connectors.protocol import SourceAwayError
    from tidegate.query import Query
    from tidegate.runtime.results import Result
    from tidegate.runtime.running import LiveQuery
    from tidegate.runtime.verification import Verification
    from tidegate.session import Session, connect

__all__ = [
    "CLOSED", "OPEN", "Diagnostic", "LiveQuery", "Policy", "Query", "Result", "Session", "SourceAwayError", "Verification",
    "closed", "connect",
]  # fmt: skip
__version__ = "0.1.0"


_HOMES = {
    "connect": "tidegate.session",
    "Session": "tidegate.session",
    "Query": "tidegate.query",
    "Result": "tidegate.runtime.results",
    "LiveQuery": "tidegate.runtime.running",
    "SourceAwayError": "tidegate.connectors.protocol",
    "Verification": "tidegate.runtime.verification",
}


def __getattr__(name: str) -> Any:
    # Spark is imported when it is needed, so that the kernels' workers and `make check` never wait for it.
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'tidegate' has no attribute {name!r}")
