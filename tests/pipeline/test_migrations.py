"""PIPES' Fig. 5: whichever way a plan is replaced the answer is the same; how even it comes, and what is kept, is not."""

from __future__ import annotations

from pathlib import Path

from tidegate.experiments.migrations import Setting, courses, equal
from tidegate.experiments.migrations_page import claims, write

SETTING = Setting(rate=60, window=8, switch=12, seconds=26)


def test_every_way_gives_the_answer_of_a_plan_left_alone(tmp_path: Path) -> None:
    found = {c.way: c for c in courses(SETTING, rounds=1)}
    alone = found["left-deep alone"]
    assert sum(alone.given) > 100
    assert all(equal(alone, c, SETTING) for c in found.values())
    lost = found["GenMig"].answers[:-3]
    found["GenMig"].answers, kept = lost, found["GenMig"].answers
    assert not equal(alone, found["GenMig"], SETTING)
    found["GenMig"].answers = kept
    end = SETTING.switch + SETTING.window
    # Until the new plan takes over, nobody sees that there is one; parallel track holds answers back and gives them at once.
    assert found["GenMig"].given[:end] == alone.given[:end]
    assert found["parallel track"].given[end] > 2 * found["GenMig"].given[end]
    assert found["parallel track"].given[end - 1] < found["GenMig"].given[end - 1]
    holds = {c.claim: c.holds for c in claims(SETTING, found)}
    assert holds["GenMig has a smoother output rate than parallel track"]
    assert holds["it needs less memory"]
    page = tmp_path / "page.md"
    write(page, SETTING, found)
    assert "pipes-5a.svg" in page.read_text()
    assert (tmp_path / "pipes-5b.svg").exists()
