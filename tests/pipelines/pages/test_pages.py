"""Pages of figures: escaped, whole, the same each time, and readable in a browser."""

import datetime as dt
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kanonflow.pipelines.pages import charts
from kanonflow.pipelines.pages.missing_extra import MissingExtraError, templates
from kanonflow.pipelines.pages.pages import Figure, Items, Page, Paragraph, Section, Status, render_page
from kanonflow.pipelines.pages.palette import PALETTE, SERIES
from kanonflow.pipelines.terminal.table import Table, count, decimal, share
from tests.page_checks import check_page, contrast
from tests.page_reading import read_page

DAYS = [dt.datetime(2024, 3, 1, tzinfo=dt.UTC) + dt.timedelta(days=day) for day in range(60)]
HOSTILE = '<script>alert(1)</script> & "quotes" \x1b[31m ‮'


def a_page(*blocks: Any) -> Page:
    return Page(HOSTILE, "kicker", Status("good", "passed"), (Section("one", HOSTILE, blocks),), (HOSTILE,))


def every_drawing() -> tuple[Figure, ...]:
    """One of each kind, with long names and gaps."""
    up = [day / 10 for day in range(60)]
    gaps = [None if day % 7 else 1.0 for day in range(60)]
    names = [f"a field with quite a long name, number {number}" for number in range(4)]
    drawn = [
        charts.line_chart("lines", DAYS, {"up": up, "gaps": gaps}),
        charts.line_chart("one point", DAYS[:1], {"one": [0.25]}, percent=True),
        charts.stacked_bars("bars", DAYS, {f"reason {number}": up for number in range(12)}),
        charts.stacked_bars("words", ["one", "two"], {"a": [1.0, 2.0], "b": [2.0, None]}),
        charts.bars("lying", names, [0.1, None, 0.5, 1.0], percent=True),
        charts.columns("standing", [str(each) for each in range(40)], list(range(40))),
        charts.dots("dots", list(zip(up, up, strict=True)), "people", "loss", ("latest", (1.0, 1.0))),
    ]
    return tuple(
        Figure(chart.said, chart, Table(f"t{place}", "numbers", ("a", "b"), (("x", count(1)),)))
        for place, chart in enumerate(drawn)
    )


def test_text_is_escaped_and_spelled_out() -> None:
    """Neither markup nor what turns or colours a reader's text comes through, wherever text stands."""
    table = Table("t", HOSTILE, (HOSTILE,), ((HOSTILE,),), folded=False)
    html = render_page(a_page(Paragraph(HOSTILE), Items((HOSTILE,)), table, Figure(HOSTILE, None, table)))
    assert "script" not in read_page(html).tags
    assert "\x1b" not in html
    assert "‮" not in html
    assert html.count("&lt;script&gt;") >= 8


def test_numbers_stand_there_exactly_and_as_they_are_read() -> None:
    """A program reads what was measured."""
    rows = ((count(1234567), decimal(0.123456789), share(1 / 3), None),)
    (found,) = read_page(render_page(a_page(Table("t", "c", ("a", "b", "c", "d"), rows)))).tables.values()
    assert found.rows == [["1,234,567", "0.1235", "33.3%", "-"]]
    assert found.column("b") == [0.123456789]
    assert found.column("c") == [1 / 3]
    assert found.column("d") == [None]


def test_a_page_is_the_same_each_time_and_asks_for_nothing() -> None:
    """No script, no address but of its own sections, no name of a program that draws."""
    html = render_page(a_page(*every_drawing()))
    assert html == render_page(a_page(*every_drawing()))
    page = read_page(html)
    assert not {"script", "link", "img", "iframe", "object", "base"} & set(page.tags)
    assert page.addresses == ("#one",)
    assert page.tags["svg"] == 2 * len(every_drawing())
    assert "default-src 'none'" in html
    assert "http:" not in html.replace('xmlns="http://www.w3.org/2000/svg"', "")


def test_series_beyond_the_colours_become_one() -> None:
    """Their sum is drawn, and the legend says so."""
    series = {f"s{number}": [1.0, 2.0] for number in range(len(SERIES) + 3)}
    legend = charts.stacked_bars("said", ["x", "y"], series).legend
    assert [name for name, _ in legend] == [*list(series)[: len(SERIES) - 1], "other"]
    assert len({colour for _, colour in legend}) == len(SERIES)


def test_what_is_drawn_has_a_colour_of_the_palette() -> None:
    """Another one would not follow the reader's scheme."""
    known = {colour.light for colour in PALETTE.values()} | {"none", "transparent"}
    for figure in every_drawing():
        for svg in (figure.chart.wide, figure.chart.narrow):
            parts = svg.replace("'", '"').split('"')
            used = {value for name, value in pairwise(parts) if name.endswith((" fill=", " stroke="))}
            assert len(used) > 2
            assert used <= known, used - known


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_have_contrast(scheme: str) -> None:
    """Text 4.5, marks 3, on both grounds; and no two are the same."""

    def of(name: str) -> list[int]:
        text = getattr(PALETTE[name], scheme)
        return [int(text[place : place + 2], 16) for place in (1, 3, 5)]

    for ground in ("paper", "panel"):
        assert all(
            contrast(of(name), of(ground)) >= 4.5 for name in ("ink", "muted", "link", "good", "bad", "open")
        )
        assert all(contrast(of(name), of(ground)) >= 3 for name in SERIES)
    assert len({getattr(colour, scheme) for colour in PALETTE.values()}) == len(PALETTE)
    assert contrast([0, 0, 0], [255, 255, 255]) == pytest.approx(21)


def test_without_the_extra_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """By name."""
    assert templates().__name__ == "jinja2"
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingExtraError, match=r"jinja2: pip install 'kanonflow\[report\]'"):
        templates()


@pytest.mark.thorough
@pytest.mark.browser
def test_pages_are_readable_in_a_browser(browser: Any, tmp_path: Path) -> None:
    """Every kind of block and drawing, at both widths, in both schemes, by keyboard."""
    table = Table("wide", "a wide table", tuple("abcdefgh"), (tuple(["a long cell of words"] * 8),))
    page = tmp_path / "page.html"
    page.write_text(
        render_page(a_page(Paragraph("text " * 80), Items(("one", "two")), table, *every_drawing()))
    )
    check_page(browser, page)


@pytest.mark.thorough
@pytest.mark.browser
@pytest.mark.parametrize(
    "planted",
    [
        "p { font-size: 10px; }",
        "p { color: #888; }",
        "@media (prefers-color-scheme: dark) { p { color: #555; } }",
        "main { width: 500px; }",
        ".chart svg { width: 200px; }",
        ".chart text { fill: #999 !important; }",
        "nav { visibility: hidden; }",
        "summary { display: none; }",
        'body { background: url("https://example.org/x.png"); }',
    ],
)
def test_the_checks_find_what_is_planted(browser: Any, planted: str, tmp_path: Path) -> None:
    """Small or faint text, in one scheme too, what is too wide, what no key reaches, and what is loaded."""
    html = render_page(a_page(Paragraph("text " * 80), every_drawing()[0]))
    page = tmp_path / "page.html"
    page.write_text(html)
    check_page(browser, page)
    page.write_text(html.replace("</style>", f"{planted}</style>"))
    with pytest.raises(AssertionError):
        check_page(browser, page)
