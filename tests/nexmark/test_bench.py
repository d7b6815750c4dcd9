"""Measuring: what a process and its children cost, what an engine that fails looks like, and the page that is written."""

from __future__ import annotations

import sys
from bisect import bisect_right
from pathlib import Path
from random import Random

import pytest

from tidegate.errors import Diagnostic
from tidegate.nexmark import growth, report
from tidegate.nexmark.bench import Entry, compare, prepare_data, rows_in
from tidegate.nexmark.catalog import queries
from tidegate.nexmark.commands import QUERIES, count
from tidegate.nexmark.delay import quantile
from tidegate.nexmark.engines import of_duckdb, of_flink, of_spark
from tidegate.nexmark.growth import Point
from tidegate.nexmark.measurements import keep
from tidegate.nexmark.measuring import Run, measure

BURN = "import time\nwhile time.process_time() < 0.5: pass\n"


def engine(body: str) -> list[str]:
    program = (
        "from tidegate.nexmark.engines.protocol import serve\n"
        f"def prepare(query, small, cores):\n{body}\n"
        "serve(prepare)"
    )
    return [sys.executable, "-c", program, "q1", "1", "small", "data"]


def environment() -> dict[str, str]:
    return {"PYTHONPATH": str(Path(__file__).parents[2])}


def test_children_count_and_preparation_does_not() -> None:
    """The engine's own count of its and its children's processor time is the measure, whatever else the machine does."""
    body = f"""
    import os, subprocess, sys
    def used():
        return round(1000 * sum(os.times()[:4]))
    def burn():
        subprocess.run([sys.executable, "-c", {BURN!r}])
    burn()
    prepared = used()
    def run(data):
        print("noise that is not an answer")
        burn()
        return used() - prepared
    return {{"prepared": prepared}}, run"""
    run = measure("some", engine(body), "q1", environment(), limit=120)
    assert run.refused is None
    ((name, prepared),) = run.settings
    assert (name, int(prepared) >= 500, run.rows_out >= 500) == ("prepared", True, True)
    assert abs(1000 * run.cpu_seconds - run.rows_out) < int(prepared) / 2
    assert run.peak_bytes > 5_000_000


def test_an_engine_may_refuse_and_may_fail() -> None:
    refusing = engine("    raise NotImplementedError('no such thing')")
    assert measure("some", refusing, "q1", environment(), limit=120).refused == "no such thing"
    failing = engine("    raise ValueError('broken')")
    assert measure("some", failing, "q1", environment(), limit=120).refused == "failed: ValueError: broken"


def test_a_comparison_on_real_files(tmp_path: Path) -> None:
    small, data = prepare_data(5000, tmp_path, 1000)
    entries = compare(["q2", "q4"], ["duckdb"], small, data, 2, 1)
    assert [(e.query, len(e.runs), e.refused, e.rows_in) for e in entries] == [
        ("q2", 2, None, 4600),
        ("q4", 2, None, 4900),
    ]
    assert all(r.seconds > 0 for e in entries for r in e.runs)
    assert rows_in("q3", data) == 400
    before = (data / "bid" / "part-00000.parquet").stat().st_mtime_ns
    assert prepare_data(5000, tmp_path, 1000) == (small, data)
    assert (data / "bid" / "part-00000.parquet").stat().st_mtime_ns == before


def test_an_unknown_engine_is_named(tmp_path: Path) -> None:
    with pytest.raises(Diagnostic, match="there is no engine 'flnk'"):
        compare(["q2"], ["flnk"], tmp_path, tmp_path, 1, 1)
    with pytest.raises(Diagnostic, match="there is no output 'kep'"):
        compare(["q2"], ["duckdb"], tmp_path, tmp_path, 1, 1, outputs=["kep"])


def runs(engine: str, *cpu: float) -> Entry:
    return Entry(
        engine, "q1", 1000, tuple(Run(engine, "q1", 2 * c, c, 1 << 30, 5, (("heap", "1g"),)) for c in cpu)
    )


def test_the_page_keeps_what_stands_around(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    page.write_text("# Performance\n\n## Other\n\nkept\n")
    entries = [
        runs("tidegate", 1.0, 2.0, 1.0),
        runs("tidegate, discarding", 0.5, 1.0, 0.5),
        runs("flink", 3.0, 4.0, 5.0),
        Entry("spark", "q1", 1000, (Run("spark", "q1", refused="no"),)),
    ]
    report.insert(page, "NEXMark", report.table(entries))
    report.insert(page, "NEXMark", report.table(entries))
    text = page.read_text()
    assert text.startswith("# Performance\n\n## Other\n\nkept\n\n## NEXMark\n")
    assert text.count("| q1 | flink |") == 1
    # ratios are taken turn by turn: 3/1, 4/2, 5/1
    assert "| 3.0 (2.0 to 5.0) | 6.0 (4.0 to 10.0) |" in text
    assert "| q1 | spark | | | | | | no | |" in text
    assert (
        report.settings(entries)
        == "- tidegate: heap = 1g\n- tidegate, discarding: heap = 1g\n- flink: heap = 1g"
    )


def test_the_chart_has_a_bar_for_each_engine_that_ran() -> None:
    refused = Entry("spark", "q1", 1000, (Run("spark", "q1", refused="no"),))
    picture = report.chart([runs("tidegate", 1.0), runs("flink", 4.0), refused])
    heights = [float(part.split('"')[0]) for part in picture.split('width="12" height="')[1:]]
    assert heights == [240.0, 60.0]


def test_numbers_of_events() -> None:
    assert count("1.5M") == 1_500_000
    with pytest.raises(Diagnostic, match="not a number"):
        count("many")


def test_peers_only_know_queries_that_exist() -> None:
    for peer in (of_duckdb.QUERIES, of_flink.QUERIES, of_spark.QUERIES):
        assert set(peer) <= set(queries())
    assert set(QUERIES.split(",")) <= set(of_flink.QUERIES) & set(of_duckdb.QUERIES)
    assert set(QUERIES.split(",")) <= set(of_spark.QUERIES) | set(of_spark.REFUSED)


def test_measurements_of_several_calls_make_one_page(tmp_path: Path) -> None:
    page, kept = tmp_path / "performance.md", tmp_path / "kept.jsonl"
    first = [runs("tidegate", 1.0), Entry("spark", "q1", 1000, (Run("spark", "q1", refused="no"),))]
    second = [runs("tidegate", 2.0), runs("flink", 4.0)]
    for some in (first, second):
        found = keep(kept, [e.to_json() for e in some], ("query", "engine", "events"))
    entries = report.ordered(Entry.of(m) for m in found)
    assert [(e.engine, e.refused) for e in entries] == [("tidegate", None), ("flink", None), ("spark", "no")]
    assert entries[0] == runs("tidegate", 2.0)
    report.write(page, {0: "conditions"}, entries)
    text = page.read_text()
    assert "conditions" in text
    assert "| q1 | flink | 1 | 1,000 | 0 | 0 | 1.0 GB | 2.0 |  |" in text
    assert (tmp_path / "nexmark-0.svg").exists()


def test_an_engine_that_takes_too_long_is_given_up() -> None:
    run = measure(
        "some", engine("    import threading; threading.Event().wait()"), "q1", environment(), limit=1
    )
    assert run.refused == "not finished after 1 s, with its start"


def test_delays_are_those_of_single_events() -> None:
    random = Random(7)
    upto, committed, commits = 0.0, 0.0, [(0.0, 0.0)]
    for _ in range(40):
        upto += random.uniform(0.1, 2)
        committed = max(committed, upto) + random.uniform(0.05, 3)
        commits.append((committed, upto))
    since, until, count = 3.0, upto - 1, 200_000
    made = [since + (until - since) * (k + 0.5) / count for k in range(count)]
    ends = [end for _, end in commits]
    waited = sorted(commits[bisect_right(ends, t)][0] - t for t in made)
    for part in (0.01, 0.5, 0.99):
        assert quantile(commits, since, until, part) == pytest.approx(waited[int(part * count)], abs=1e-3)


def test_growth_as_a_table_and_curves() -> None:
    points = [
        Point("window", "join", 60, 1_000_000, 2.0, 3.0),
        Point("window", "join", 1, 1_000_000, 1.0, 2.0),
        Point("keys", "join", 10, 1_000_000, 1.0, 1.0),
    ]
    assert growth.table(points).splitlines() == [
        "| window, seconds | 1 | 60 |",
        "|---|---:|---:|",
        "| join | 2.0 | 3.0 |",
        "",
        "| keys | 10 |",
        "|---|---:|",
        "| join | 1.0 |",
    ]
    assert growth.picture(points).count("<circle") == 3
