"""Answers in notebooks: tables of a few rows, with nothing taken for HTML."""

from __future__ import annotations

import tidegate
from tidegate.runtime.notebook import ROWS, html_table
from tidegate.spark.context import settings


def test_a_table_says_how_many_rows_it_leaves_out() -> None:
    assert "more" not in html_table(["a"], [[1]], "q")
    assert html_table(["a"], [[1]], "q", 1).endswith("<p>1 more row</p>")
    assert html_table(["a"], [[1]], "q", 1234).endswith("<p>1,234 more rows</p>")


def test_an_answer_shows_as_a_table_in_a_notebook(spark) -> None:
    session = tidegate.connect(spark=spark)
    rows = [{"name": "<script>alert(1)</script>", "t": 5}] + [{"name": f"n{i}", "t": 5} for i in range(29)]
    session.stream("S", rows, ordered_by="t")
    result = session.query("SELECT name AS `a & b` FROM S WINDOW(RANGE 10)").run()
    shown = result._repr_html_()
    assert "<th>a &amp; b</th>" in shown
    assert "<script>" not in shown
    assert shown.count("<td>") == ROWS
    assert shown.endswith("<p>10 more rows</p>")
    setting = "spark.sql.repl.eagerEval.enabled"
    before = result.spark.conf.get(setting)
    result.spark.conf.set(setting, settings("local[2]", verbose=False)[setting])
    try:
        tables = [f._repr_html_() for f in (result.at(5), result.changes(), result.intervals())]
    finally:
        result.spark.conf.set(setting, before)
    for table in tables:
        assert table is not None
        assert "<script>" not in table
        assert table.count("<tr>") == ROWS + 1
        assert "only showing top 20 rows" in table
