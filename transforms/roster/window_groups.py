"""The groups of a window: cohorts with rows here, merged until each group has k active people.

What it sees of a window is which cohorts have rows here, how many rows and how many people with rows, and of a
sensitive field with rules the values of each cohort's rows together: exchanging the rows of two people of a cohort
changes no group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.solvers.merging.merging import Merged, MergeTask, merge_cohorts
from kanonflow.solvers.problem.sensitive import Sensitive
from kanonflow.transforms.columns.encode import Encoded, encode
from kanonflow.transforms.kinds.domains import Domains
from kanonflow.transforms.roster.roster import Roster


class LastGroups(NamedTuple):
    """The groups of the last release, for the search of the next.

    cohorts: int64 (c,), that had rows, sorted. groups: int64 (c,), the group of each.
    """

    cohorts: NDArray[np.int64]
    groups: NDArray[np.int64]


def no_groups() -> LastGroups:
    """Before the first release."""
    none = np.empty(0, dtype=np.int64)
    return LastGroups(none, none)


@dataclass(frozen=True)
class WindowGroups:
    """cohorts: int64 (c,), those with rows here, sorted. groups: int64 (c,), of each, ``0 .. g-1``.

    of_row: int64 (n,), the group of each row.
    corners: of the cohorts' boxes. cohort_of_corner: int64, the place of each corner's cohort in ``cohorts``.
    merged: what the search found. encoded: the corners as numbers.
    """

    cohorts: NDArray[np.int64]
    groups: NDArray[np.int64]
    of_row: NDArray[np.int64]
    corners: pa.Table
    cohort_of_corner: NDArray[np.int64]
    merged: Merged
    encoded: Encoded

    @property
    def last(self) -> LastGroups:
        """What the next window begins with."""
        return LastGroups(self.cohorts, self.groups)


def window_groups(
    roster: Roster,
    cohort: NDArray[np.int64],
    person: NDArray[np.int64],
    bound: BoundPolicy,
    domains: Domains,
    last: LastGroups,
    seed: int,
    sensitive: tuple[Sensitive, ...] = (),
) -> WindowGroups:
    """Groups over the rows of a window.

    cohort: int64 (n,), of each row's person. person: int64 (n,), whose each row is.
    domains: of the partition; the boxes lie within them. last: of the release before. seed: of the search.
    sensitive: fields of these rows whose rules each group has to meet.

    Precondition: at least k people. Postcondition: each group has rows of k people; it is made of whole cohorts.
    Raises NotDiverseError: not even all cohorts together meet the rules.
    """
    cohorts, place, rows = np.unique(cohort, return_inverse=True, return_counts=True)
    # Of each person who is here the cohort, which is one.
    own = np.full(int(person.max(initial=-1)) + 1, -1, dtype=np.int64)
    own[person] = place
    active = np.bincount(own[own >= 0], minlength=cohorts.size)
    boxes, owner = roster.boxes(cohorts)
    encoded = encode(boxes, bound, owner, domains)
    task = MergeTask(
        encoded.table,
        rows.astype(np.int64),
        active.astype(np.int64),
        bound.policy.k,
        seed,
        evaluations=None
        if (each := bound.policy.solver.evaluations_per_row) is None
        else int(each * cohort.size),
        warm=_warm(cohorts, last),
        sensitive=sensitive,
        of_row=place if sensitive else None,
    )
    merged = merge_cohorts(task)
    groups = merged.labels.astype(np.int64)
    return WindowGroups(cohorts, groups, groups[place], boxes, owner, merged, encoded)


def _warm(cohorts: NDArray[np.int64], last: LastGroups) -> NDArray[np.int64] | None:
    if last.cohorts.size == 0:
        return None
    at = np.minimum(np.searchsorted(last.cohorts, cohorts), last.cohorts.size - 1)
    return np.where(last.cohorts[at] == cohorts, last.groups[at], -1)
