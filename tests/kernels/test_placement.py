"""Which columns of a state table tell the partition of its rows."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest
import sqlglot
from sqlglot import exp

import tidegate.kernels
from tidegate.algebra.operators import (
    Aggregate,
    Aggregation,
    Distinct,
    Join,
    Node,
    Project,
    Rstream,
    Scan,
    Window,
)
from tidegate.algebra.windows import TimeWindow
from tidegate.kernels.rows import Kernel
from tidegate.kernels.rowwise import Stateless
from tidegate.kernels.sequences import _Sequenced
from tidegate.kernels.windows import Counted
from tidegate.physical import placement
from tidegate.physical.lowering import compile_plan
from tidegate.physical.placement import ByKey, Copied, Everywhere, Free, Rule, Unknown, by_key, table_rules
from tidegate.types import BIGINT, INT, Field

A = Scan("A", (Field("x", INT), Field("y", INT), Field("t", BIGINT)))
B = Scan("B", (Field("z", INT), Field("w", INT), Field("t", BIGINT)))
COUNT = Aggregation("COUNT", (), BIGINT, "n", nullable=False)


def sql(text: str) -> exp.Expression:
    return sqlglot.parse_one(text, dialect="spark")


def rules(plan: Node, **keys: str | None) -> dict[str, Rule]:
    """By `kernel.table`; the key of each scan as text, None: in every partition."""
    leaves = {
        s.name: Everywhere() if (key := keys[s.name]) is None else by_key(s.schema, [sql(key)] if key else [])
        for s in (A, B)
        if s.name in keys
    }
    program = compile_plan(plan)
    names = {o.id: o.name for o in program.operators}
    found = table_rules(program, leaves)
    return {f"{names[id_]}.{name}": r for id_, of in found.items() for name, r in of.items()}


def key(rule: Rule) -> str:
    assert isinstance(rule, ByKey), rule
    return ", ".join(e.sql() for e in rule.key)


def test_a_key_by_expression_is_found_in_both_sides_of_a_join() -> None:
    found = rules(Join(A, B, "inner", sql("c0 + 1 = c3 * 2")), A="(c0 + 1)", B="c0 * 2")
    assert key(found["Join.left"]) == "c0 + 1"
    assert key(found["Join.right"]) == "c0 * 2"


def test_a_pair_is_placed_by_either_side() -> None:
    left = Project(A, (sql("c1"), sql("c0")), (Field("y", INT), Field("x", INT)))
    plan = Project(Join(left, B, "inner", sql("c1 = c2")), (sql("c2"),), (Field("z", INT),))
    assert key(rules(Distinct(plan), A="c0", B="c0")["Sweep.current"]) == "c0"


def test_a_computed_column_carries_the_key_it_was_computed_as() -> None:
    made = Project(A, (sql("c1"), sql("(c0 + c1) * 2")), (Field("y", INT), Field("k", INT)))
    found = rules(Aggregate(made, (1,), (COUNT,)), A="((c0 + c1) * (2))")
    assert key(found["Aggregate.groups"]) == "c1"


def test_without_its_column_a_key_is_lost_and_only_linear_operators_bear_it() -> None:
    counts = Aggregate(Window(A, TimeWindow(5)), (0,), (COUNT,))
    bare = Project(counts, (sql("c1"),), (Field("n", BIGINT),))
    later = rules(Window(bare, TimeWindow(4, 2)), A="c0")
    assert key(later["Aggregate.live"]) == "c0"
    assert later["TimeWindow.held"] == Free()
    snapshots = rules(Rstream(bare, 3), A="c0")
    assert snapshots["Split.open"] == Unknown()
    assert snapshots["Split.clock"] == Copied()


def test_what_follows_decides_whether_a_row_may_be_anywhere() -> None:
    held = Window(A, TimeWindow(4, 2))
    assert rules(held, A="")["TimeWindow.held"] == Free()
    assert rules(Distinct(held), A="")["TimeWindow.held"] == Unknown()


@pytest.mark.parametrize(("side", "expected"), [("left", ByKey), ("right", Copied)])
def test_a_broadcast_side_is_everywhere(side: str, expected: type) -> None:
    found = rules(Join(A, B, "inner", sql("c0 < c3")), A="c0", B=None)
    assert isinstance(found[f"Join.{side}"], expected)


def kernels_of_the_package() -> list[type]:
    abstract = {Kernel, Stateless, Counted, _Sequenced}
    modules = pkgutil.iter_modules(tidegate.kernels.__path__)
    found = [importlib.import_module(f"tidegate.kernels.{m.name}") for m in modules]
    classes = {c for module in found for _, c in inspect.getmembers(module, inspect.isclass)}
    return [c for c in classes - abstract if c.__name__.endswith("Kernel")]


def test_every_kernel_says_where_its_rows_belong() -> None:
    known = [k for kinds, _ in placement._OUTPUTS for k in (kinds if isinstance(kinds, tuple) else (kinds,))]
    missing = [k.__name__ for k in kernels_of_the_package() if not issubclass(k, tuple(known))]
    assert missing == []
