"""Which cohorts may be the ones at the ends of a box, and which are there for sure: nobody is left out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.pipelines.audit.lasting import followed_groups as judged
from kanonflow.pipelines.audit.lasting.due_releases import Due
from kanonflow.pipelines.audit.lasting.lasting_ground import LastingGround
from kanonflow.pipelines.audit.read.boxes import BoxBook
from kanonflow.pipelines.audit.read.values import CodeBook
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.policy_file import parse_policy

CORNERS: list[tuple[int | None, str | None]] = [(1, "a"), (5, "a"), (3, "b"), (9, None), (1, "b")]
"""Of three cohorts: two corners, two, and one."""


def sides(most_values: int, monkeypatch: pytest.MonkeyPatch) -> list[list[bool]]:
    """Of each end of a box of 1 to 9 and of a, b and null, which of the three cohorts may be there."""
    monkeypatch.setattr(judged, "_MOST_VALUES", most_values)
    fields = {
        "x": {"role": "quasi", "type": "numeric", "grid": "exact"},
        "y": {"role": "quasi", "type": "categorical"},
    }
    schema = pa.schema({"x": pa.int32(), "y": pa.string()})
    bound = bind(
        parse_policy({"version": 1, "k": 2, "fields": fields}, "t", "t"), schema, text=False, source="t"
    )
    books = [CodeBook(bound.column(name)) for name in fields]
    corners = np.column_stack(
        [book.codes_of_objects([corner[place] for corner in CORNERS]) for place, book in enumerate(books)]
    )
    boxes = [BoxBook(book) for book in books]
    cells = [{"min": 1, "max": 9, "nulls": False}], [[None, "a", "b"]]
    numbers = np.column_stack([book.numbers(cell) for book, cell in zip(boxes, cells, strict=True)])
    rosters = SimpleNamespace(corners=corners, members=np.full(3, 4), starts=np.array([0, 2, 4, 5]))
    ground = SimpleNamespace(rosters=rosters, books=boxes, groups=SimpleNamespace(boxes=numbers))
    found = judged._sides(cast(LastingGround, ground), np.zeros(3, np.int64), np.arange(3))
    return [side.tolist() for side in found]


def test_the_outermost_may_be_at_the_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Null, low and high of the range; null and each value of the set. The least value of all is one like others."""
    ends = [[False, False, False], [True, False, True], [False, True, False]]
    values = [[False, True, False], [True, False, False], [False, True, True]]
    assert sides(2, monkeypatch) == [*ends, *values]
    # Of more values than are looked at only null is.
    assert sides(1, monkeypatch) == [*ends, values[0]]


def test_a_visit_is_certain_by_one_certain_row() -> None:
    """Two cohorts in a release: of the first a row is there for sure and one may be, of the second one may be."""
    ground = SimpleNamespace(
        person=np.array([0, 1, 2]),
        end=np.array([10, 20, 30]),
        rosters=SimpleNamespace(cohort=np.array([0, 0, 1])),
    )
    due = Due(np.array([0, 1, 2]), np.array([5, 5, 5]), np.array([True, False, False]))
    visits = judged._visits(cast(LastingGround, ground), due, np.array([0, 1, 2]), np.array([7, 7, 8]))
    assert (visits.release.tolist(), visits.cohort.tolist()) == ([5, 5], [0, 1])
    assert visits.certain.tolist() == [True, False]
    assert (visits.people.tolist(), visits.people_any.tolist()) == ([1, 0], [2, 1])
    assert (visits.first[0], visits.last[0], visits.first_any[0], visits.last_any[0]) == (10, 10, 10, 20)
    assert (visits.number.tolist(), visits.least.tolist(), visits.most.tolist()) == ([7, 8], [1, 0], [2, 1])
