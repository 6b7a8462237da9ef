"""Charts: well-formed SVG with labels and a legend, round ticks, and percentiles by nearest rank."""

import xml.etree.ElementTree as ElementTree

import pytest

from benchmarks.line_charts import HEIGHT, WIDTH, histogram, line_chart, percentile, thinned, ticks

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    """All texts of a chart, which must be well-formed XML."""
    return [node.text or "" for node in ElementTree.fromstring(svg).iter(f"{SVG}text")]


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        ([], 50, None),
        ([7.0], 50, 7.0),
        ([7.0], 99, 7.0),
        ([4.0, 1.0, 3.0, 2.0], 50, 2.0),
        ([4.0, 1.0, 3.0, 2.0], 51, 3.0),
        ([float(value) for value in range(1, 101)], 99, 99.0),
        ([float(value) for value in range(1, 101)], 100, 100.0),
        ([float(value) for value in range(1, 1001)], 99, 990.0),
    ],
)
def test_percentiles_are_values_of_the_sample(
    values: list[float], percent: float, expected: float | None
) -> None:
    """The smallest value that so many percent of the values do not exceed."""
    assert percentile(values, percent) == expected


@pytest.mark.parametrize("percent", [0, -1, 100.5])
def test_there_is_no_such_percentile(percent: float) -> None:
    """Shares (0.5) are not taken for percentages below 1 by accident at 0, and nothing is above 100."""
    with pytest.raises(ValueError, match="above 0 and at most 100"):
        percentile([1.0], percent)


@pytest.mark.parametrize(
    ("lowest", "highest", "expected"),
    [
        (0, 6, [0, 1, 2, 3, 4, 5, 6]),
        (0, 1_000_000, [0, 200_000, 400_000, 600_000, 800_000, 1_000_000]),
        (0.5, 2.9, [0.5, 1.0, 1.5, 2.0, 2.5]),
        (3, 3, [3]),
    ],
)
def test_ticks_are_round(lowest: float, highest: float, expected: list[float]) -> None:
    """Steps of 1, 2 or 5 times a power of ten, none outside of the range."""
    assert ticks(lowest, highest) == pytest.approx(expected)


def test_thinning_keeps_the_ends() -> None:
    """At most as many points as asked for, in order, with the first and the last."""
    points = [(float(place), float(place**2)) for place in range(1_000)]
    few = thinned(points, 50)
    assert len(few) == 50
    assert (few[0], few[-1]) == (points[0], points[-1])
    assert few == sorted(set(few))
    assert thinned(points[:50], 50) == points[:50]


def test_a_line_chart_shows_all_it_was_given() -> None:
    """Title, labels and names stand in it as they are, and every point lies inside the axes."""
    lines = {"read <&>": [(0.0, 0.0), (10.0, 5_000.0)], "released": [(2.0, 10.0), (90.0, 7_300.0)]}
    svg = line_chart("Rows", "seconds", "rows", lines)
    shown = texts(svg)
    assert {"Rows", "seconds", "rows", "read <&>", "released", "0", "8,000", "80"} <= set(shown)
    drawn = [node.attrib["points"].split() for node in ElementTree.fromstring(svg).iter(f"{SVG}polyline")]
    assert [len(points) for points in drawn] == [2, 2]
    places = [tuple(map(float, point.split(","))) for points in drawn for point in points]
    assert all(0 < x < WIDTH and 0 < y < HEIGHT for x, y in places)
    # Later is further to the right, more is higher up.
    assert places[0][0] < places[2][0] < places[1][0] < places[3][0]
    assert places[0][1] > places[2][1] > places[1][1] > places[3][1]


@pytest.mark.parametrize("lines", [{}, {"none": []}, {"one": [(3.0, 0.0)]}])
def test_a_chart_of_nothing_is_a_chart(lines: dict[str, list[tuple[float, float]]]) -> None:
    """No points, or one, give axes without an error."""
    assert "Rows" in texts(line_chart("Rows", "seconds", "rows", lines))


def test_a_histogram_counts_every_value() -> None:
    """Heights of the bars add up to the values, and median and 99th percentile are told."""
    values = [float(value) for value in range(1, 101)]
    svg = histogram("Latency", "seconds", "releases", values, bins=10)
    bars = [node for node in ElementTree.fromstring(svg).iter(f"{SVG}rect") if "x" in node.attrib]
    heights = [float(bar.attrib["height"]) for bar in bars]
    assert len(bars) == 10
    # 1 to 9, 10 to 19, ..., 90 to 100.
    assert [height / sum(heights) for height in heights] == pytest.approx([0.09, *[0.1] * 8, 0.11], abs=1e-3)
    assert {"p50: 50", "p99: 99", "releases", "seconds"} <= set(texts(svg))
    assert "Latency" in texts(histogram("Latency", "seconds", "releases", []))
