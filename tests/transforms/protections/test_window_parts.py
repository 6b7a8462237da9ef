"""Rows of a large window, cut: by content alone, whatever the order in which they came."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.columns.encode import RangeDomain
from kanonflow.transforms.protections.window_parts import WindowParts, window_parts
from tests.small_feeds import JOBS, SECRET, Row, bound_feed, canonical, feed_policy, hourly, row

SHAPES = {
    "classes": {"people": True},
    "people": {"people": True, "protect": "row"},
    "rows": {"people": False},
}
EVERY_SHAPE = pytest.mark.parametrize("shape", SHAPES)


def bound_shape(shape: str, **head: Any) -> BoundPolicy:
    """A policy of one of the three kinds of promises."""
    return bound_feed(feed_policy(**SHAPES[shape], **head))


def cut(rows: list[Row], bound: BoundPolicy, limit: int = 40) -> WindowParts:
    """The parts of some records."""
    distinct = bound.policy.protect == "row"
    return window_parts(canonical(rows, bound), bound, limit, SECRET, {}, distinct=distinct)


def named(rows: list[Row], parts: WindowParts) -> list[list[str]]:
    """The references in each part, sorted."""
    return [sorted(str(rows[place]["reference"]) for place in group) for group in parts.groups]


@EVERY_SHAPE
def test_any_order_of_the_rows_gives_the_same_parts(shape: str) -> None:
    """Also where rows are equal in all quasi-identifiers and in the individual."""
    rows, bound = hourly(1, 200, 40, seed=2), bound_shape(shape)
    expected = named(rows, cut(rows, bound))
    assert len(expected) >= 5
    assert sorted(name for part in expected for name in part) == sorted(
        str(each["reference"]) for each in rows
    )
    for seed in range(5):
        other = [rows[place] for place in np.random.default_rng(seed).permutation(len(rows))]
        assert named(other, cut(other, bound)) == expected


@EVERY_SHAPE
def test_individuals_are_whole(shape: str) -> None:
    """Without individuals, rows of one name are separate, and end up in several parts."""
    rows, bound = hourly(1, 200, 40, seed=2), bound_shape(shape)
    owners = [{rows[place]["who"] for place in group} for group in cut(rows, bound).groups]
    people = len({each["who"] for each in rows})
    assert all(len(who) >= 3 for who in owners)
    assert (sum(map(len, owners)) == people) == (shape != "rows")


@EVERY_SHAPE
def test_no_payload_can_move_a_row_among_unequal_ones(shape: str) -> None:
    """Other payloads, the same cut: by position where nobody is equal, by quasi-identifiers where somebody is."""
    rows, bound = hourly(1, 150, 40, seed=4), bound_shape(shape)
    other = [each | {"amount": None, "reference": "", "town": "Ulm"} for each in rows]
    content = [
        [
            sorted((str(some[place]["age"]), str(some[place]["job"])) for place in group)
            for group in cut(some, bound).groups
        ]
        for some in (rows, other)
    ]
    assert content[0] == content[1]
    # Of two rows of one age each has a job of its own.
    jobs = [JOBS[(number + number // 100) % 4] for number in range(150)]
    distinct = [row(number, number, 0.5, age=str(number % 100), job=jobs[number]) for number in range(150)]
    bare = [each | {"amount": None, "reference": "", "town": "Ulm"} for each in distinct]
    for one, two in zip(cut(distinct, bound).groups, cut(bare, bound).groups, strict=True):
        np.testing.assert_array_equal(one, two)


def test_the_domains_are_those_of_the_whole_window() -> None:
    """Not of a part, and with what the partition has shown before."""
    bound = bound_shape("rows", running=True)
    rows = [row(number, number, 0.5, age=str(20 + number)) for number in range(70)]
    table = canonical(rows, bound)
    before = {"age": RangeDomain(5, 30, declared=False)}
    parts = window_parts(table, bound, 30, SECRET, before)
    assert parts.domains["age"] == RangeDomain(5, 89, declared=False)


def test_near_rows_are_together() -> None:
    """A feed along one range is cut into stretches of it."""
    bound = bound_shape("rows")
    rows = [row(number, number, 0.5, age=str(number % 100), job="baker") for number in range(100)]
    ages = [sorted(int(str(rows[place]["age"])) for place in group) for group in cut(rows, bound).groups]
    assert ages == [list(range(33)), list(range(33, 66)), list(range(66, 100))]


def test_rows_may_lie_in_several_chunks() -> None:
    """As waiting rows and new ones do."""
    bound = bound_shape("people")
    rows = hourly(1, 100, 30, seed=5)
    table = canonical(rows, bound)
    chunked = pa.concat_tables([table.slice(0, 37), table.slice(37)])
    one, two = (window_parts(each, bound, 30, SECRET, {}).groups for each in (table, chunked))
    for left, right in zip(one, two, strict=True):
        np.testing.assert_array_equal(left, right)


def test_a_heavy_individual_keeps_the_peers_that_its_protection_needs() -> None:
    """Row by row, 20 rows need 40 of others beside them; classes only want k individuals."""
    rows = [row(number, 0, 0.5, age="0") for number in range(20)]
    rows += [row(20 + number, 1 + number, 0.5, age=str(number)) for number in range(100)]
    heavy = {
        shape: next(group.size for group in cut(rows, bound_shape(shape)).groups if 0 in group)
        for shape in ("people", "classes")
    }
    assert heavy["people"] >= 60
    assert heavy["classes"] <= 40
