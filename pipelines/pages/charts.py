"""Drawings of pages, as SVG: text that is written when the page is made; nothing is drawn by whoever opens it.

Each drawing is made twice, for a wide screen and for a phone, and shown as large as it was made: so its text is never
smaller than it was set. What is missing, or no finite number, is left out, and lines have a gap there. The same values
give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape

from kanonflow.pipelines.pages.axes import (
    Axis,
    Scale,
    Tick,
    X,
    axis_of,
    finite,
    middle,
    nice_axis,
    shortened,
    width_of,
    with_room,
)
from kanonflow.pipelines.pages.pages import Chart
from kanonflow.pipelines.pages.palette import PALETTE, SERIES
from kanonflow.schemas.printable import printable

WIDE, NARROW = 840, 328
"""Widths in pixels. The stylesheet shows the narrow one where the wide one has no room."""
_HEIGHT = {WIDE: 230, NARROW: 210}
_TEXT = {WIDE: 12, NARROW: 13}
_ACROSS, _UP = {WIDE: 8, NARROW: 4}, 5
"""About so many ticks."""
_MOST_MARKED = 40
"""Of so few points each is drawn on its line."""
_LYING, _THICK, _THICKEST, _THINNEST = 28, 20, 40.0, 0.5
_EDGE, _TICK = 6, 5
_FIRST = PALETTE[SERIES[0]].light

Values = Sequence[float | None]
Marks = Callable[[Scale, Scale], Iterable[str]]
"""What is drawn, by the scales across and up."""


def line_chart(said: str, x: Sequence[X], series: Mapping[str, Values], *, percent: bool = False) -> Chart:
    """Lines over x, y from 0. series: name -> a value for each x. percent: y is a share."""
    across, lines = axis_of(x), {name: _drawable(x, values) for name, values in series.items()}
    colours = _colours(lines)

    def marks(across_by: Scale, up_by: Scale) -> Iterable[str]:
        for (_, colour), values in zip(colours, lines.values(), strict=True):
            runs = _runs(across.places, values)
            steps = (
                "M" + "L".join(f"{_px(across_by.at(at))},{_px(up_by.at(value))}" for at, value in run)
                for run in runs
                if len(run) > 1
            )
            light = PALETTE[colour].light
            yield f'<path fill="none" stroke="{light}" stroke-width="2" stroke-linejoin="round" d="{"".join(steps)}"/>'
            marked = [
                (across_by.at(at), up_by.at(value))
                for run in runs
                for at, value in run
                if len(x) <= _MOST_MARKED or len(run) == 1
            ]
            yield _circles(light, marked)

    return _upright(said, across, _heights(lines.values(), percent=percent), marks, _legend(colours))


def stacked_bars(said: str, x: Sequence[X], series: Mapping[str, Values]) -> Chart:
    """One bar for each x, of the series on top of each other, the first one lowest; what is below 0 goes down.

    More series than there are colours: the last ones become one, "other".
    """
    across, few = axis_of(x), _few({name: _drawable(x, values) for name, values in series.items()}, len(x))
    parts: dict[str, list[tuple[float, float, float]]] = {name: [] for name in few}
    ends: dict[tuple[float, bool], float] = {}
    for name, values in few.items():
        for at, value in zip(across.places, values, strict=True):
            if value:
                base = ends.get((at, value > 0), 0.0)
                ends[at, value > 0] = base + value
                parts[name].append((at, base, base + value))
    colours = _colours(few)

    def marks(across_by: Scale, up_by: Scale) -> Iterable[str]:
        wide = _bar(across, across_by)
        for name, colour in colours:
            boxes = [
                (across_by.at(at) - wide / 2, up_by.at(base), wide, up_by.at(end) - up_by.at(base))
                for at, base, end in parts[name]
            ]
            yield _boxes(PALETTE[colour].light, boxes)

    return _upright(said, across, _heights([[*ends.values()]]), marks, _legend(colours), padded=True)


def columns(said: str, categories: Sequence[str], values: Values) -> Chart:
    """One bar a category, standing, in the order given: a histogram."""
    return stacked_bars(said, categories, {"": values})


def bars(said: str, categories: Sequence[str], values: Values, *, percent: bool = False) -> Chart:
    """One bar a category, lying, in the order given."""
    lengths = _drawable(categories, values)
    names = [printable(each) for each in categories]

    def drawn(width: int) -> str:
        size = _TEXT[width]
        across = nice_axis(
            [each for each in lengths if each is not None], _ACROSS[width], zero=True, percent=percent
        )
        shown = [shortened(each, size, width / 3) for each in names]
        left, bottom = _beside(shown, size), _EDGE + _LYING * max(len(names), 1)
        by = across.scale(left, width - 2 * _EDGE)
        ticks = with_room(across, by, _ACROSS[width], size, width)
        centres = [_EDGE + _LYING * (place + 0.5) for place in range(len(names))]
        boxes = [
            (by.at(0), centre - _THICK / 2, by.at(length) - by.at(0), _THICK)
            for centre, length in zip(centres, lengths, strict=True)
            if length
        ]
        parts = [
            _lines("line", [f"M{_px(by.at(tick.value))},{_EDGE}V{bottom}" for tick in ticks]),
            _boxes(_FIRST, boxes),
            _lines("muted", [f"M{_px(by.at(0))},{_EDGE}V{bottom}"]),
            *_below(ticks, by, bottom, size, width),
            *_texts(
                "end",
                [(left - _EDGE, at + 0.35 * size, name) for name, at in zip(shown, centres, strict=True)],
            ),
        ]
        return _svg(width, bottom + _under(ticks, size), size, parts)

    return Chart(drawn(WIDE), drawn(NARROW), said)


def dots(
    said: str,
    points: Sequence[tuple[float, float]],
    x_title: str,
    y_title: str,
    marked: tuple[str, tuple[float, float]] | None = None,
) -> Chart:
    """Points (x, y), y from 0. marked: what one of them is, and where."""
    several = "windows" if marked else ""
    groups = [(several, 3.1, _finite_pairs(points))]
    if marked is not None:
        groups.append((marked[0], 7.1, _finite_pairs(marked[1:])))
    drawn = [pair for _, _, pairs in groups for pair in pairs]
    colours = _colours([name for name, _, _ in groups])

    def marks(across_by: Scale, up_by: Scale) -> Iterable[str]:
        for (_, colour), (_, radius, pairs) in zip(colours, groups, strict=True):
            yield _circles(
                PALETTE[colour].light, [(across_by.at(x), up_by.at(y)) for x, y in pairs], radius, 0.85
            )

    across = nice_axis([x for x, _ in drawn], _ACROSS[WIDE], zero=False)
    up = _heights([[y for _, y in drawn]])
    return _upright(said, across, up, marks, _legend(colours), titles=(x_title, y_title))


def alone(chart: Chart) -> str:
    """The wide drawing as a file of its own, under its legend."""
    size, left, rows = _TEXT[WIDE], float(_EDGE), 0
    parts = []
    for name, colour in chart.legend:
        name = shortened(printable(name), size, WIDE / 3)
        room = width_of(name, size) + 3 * _EDGE + size
        if left + room > WIDE and left > _EDGE:
            left, rows = float(_EDGE), rows + 1
        top = rows * (size + _EDGE) + _EDGE
        parts.append(_boxes(PALETTE[colour].light, [(left, top, size, size)]))
        parts += _texts("start", [(left + size + _EDGE, top + 0.85 * size, name)])
        left += room
    under = (rows + 1) * (size + _EDGE) + _EDGE if parts else 0
    drawn = chart.wide.replace("<svg ", f'<svg y="{under}" ', 1)
    return _svg(WIDE, _HEIGHT[WIDE] + under, size, [*parts, drawn])


def _drawable(x: Sequence[X], values: Values) -> list[float | None]:
    return [finite(value) for _, value in zip(x, values, strict=True)]


def _finite_pairs(pairs: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    found = [(finite(x), finite(y)) for x, y in pairs]
    return [(x, y) for x, y in found if x is not None and y is not None]


def _runs(places: Sequence[float], values: Values) -> list[list[tuple[float, float]]]:
    """Points that follow each other without a gap."""
    runs: list[list[tuple[float, float]]] = [[]]
    for place, value in zip(places, values, strict=True):
        if value is not None:
            runs[-1].append((place, value))
        elif runs[-1]:
            runs.append([])
    return runs


def _heights(series: Iterable[Values], *, percent: bool = False) -> Axis:
    """From 0."""
    values = [value for values in series for value in values if value is not None]
    return nice_axis(values, _UP, zero=True, percent=percent)


def _few(series: Mapping[str, Values], count: int) -> dict[str, Values]:
    shown = dict(series)
    if len(shown) <= len(SERIES):
        return shown
    names = list(shown)
    rest = [shown.pop(name) for name in names[len(SERIES) - 1 :]]
    return shown | {"other": [sum(values[place] or 0 for values in rest) for place in range(count)]}


def _colours(names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    return tuple((name, SERIES[min(place, len(SERIES) - 1)]) for place, name in enumerate(names))


def _legend(colours: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    return colours if len(colours) > 1 else ()


def _upright(
    said: str,
    across: Axis,
    up: Axis,
    marks: Marks,
    legend: tuple[tuple[str, str], ...],
    *,
    padded: bool = False,
    titles: tuple[str, str] = ("", ""),
) -> Chart:
    """padded: bars stand at the ends, too. titles: across, and up; "" for none."""

    def drawn(width: int) -> str:
        size, height = _TEXT[width], _HEIGHT[width]
        levels = next(up.ticks(_UP))
        left, right = _beside([level.label for level in levels], size), width - 2 * _EDGE
        by = across.scale(left, right, padded=padded)
        ticks = with_room(across, by, _ACROSS[width], size, width)
        bottom = height - _under(ticks, size) - (size + _EDGE if titles[0] else 0)
        up_by = up.scale(bottom, 2 * size if titles[1] else size)
        labels = [(left - _EDGE, up_by.at(level.value) + 0.35 * size, level.label) for level in levels]
        parts = [
            _lines("line", [f"M{_px(left)},{_px(up_by.at(level.value))}H{right}" for level in levels]),
            *_texts("end", labels),
            *_texts("start", [(0, size, titles[1])]),
            *_texts("middle", [((left + right) / 2, height - _EDGE, titles[0])]),
            *_below(ticks, by, bottom, size, width),
            _lines("muted", [f"M{_px(left)},{_px(up_by.at(0))}H{right}"]),
            *marks(by, up_by),
        ]
        return _svg(width, height, size, parts)

    return Chart(drawn(WIDE), drawn(NARROW), said, legend)


def _beside(labels: Iterable[str], size: int) -> float:
    """What labels at the left take."""
    return max((width_of(label, size) for label in labels), default=0.0) + 2 * _EDGE


def _under(ticks: Sequence[Tick], size: int) -> int:
    """What ticks and their labels take below what is drawn."""
    lines = 2 if any(tick.below for tick in ticks) else 1
    return _TICK + lines * (size + 4) + _EDGE


def _below(ticks: Sequence[Tick], by: Scale, bottom: float, size: int, width: int) -> Iterable[str]:
    yield _lines("muted", [f"M{_px(by.at(tick.value))},{_px(bottom)}v{_TICK}" for tick in ticks])
    for line, texts in enumerate(([tick.label for tick in ticks], [tick.below for tick in ticks]), 1):
        base = bottom + _TICK + line * (size + 4) - 2
        yield from _texts(
            "middle",
            [
                (middle(text, by.at(tick.value), size, width), base, text)
                for tick, text in zip(ticks, texts, strict=True)
            ],
        )


def _bar(across: Axis, by: Scale) -> float:
    """The width of a bar: four fifths of what lies between two."""
    between = abs(by.at(across.gap) - by.at(0.0))
    return max(_THINNEST, min(0.8 * between, _THICKEST))


def _lines(colour: str, segments: Sequence[str]) -> str:
    light = PALETTE[colour].light
    return (
        f'<path stroke="{light}" shape-rendering="crispEdges" d="{"".join(segments)}"/>' if segments else ""
    )


def _boxes(light: str, boxes: Iterable[tuple[float, float, float, float]]) -> str:
    """Left, top, width and height; these may be negative."""
    steps = [f"M{_px(x)},{_px(y)}h{_px(wide)}v{_px(high)}h{_px(-wide)}z" for x, y, wide, high in boxes]
    return f'<path fill="{light}" d="{"".join(steps)}"/>' if steps else ""


def _circles(
    light: str, centres: Sequence[tuple[float, float]], radius: float = 3.0, opacity: float = 1.0
) -> str:
    circles = "".join(f'<circle cx="{_px(x)}" cy="{_px(y)}" r="{radius}"/>' for x, y in centres)
    return f'<g fill="{light}" fill-opacity="{opacity}">{circles}</g>' if centres else ""


def _texts(anchor: str, rows: Iterable[tuple[float, float, str]]) -> Iterable[str]:
    texts = "".join(f'<text x="{_px(x)}" y="{_px(y)}">{escape(text)}</text>' for x, y, text in rows if text)
    if texts:
        yield f'<g fill="{PALETTE["muted"].light}" text-anchor="{anchor}">{texts}</g>'


def _svg(width: int, height: float, size: int, parts: Iterable[str]) -> str:
    size_of = f'width="{width}" height="{_px(height)}" viewBox="0 0 {width} {_px(height)}"'
    font = f'font-family="sans-serif" font-size="{size}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size_of} {font}>{"".join(parts)}</svg>'


def _px(place: float) -> str:
    """A hundredth of a pixel is fine enough."""
    return f"{round(place, 2):.10g}"
