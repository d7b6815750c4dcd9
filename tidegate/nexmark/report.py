"""Measurements as a page: tables, charts and settings, put into a Markdown file between two marks."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tidegate.nexmark.bench import DISCARDING, Entry
from tidegate.nexmark.catalog import queries
from tidegate.nexmark.charts import bars

_COLOURS = {
    "tidegate": "#0b6e99",
    DISCARDING: "#6fb1cc",
    "flink": "#d9730d",
    "spark": "#9b9a97",
    "duckdb": "#dfab01",
}

OWN = ("tidegate", DISCARDING)


def insert(page: Path, section: str, text: str) -> None:
    """Replace what stands between a section's marks; a page without them gets a section of its own."""
    begin, end = f"<!-- {section.lower()}: begin -->", f"<!-- {section.lower()}: end -->"
    before = page.read_text(encoding="utf-8") if page.exists() else "# Performance\n"
    if begin not in before:
        before = f"{before.rstrip()}\n\n## {section}\n\n{begin}\n{end}\n"
    head, rest = before.split(begin, 1)
    tail = rest.split(end, 1)[1]
    page.write_text(f"{head}{begin}\n{text.rstrip()}\n{end}{tail}", encoding="utf-8")


def ordered(entries: Iterable[Entry]) -> list[Entry]:
    """By query as they are listed, then by engine."""
    names, engines = list(queries()), list(_COLOURS)
    return sorted(entries, key=lambda e: (names.index(e.query), engines.index(e.engine)))


def write(page: Path, conditions: Mapping[int, str], entries: Sequence[Entry]) -> None:
    """The section of a page, and its charts beside it: a table for each size of the stream, the largest first."""
    parts = []
    for events in sorted({e.events for e in entries}, reverse=True):
        some = [e for e in entries if e.events == events]
        picture = page.with_name(f"nexmark-{events}.svg")
        picture.write_text(chart(some), encoding="utf-8")
        parts += [conditions.get(events, f"{events:,} events.")]
        parts += [f"![rows per CPU-second by query and engine]({picture.name})", table(some)]
    parts += ["Settings, as the engines report them:", settings(entries)]
    insert(page, "NEXMark", "\n\n".join(parts))


def table(entries: Sequence[Entry]) -> str:
    """One line per query and engine."""
    lines = [
        "| query | engine | runs | rows in | thousand rows/s | thousand rows/CPU-s | peak memory "
        "| CPU time against Tidegate, which keeps its answer | which discards it |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    base = {(e.query, e.engine): e for e in entries if not e.refused}
    for entry in entries:
        if entry.refused:
            lines.append(f"| {entry.query} | {entry.engine} | | | | | | {entry.refused} | |")
            continue
        lines.append(
            f"| {entry.query} | {entry.engine} | {len(entry.runs)} | {entry.rows_in:,} | {entry.per_second / 1000:,.0f} | "
            f"{entry.per_cpu_second / 1000:,.0f} | {entry.peak_bytes / 2**30:.1f} GB | "
            + " | ".join(_against(entry, base.get((entry.query, own))) for own in OWN)
            + " |"
        )
    return "\n".join(lines)


def _against(entry: Entry, own: Entry | None) -> str:
    return "" if own is None or entry.engine in OWN else _spread(entry.ratios(own))


def _spread(values: Sequence[float]) -> str:
    """The middle and, of several, the least and the greatest.

    >>> _spread([2.0, 1.5, 4.0]), _spread([0.031])
    ('2.0 (1.5 to 4.0)', '0.03')
    """
    ordered = sorted(values)
    middle, least, most = (f"{v:.1f}" if v >= 0.1 else f"{v:.2f}" for v in (
        ordered[len(ordered) // 2], ordered[0], ordered[-1]
    ))  # fmt: skip
    return middle if len(ordered) == 1 else f"{middle} ({least} to {most})"


def settings(entries: Iterable[Entry]) -> str:
    """Each engine's settings, as it said them."""
    lines = []
    for engine in dict.fromkeys(e.engine for e in entries):
        said = next((r.settings for e in entries if e.engine == engine for r in e.runs if r.settings), ())
        if said:
            lines.append(f"- {engine}: " + ", ".join(f"{k} = {v}" for k, v in said))
    return "\n".join(lines)


def machine() -> str:
    """What the runs ran on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores ({platform.machine()}), {memory:.0f} GB, Linux, Python {platform.python_version()}"


def chart(entries: Sequence[Entry]) -> str:
    """Rows per CPU-second as bars, grouped by query, in thousands."""
    groups: dict[str, dict[str, float]] = {}
    for entry in entries:
        if not entry.refused:
            groups.setdefault(entry.query, {})[entry.engine] = entry.per_cpu_second / 1000
    return bars("thousand rows per CPU-second", groups, _COLOURS)
