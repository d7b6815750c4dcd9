"""Charts as SVG: bars by group, and curves over two logarithmic axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor, log10

COLOURS = ("#0b6e99", "#d9730d", "#0f7b6c", "#ad1a72", "#9b9a97", "#dfab01")

Series = Mapping[str, Sequence[tuple[float, float]]]
"""Points (x, y) by the name of the curve."""


def head(width: float, height: float, title: str) -> list[str]:
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="60" y="14">{title}</text>',
    ]


def _legend(names: Sequence[str], colours: Mapping[str, str], left: float) -> list[str]:
    return [
        f'<rect x="{left + 80 * k}" y="5" width="10" height="10" fill="{colours[name]}"/>'
        f'<text x="{left + 80 * k + 14}" y="14">{name}</text>'
        for k, name in enumerate(names)
    ]


def bars(title: str, groups: Mapping[str, Mapping[str, float]], colours: Mapping[str, str]) -> str:
    """Values by group and kind; kinds in the order of their colours."""
    kinds = [k for k in colours if any(k in g for g in groups.values())]
    most = max((v for g in groups.values() for v in g.values()), default=1.0)
    bar, gap, height, left, top = 14, 16, 240, 60, 36
    group = bar * len(kinds) + gap
    width = left + group * len(groups) + 20
    parts = head(width, height + top + 40, title) + _legend(kinds, colours, left + 190)
    for k in range(5):
        y = top + height - height * k / 4
        parts.append(f'<line x1="{left}" y1="{y:.0f}" x2="{width}" y2="{y:.0f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.0f}" text-anchor="end">{most * k / 4:,.0f}</text>')
    for g, (name, values) in enumerate(groups.items()):
        x = left + gap // 2 + g * group
        parts.append(
            f'<text x="{x + bar * len(kinds) / 2:.0f}" y="{top + height + 16}" text-anchor="middle">{name}</text>'
        )
        for kind, value in values.items():
            high = height * value / most
            place = x + bar * kinds.index(kind)
            parts.append(
                f'<rect x="{place:.0f}" y="{top + height - high:.1f}" width="{bar - 2}" height="{high:.1f}" '
                f'fill="{colours[kind]}"/>'
            )
    return "\n".join([*parts, "</svg>"]) + "\n"


def curve(spots: Sequence[tuple[float, float]], colour: str) -> list[str]:
    """A line through some places, each with a dot."""
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in spots]
    return [f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>', *dots]


def decades(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten around some values.

    >>> decades([3.0, 450.0])
    (0, 3)
    """
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    return low, max(high, low + 1)


def curves(panels: Mapping[str, Series], y_title: str) -> str:
    """A panel per title, each with curves over logarithmic axes; all panels share the vertical one."""
    every = [y for series in panels.values() for points in series.values() for _, y in points]
    low, high = decades(every or [1.0])
    width, height, left, top, room = 240, 190, 60, 40, 64
    parts = head(left + len(panels) * (width + 30) + 10, top + height + room, y_title)
    for number, (title, series) in enumerate(panels.items()):
        x0 = left + number * (width + 30)
        first, last = decades([x for points in series.values() for x, _ in points] or [1.0])
        parts.append(f'<text x="{x0 + width / 2:.0f}" y="{top - 8}" text-anchor="middle">{title}</text>')
        for power in range(low, high + 1):
            y = top + height - height * (power - low) / (high - low)
            parts.append(f'<line x1="{x0}" y1="{y:.1f}" x2="{x0 + width}" y2="{y:.1f}" stroke="#ddd"/>')
            if number == 0:
                parts.append(f'<text x="{x0 - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g}</text>')
        for power in range(first, last + 1):
            x = x0 + width * (power - first) / (last - first)
            parts.append(
                f'<text x="{x:.1f}" y="{top + height + 14}" text-anchor="middle">{_short(10.0**power)}</text>'
            )
        for k, (name, points) in enumerate(series.items()):
            colour = COLOURS[k % len(COLOURS)]
            spots = [
                (
                    x0 + width * (log10(x) - first) / (last - first),
                    top + height - height * (log10(y) - low) / (high - low),
                )
                for x, y in points
            ]
            parts += curve(spots, colour)
            parts.append(
                f'<text x="{x0 + 4}" y="{top + height + 30 + 13 * k}" fill="{colour}">&#9679; {name}</text>'
            )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _short(value: float) -> str:
    """A power of ten as people write it.

    >>> _short(10.0), _short(100_000.0), _short(1e7)
    ('10', '100k', '10M')
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
