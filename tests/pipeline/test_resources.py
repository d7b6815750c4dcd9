"""PIPES' Fig. 4: what smaller windows and coarser granules spare, and what is said of it."""

from __future__ import annotations

from pathlib import Path

from tidegate.experiments.resources import COUNTS, JOIN, SUMS, Usage, claims, usage, write


def test_memory_follows_the_window_and_the_answer_the_granule(tmp_path: Path) -> None:
    join = [usage(JOIN, w, 0.3) for w in (500, 4_000)]
    counts = [usage(COUNTS, g, 0.3) for g in (1, 2_000)]
    sums = [usage(SUMS, g, 0.3) for g in (1, 2_000)]
    assert 6 < join[1].kept / join[0].kept < 10
    assert 6 < join[1].kept_estimated / join[0].kept_estimated < 10
    assert counts[1].given < counts[0].given / 2
    assert sums[1].kept > 0.9 * sums[0].kept  # every value that is added up stays, whatever the granule
    found = {"join": join, "counts": counts, "sums": sums}
    told = write(tmp_path / "page.md", found)
    assert told == claims(found)
    page = (tmp_path / "page.md").read_text()
    assert all(f"pipes-4{x}.svg" in page for x in ("a-memory", "a-processor", "b-memory", "b-processor"))


def test_a_claim_that_does_not_hold_is_told_so() -> None:
    better, worse = Usage(1, 100.0, 100.0, 1.0, 1.0, 10.0), Usage(9, 1_000.0, 100.0, 9.0, 1.0, 99.0)
    right = claims({"join": [better, worse], "counts": [worse, better], "sums": [worse, better]})
    wrong = claims({"join": [worse, better], "counts": [better, worse], "sums": [better, worse]})
    assert [c.holds for c in right[:7]] == [True] * 7
    assert [c.holds for c in wrong[:7]] == [False] * 7
    assert any("off in the median" in c.measured and not c.holds for c in right)
