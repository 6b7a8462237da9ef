"""Drawings say what the values are: read back from their SVG by the ticks that a reader would go by."""

from __future__ import annotations

import datetime as dt
import math
import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kanonflow.pipelines.pages.axes import X, axis_of, middle, nice_axis, width_of, with_room
from kanonflow.pipelines.pages.charts import (
    NARROW,
    WIDE,
    alone,
    bars,
    columns,
    dots,
    line_chart,
    paired_bars,
    plane_of_boxes,
    stacked_bars,
)
from kanonflow.pipelines.pages.palette import PALETTE, SERIES

BEGIN = dt.datetime(2024, 1, 2, tzinfo=dt.UTC)
DAYS = [BEGIN + dt.timedelta(days=day) for day in range(13)]
NUMBERS = st.one_of(st.none(), st.floats(), st.integers(-(10**6), 10**6).map(float))
NAME = '<b onload="x">&amp;\u202e\x07'


def drawn(svg: str) -> ElementTree.Element:
    """The drawing, as a reader of XML takes it."""
    return ElementTree.fromstring(svg.replace(' xmlns="http://www.w3.org/2000/svg"', ""))


def texts(svg: str) -> list[tuple[float, float, str]]:
    """Where each text stands, and what it says."""
    every = drawn(svg).iter("text")
    return [(float(each.get("x", "")), float(each.get("y", "")), each.text or "") for each in every]


def labels(svg: str) -> list[str]:
    """What all texts say."""
    return [text for _, _, text in texts(svg)]


def number(label: str) -> float:
    """What a label means."""
    share = label.endswith("%")
    found = re.fullmatch(r"([-\d.]+)([kMG]?)", label.rstrip("%"))
    assert found is not None
    return float(found[1]) * {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}[found[2]] / (100 if share else 1)


def height(svg: str, y: float) -> float:
    """The value at a height, by the lowest and the highest label of the left axis."""
    left = [group for group in drawn(svg).iter("g") if group.get("text-anchor") == "end"]
    ticks = [(float(each.get("y", "")) - 0.35 * 12, number(each.text or "")) for each in left[0].iter("text")]
    (low, first), (high, last) = max(ticks), min(ticks)
    return first + (low - y) / (low - high) * (last - first)


def paths(svg: str, colour: str, paint: str) -> list[str]:
    """Of everything of a colour of the palette that is filled or drawn as a line."""
    wanted = PALETTE[colour].light
    return [each.get("d", "") for each in drawn(svg).iter("path") if each.get(paint) == wanted]


def boxes(path: str) -> list[tuple[float, float, float, float]]:
    """Left, top, width, height."""
    return [
        (float(x), float(y), float(w), float(h))
        for x, y, w, h in re.findall(r"M([-\d.]+),([-\d.]+)h([-\d.]+)v([-\d.]+)", path)
    ]


def test_a_line_has_its_values_and_gaps() -> None:
    """Points at the heights that the axis says; what is missing or no number parts a line."""
    values = [0.1, 0.2, None, 0.3, math.nan, 0.25, 0.05, *[0.1] * 6]
    svg = line_chart("told", DAYS, {"a": values}, percent=True).wide
    (path,) = paths(svg, SERIES[0], "stroke")
    runs = [
        [tuple(map(float, point.split(","))) for point in run.split("L")] for run in path.split("M") if run
    ]
    assert [len(run) for run in runs] == [2, 1, 8]
    found = [height(svg, y) for run in runs for _, y in run]
    there = [value for value in values if value is not None and not math.isnan(value)]
    assert found == pytest.approx(there, abs=0.002)
    across = [x for run in runs for x, _ in run]
    assert across == sorted(across)


def test_stacked_bars_stand_on_each_other() -> None:
    """Each part begins where the one below ends, and is as high as its value; what is below 0 hangs from it."""
    svg = stacked_bars("told", DAYS[:3], {"a": [100, 0, 300], "b": [50, 70, -20]}).wide
    first, second = (boxes(paths(svg, colour, "fill")[0]) for colour in SERIES[:2])
    heights = [height(svg, y + h) - height(svg, y) for _, y, _, h in first]
    assert sorted(map(abs, heights)) == pytest.approx([100, 300], abs=2)
    tops = {round(x): min(y, y + h) for x, y, _, h in first}
    on_top = next(box for box in second if round(box[0]) == min(tops))
    assert max(on_top[1], on_top[1] + on_top[3]) == pytest.approx(tops[min(tops)], abs=0.02)
    assert height(svg, max(y + h for _, y, _, h in second)) == pytest.approx(-20, abs=2)


def test_more_series_than_colours_are_one() -> None:
    """Their sum is "other"; nothing is lost."""
    many = {f"s{place}": [float(place)] for place in range(len(SERIES) + 3)}
    chart = stacked_bars("told", ["x"], many)
    assert chart.legend[-1][0] == "other"
    drawn_parts = [path for colour in SERIES for path in paths(chart.wide, colour, "fill")]
    levels = [min(top, top + high) for path in drawn_parts for _, top, _, high in boxes(path)]
    assert height(chart.wide, min(levels)) == pytest.approx(sum(range(len(SERIES) + 3)), rel=0.02)


def test_lying_bars_are_as_long_as_their_values() -> None:
    """Against each other; a value of 0 has none."""
    svg = bars("told", ["a", "b", "c"], [0.2, 0.1, 0.0], percent=True).wide
    lengths = [w for _, _, w, _ in boxes(paths(svg, SERIES[0], "fill")[0])]
    assert len(lengths) == 2
    assert lengths[0] == pytest.approx(2 * lengths[1], abs=0.05)
    assert [text for _, _, text in texts(svg) if text in "abc"] == ["a", "b", "c"]


def test_paired_bars_stand_beside_each_other() -> None:
    """Each series in its colour, none over another, as high as its shares."""
    svg = paired_bars("told", ["a", "b"], {"input": [0.2, 0.4], "release": [0.1, 0.0]}).wide
    first, second = (boxes(path) for colour in SERIES[:2] for path in paths(svg, colour, "fill"))
    assert [height(svg, top + tall) for _, top, _, tall in first] == pytest.approx([0.2, 0.4], abs=0.003)
    assert [height(svg, top + tall) for _, top, _, tall in second] == pytest.approx([0.1], abs=0.003)
    assert second[0][0] == pytest.approx(first[0][0] + first[0][2], abs=0.02)


def test_boxes_lie_on_the_plane_where_they_are() -> None:
    """Far from 0 on both axes; what is no number is left out."""
    svg = plane_of_boxes("told", [(10, 50, 12, 51), (11, 49, 11, 54), (0, math.nan, 1, 1)], "x", "y").wide
    places = [
        tuple(float(each.get(key, "")) for key in ("x", "y", "width", "height"))
        for each in drawn(svg).iter("rect")
    ]
    assert len(places) == 2
    (_, top, wide, tall), (_, other_top, _, other_tall) = places
    ends = [height(svg, y) for y in (top, top + tall, other_top, other_top + other_tall)]
    assert ends == pytest.approx([51, 50, 54, 49], abs=0.02)
    assert wide > 100
    assert places[1][2] == 1
    assert {text for _, _, text in texts(svg)} >= {"x", "y"}


def test_dots_lie_where_they_are() -> None:
    """The marked one is larger, and in a colour of its own."""
    svg = dots("told", [(100, 0.1), (200, 0.3)], "people", "loss", ("the latest", (300, 0.2))).wide
    groups = [group for group in drawn(svg).iter("g") if group.find("circle") is not None]
    points = [
        [tuple(float(dot.get(key, "")) for key in ("cx", "cy", "r")) for dot in group] for group in groups
    ]
    assert [len(each) for each in points] == [2, 1]
    assert points[1][0][2] > 2 * points[0][0][2]
    assert [height(svg, y) for each in points for _, y, _ in each] == pytest.approx(
        [0.1, 0.3, 0.2], abs=0.003
    )
    assert {text for _, _, text in texts(svg)} >= {"people", "loss"}


@pytest.mark.parametrize("width", ["wide", "narrow"])
def test_names_are_text_and_nothing_else(width: str) -> None:
    """Whatever a category or a series is called."""
    for chart in (
        bars("told", [NAME, "b"], [1, 2]),
        columns("told", [NAME, "b"], [1, 2]),
        paired_bars("told", [NAME, "b"], {NAME: [1, 2]}),
        plane_of_boxes("told", [(1, 2, 3, 4)], NAME, NAME),
        dots("told", [(1, 2)], NAME, NAME, (NAME, (3, 4))),
    ):
        tree = drawn(getattr(chart, width))
        assert not any("onload" in "".join(each.keys()) for each in tree.iter())
        assert {each.tag for each in tree.iter()} <= {"svg", "g", "path", "circle", "text", "rect"}
    assert drawn(alone(stacked_bars("told", DAYS, {NAME: [1] * 13, "b": [2] * 13}))).tag == "svg"


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=12), st.sampled_from(["words", "instants", "numbers"]))
@example([(5e-324, 1.7e308)], "numbers")
@example([(0.0, 0.0), (0.0, -0.0)], "numbers")
def test_anything_can_be_drawn(values: list[tuple[float | None, float | None]], kind: str) -> None:
    """No value, one, equal ones, huge, tiny and negative ones: XML without a number that is none, the same twice."""
    own: dict[str, list[X]] = {
        "words": [f"w{place}" for place in range(len(values))],
        "instants": [BEGIN + dt.timedelta(seconds=place * 7) for place in range(len(values))],
        "numbers": [float(place) ** 3 for place in range(len(values))],
    }
    x, a, b = own[kind], [first for first, _ in values], [second for _, second in values]
    points = [(first, second) for first, second in values if first is not None and second is not None]
    names = [f"w{place}" for place in range(len(values))]

    def charts() -> list[str]:
        made = (
            line_chart("", x, {"a": a, "b": b}),
            stacked_bars("", x, {"a": a, "b": b}),
            bars("", names, a),
            columns("", names, a),
            dots("", points, "x", "y"),
            paired_bars("", names, {"a": a, "b": b}),
            plane_of_boxes("", [(*pair, *pair) for pair in points], "x", "y"),
        )
        return [svg for chart in made for svg in (chart.wide, chart.narrow)]

    for svg in charts():
        drawn(svg)
        assert not re.search(r"nan|inf|\de", re.sub(r"<text.*?</text>|#\w{6}", "", svg))
    assert charts() == charts()


@given(
    st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=30),
    st.booleans(),
    st.sampled_from([(WIDE, 8, 12), (NARROW, 6, 13)]),
)
def test_ticks_are_told_apart(values: list[float], zero: bool, room: tuple[int, int, int]) -> None:
    """Labels do not touch, rise with their values, and lie within the drawing."""
    width, most, size = room
    for axis in (
        nice_axis(values, most, zero=zero),
        axis_of(sorted(values)),
        axis_of([f"{v}" for v in values]),
    ):
        scale = axis.scale(60, width - 12)
        ticks = with_room(axis, scale, most, size, width)
        assert ticks
        at = [middle(tick, scale, size, width) for tick in ticks]
        halves = [width_of(tick.label, size) / 2 for tick in ticks]
        assert all(x - half >= -0.01 and x + half <= width + 0.01 for x, half in zip(at, halves, strict=True))
        assert all(
            before + one <= after - other
            for (before, one), (after, other) in pairwise(zip(at, halves, strict=True))
        )


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (dt.timedelta(minutes=10), ["00:00", "01:00"]),
        (dt.timedelta(hours=6), ["2 Jan", "4 Jan"]),
        (dt.timedelta(days=20), ["Feb", "Mar"]),
        (dt.timedelta(days=400), ["2026", "2028"]),
    ],
)
def test_instants_are_told_as_clocks_and_calendars_are(step: dt.timedelta, expected: list[str]) -> None:
    """Hours, days, months, years; in UTC, whatever the machine's zone."""
    axis = axis_of([BEGIN + place * step for place in range(50 if step < dt.timedelta(days=1) else 13)])
    ticks = with_room(axis, axis.scale(60, WIDE - 12), 12, 12, WIDE)
    told = [tick.label.split("\n")[0] for tick in ticks]
    assert any(told[place : place + 2] == expected for place in range(len(told))), told


def test_thousands_of_windows_are_one_path() -> None:
    """Some 20 bytes a window, and a bar is never thinner than can be seen."""
    x = [BEGIN + dt.timedelta(hours=hour) for hour in range(10_000)]
    svg = line_chart("", x, {"a": [float(hour % 50) for hour in range(10_000)]}).wide
    assert len(paths(svg, SERIES[0], "stroke")) == 1
    assert len(svg) < 300_000
    bar = boxes(paths(stacked_bars("", x, {"a": [1.0] * 10_000}).wide, SERIES[0], "fill")[0])
    assert {width for _, _, width, _ in bar} == {0.5}


def test_labels_are_those_of_people() -> None:
    """12k and 0.05, no 50m; whole numbers have whole ticks; shares are percents."""
    assert labels(line_chart("", [1, 2], {"a": [0, 12_345]}).wide)[:4] == ["0", "5k", "10k", "15k"]
    assert labels(line_chart("", [1, 2], {"a": [0.01, 0.1]}).wide)[:3] == ["0", "0.02", "0.04"]
    assert labels(columns("", ["a"], [2]).wide)[:3] == ["0", "1", "2"]
    assert "10%" in labels(bars("", ["a"], [0.2], percent=True).wide)
