"""Groups of cohorts, as they are published: under frozen boxes, whatever stands in the rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.solvers.structures.structure import Groups


@dataclass(frozen=True)
class FrozenGroups:
    """g groups of c cohorts over n rows.

    corners: the corners of the frozen boxes of these cohorts. cohort_of_corner: int64, ``0 .. c-1``, ascending.
    group_of_cohort: int64 (c,), ``0 .. g-1``.
    cohort_of_row: int64 (n,), ``0 .. c-1``, that of the row's person.
    own_ends: int64 (n,), the end of each row's own window in ms. window_ms: the length of windows.
    class_ids: int64 (g,), opaque numbers of the groups.
    ids, sizes: text (g,) and int64 (g,), of each group over the epoch; None: they are not published.
    members: text (n,), the number of each row's person, which goes out with its payload; None: none does.
    """

    corners: pa.Table
    cohort_of_corner: NDArray[np.int64]
    group_of_cohort: NDArray[np.int64]
    cohort_of_row: NDArray[np.int64]
    own_ends: NDArray[np.int64]
    window_ms: int
    class_ids: NDArray[np.int64]
    members: pa.Array | None = None
    ids: pa.Array | None = None
    sizes: NDArray[np.int64] | None = None

    @cached_property
    def of_row(self) -> NDArray[np.int64]:
        """The group of each row, int64 (n,)."""
        return self.group_of_cohort[self.cohort_of_row]

    @property
    def groups(self) -> Groups:
        """The corners by group; every row carries the hull of its group's corners."""
        group = self.group_of_cohort[self.cohort_of_corner]
        order = np.argsort(group, kind="stable")
        return Groups(order, _starts(group, self.class_ids.size), self.of_row)

    @property
    def cohorts_then_groups(self) -> Groups:
        """The corners by cohort, then once more by group: what both need of their values is made once."""
        cohorts, groups = _starts(self.cohort_of_corner, self.group_of_cohort.size), self.groups
        records = np.concatenate([np.arange(cohorts[-1]), groups.records])
        return Groups(records, np.concatenate([cohorts, cohorts[-1] + groups.starts[1:]]), None)

    def windows(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Start of the oldest and end of the newest window of the rows of each row's group, ms: int64 (n,) each.

        Of the group and not of the release: else one row that waited would widen the time of all others.
        """
        count, group = self.class_ids.size, self.of_row
        first = np.full(count, np.iinfo(np.int64).max)
        last = np.full(count, np.iinfo(np.int64).min)
        np.minimum.at(first, group, self.own_ends)
        np.maximum.at(last, group, self.own_ends)
        return first[group] - self.window_ms, last[group]


def _starts(owner: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Where each owner's part of a sorted whole begins, and where the last one ends, int64 (count + 1,)."""
    starts = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(owner, minlength=count), out=starts[1:])
    return starts
