"""Line charts and histograms as SVG, without a plotting library."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

Points = Sequence[tuple[float, float]]
WIDTH, HEIGHT = 860, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 190, 44, 56
_COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f", "#bcbd22")


def percentile(values: Sequence[float], percent: float) -> float | None:
    """The smallest value that ``percent`` % of the values do not exceed (nearest rank); None without values."""
    if not values:
        return None
    if not 0 < percent <= 100:
        raise ValueError("a percentile is above 0 and at most 100")
    return sorted(values)[math.ceil(percent / 100 * len(values)) - 1]


def thinned(points: Points, most: int = 400) -> list[tuple[float, float]]:
    """At most about ``most`` of the points, evenly, the first and the last among them."""
    if len(points) <= most:
        return list(points)
    step = (len(points) - 1) / (most - 1)
    return [points[round(index * step)] for index in range(most)]


def ticks(lowest: float, highest: float, about: int = 6) -> list[float]:
    """Round numbers from at or above ``lowest`` to at or below ``highest``, about so many."""
    if not highest > lowest:
        return [lowest]
    rough = (highest - lowest) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first, last = math.ceil(lowest / step - 1e-9), math.floor(highest / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


def line_chart(title: str, x_label: str, y_label: str, lines: Mapping[str, Points]) -> str:
    """Lines over a common axis, with a legend; both axes begin at 0 at the latest. Labels should name the unit."""
    every = [point for points in lines.values() for point in points]
    chart = _Chart(
        (min([0.0, *(x for x, _ in every)]), max((x for x, _ in every), default=1.0)),
        max((y for _, y in every), default=1.0),
    )
    parts = chart.frame(title, x_label, y_label)
    for index, (name, points) in enumerate(lines.items()):
        colour = _COLOURS[index % len(_COLOURS)]
        path = " ".join(f"{chart.x(x):.1f},{chart.y(y):.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        at = _TOP + 10 + 20 * index
        right = WIDTH - _RIGHT + 14
        parts.append(
            f'<line x1="{right}" x2="{right + 20}" y1="{at}" y2="{at}" stroke="{colour}" stroke-width="3"/>'
        )
        parts.append(_text(right + 26, at + 4, name, "start"))
    return _document(parts)


def histogram(title: str, x_label: str, y_label: str, values: Sequence[float], bins: int = 30) -> str:
    """How many values lie where, with the median and the 99th percentile marked; the x axis begins at 0."""
    highest = max(values, default=1.0) or 1.0
    counts = [0] * bins
    for value in values:
        counts[min(bins - 1, max(0, int(value / highest * bins)))] += 1
    chart = _Chart((0.0, highest), float(max([*counts, 1])))
    parts = chart.frame(title, x_label, y_label)
    for index, count in enumerate(counts):
        left, right = chart.x(index * highest / bins), chart.x((index + 1) * highest / bins)
        top = chart.y(count)
        parts.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left - 1:.1f}"'
            f' height="{chart.y(0) - top:.1f}" fill="{_COLOURS[0]}"/>'
        )
    for index, percent in enumerate((50, 99)):
        marked = percentile(values, percent)
        if marked is None:
            continue
        at, colour = chart.x(marked), _COLOURS[1 + index]
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{chart.y(0)}" stroke="{colour}"'
            ' stroke-width="2" stroke-dasharray="5 3"/>'
        )
        where = _TOP + 14 + 20 * index
        right = WIDTH - _RIGHT + 14
        parts.append(
            f'<line x1="{right}" x2="{right + 20}" y1="{where - 4}" y2="{where - 4}" stroke="{colour}"'
            ' stroke-width="2" stroke-dasharray="5 3"/>'
        )
        parts.append(_text(right + 26, where, f"p{percent}: {marked:.4g}", "start"))
    return _document(parts)


class _Chart:
    """Where values are drawn. across: lowest and highest x. up: highest y."""

    def __init__(self, across: tuple[float, float], up: float) -> None:
        self._low, self._high = across if across[1] > across[0] else (across[0], across[0] + 1)
        # The y axis ends at a round number.
        top = up if up > 0 else 1.0
        marks = ticks(0, top)
        self._up = marks[-1] if marks[-1] >= top else marks[-1] + marks[1]

    def x(self, value: float) -> float:
        """Pixels from the left."""
        return _LEFT + (value - self._low) / (self._high - self._low) * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        """Pixels from the top."""
        return HEIGHT - _BOTTOM - value / self._up * (HEIGHT - _TOP - _BOTTOM)

    def frame(self, title: str, x_label: str, y_label: str) -> list[str]:
        """Title, axes, grid and labels."""
        right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
        parts = [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
        parts.append(_text(_LEFT, 24, title, "start", "font-weight='bold' font-size='15'"))
        for value in ticks(0, self._up):
            at = self.y(value)
            parts.append(f'<line x1="{_LEFT}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}" stroke="#e4e4e4"/>')
            parts.append(_text(_LEFT - 8, at + 4, _shown(value), "end"))
        for value in ticks(self._low, self._high):
            at = self.x(value)
            parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{bottom}" y2="{bottom + 5}" stroke="#444"/>')
            parts.append(_text(at, bottom + 19, _shown(value), "middle"))
        parts.append(f'<path d="M{_LEFT},{_TOP} V{bottom} H{right}" fill="none" stroke="#444"/>')
        parts.append(_text((_LEFT + right) / 2, HEIGHT - 14, x_label, "middle"))
        middle = (_TOP + bottom) / 2
        turned = f"transform='rotate(-90 18 {middle})'"
        parts.append(_text(18, middle, y_label, "middle", turned))
        return parts


def _shown(value: float) -> str:
    if value == round(value):
        return f"{round(value):,}"
    return f"{value:.3g}"


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{escape(text)}</text>'


def _document(parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}"'
        f' height="{HEIGHT}" font-family="sans-serif" font-size="12" fill="#222">'
    )
    return "\n".join([head, *parts, "</svg>"]) + "\n"
