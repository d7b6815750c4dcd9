"""What is known of rows and state before a query runs, and what people are told of it."""

from __future__ import annotations

import re

import pytest

from tests.physical.test_identity import catalog, plan
from tidegate.kernels.rows import Kernel
from tidegate.language.binder import bind
from tidegate.language.dialect import parse
from tidegate.physical.flow import FLOWS, Bound
from tidegate.physical.printing import describe
from tidegate.runtime.advice import unbounded_state

BOUNDS = {
    "SELECT COUNT(*) AS n FROM S WINDOW(RANGE 5)": Bound.TIME,
    "SELECT k, v FROM S WINDOW(ROWS 5)": Bound.ROWS,
    "SELECT k, v FROM S WINDOW(PARTITION BY k ROWS 5)": Bound.KEYS,
    "SELECT k, COUNT(*) AS n FROM S WINDOW(RANGE UNBOUNDED) GROUP BY k": Bound.KEYS,
    "SELECT COUNT(*) AS n FROM S WINDOW(RANGE UNBOUNDED)": Bound.ROWS,
    "SELECT k, MEDIAN(v) AS m FROM S WINDOW(RANGE UNBOUNDED) GROUP BY k": Bound.NOTHING,
    "SELECT DISTINCT v FROM S WINDOW(RANGE UNBOUNDED)": Bound.NOTHING,
    "SELECT a.v FROM S WINDOW(RANGE UNBOUNDED) a JOIN S WINDOW(RANGE 5) b ON a.k = b.k": Bound.NOTHING,
    "SELECT v FROM S WINDOW(FROM 0 TO i EVERY 1)": Bound.NOTHING,
}


@pytest.mark.parametrize("text", BOUNDS)
def test_what_bounds_the_state(text: str) -> None:
    assert max(o.state for o in plan(text).operators.values()) == BOUNDS[text]


@pytest.mark.parametrize("text", BOUNDS)
def test_state_that_nothing_bounds_is_told_with_its_place(text: str) -> None:
    warnings = [str(w) for w in unbounded_state(plan(text), text)]
    assert bool(warnings) == (BOUNDS[text] == Bound.NOTHING)
    assert ("nothing bounds" in describe(plan(text), {})) == bool(warnings)
    for warning in warnings:
        assert warning.startswith("warning[UNBOUNDED_STATE] at line 1, column ")
        caret = warning.split("\n")[2]
        assert text[caret.index("^") - 2 :].startswith("S WINDOW(")


def test_every_kernel_has_a_flow() -> None:
    from tests.kernels.test_placement import kernels_of_the_package

    known = [k for kinds in FLOWS for k in (kinds if isinstance(kinds, tuple) else (kinds,))]
    missing = [k.__name__ for k in kernels_of_the_package() if not issubclass(k, tuple(known))]
    assert missing == []
    assert Kernel not in known


def test_evaluators_are_shown() -> None:
    text = "SELECT f(v) AS w, v + 1 AS u FROM (SELECT DISTINCT v FROM S WINDOW(RANGE 5))"
    found = describe(plan(text), catalog().functions)
    assert "F(v): rows in Python" in found or "f(v): rows in Python" in found
    assert "v + 1: columns" in found


def test_conditions_and_keys_have_the_names_of_columns() -> None:
    """Behind the source as in it, and though another query calls the same column otherwise."""
    text = (
        "SELECT k, n FROM (SELECT k, COUNT(*) AS n FROM S WINDOW(RANGE 5) WHERE v > 3 GROUP BY k) WHERE n > 2"
    )
    found = describe(plan(text), {})
    assert "source S where v > 3, exchanged by k: instants" in found
    assert "`COUNT(*)` > 2: columns" in found
    assert not re.search(r"\bc\d", found)
    renamed = plan(text.replace("SELECT k, COUNT(*) AS n", "SELECT k AS k, COUNT(*) AS n"))
    assert set(renamed.operators) == set(plan(text).operators)


def test_views_over_streams_without_bound_name_the_stream() -> None:
    known = catalog()
    text = "SELECT DISTINCT w.v FROM (SELECT v FROM S WINDOW(RANGE UNBOUNDED)) w"
    assert bind(parse(text)[0], known, text)
    (warning,) = unbounded_state(plan(text), text)
    assert "'S'" in str(warning)
