"""Hierarchies: what they must hold, that they round-trip through files, and that builders only ever join nodes."""

import os
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanonflow.schemas.errors import HierarchyError
from kanonflow.schemas.hierarchy import Hierarchy
from kanonflow.schemas.hierarchy_builders import (
    CALENDAR,
    date_hierarchy,
    formatted_dates,
    ranges_between,
    ranges_by_doubling,
    ranges_of_widths,
    star_hierarchy,
)
from kanonflow.schemas.hierarchy_file import parse_hierarchy, read_hierarchy
from kanonflow.schemas.tree import missing
from kanonflow.solvers.problem.hierarchy_levels import LevelTable
from tests.hierarchy_text import render_hierarchy

PLACES = "Den Bosch;Noord Brabant;*\nBreda;Noord Brabant;*\nUtrecht;Utrecht;*\n"


def test_a_file_in_the_layout_of_arx() -> None:
    """Codes, labels and leaves of a small file; a label may repeat where it means the same values."""
    hierarchy = parse_hierarchy(PLACES)
    assert hierarchy.height == 2
    assert hierarchy.leaves == ("Den Bosch", "Breda", "Utrecht")
    assert hierarchy.labels == (hierarchy.leaves, ("Noord Brabant", "Utrecht"), ("*",))
    assert hierarchy.codes.tolist() == [[0, 1, 2], [0, 0, 1], [0, 0, 0]]
    assert hierarchy.extents == {"Den Bosch": 1, "Breda": 1, "Utrecht": 1, "Noord Brabant": 2, "*": 3}
    assert render_hierarchy(hierarchy) == PLACES


def test_values_without_a_leaf_are_counted_and_not_shown() -> None:
    """Nulls lack nothing; the message has counts only."""
    hierarchy = parse_hierarchy(PLACES)
    column = pa.array(["Breda", None, "Secretville", "Secretville", "Utrecht", "Elsewhere"])
    assert hierarchy.leaf_codes(column).tolist() == [1, -1, -1, -1, 2, -1]
    message = missing(hierarchy, column)
    assert message is not None
    assert message.startswith("2 different values in 3 rows")
    assert "Secretville" not in message
    assert missing(hierarchy, pa.array(["Breda", None])) is None


def test_all_mistakes_of_a_file_come_at_once() -> None:
    """Short rows, empty labels, repeated values, nodes with two parents, labels of two meanings, two roots."""
    text = "a;X;one;*\nb;X;two;*\nc;Y;one;*\nc;Y;one;*\nd;Z\ne;;one;*\nf;a;two;all\n"
    with pytest.raises(HierarchyError) as caught:
        parse_hierarchy(text, "places.csv")
    message = str(caught.value)
    assert "places.csv: 7 mistakes" in message
    for part in (
        "line 5: has 2 of 4 levels",
        "line 6, level 1: is empty",
        "lines 3, 4: the value 'c' occurs 2 times",
        "level 1: 'X' stands under 2 labels of level 2: 'one' (line 1), 'two' (line 2)",
        "level 2: 'two' stands under 2 labels of level 3: '*' (line 2), 'all' (line 7)",
        "levels 0 and 1: 'a' stands for different values",
        "the last level has 2 labels ('*', 'all')",
    ):
        assert part in message
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "part"),
    [("", "no row"), ("a\nb\n", "one level only"), ('a;"x\n', "not CSV"), ("a;x;*\nb;y;+\n", "2 labels")],
)
def test_files_that_are_no_hierarchy(text: str, part: str) -> None:
    """Empty files, files with another separator, broken quotes, two roots."""
    with pytest.raises(HierarchyError, match=part):
        parse_hierarchy(text)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing file and one that is not UTF-8 are named."""
    with pytest.raises(HierarchyError, match=r"missing\.csv: 1 mistake"):
        read_hierarchy(tmp_path / "missing.csv")
    (tmp_path / "latin.csv").write_bytes("Zürich;*\n".encode("latin-1"))
    with pytest.raises(HierarchyError, match="not UTF-8"):
        read_hierarchy(tmp_path / "latin.csv")


_LABEL = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Z")), min_size=1, max_size=4)


@given(st.lists(_LABEL, min_size=1, max_size=12, unique=True), st.data())
def test_hierarchies_round_trip_through_their_files(leaves: list[str], data: st.DataObject) -> None:
    """Any labels, quotes and separators among them, are read back as they were."""
    groups = [data.draw(st.integers(0, 3)) for _ in leaves]
    hierarchy = Hierarchy(
        tuple((leaf, f"group {group}", "the root") for leaf, group in zip(leaves, groups, strict=True))
    )
    assert parse_hierarchy(render_hierarchy(hierarchy)) == hierarchy


def _round_trips(hierarchy: Hierarchy) -> None:
    assert parse_hierarchy(render_hierarchy(hierarchy)) == hierarchy
    LevelTable(hierarchy.codes)
    assert len(hierarchy.labels[-1]) == 1


@given(
    st.lists(st.decimals(-500, 500, places=2), min_size=1, max_size=30),
    st.lists(st.integers(2, 4), max_size=4),
    st.decimals(-10, 10, places=1),
)
def test_ranges_of_widths_hold_their_values(
    values: list[Decimal], factors: list[int], origin: Decimal
) -> None:
    """Every value lies in its range [a, b) at every level, and the hierarchy is one."""
    widths = [Decimal("2.5")]
    for factor in factors:
        widths.append(widths[-1] * factor)
    hierarchy = ranges_of_widths(values, widths, origin)
    _round_trips(hierarchy)
    for row in hierarchy.rows:
        for width, label in zip(widths, row[1:-1], strict=False):
            low, high = (Decimal(end) for end in label.strip("[)").split(", "))
            assert low <= Decimal(row[0]) < high
            assert high - low == width


@given(st.lists(st.integers(-300, 300), min_size=1, max_size=60))
def test_doubling_holds_its_values(values: list[int]) -> None:
    """It ends in the root."""
    _round_trips(ranges_by_doubling(values, 5))


def test_doubling_doubles() -> None:
    """Widths 5, 10, 20 reach over 0..19."""
    assert ranges_by_doubling(range(20), 5).rows[7] == ("7", "[5, 10)", "[0, 10)", "*")


@given(
    st.lists(st.decimals(-500, 500, places=2), min_size=2, max_size=30, unique=True),
    st.data(),
)
def test_ranges_between_cuts_hold_their_values(values: list[Decimal], data: st.DataObject) -> None:
    """Every value lies in its range at every level, ends are cuts or the ends of all, and a level joins two."""
    least, most = min(values), max(values)
    drawn = st.decimals(least, most, places=3).filter(lambda cut: cut > least)
    cuts = sorted(data.draw(st.sets(drawn, min_size=1, max_size=9)))
    hierarchy = ranges_between(values, cuts, 2)
    _round_trips(hierarchy)
    ends = [least, *cuts, most]
    for row in hierarchy.rows:
        assert "." in row[0]
        for level, label in enumerate(row[1:-1]):
            low, high = (Decimal(end) for end in label.strip("[)]").split(", "))
            assert low <= Decimal(row[0]) <= high
            assert label.endswith("]") or Decimal(row[0]) < high
            assert ends.index(low) % 2**level == 0


@given(
    st.sets(st.dates(date(1899, 1, 1), date(2100, 1, 1)), min_size=1, max_size=30),
    st.sampled_from([["%m/%Y", "%Y"], ["%b %Y", "%Y", "%y"], ["%Y-%m"], ["%B of %Y", "%%%Y"]]),
)
def test_formatted_dates_only_join(days: set[date], formats: list[str]) -> None:
    """From short to long they are a hierarchy, whose leaves are days as ISO writes them."""
    hierarchy = formatted_dates(days, formats)
    _round_trips(hierarchy)
    assert hierarchy.of_days


def test_star_masks_from_the_end() -> None:
    """S1, table 5: NL805 -> NL80*; shorter values stand until the mask reaches them."""
    hierarchy = star_hierarchy(["NL805", "NL806", "NL9", "DE1"])
    assert hierarchy.rows[1] == ("NL805", "NL80*", "NL8**", "NL***", "N****", "*")
    assert hierarchy.rows[3] == ("NL9", "NL9", "NL9", "NL***", "N****", "*")
    with pytest.raises(HierarchyError, match="different values"):
        star_hierarchy(["ab", "ac", "a*", "b"])


@given(st.sets(st.text("ab1", min_size=1, max_size=5), min_size=1, max_size=20))
def test_stars_only_join(values: set[str]) -> None:
    """Masked text is a hierarchy whatever the lengths."""
    _round_trips(star_hierarchy(values))


@given(
    st.sets(st.dates(date(1899, 1, 1), date(2100, 1, 1)), min_size=1, max_size=30),
    st.sets(st.sampled_from(CALENDAR)),
)
def test_dates_only_join(days: set[date], levels: set[str]) -> None:
    """Any choice of parts of the calendar in their order is a hierarchy."""
    _round_trips(date_hierarchy(days, [level for level in CALENDAR if level in levels]))


def test_parts_of_the_calendar() -> None:
    """A leap day through all parts."""
    days = [date(2020, 2, 29), date(2020, 3, 1), date(1999, 12, 31), date(2020, 2, 29) + timedelta(200)]
    rows = date_hierarchy(days).rows
    assert ("2020-02-29", "2020-02", "2020-Q1", "2020", "2020s", "*") in rows
    assert ("1999-12-31", "1999-12", "1999-Q4", "1999", "1990s", "*") in rows


def test_builders_refuse_levels_that_would_split() -> None:
    """Widths and parts that are no multiples, unknown parts of the calendar, parts in another order."""
    for build in (
        lambda: ranges_of_widths([1, 2], [5, 7]),
        lambda: ranges_of_widths([1, 2], [0]),
        lambda: ranges_of_widths([float("inf")], [1]),
        lambda: ranges_of_widths([], [1]),
        lambda: ranges_by_doubling([1], -1),
        lambda: ranges_between([1, 2, 3], [2, 2]),
        lambda: ranges_between([1, 2, 3], [1]),
        lambda: ranges_between([], [1]),
        lambda: formatted_dates([date(2020, 1, 1), date(2020, 2, 1)], ["%Y", "%m"]),
        lambda: star_hierarchy([]),
        lambda: date_hierarchy([date(2020, 1, 1)], ["week"]),
        lambda: date_hierarchy([date(2020, 1, 1)], ["year", "month"]),
    ):
        with pytest.raises(HierarchyError):
            build()


@pytest.mark.data
def test_hierarchies_of_arx_for_adult_load_unchanged() -> None:
    """All nine files: every value of the data has a leaf, and rendering gives the file's rows back."""
    folder = Path(os.environ["KANONFLOW_DATA"]) / "adult"
    lines = (folder / "adult.csv").read_text().split()
    table = list(zip(*(line.split(";") for line in lines), strict=True))
    files = sorted((folder / "hierarchies").glob("*.csv"))
    assert len(files) == 9
    for file in files:
        hierarchy = read_hierarchy(file)
        column = next(column for column in table if file.stem.endswith(f"_{column[0]}"))
        assert missing(hierarchy, pa.array(column[1:])) is None
        assert render_hierarchy(hierarchy).split() == file.read_text().split()


def test_a_label_stands_at_its_lowest_level() -> None:
    """A node with one leaf has its label at two levels: the lower one is its."""
    tree = Hierarchy((("a", "a", "*"), ("b", "bc", "*"), ("c", "bc", "*")))
    assert [tree.level(label) for label in ("a", "b", "bc", "*")] == [0, 0, 1, 2]
    with pytest.raises(KeyError):
        tree.level("d")
