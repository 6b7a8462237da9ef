"""What the metrics tell of cohorts that last: who is known, who waits, what was merged, what candidates are left."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.schemas.avro_schema import epoch_text
from kanonflow.schemas.readers import one_purchase
from kanonflow.solvers.structures.structure import Groups
from kanonflow.transforms.columns.encode import extents
from kanonflow.transforms.columns.sort_keys import whole
from kanonflow.transforms.release.boxes import field_ncp, gcp, hull_boxes
from kanonflow.transforms.release.candidates_left import CohortRows, candidates_left
from kanonflow.transforms.release.due import Due
from kanonflow.transforms.release.metrics import histogram
from kanonflow.transforms.release.stages import Answer, Publication
from kanonflow.transforms.roster.founding import Founded
from kanonflow.transforms.roster.pool import Pool
from kanonflow.transforms.roster.roster import Roster
from kanonflow.transforms.roster.roster_state import RosterState
from kanonflow.transforms.roster.window_groups import WindowGroups


def lasting_metrics(
    due: Due,
    roster: Roster,
    state: RosterState,
    answer: Answer | None = None,
    publication: Publication | None = None,
    groups: WindowGroups | None = None,
    founded: Founded | None = None,
    newcomers: Pool | None = None,
) -> dict[str, Any]:
    """The fields of metrics.avsc that only ``cohort: lasting`` has.

    roster, state: as the window leaves them. answer, publication, groups: of a release that went out.
    founded: of an intake with it. newcomers: the pool that entered.
    """
    told: dict[str, Any] = {
        "epoch": epoch_text(roster.head.epoch),
        "cohorts": roster.head.cohorts,
        "people_known": roster.head.people,
        "pool": int(state.pool.people.size),
    }
    if answer is None or publication is None or groups is None or answer.frozen is None:
        return told
    entered = founded.segment if founded is not None else None
    sizes = roster.members[groups.cohorts]
    presence = presence_of(answer, groups)
    return told | {
        "people_entered": 0 if entered is None else int(entered.people.size),
        "changed_before_entry": 0 if newcomers is None else int(newcomers.changed.sum()),
        "groups_merged": groups.merged.groups_merged,
        "groups_kept": groups.merged.groups_kept if groups.merged.warm_loss is not None else None,
        "epoch_candidates": {
            "minimum": int(sizes.min()),
            "mean": float(np.average(sizes, weights=presence.active)),
        },
        "candidates_of_people": histogram(sizes, presence.active),
        "activity_candidates": activity_candidates(presence.active, due.policy.k),
        "purchase_candidates": purchase_candidates(answer, due),
        "rows_over_share": rows_over_share(presence, due.policy.k),
        "gcp_newcomers": None
        if entered is None
        else _newcomers_gcp(due, answer, publication, groups, roster),
        "outdated_values": outdated_values(due, answer),
    }


class Presence(NamedTuple):
    """Who has rows in a release. People and cohorts are those with rows here, in the order of their numbers.

    active: int64 (c,), people of each cohort. rows: int64 (p,), of each person. in_all: int64 (p,), of its group.
    """

    active: NDArray[np.int64]
    rows: NDArray[np.int64]
    in_all: NDArray[np.int64]


def presence_of(answer: Answer, groups: WindowGroups) -> Presence:
    """Counts by person, cohort and group. O(n + people): a person has one cohort, and a cohort one group."""
    frozen, of_row = answer.frozen, answer.people.of_row
    assert frozen is not None
    assert of_row is not None
    rows = np.bincount(of_row)
    cohort_of = np.zeros(rows.size, dtype=np.int64)
    cohort_of[of_row] = frozen.cohort_of_row
    here = rows > 0
    cohorts = cohort_of[here]
    sizes = np.bincount(groups.of_row)
    return Presence(
        np.bincount(cohorts, minlength=groups.cohorts.size), rows[here], sizes[groups.groups[cohorts]]
    )


def activity_candidates(active: NDArray[np.int64], k: int) -> dict[str, Any]:
    """With how many others of its cohort each person released is here; active: int64 (c,), at least 1 each.

    Whole numbers up to the last division, so that nothing hangs on an order.
    """
    people = int(active.sum())
    return {
        "minimum": int(active.min()),
        "mean": int((active * active).sum()) / people,
        "below_k": int(active[active < k].sum()) / people,
    }


def purchase_candidates(answer: Answer, due: Due) -> dict[str, Any] | None:
    """Whom ``readers.one_purchase`` leaves, of each released row; None: the policy publishes no payload.

    The window that he knows is the release: rows that waited stand in it with the others. O(n log n).
    """
    frozen, of_row = answer.frozen, answer.people.of_row
    reader = one_purchase(due.bound)
    assert frozen is not None
    assert of_row is not None
    if reader is None:
        return None
    people, person = np.unique(of_row, return_inverse=True)
    cohort = np.zeros(people.size, dtype=np.int64)
    cohort[person] = frozen.cohort_of_row
    rows = CohortRows(cohort, person.astype(np.int64), np.zeros(person.size, dtype=np.int64), answer.rows)
    left = candidates_left(reader, rows)
    assert left is not None
    return {
        "reader": reader.name,
        "minimum": int(left.left.min()),
        "mean": float(left.left.mean()),
        "below_k": float((left.left < due.policy.k).mean()),
        "alone": left.cases_alone,
    }


def rows_over_share(presence: Presence, k: int) -> int:
    """How many rows belong to people who have more than 1 / k of the rows of their group."""
    return int(presence.rows[presence.rows * k > presence.in_all].sum())


def _newcomers_gcp(
    due: Due, answer: Answer, publication: Publication, groups: WindowGroups, roster: Roster
) -> float | None:
    """GCP as published of the rows of people who entered with this release."""
    frozen = answer.frozen
    assert frozen is not None
    new = roster.generation[groups.cohorts] == roster.head.segments - 1
    rows = np.flatnonzero(new[frozen.cohort_of_row])
    if rows.size == 0:
        return None
    boxes = publication.published.boxes
    assert boxes.of_row is not None
    chosen = type(boxes)(boxes.fields, boxes.of_row[rows])
    return gcp(field_ncp(chosen, extents(answer.encoded.domains)), due.bound)


def outdated_values(due: Due, answer: Answer) -> dict[str, int]:
    """Of each field, how many released rows have a value outside of their cohort's frozen box. O(n d)."""
    frozen = answer.frozen
    assert frozen is not None
    counts = np.bincount(frozen.cohort_of_corner, minlength=frozen.group_of_cohort.size)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    boxes = hull_boxes(frozen.corners, due.bound, Groups(np.arange(starts[-1]), starts, None))
    outside = {}
    for field in boxes.fields:
        values = whole(answer.rows.column(field.column.name))
        # A value that is missing or could not be read is not one that has changed.
        outside[field.column.name] = int(
            (~field.holds(values, frozen.cohort_of_row) & np.asarray(values.is_valid())).sum()
        )
    return outside
