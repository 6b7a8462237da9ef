"""Drawings of pages: Vega-Lite, made into SVG when the page is made; nothing is drawn by whoever opens it.

Each drawing is made twice, for a wide screen and for a phone, and shown as large as it was made: so its text is never
smaller than it was set. Points that nothing was measured for are left out, and lines have a gap there.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from kanonflow.pipelines.pages.drawer import drawer
from kanonflow.pipelines.pages.pages import Chart
from kanonflow.pipelines.pages.palette import PALETTE, SERIES

WIDE, NARROW = 840, 328
"""Widths in pixels. The stylesheet shows the narrow one where the wide one has no room."""
_HEIGHT = {WIDE: 230, NARROW: 210}
_TEXT = {WIDE: 12, NARROW: 13}
_MOST_MARKED = 40
"""Of so few points each is drawn on its line."""

_DIGITS = re.compile(r"(\.\d\d)\d+")

X = str | int | float | dt.datetime
Values = Sequence[float | None]


def line_chart(said: str, x: Sequence[X], series: Mapping[str, Values], *, percent: bool = False) -> Chart:
    """Lines over x, y from 0. series: name -> a value for each x. percent: y is a share."""
    rows = _long(x, series)
    single = len(x) <= _MOST_MARKED
    encoding = _encoding(x, percent=percent)
    colours = _colours(list(series))
    mark = {"type": "line", "strokeWidth": 2, "point": {"size": 26} if single else False}
    return _chart(said, rows, mark, encoding | {"color": _colour(colours)}, _legend(colours))


def stacked_bars(said: str, x: Sequence[X], series: Mapping[str, Values]) -> Chart:
    """One bar for each x, of the series on top of each other, the first one lowest.

    More series than there are colours: the last ones become one, "other".
    """
    series = _few(series, len(x))
    rows = [row for row in _long(x, series) if row["y"]]
    colours = _colours(list(series))
    order = {name: place for place, name in enumerate(series)}
    for row in rows:
        row["order"] = order[row["series"]]
    encoding = _encoding(x) | {"color": _colour(colours), "order": {"field": "order"}}
    encoding["y"] = {**encoding["y"], "stack": "zero"}
    mark: dict[str, Any] = {"type": "bar"}
    return _chart(said, rows, mark, encoding, _legend(colours), bars=len(x))


def bars(said: str, categories: Sequence[str], values: Values, *, percent: bool = False) -> Chart:
    """One bar a category, lying, in the order given."""
    rows = [
        {"x": value, "category": name}
        for name, value in zip(categories, values, strict=True)
        if value is not None
    ]
    encoding = {
        "y": {"field": "category", "type": "nominal", "sort": list(categories), "title": None},
        "x": {"field": "x", "type": "quantitative", "title": None, "axis": _quantity(percent)},
    }
    mark = {"type": "bar", "color": PALETTE[SERIES[0]].light}
    height, longest = 28 * max(len(categories), 1) + 34, max(map(len, categories), default=0)
    return _chart(said, rows, mark, encoding, (), height=height, longest=longest)


def columns(said: str, categories: Sequence[str], values: Values) -> Chart:
    """One bar a category, standing, in the order given: a histogram."""
    rows = _long(categories, {"": values})
    encoding = _encoding(categories)
    mark = {"type": "bar", "color": PALETTE[SERIES[0]].light}
    return _chart(said, rows, mark, encoding, (), bars=len(categories))


def dots(
    said: str,
    points: Sequence[tuple[float, float]],
    x_title: str,
    y_title: str,
    marked: tuple[str, tuple[float, float]] | None = None,
) -> Chart:
    """Points (x, y), y from 0. marked: what one of them is, and where."""
    several = "windows" if marked else ""
    rows: list[dict[str, Any]] = [{"x": x, "y": y, "series": several} for x, y in points]
    names = [several]
    if marked is not None:
        name, (x, y) = marked
        rows.append({"x": x, "y": y, "series": name})
        names.append(name)
    colours = _colours(names)
    encoding = {
        "x": {
            "field": "x",
            "type": "quantitative",
            "title": x_title,
            "scale": {"zero": False, "nice": True},
            "axis": _quantity(False),
        },
        "y": {"field": "y", "type": "quantitative", "title": y_title, "axis": _quantity(False)},
        "color": _colour(colours),
        "size": {
            "field": "series",
            "type": "nominal",
            "legend": None,
            "scale": {"domain": names, "range": [30, 160][: len(names)]},
        },
    }
    mark = {"type": "point", "filled": True, "opacity": 0.85}
    return _chart(said, rows, mark, encoding, _legend(colours))


def _long(x: Sequence[X], series: Mapping[str, Values]) -> list[dict[str, Any]]:
    """One row a point; instants as milliseconds."""
    places = [_place(each) for each in x]
    return [
        {"x": place, "y": value if value is None or math.isfinite(value) else None, "series": name}
        for name, values in series.items()
        for place, value in zip(places, values, strict=True)
    ]


def _place(x: X) -> Any:
    return round(x.timestamp() * 1000) if isinstance(x, dt.datetime) else x


def _encoding(x: Sequence[X], *, percent: bool = False) -> dict[str, Any]:
    first = next(iter(x), 0)
    if isinstance(first, dt.datetime):
        across: dict[str, Any] = {"type": "temporal", "scale": {"type": "utc"}}
    elif isinstance(first, str):
        across = {"type": "ordinal", "sort": None, "axis": {"labelAngle": 0}}
    else:
        across = {"type": "quantitative", "scale": {"zero": False, "nice": False}}
    return {
        "x": {"field": "x", "title": None, **across},
        "y": {"field": "y", "type": "quantitative", "title": None, "axis": _quantity(percent)},
    }


def _quantity(percent: bool) -> dict[str, Any]:
    return {"format": "~%"} if percent else {"format": "~s"} | _SMALL


_SMALL: dict[str, Any] = {
    "labelExpr": "datum.value === 0 ? '0' : abs(datum.value) < 1 ? format(datum.value, '~g') : datum.label"
}
"""0.05 is 0.05, not 50m."""


def _few(series: Mapping[str, Values], count: int) -> dict[str, Values]:
    shown = dict(series)
    if len(shown) <= len(SERIES):
        return shown
    names = list(shown)
    rest = [shown.pop(name) for name in names[len(SERIES) - 1 :]]
    return shown | {"other": [sum(values[place] or 0 for values in rest) for place in range(count)]}


def _colours(names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    return tuple((name, SERIES[min(place, len(SERIES) - 1)]) for place, name in enumerate(names))


def _colour(colours: Sequence[tuple[str, str]]) -> dict[str, Any]:
    scale = {"domain": [name for name, _ in colours], "range": [PALETTE[each].light for _, each in colours]}
    return {"field": "series", "type": "nominal", "legend": None, "scale": scale}


def _legend(colours: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    return colours if len(colours) > 1 else ()


def _chart(
    said: str,
    rows: Sequence[Mapping[str, Any]],
    mark: Mapping[str, Any],
    encoding: Mapping[str, Any],
    legend: tuple[tuple[str, str], ...],
    *,
    height: int | None = None,
    bars: int | None = None,
    longest: int = 0,
) -> Chart:
    """longest: characters of the longest label to the left of what is drawn."""

    def drawn(width: int) -> str:
        sized = dict(mark)
        if bars is not None:
            sized["width"] = max(1.0, min(0.8 * (width - 60) / max(bars, 1), 40.0))
        size = _TEXT[width]
        return svg_of(
            {
                "data": {"values": list(rows)},
                "mark": {**sized, "aria": False},
                "encoding": dict(encoding),
                "width": width,
                "height": _HEIGHT[width] if height is None else height,
                "config": _config(width),
                # Labels are measured in one font, and shown in what the reader's machine has, which may be wider.
                "padding": {"left": 4 + min(longest, 30) * size // 8, "right": 6, "top": 4, "bottom": 4},
            }
        )

    return Chart(drawn(WIDE), drawn(NARROW), said, legend)


def _config(width: int) -> dict[str, Any]:
    muted, line = PALETTE["muted"].light, PALETTE["line"].light
    size = _TEXT[width]
    axis = {
        "labelColor": muted,
        "titleColor": muted,
        "gridColor": line,
        "domainColor": line,
        "tickColor": line,
        "labelFontSize": size,
        "titleFontSize": size,
        "titleFontWeight": "normal",
        "labelFont": "sans-serif",
        "titleFont": "sans-serif",
        "labelOverlap": "greedy",
        "labelLimit": width // 3,
        "aria": False,
    }
    upright = {"grid": False, "tickCount": 4 if width == NARROW else 8, "labelSeparation": 8}
    return {
        "background": None,
        "view": {"stroke": None},
        "autosize": {"type": "fit", "contains": "padding"},
        "axis": axis,
        "axisX": upright,
        "axisY": {"tickCount": 5},
    }


def svg_of(spec: Mapping[str, Any]) -> str:
    """The SVG of a Vega-Lite specification. Raises what ``Drawer.draw`` raises."""
    schema = {"$schema": "https://vega.github.io/schema/vega-lite/v6.json"}
    return _lean(drawer().draw(json.dumps({**schema, **spec})))


def _lean(svg: str) -> str:
    """Without what only a program that draws again would read: names of groups, empty paths, spoken parts, and digits
    of places beyond a hundredth of a pixel."""
    svg = re.sub(r' (?:d|transform|x2?|y2?)="[^"]*"', lambda place: _DIGITS.sub(r"\1", place[0]), svg)
    svg = re.sub(
        r' (?:class|role|aria-[a-z]+|pointer-events|xmlns:xlink|version|font-family|stroke-miterlimit)="[^"]*"',
        "",
        svg,
    )
    svg = svg.replace(' opacity="1"', "").replace(' stroke-width="1"', "")
    svg = re.sub(r"<path[^>]*display=\"none\"[^>]*/>", "", svg)
    svg = re.sub(r'<path d="M0(?:\.5)?,0(?:\.5)?h[\d.]+v[\d.]+h-?[\d.]+Z"/>', "", svg)
    while (shorter := re.sub(r"<g[^<>]*></g>", "", svg)) != svg:
        svg = shorter
    return svg
