"""The comparison as a page: a table, a chart, and the settings, put into a Markdown file between two marks."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path

from tidegate.nexmark.bench import Entry

BEGIN, END = "<!-- nexmark: begin -->", "<!-- nexmark: end -->"
_COLOURS = {"tidegate": "#0b6e99", "flink": "#d9730d", "spark": "#9b9a97", "duckdb": "#dfab01"}


def insert(page: Path, text: str) -> None:
    """Replace what stands between the marks; a page without them gets a section of its own."""
    before = page.read_text(encoding="utf-8") if page.exists() else "# Performance\n"
    if BEGIN not in before:
        before = f"{before.rstrip()}\n\n## NEXMark\n\n{BEGIN}\n{END}\n"
    head, rest = before.split(BEGIN, 1)
    tail = rest.split(END, 1)[1]
    page.write_text(f"{head}{BEGIN}\n{text.rstrip()}\n{END}{tail}", encoding="utf-8")


def write(page: Path, conditions: str, entries: Sequence[Entry]) -> None:
    """The section of a page, and its chart beside it."""
    picture = page.with_name("nexmark.svg")
    picture.write_text(chart(entries), encoding="utf-8")
    parts = [conditions, f"![rows per CPU-second by query and engine]({picture.name})", table(entries)]
    parts += ["Settings, as the engines report them:", settings(entries)]
    insert(page, "\n\n".join(parts))


def table(entries: Sequence[Entry]) -> str:
    """One line per query and engine."""
    lines = [
        "| query | engine | rows in | thousand rows/s | thousand rows/CPU-s | peak memory | CPU time against Tidegate |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    base = {e.query: e for e in entries if e.engine == "tidegate"}
    for entry in entries:
        if entry.refused:
            lines.append(f"| {entry.query} | {entry.engine} | | | | | {entry.refused} |")
            continue
        own = base.get(entry.query)
        ratio = "" if own is None or own.refused or entry.engine == "tidegate" else _spread(entry.ratios(own))
        lines.append(
            f"| {entry.query} | {entry.engine} | {entry.rows_in:,} | {entry.per_second / 1000:,.0f} | "
            f"{entry.per_cpu_second / 1000:,.0f} | {entry.peak_bytes / 2**30:.1f} GB | {ratio} |"
        )
    return "\n".join(lines)


def _spread(values: Sequence[float]) -> str:
    """The middle and, of several, the least and the greatest.

    >>> _spread([2.0, 1.5, 4.0])
    '2.0 (1.5 to 4.0)'
    """
    ordered = sorted(values)
    middle = ordered[len(ordered) // 2]
    return f"{middle:.1f}" if len(ordered) == 1 else f"{middle:.1f} ({ordered[0]:.1f} to {ordered[-1]:.1f})"


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
    shown = [e for e in entries if not e.refused]
    names = list(dict.fromkeys(e.query for e in shown))
    engines = [e for e in _COLOURS if any(s.engine == e for s in shown)]
    most = max((e.per_cpu_second for e in shown), default=1.0)
    bar, gap, height, left, top = 14, 16, 240, 60, 36
    group = bar * len(engines) + gap
    width = left + group * len(names) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height + top + 40}" font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{left}" y="14">thousand rows per CPU-second</text>',
    ]
    for k, engine in enumerate(engines):
        x = left + 190 + 80 * k
        parts.append(
            f'<rect x="{x}" y="5" width="10" height="10" fill="{_COLOURS[engine]}"/><text x="{x + 14}" y="14">{engine}</text>'
        )
    for k in range(5):
        y = top + height - height * k / 4
        parts.append(f'<line x1="{left}" y1="{y:.0f}" x2="{width}" y2="{y:.0f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.0f}" text-anchor="end">{most * k / 4000:,.0f}</text>')
    for g, name in enumerate(names):
        x = left + gap // 2 + g * group
        parts.append(
            f'<text x="{x + bar * len(engines) / 2:.0f}" y="{top + height + 16}" text-anchor="middle">{name}</text>'
        )
        for entry in shown:
            if entry.query == name:
                high = height * entry.per_cpu_second / most
                place = x + bar * engines.index(entry.engine)
                parts.append(
                    f'<rect x="{place:.0f}" y="{top + height - high:.1f}" width="{bar - 2}" height="{high:.1f}" '
                    f'fill="{_COLOURS[entry.engine]}"/>'
                )
    return "\n".join([*parts, "</svg>"]) + "\n"
