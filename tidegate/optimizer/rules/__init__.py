"""The rules, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.algebra import operators as op

RULES: tuple[Callable[[op.Node], op.Node | None], ...] = ()
