"""The gate of cohorts that last: each promise broken once, and refused with a sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.schemas.avro_schema import release_arrow_schema
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.published_group import PublishedGroup
from kanonflow.schemas.published_member import PublishedMember
from kanonflow.transforms.columns.sort_keys import whole
from kanonflow.transforms.publishing.boxes import box_columns, hull_boxes, snapped_boxes
from kanonflow.transforms.publishing.frozen_groups import FrozenGroups
from kanonflow.transforms.publishing.gate import GateError
from kanonflow.transforms.publishing.gate_frozen import check_frozen_release, check_segment
from kanonflow.transforms.roster.corners import COHORT, corners
from kanonflow.transforms.roster.pool import Pool
from kanonflow.transforms.roster.roster import RosterHead, Segment, empty_roster
from tests.mixed_people import mixed_bound, mixed_values
from tests.transforms.roster.test_founding import pool_of

HOUR = 3_600_000


def honest() -> tuple[pa.Table, pa.Table, FrozenGroups, np.ndarray, BoundPolicy]:
    """Twelve people in three cohorts, the first two merged; a row of each, some values changed since."""
    bound, rng = mixed_bound(), np.random.default_rng(3)
    frozen_values = mixed_values(12, rng)
    cohort = np.repeat([0, 1, 2], 4)
    table = corners(frozen_values, cohort, bound)
    owner = np.asarray(table.column(COHORT))
    frozen = FrozenGroups(
        table, owner, np.array([0, 0, 1]), cohort, np.repeat([2 * HOUR, 3 * HOUR], 6), HOUR, np.array([77, 5])
    )
    times = pa.array(frozen.own_ends - 1).cast(pa.timestamp("ms", tz="UTC"))
    rows = pa.table(
        {
            "who": [f"p{number}" for number in range(12)],
            "when": times,
            **{name: mixed_values(12, rng).column(name) for name in frozen_values.schema.names},
            "amount": np.arange(12.0),
        }
    )
    factor = np.array([1, 2, 3, 4, 5, 6, 7, 0, 9, 10, 11, 8], dtype=np.int32)
    boxes = snapped_boxes(hull_boxes(table, bound, frozen.groups))
    starts, ends = frozen.windows()
    schema = release_arrow_schema(bound)
    columns = {
        "release_id": pa.array(["r"] * 12),
        "window_start": pa.array(starts).cast(schema.field("window_start").type),
        "window_end": pa.array(ends).cast(schema.field("window_end").type),
        "class_id": pa.array(frozen.class_ids[frozen.of_row]),
        **box_columns(boxes),
        "amount": pa.array(factor.astype(np.float64)),
    }
    released = pa.table([columns[name] for name in schema.names], schema=schema)
    return released, rows, frozen, factor, bound


def test_an_honest_release_passes() -> None:
    """Also where rows have values outside of their box: attributes are those at entry."""
    check_frozen_release(*honest())


def changed(table: pa.Table, name: str, place: int, source: int) -> pa.Table:
    """One cell of a column is another cell of it."""
    indices = np.arange(table.num_rows)
    indices[place] = source
    column = whole(table.column(name)).take(pa.array(indices))
    return table.set_column(table.schema.names.index(name), table.schema.field(name), column)


Parts = tuple[pa.Table, pa.Table, FrozenGroups, np.ndarray, BoundPolicy]


def _hull_of_those_present(parts: Parts) -> Parts:
    """The corners forget the last member's values: the box is narrower than the frozen one."""
    released, rows, frozen, factor, bound = parts
    narrow = mixed_values(1, np.random.default_rng(9)).take(pa.array([0] * 3))
    few = corners(narrow, np.arange(3), bound)
    thin = replace(frozen, corners=few, cohort_of_corner=np.asarray(few.column(COHORT)))
    boxes = box_columns(snapped_boxes(hull_boxes(few, bound, thin.groups)))
    for name, column in boxes.items():
        released = released.set_column(released.schema.names.index(name), released.schema.field(name), column)
    return released, rows, frozen, factor, bound


BROKEN: dict[str, tuple[Callable[[Parts], Parts], str]] = {
    "a box without a member": (_hull_of_those_present, "do not hold all of their cohorts"),
    "a box of another group": (lambda p: (changed(p[0], "age", 0, 11), *p[1:]), "rows of a group differ"),
    "a time of another group": (
        lambda p: (changed(p[0], "window_start", 11, 0), *p[1:]),
        "rows of a group differ",
    ),
    "payload of another group": (
        lambda p: (*p[:3], p[3][[11, *range(1, 11), 0]], p[4]),
        "payload of another group",
    ),
    "payload twice": (lambda p: (*p[:3], np.append(p[3][:11], p[3][0]), p[4]), "other than once"),
    "payload that nobody sent": (
        lambda p: (changed(p[0], "amount", 0, 1), *p[1:]),
        "not those of the matched",
    ),
    "one person in two groups": (lambda p: (p[0], changed(p[1], "who", 11, 0), *p[2:]), "in two groups"),
    "a group of too few": (
        lambda p: (p[0], changed(changed(p[1], "who", 11, 10), "who", 9, 8), *p[2:]),
        "fewer than k=3",
    ),
    "equal numbers": (
        lambda p: (
            p[0].set_column(3, p[0].schema.field("class_id"), pa.array([5] * 12)),
            p[1],
            replace(p[2], class_ids=np.array([5, 5])),
            *p[3:],
        ),
        "the same number",
    ),
    "a row outside of its time": (
        lambda p: (*p[:2], replace(p[2], own_ends=p[2].own_ends + HOUR), *p[3:]),
        "outside of their group's time",
    ),
    "one person alone": (
        lambda p: (p[0], changed(changed(changed(p[1], "who", 11, 10), "who", 9, 8), "who", 8, 10), *p[2:]),
        "fewer than k=3",
    ),
    "a row too few": (lambda p: (p[0].slice(1), *p[1:]), "11 rows would be released"),
    "another column": (
        lambda p: (p[0].append_column("who", p[1].column("who")), *p[1:]),
        "columns are not those",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_promise_is_refused(what: str) -> None:
    """Nothing goes out, and the message has counts and names of fields only."""
    break_it, sentence = BROKEN[what]
    with pytest.raises(GateError, match=sentence):
        check_frozen_release(*break_it(honest()))


def of_people(names: list[str], cohorts: list[int]) -> Parts:
    """A release of some people's rows, one row each, everybody with the same values."""
    bound, n = mixed_bound(), len(names)
    values = mixed_values(1, np.random.default_rng(3)).take(pa.array([0] * n))
    cohort = np.array(cohorts)
    some = max(cohorts, default=-1) + 1
    table = corners(values.take(pa.array(range(n))), cohort, bound)
    owner = np.asarray(table.column(COHORT))
    frozen = FrozenGroups(
        table, owner, np.arange(some), cohort, np.full(n, 2 * HOUR), HOUR, np.arange(some) + 40
    )
    rows = pa.table(
        {
            "who": pa.array(names, pa.string()),
            "when": pa.array(frozen.own_ends - 1).cast(pa.timestamp("ms", tz="UTC")),
            **{name: values.column(name) for name in values.schema.names},
            "amount": np.arange(n, dtype=float),
        }
    )
    schema, factor = release_arrow_schema(bound), np.arange(n, dtype=np.int32)
    starts, ends = frozen.windows()
    columns = {
        "release_id": pa.array(["r"] * n),
        "window_start": pa.array(starts).cast(schema.field("window_start").type),
        "window_end": pa.array(ends).cast(schema.field("window_end").type),
        "class_id": pa.array(frozen.class_ids[frozen.of_row]),
        **box_columns(snapped_boxes(hull_boxes(table, bound, frozen.groups))),
        "amount": pa.array(np.arange(n, dtype=float)),
    }
    return pa.table([columns[name] for name in schema.names], schema=schema), rows, frozen, factor, bound


def test_k_people_are_enough_and_one_group_is() -> None:
    """Exactly k people in the only group pass; their boxes may have one corner."""
    check_frozen_release(*of_people(["a", "b", "c"], [0, 0, 0]))
    check_frozen_release(*of_people(list("abcdefg"), [0, 0, 0, 1, 1, 1, 1]))


@pytest.mark.parametrize("others", [0, 3, 7])
@pytest.mark.parametrize("few", [1, 2])
def test_a_group_of_fewer_than_k_people_is_refused_beside_any_other(others: int, few: int) -> None:
    """One person, or two, however many rows they have and however large the other group is."""
    names = [f"o{number}" for number in range(others)] + [f"f{number % few}" for number in range(4)]
    cohorts = [0] * others + [1 if others else 0] * 4
    with pytest.raises(GateError, match="fewer than k=3"):
        check_frozen_release(*of_people(names, cohorts))


def numbered(numbers: list[str]) -> tuple[pa.Table, pa.Table, FrozenGroups, np.ndarray, BoundPolicy]:
    """Rows of three people, the first with two, under a column of numbers."""
    released, rows, frozen, factor, bound = of_people(["a", "b", "c", "a"], [0, 0, 0, 0])
    bound = replace(bound, policy=replace(bound.policy, publish_member=PublishedMember("a test")))
    table = pa.table([*released.columns, pa.array(numbers)], schema=release_arrow_schema(bound))
    return table, rows, frozen, factor, bound


@pytest.mark.parametrize("numbers", ["1231", "1230", "1211", "1221", "1111"], ids=str)
def test_a_person_has_one_number_and_nobody_elses(numbers: str) -> None:
    """Two people with one, one with two, and one for all are refused."""
    made = numbered([number * 16 for number in numbers])
    if numbers == "1231":
        check_frozen_release(*made)
        return
    with pytest.raises(GateError, match=r"field member: it has . numbers for 3 people, or one has another's"):
        check_frozen_release(*made)


@pytest.mark.parametrize(
    ("ids", "people", "says"),
    [
        ("1122", "6633", None),
        ("1222", "6633", "field g: the rows of a group differ"),
        ("1122", "6333", "field n: the rows of a group differ"),
        ("1111", "6633", "field g: two groups have the same number"),
        ("1122", "6644", "field n: some are no multiple of k=3, or fewer"),
        ("1122", "0033", "field n: some are no multiple of k=3, or fewer"),
    ],
    ids=str,
)
def test_groups_have_an_id_each_and_whole_numbers_of_k(ids: str, people: str, says: str | None) -> None:
    """Of two groups of three people; each row of theirs says the same."""
    names = ["a", "b", "c", "x", "y", "z"]
    released, rows, frozen, factor, bound = of_people(names, [0, 0, 0, 1, 1, 1])
    policy = replace(bound.policy, publish_group=PublishedGroup("a test", "g", "n"))
    bound = replace(bound, policy=policy)
    # What is told of the rows of each group: of its first, and of the others.
    cells = [
        text[2 * group + (place > 0)] for group in (0, 1) for place in range(3) for text in (ids, people)
    ]
    columns = [pa.array(cells[::2]), pa.array(list(map(int, cells[1::2])))]
    table = pa.table(
        [*released.columns[:4], *columns, *released.columns[4:]], schema=release_arrow_schema(bound)
    )
    if says is None:
        check_frozen_release(table, rows, frozen, factor, bound)
        return
    with pytest.raises(GateError, match=says):
        check_frozen_release(table, rows, frozen, factor, bound)


def segment() -> tuple[Segment, Pool, BoundPolicy]:
    """An honest intake of nine."""
    bound, pool = mixed_bound(), pool_of(9, 4)
    cohort = np.array([0, 1, 2] * 3)
    return Segment(RosterHead(1), pool.people, cohort, corners(pool.values, cohort, bound)), pool, bound


def test_an_honest_intake_passes() -> None:
    """Everybody of the pool, in cohorts of three, in boxes that hold them."""
    each, pool, bound = segment()
    check_segment(each, pool, empty_roster(1), bound)


def test_an_intake_that_breaks_a_promise_is_refused() -> None:
    """Somebody left behind, somebody known, a cohort of two, a box that lacks a value."""
    each, pool, bound = segment()
    some = replace(each, people=each.people[:-1], cohort=each.cohort[:-1])
    with pytest.raises(GateError, match="not the people of the pool"):
        check_segment(some, pool, empty_roster(1), bound)
    with pytest.raises(GateError, match="known"):
        check_segment(each, pool, empty_roster(1).followed_by(each), bound)
    cohort = each.cohort.copy()
    cohort[0] = 1
    with pytest.raises(GateError, match="a new cohort has 2 people, below 3"):
        check_segment(replace(each, cohort=cohort), pool, empty_roster(1), bound)
    gone = np.asarray(each.corners.column(COHORT)) == 1
    with pytest.raises(GateError, match="have no box"):
        check_segment(
            replace(each, corners=each.corners.filter(pa.array(~gone))), pool, empty_roster(1), bound
        )
    other = replace(each, corners=corners(pool.values, each.cohort[::-1], bound))
    with pytest.raises(GateError, match="frozen values lie outside"):
        check_segment(other, pool, empty_roster(1), bound)


def test_a_single_cohort_and_boxes_of_one_corner_pass() -> None:
    """Three people of equal values: one cohort, whose box is a point."""
    bound, pool = mixed_bound(), pool_of(3, 4)
    alike = replace(pool, values=pool.values.take(pa.array([0, 0, 0])))
    cohort = np.zeros(3, dtype=np.int64)
    own = Segment(RosterHead(1), pool.people, cohort, corners(alike.values, cohort, bound))
    check_segment(own, alike, empty_roster(1), bound)


def test_nobody_is_no_intake() -> None:
    """An empty pool founds nothing: refused by the gate, and not by an error of numbers."""
    each, pool, bound = segment()
    none = pool.of(np.zeros(pool.people.size, dtype=np.bool_))
    empty = replace(each, people=each.people[:0], cohort=each.cohort[:0], corners=each.corners.slice(0, 0))
    with pytest.raises(GateError, match="a new cohort has 0 people, below 3"):
        check_segment(empty, none, empty_roster(1), bound)


def test_somebody_known_does_not_enter_again_whatever_the_cohort() -> None:
    """Also one who is in the first cohort there is."""
    each, pool, bound = segment()
    known = np.sort(np.append(pool.people[:1], np.array([1, 2], dtype=np.uint64)))
    first = replace(each, people=known, cohort=np.zeros(3, dtype=np.int64))
    values = pool.values.slice(0, 3)
    first = replace(first, corners=corners(values, first.cohort, bound))
    roster = empty_roster(1).followed_by(first)
    later = replace(
        each, head=roster.head, cohort=each.cohort + 1, corners=corners(pool.values, each.cohort + 1, bound)
    )
    with pytest.raises(GateError, match="some of them are known"):
        check_segment(later, pool, roster, bound)


def test_a_cohort_of_people_seen_and_people_known_from_the_start_is_refused() -> None:
    """Whatever is right with it otherwise; two cohorts, one of each kind, pass. So do those whom two runs named."""
    bound, seen, named, later = mixed_bound(), pool_of(3, 4), pool_of(3, 5), pool_of(3, 6)
    by_file = seen.expecting(named.people, named.values, bound)
    by_two = by_file.of(by_file.from_start).expecting(later.people, later.values, bound, 1)
    for pool in (by_file, by_two):
        _judge_kinds(pool, bound)


def _judge_kinds(pool: Pool, bound: BoundPolicy) -> None:
    assert np.unique(pool.kind, return_counts=True)[1].tolist() == [3, 3]
    apart = np.where(pool.kind == 0, 0, 1)
    good = Segment(RosterHead(1), pool.people, apart, corners(pool.values, apart, bound))
    check_segment(good, pool, empty_roster(1), bound)
    mixed = apart.copy()
    mixed[[int(np.flatnonzero(apart == kind)[0]) for kind in (0, 1)]] = 1, 0
    together = Segment(RosterHead(1), pool.people, mixed, corners(pool.values, mixed, bound))
    with pytest.raises(GateError, match="people of two kinds"):
        check_segment(together, pool, empty_roster(1), bound)
