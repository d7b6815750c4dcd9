"""PIPES' Fig. 5 as a page: pictures, and the paper's claims, each with what was measured and whether it holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tidegate.experiments.migrations import Course, Setting, courses, equal
from tidegate.experiments.nile_page import Claim, table
from tidegate.experiments.pictures import lines
from tidegate.nexmark.report import insert, machine

SHOWN = ("left-deep alone", "GenMig", "parallel track")


def measured(scale: float, say: Callable[[str], None]) -> tuple[Setting, dict[str, Course]]:
    """All ways on the same rows; `scale` makes streams slower (1: as on the page)."""
    setting = Setting(rate=max(10, int(Setting.rate * scale)))
    say("a four-way join, switched from left-deep to right-deep (Fig. 5)")
    found = {c.way: c for c in courses(setting)}
    return setting, found


def claims(setting: Setting, found: dict[str, Course]) -> list[Claim]:
    """What 001 section 5 says of GenMig beside parallel track."""
    alone, ours, theirs = (found[way] for way in SHOWN)
    during = slice(setting.switch, setting.switch + setting.window + 1)
    same = all(equal(alone, c, setting) for c in found.values())
    rate = [max(c.given[during]) / max(1, min(c.given[during])) for c in (ours, theirs)]
    memory = [max(c.kept[during]) for c in (ours, theirs)]
    work = [sum(c.seconds[during]) for c in (ours, theirs)]
    least = min(ours.given[during]), min(theirs.given[during])
    most = max(ours.given[during]), max(theirs.given[during])
    return [
        Claim("PIPES 5", "the answer is that of a plan left alone, whichever way plans are switched", "equal at every instant" if same else "different", same),
        Claim("PIPES 5", "GenMig has a smoother output rate than parallel track",
              f"{least[0]:,} to {most[0]:,} rows a second while both plans run; parallel track {least[1]:,} to {most[1]:,}", rate[0] < rate[1]),
        Claim("PIPES 5", "it needs less memory", f"at most {memory[0]:,} rows; parallel track {memory[1]:,}", memory[0] < memory[1]),
        Claim("PIPES 5", "and less processor time", f"{work[0]:.2f} s while both plans run; parallel track {work[1]:.2f} s", work[0] < 0.9 * work[1]),
        Claim("PIPES 5", "and finishes earlier", f"both {setting.window} s after the switch", False),
    ]  # fmt: skip


def write(page: Path, setting: Setting, found: dict[str, Course]) -> list[Claim]:
    """The section of the page, and the pictures beside it."""
    told = claims(setting, found)
    pictures = {
        "5a": ("output rate", "rows of the answer per second", {w: found[w].given for w in SHOWN}),
        "5b": ("memory", "rows in state", {w: found[w].kept for w in (*SHOWN, "moving states")}),
    }
    shown = [
        table(
            ("paper", "claim", "measured", "holds"),
            [(c.paper, c.claim, c.measured, "yes" if c.holds else "**no**") for c in told],
        )
    ]
    for name, (title, y, curves) in pictures.items():
        picture = page.with_name(f"pipes-{name}.svg")
        points = {w: [(float(i + 1), float(v)) for i, v in enumerate(c)] for w, c in curves.items()}
        picture.write_text(
            lines(f"Fig. {name}: plan migration, {title}", "second of the stream", y, points),
            encoding="utf-8",
        )
        shown.append(f"![Fig. {name}: plan migration, {title}]({picture.name})")
    rows = [
        (c.way, f"{max(c.kept):,}", f"{sum(c.seconds):.2f}", f"{1000 * max(c.seconds[5:]):.0f}")
        for c in found.values()
    ]
    shown.append(f"All ways ({machine()}):")
    shown.append(table(("way", "most rows kept", "processor seconds", "slowest epoch, ms"), rows))
    insert(page, "PIPES: plan migration", "\n\n".join(shown))
    return told
