"""Drawings of pages, as SVG: text that is written when the page is made; nothing is drawn by whoever opens it.

Each drawing is made twice, for a wide screen and for a phone, and shown as large as it was made: so its text is never
smaller than it was set. What is missing, or no finite number, is left out, and lines have a gap there. The same values
give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
_PLANE = {WIDE: 480, NARROW: 300}
_TEXT = {WIDE: 12, NARROW: 13}
_ACROSS, _UP = {WIDE: 8, NARROW: 6}, 5
"""At most about so many ticks."""
_MOST_MARKED = 40
"""Of so few points each is drawn on its line."""
_EDGE, _TICK, _LYING, _BAR, _THINNEST, _THICKEST = 6, 5, 28, 20, 0.5, 40.0
"""Pixels: around everything, of a tick, of a lying bar with and without what is around it, and of standing ones."""

Values = Sequence[float | None]
Legend = tuple[tuple[str, str], ...]


def line_chart(said: str, x: Sequence[X], series: Mapping[str, Values], *, percent: bool = False) -> Chart:
    """Lines over x, y from 0. series: name -> a value for each x. percent: y is a share."""
    across, colours = axis_of(x), _colours(series)
    lines = [_runs(across.places, finite(values)) for values in series.values()]

    def marks(by: Scale, up_by: Scale) -> Iterator[str]:
        for (_, colour), line in zip(colours, lines, strict=True):
            runs = [[f"{_px(by.at(at))},{_px(up_by.at(value))}" for at, value in run] for run in line]
            path = "".join(f"M{'L'.join(run)}" for run in runs)
            pen = f'stroke="{PALETTE[colour].light}" stroke-width="2" stroke-linejoin="round"'
            yield f'<path fill="none" {pen} d="{path}"/>'
            marked = [run for run in line if len(run) == 1 or len(x) <= _MOST_MARKED]
            yield _circles(colour, ((by.at(at), up_by.at(value)) for run in marked for at, value in run), 3)

    up = _heights((value for line in lines for run in line for _, value in run), percent=percent)
    return _upright(said, across, up, colours, marks)


def stacked_bars(said: str, x: Sequence[X], series: Mapping[str, Values]) -> Chart:
    """One bar for each x, of the series on top of each other, the first one lowest; what is below 0 goes down.

    More series than there are colours: the last ones become one, "other".
    """
    across, series = axis_of(x), _few({name: finite(values) for name, values in series.items()}, len(x))
    colours, ends = _colours(series), dict[tuple[float, bool], float]()
    parts: list[list[tuple[float, float, float]]] = [[] for _ in series]
    for part, values in zip(parts, series.values(), strict=True):
        for at, value in zip(across.places, values, strict=True):
            if value:
                base = ends.get((at, value > 0), 0.0)
                ends[at, value > 0] = base + value
                part.append((at, base, base + value))

    def marks(by: Scale, up_by: Scale) -> Iterator[str]:
        wide = max(_THINNEST, min(0.8 * (by.at(across.gap) - by.at(0)), _THICKEST))
        for (_, colour), part in zip(colours, parts, strict=True):
            levels = ((by.at(at) - wide / 2, up_by.at(base), up_by.at(end)) for at, base, end in part)
            yield _boxes(colour, ((left, low, wide, high - low) for left, low, high in levels))

    return _upright(said, across, _heights(ends.values()), colours, marks, padded=True)


def paired_bars(said: str, categories: Sequence[str], series: Mapping[str, Values]) -> Chart:
    """Shares, a bar of each series beside each other at each category."""
    across, colours = axis_of(categories), _colours(series)
    heights = [[each or 0.0 for each in finite(values)] for values in series.values()]

    def marks(by: Scale, up_by: Scale) -> Iterator[str]:
        room = min(0.8 * (by.at(across.gap) - by.at(0)), _THICKEST)
        wide = room / len(heights)
        for place, ((_, colour), values) in enumerate(zip(colours, heights, strict=True)):
            lefts = (by.at(at) - room / 2 + place * wide for at in across.places)
            tops = ((left, up_by.at(value)) for left, value in zip(lefts, values, strict=True) if value)
            yield _boxes(colour, ((left, up_by.at(0), wide, top - up_by.at(0)) for left, top in tops))

    up = _heights((value for values in heights for value in values), percent=True)
    return _upright(said, across, up, colours, marks, padded=True)


def plane_of_boxes(
    said: str, boxes: Sequence[tuple[float, float, float, float]], x_title: str, y_title: str
) -> Chart:
    """Boxes (x from, y from, x to, y to), each seen through the others; one without a width is as wide as a line."""
    drawn = [box for box in boxes if None not in finite(box)]
    across = nice_axis([x for box in drawn for x in box[::2]], _ACROSS[WIDE], zero=False)
    up = nice_axis([y for box in drawn for y in box[1::2]], _UP, zero=False)
    pen = PALETTE[SERIES[0]].light

    def marks(by: Scale, up_by: Scale) -> Iterator[str]:
        shapes = []
        for left, low, right, high in drawn:
            x, y = by.at(left), up_by.at(high)
            wide, tall = max(by.at(right) - x, 1.0), max(up_by.at(low) - y, 1.0)
            shapes.append(f'<rect x="{_px(x)}" y="{_px(y)}" width="{_px(wide)}" height="{_px(tall)}"/>')
        look = f'fill="{pen}" fill-opacity="0.04" stroke="{pen}" stroke-opacity="0.5"'
        yield f"<g {look}>{''.join(shapes)}</g>"

    return _upright(said, across, up, (), marks, titles=(x_title, y_title), tall=_PLANE)


def columns(said: str, categories: Sequence[str], values: Values) -> Chart:
    """One bar a category, standing, in the order given: a histogram."""
    return stacked_bars(said, categories, {"": values})


def bars(said: str, categories: Sequence[str], values: Values, *, percent: bool = False) -> Chart:
    """One bar a category, lying, in the order given."""
    lengths = [each or 0.0 for each in finite(values)]
    across = nice_axis(lengths, _UP, zero=True, percent=percent)
    centres = [_EDGE + _LYING * (place + 0.5) for place, _ in enumerate(categories)]
    bottom = _EDGE + _LYING * max(len(categories), 1)

    def drawn(width: int) -> str:
        size = _TEXT[width]
        names = [shortened(printable(each), size, width / 3) for each in categories]
        left = _beside(names, size)
        by = across.scale(left, width - 2 * _EDGE)
        ticks = with_room(across, by, _ACROSS[width], size, width)
        zero, labels = by.at(0), zip(centres, names, strict=True)
        ends = [(centre - _BAR / 2, by.at(length)) for centre, length in zip(centres, lengths, strict=True)]
        parts = [
            _lines("line", (f"M{_px(by.at(tick.value))},{_EDGE}V{bottom}" for tick in ticks)),
            *_below(ticks, by, bottom, size, width),
            _texts("end", ((left - _EDGE, at + 0.35 * size, name) for at, name in labels)),
            _lines("muted", [f"M{_px(zero)},{_EDGE}V{bottom}"]),
            _boxes(SERIES[0], ((zero, top, end - zero, _BAR) for top, end in ends if end != zero)),
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
    groups = [("windows", points, 3.1), (marked[0], [marked[1]], 7.1)] if marked else [("", points, 3.1)]
    colours = _colours(name for name, _, _ in groups)
    drawn = [[pair for pair in pairs if None not in finite(pair)] for _, pairs, _ in groups]

    def marks(by: Scale, up_by: Scale) -> Iterator[str]:
        for (_, colour), pairs, (_, _, radius) in zip(colours, drawn, groups, strict=True):
            yield _circles(colour, ((by.at(x), up_by.at(y)) for x, y in pairs), radius)

    across = nice_axis([x for pairs in drawn for x, _ in pairs], _ACROSS[WIDE], zero=False)
    up = _heights(y for pairs in drawn for _, y in pairs)
    return _upright(said, across, up, colours, marks, titles=(x_title, y_title))


def alone(chart: Chart) -> str:
    """The wide drawing of an upright chart with its legend above it, for a file of its own."""
    size, left, top, parts = _TEXT[WIDE], 0.0, _EDGE, list[str]()
    for name, colour in chart.legend:
        name = shortened(printable(name), size, WIDE / 3)
        room = width_of(name, size) + size + 3 * _EDGE
        left, top = (left, top) if left + room <= WIDE else (0.0, top + size + _EDGE)
        parts.append(_boxes(colour, [(left, top, size, size)]))
        parts.append(_texts("start", [(left + size + _EDGE, top + 0.85 * size, name)]))
        left += room
    top += size + _EDGE if parts else 0
    parts.append(chart.wide.replace("<svg ", f'<svg y="{top}" ', 1))
    return _svg(WIDE, _HEIGHT[WIDE] + top, size, parts)


def _runs(places: Sequence[float], values: Values) -> list[list[tuple[float, float]]]:
    """Points that follow each other without a gap."""
    runs: list[list[tuple[float, float]]] = [[]]
    for place, value in zip(places, values, strict=True):
        if value is not None:
            runs[-1].append((place, value))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _heights(values: Iterable[float], *, percent: bool = False) -> Axis:
    return nice_axis(list(values), _UP, zero=True, percent=percent)


def _few(series: Mapping[str, Values], count: int) -> Mapping[str, Values]:
    if len(series) <= len(SERIES):
        return series
    shown = dict(series)
    rest = [shown.pop(name) for name in list(series)[len(SERIES) - 1 :]]
    return shown | {"other": [sum(values[place] or 0 for values in rest) for place in range(count)]}


def _colours(names: Iterable[str]) -> Legend:
    return tuple((name, SERIES[min(place, len(SERIES) - 1)]) for place, name in enumerate(names))


def _upright(
    said: str,
    across: Axis,
    up: Axis,
    colours: Legend,
    marks: Callable[[Scale, Scale], Iterable[str]],
    *,
    padded: bool = False,
    titles: tuple[str, str] = ("", ""),
    tall: Mapping[int, int] = _HEIGHT,
) -> Chart:
    """marks: what is drawn, by the scales. padded: bars stand at the ends, too. titles: of both axes; "" for none.

    tall: pixels, by the width."""

    def drawn(width: int) -> str:
        size, height, right = _TEXT[width], tall[width], width - 2 * _EDGE
        levels = next(up.ticks(_UP))
        left = _beside((level.label for level in levels), size)
        by = across.scale(left, right, padded=padded)
        ticks = with_room(across, by, _ACROSS[width], size, width)
        bottom = height - _under(ticks, size) - (size + _EDGE if titles[0] else 0)
        up_by = up.scale(bottom, 2 * size if titles[1] else size)
        rows = [(up_by.at(level.value), level.label) for level in levels]
        parts = [
            _lines("line", (f"M{_px(left)},{_px(at)}H{right}" for at, _ in rows)),
            _texts("end", ((left - _EDGE, at + 0.35 * size, label) for at, label in rows)),
            _texts("start", [(0, size, titles[1])]),
            _texts("middle", [((left + right) / 2, height - _EDGE, titles[0])]),
            *_below(ticks, by, bottom, size, width),
            _lines("muted", [f"M{_px(left)},{_px(up_by.at(max(up.low, 0.0)))}H{right}"]),
            *marks(by, up_by),
        ]
        return _svg(width, height, size, parts)

    return Chart(drawn(WIDE), drawn(NARROW), said, colours if len(colours) > 1 else ())


def _beside(labels: Iterable[str], size: int) -> float:
    """What labels take at the left."""
    return max((width_of(label, size) for label in labels), default=0.0) + 2 * _EDGE


def _under(ticks: Sequence[Tick], size: int) -> int:
    """What ticks and their labels take below what is drawn."""
    return _TICK + (1 + any("\n" in tick.label for tick in ticks)) * (size + 4) + _EDGE


def _below(ticks: Sequence[Tick], by: Scale, bottom: float, size: int, width: int) -> Iterator[str]:
    yield _lines("muted", (f"M{_px(by.at(tick.value))},{_px(bottom)}v{_TICK}" for tick in ticks))
    for tick in ticks:
        for place, line in enumerate(tick.label.split("\n"), 1):
            at = middle(tick, by, size, width), bottom + _TICK + place * (size + 4) - 2
            yield _texts("middle", [(*at, line)])


def _lines(colour: str, segments: Iterable[str]) -> str:
    return f'<path stroke="{PALETTE[colour].light}" shape-rendering="crispEdges" d="{"".join(segments)}"/>'


def _boxes(colour: str, boxes: Iterable[tuple[float, float, float, float]]) -> str:
    """Left, top, width and height; the last two may be negative."""
    path = "".join(f"M{_px(x)},{_px(y)}h{_px(wide)}v{_px(high)}h{_px(-wide)}z" for x, y, wide, high in boxes)
    return f'<path fill="{PALETTE[colour].light}" d="{path}"/>'


def _circles(colour: str, centres: Iterable[tuple[float, float]], radius: float) -> str:
    circles = "".join(f'<circle cx="{_px(x)}" cy="{_px(y)}" r="{radius}"/>' for x, y in centres)
    return f'<g fill="{PALETTE[colour].light}" fill-opacity="0.85">{circles}</g>' if circles else ""


def _texts(anchor: str, rows: Iterable[tuple[float, float, str]]) -> str:
    texts = "".join(
        f'<text x="{_px(x)}" y="{_px(y)}">{escape(printable(text))}</text>' for x, y, text in rows if text
    )
    return f'<g fill="{PALETTE["muted"].light}" text-anchor="{anchor}">{texts}</g>' if texts else ""


def _svg(width: int, height: float, size: int, parts: Iterable[str]) -> str:
    box = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    font = f'font-family="sans-serif" font-size="{size}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box} {font}>{"".join(parts)}</svg>'


def _px(place: float) -> str:
    """A hundredth of a pixel is fine enough."""
    return f"{round(place, 2):.10g}"
