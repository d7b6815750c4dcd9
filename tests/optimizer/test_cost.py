"""The cost model: every operator and kernel has a formula, what is shared is counted once."""

from __future__ import annotations

from tidegate.algebra import operators as op
from tidegate.algebra.properties import TRANSFER as PROPERTIES
from tidegate.optimizer.cost import TRANSFER, cost, estimates
from tidegate.optimizer.statistics import ColumnStatistics, SourceStatistics
from tidegate.physical.estimates import FORMULAS
from tidegate.physical.flow import FLOWS
from tidegate.types import INT, Field

S = op.Scan("S", (Field("a", INT), Field("b", INT)))
STATISTICS = {
    "S": SourceStatistics(
        10.0, 1e7, 1e6, columns={"a": ColumnStatistics(100, 0, 99), "b": ColumnStatistics(10, 0, 9)}
    )
}


def test_every_operator_has_a_formula() -> None:
    assert {*TRANSFER, op.Scan} == {*PROPERTIES}


def test_every_kernel_has_a_formula() -> None:
    def flat(table: object) -> set[type]:
        return {k for kinds in table for k in (kinds if isinstance(kinds, tuple) else (kinds,))}  # type: ignore[attr-defined]

    assert flat(FORMULAS) == flat(FLOWS)


def test_what_is_used_twice_is_counted_once() -> None:
    once = op.Distinct(S)
    alone = cost(once, STATISTICS)
    both = op.UnionAll(once, once)
    found = estimates(both, STATISTICS)
    assert cost(both, STATISTICS).memory == alone.memory
    assert cost(both, STATISTICS).work == alone.work + found[both].work_seconds
