"""Nile's experiments in small: the curves have the shapes that the paper claims, and a page shows them."""

from __future__ import annotations

from pathlib import Path

from tidegate.experiments import nile, sales
from tidegate.experiments.nile_page import Results, write
from tidegate.pipeline.elements import Kind, Strategy
from tidegate.reference.snapshots import Reference, snapshot


def test_input_triggered_delay_grows_as_selectivity_falls() -> None:
    mean, most = nile.figure_7([0.1, 1.0], 75)
    for figure in (mean, most):
        for where in ("scattered", "clustered"):
            (_, low), (_, high) = figure.curves[f"input-triggered, {where}"]
            assert low > high > 0
            assert all(y == 0 for _, y in figure.curves[f"negative, {where}"])
            assert all(y == 0 for _, y in figure.curves[f"piggyback, {where}"])


def test_messages_are_fewer_than_negative_tuples_the_more_rows_one_ends() -> None:
    curves = nile.figure_8([1, 5], 10).curves
    assert [y for _, y in curves["negative"]] == [1.0, 1.0]
    assert curves["messages"][0][1] > 2 * curves["messages"][1][1]
    assert [y for _, y in curves["input-triggered"]] == [0.0, 0.0]


def test_a_join_with_messages_looks_at_half_the_rows() -> None:
    found = {c.strategy: c for c in nile.capacities(4, window=1, rounds=1)}
    assert found[Strategy.NEGATIVE].probes == 2 * found[Strategy.MESSAGES].probes
    assert found[Strategy.NEGATIVE].taken == found[Strategy.MESSAGES].taken


def test_a_slow_processor_is_saturated_by_negative_tuples_first() -> None:
    delay, ratio = nile.figure_9([0.01], 200, 4)
    late = {name: points[0][1] for name, points in delay.curves.items()}
    assert late["negative"] > 2 * late["piggyback"]
    assert ratio.curves["piggyback"][0][1] < 0.1 < ratio.curves["negative"][0][1]


def test_answers_of_the_workloads_are_the_references() -> None:
    for workload in (
        sales.favorites(0.3, clustered=True, rate=3, window=5, seconds=20),
        sales.multiplied(3, rate=5, window=2, seconds=8),
        sales.stores(0.2, 5, seconds=8),
    ):
        judge = Reference(workload.sources)
        points = judge.change_points(workload.plan)
        assert len(points) > 20
        for strategy in Strategy:
            rows = nile.played(workload, strategy).execution.answer.rows()
            assert all(snapshot(rows, t) == judge.snapshot(workload.plan, t) for t in points), strategy


def test_a_page_has_pictures_tables_and_claims(tmp_path: Path) -> None:
    figures = [*nile.figure_7([0.1, 1.0], 4), nile.figure_8([1], 2), *nile.figure_9([0.01], 50, 1)]
    figures.append(nile.figure_10([50], 1))
    compared = tuple(nile.intervals_and_negatives(1, rounds=1))
    found = write(
        tmp_path / "page.md",
        Results(tuple(figures), tuple(nile.capacities(2, window=1, rounds=1)), compared, 2.0),
    )
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert all(claim.claim in page for claim in found)
    assert all(f"(nile-{f.name}.svg)" in page and (tmp_path / f"nile-{f.name}.svg").exists() for f in figures)
    assert all(c.elements[0] < c.elements[1] for c in compared)
    assert all(
        Kind.INVALID not in nile.played(w(1), Strategy.INTERVALS).execution.answer.kinds
        for w in nile.COMPARED.values()
    )
