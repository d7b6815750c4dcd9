"""Every page for newcomers is carried out, command by command, and shows what it says it shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pages import ROOT, Page
from tidegate.terminal.answers import console

PAGES = [
    ROOT / "docs" / "first-query.md",
    *sorted((ROOT / "docs" / "guides").glob("*.md")),
]


@pytest.mark.parametrize("page", PAGES, ids=[p.stem for p in PAGES])
def test_the_page_does_what_it_says(
    page: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert spark.getActiveSession() is not None
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(console, "width", 100)
    assert Page(page, tmp_path).run() >= 3
