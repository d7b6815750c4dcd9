"""Curves over linear axes, as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor, log10

from tidegate.nexmark.charts import COLOURS, curve, head

Points = Sequence[tuple[float, float]]


def ticks(most: float, wanted: int = 4) -> list[float]:
    """Round values from 0 to at least the greatest.

    >>> ticks(7.3), ticks(0.9)
    ([0.0, 2.0, 4.0, 6.0, 8.0], [0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    """
    if most <= 0:
        return [0.0, 1.0]
    size = 10.0 ** floor(log10(most / wanted))
    step = next((size * k for k in (1, 2, 5) if size * k * (wanted + 1) >= most), size * 10)
    count = -int(-most // step)
    return [round(step * k, 9) for k in range(count + 1)]


def lines(title: str, x_title: str, y_title: str, curves: Mapping[str, Points]) -> str:
    """One panel with curves from the origin."""
    across = ticks(max((x for points in curves.values() for x, _ in points), default=1.0), 6)
    up = ticks(max((y for points in curves.values() for _, y in points), default=1.0))
    width, height, left, top = 380, 210, 64, 34
    parts = head(left + width + 24, top + height + 46 + 14 * len(curves), title)
    for value in up:
        y = top + height - height * value / up[-1]
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{left + width}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{value:,g}</text>')
    for value in across:
        x = left + width * value / across[-1]
        parts.append(f'<text x="{x:.1f}" y="{top + height + 14}" text-anchor="middle">{value:g}</text>')
    parts.append(
        f'<text x="{left + width / 2:.0f}" y="{top + height + 30}" text-anchor="middle">{x_title}; up: {y_title}</text>'
    )
    for k, (name, points) in enumerate(curves.items()):
        colour = COLOURS[k % len(COLOURS)]
        spots = [(left + width * x / across[-1], top + height - height * y / up[-1]) for x, y in points]
        parts += curve(spots, colour)
        parts.append(
            f'<text x="{left}" y="{top + height + 46 + 14 * k}" fill="{colour}">&#9679; {name}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"
