"""Corners: the few rows whose hull is the hull of all members."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.solvers.structures.structure import Groups
from kanonflow.transforms.columns.sort_keys import whole
from kanonflow.transforms.publishing.boxes import box_columns, hull_boxes
from kanonflow.transforms.roster.corners import COHORT, corners
from tests.mixed_people import mixed_bound, mixed_values


def boxes(table: pa.Table, owner: np.ndarray, bound: BoundPolicy) -> dict[str, pa.Array]:
    """Hulls of groups of rows, by published name."""
    order = np.argsort(owner, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(owner))]).astype(np.int64)
    return box_columns(
        hull_boxes(table.take(pa.array(order)), bound, Groups(np.arange(owner.size), starts, None))
    )


@pytest.mark.parametrize("seed", range(20))
def test_corners_have_the_hull_of_all_members(seed: int) -> None:
    """Numbers, dates, sets and hierarchies, with nulls and ties; and of ranges no more than three values a cohort."""
    rng = np.random.default_rng(seed)
    bound = mixed_bound()
    values = mixed_values(60, rng)
    cohort = np.concatenate([np.arange(9), rng.integers(0, 9, 51)])
    table = corners(values, cohort, bound)
    owner = np.asarray(table.column(COHORT))
    assert np.all(np.diff(owner) >= 0)
    assert boxes(table, owner, bound) == boxes(values, cohort, bound)
    for column in bound.quasis:
        if column.kind is not None:
            held = whole(table.column(column.name))
            for number in range(9):
                mine = held.filter(pa.array(owner == number))
                assert len(mine.unique()) <= 3
    mixed = rng.permutation(60)
    again = corners(values.take(pa.array(mixed)), cohort[mixed], bound)
    assert again.equals(table), "the order of the members has no say"


def test_a_corner_row_is_no_more_than_a_field_needs() -> None:
    """Cohorts of equal people have one corner."""
    bound = mixed_bound()
    values = mixed_values(1, np.random.default_rng(1)).take(pa.array([0] * 8))
    assert corners(values, np.array([0, 0, 0, 0, 1, 1, 1, 1]), bound).num_rows == 2
