"""PIPES' Fig. 4: what windows of other sizes, and answers of other granules, keep and cost, measured and estimated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tidegate.calibration.steady import World, catalog, compared
from tidegate.experiments.nile_page import Claim, table
from tidegate.experiments.pictures import lines
from tidegate.nexmark.report import insert, machine

JOIN = "SELECT S.x, R.y FROM S WINDOW(RANGE {}) JOIN R WINDOW(RANGE {}) ON S.a = R.a"
COUNTS = "SELECT b, COUNT(*) AS n FROM S WINDOW(RANGE 4000 GRANULARITY {}) GROUP BY b"
SUMS = "SELECT b, SUM(x) AS n FROM S WINDOW(RANGE 4000 GRANULARITY {}) GROUP BY b"

SIZES = (500, 1_000, 2_000, 4_000, 8_000)
GRANULES = (1, 250, 500, 1_000, 2_000)

EPOCH, LASTS, EPOCHS = 1_000, 10_000, 9
NEAR = 0.3
"""So far may an estimate be off."""


@dataclass(frozen=True)
class Usage:
    """A query at steady state with a window size or a granule: bytes kept, milliseconds of the processor an epoch, rows of the answer an epoch."""

    value: int
    kept: float
    kept_estimated: float
    work: float
    work_estimated: float
    given: float


Usages = dict[str, list[Usage]]
"""By what is asked."""


def measured(scale: float, say: Callable[[str], None]) -> Usages:
    """All queries at all sizes and granules, one row a tick and stream; `scale` makes streams slower."""
    say("memory and processor against window size and granule (Fig. 4)")
    asked = {"join": (JOIN, SIZES), "counts": (COUNTS, GRANULES), "sums": (SUMS, GRANULES)}
    return {name: [usage(text, v, scale) for v in values] for name, (text, values) in asked.items()}


def usage(text: str, value: int, scale: float) -> Usage:
    world = World({"S": scale, "R": scale, "Q": 0.1, "P": 0.1}, {"a": 200, "b": 50, "c": 100})
    found = compared(text.format(value, value), catalog(), world, EPOCH, LASTS, EPOCHS)
    return Usage(
        value,
        sum(c.work.size for c in found),
        sum(c.size for c in found),
        1e3 * sum(c.work.seconds for c in found),
        1e3 * sum(c.seconds for c in found),
        found[-1].work.given,
    )


def claims(found: Usages) -> list[Claim]:
    """What 001 section 5 says of window sizes, granules, and its cost model."""
    join, counts, sums = found["join"], found["counts"], found["sums"]

    def fell(usages: list[Usage], of: Callable[[Usage], float]) -> tuple[str, bool]:
        first, last = of(usages[0]), of(usages[-1])
        return f"{last:,.0f} against {first:,.0f}", last < 0.9 * first

    shrunk = join[::-1]
    rows = [
        ("with smaller windows there is less memory", "bytes of a join, window of 500 against 8,000", fell(shrunk, lambda u: u.kept)),
        ("and less processor load", "microseconds an epoch", fell(shrunk, lambda u: 1e3 * u.work)),
        ("with coarser granules streams are slower", "rows of an answer an epoch, granule 2,000 against 1", fell(counts, lambda u: u.given)),
        ("and there is less memory", "bytes, counts", fell(counts, lambda u: u.kept)),
        ("and there is less memory", "bytes, sums", fell(sums, lambda u: u.kept)),
        ("and less processor load", "microseconds an epoch, counts", fell(counts, lambda u: 1e3 * u.work)),
        ("and less processor load", "microseconds an epoch, sums", fell(sums, lambda u: 1e3 * u.work)),
    ]  # fmt: skip
    said = [Claim("PIPES 5", claim, f"{what}: {text}", holds) for claim, what, (text, holds) in rows]
    for name, usages in found.items():
        for what, pairs in (
            ("memory", [(u.kept, u.kept_estimated) for u in usages]),
            ("processor", [(u.work, u.work_estimated) for u in usages]),
        ):
            off = sorted(abs(e - m) / m for m, e in pairs)
            text = f"{name}, {what}: {off[len(off) // 2]:.0%} off in the median, {off[-1]:.0%} at most"
            said.append(Claim("PIPES 5", "the cost model is accurate", text, off[len(off) // 2] <= NEAR))
    return said


def write(page: Path, found: Usages) -> list[Claim]:
    """The section of the page, and the pictures beside it."""
    told = claims(found)
    shown = [
        table(
            ("paper", "claim", "measured", "holds"),
            [(c.paper, c.claim, c.measured, "yes" if c.holds else "**no**") for c in told],
        )
    ]
    pictures = {
        "4a-memory": ("memory of a join", "window size, ticks", "kB", ("join",), True),
        "4a-processor": ("processor of a join", "window size, ticks", "ms an epoch", ("join",), False),
        "4b-memory": ("memory of an aggregation", "granule, ticks", "kB", ("counts", "sums"), True),
        "4b-processor": ("processor of an aggregation", "granule, ticks", "ms an epoch", ("counts", "sums"), False),
    }  # fmt: skip
    for name, (title, x, y, asked, memory) in pictures.items():
        curves = {}
        for query in asked:
            usages = found[query]
            both = [
                (u.kept / 1e3, u.kept_estimated / 1e3) if memory else (u.work, u.work_estimated)
                for u in usages
            ]
            curves[f"{query}, measured"] = [(u.value, m) for u, (m, _) in zip(usages, both, strict=True)]
            curves[f"{query}, estimated"] = [(u.value, e) for u, (_, e) in zip(usages, both, strict=True)]
        picture = page.with_name(f"pipes-{name}.svg")
        picture.write_text(lines(f"Fig. {name[:2]}: {title}", x, y, curves), encoding="utf-8")
        shown.append(f"![Fig. {name[:2]}: {title}]({picture.name})")
    figures = [
        (name, f"{u.value:,}", f"{u.kept:,.0f}", f"{u.kept_estimated:,.0f}", f"{u.work:.1f}", f"{u.work_estimated:.1f}", f"{u.given:,.0f}")
        for name, usages in found.items() for u in usages
    ]  # fmt: skip
    head = ("query", "window or granule", "bytes", "estimated", "ms an epoch", "estimated", "rows given")
    shown += [f"All figures ({machine()}):", table(head, figures)]
    insert(page, "PIPES: resources", "\n\n".join(shown))
    return told
