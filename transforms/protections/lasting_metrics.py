"""What the metrics tell of cohorts that last: who is known, who waits, what was merged, what candidates are left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.avro_schema import epoch_text
from kanonflow.schemas.kinds.form import present
from kanonflow.schemas.readers import one_purchase
from kanonflow.solvers.loss.sil import sil
from kanonflow.solvers.structures.partition import Partition
from kanonflow.transforms.columns.encode import encode, extents
from kanonflow.transforms.columns.sort_keys import whole
from kanonflow.transforms.protections.intake import Entered
from kanonflow.transforms.protections.sensitive_values import single_rules
from kanonflow.transforms.publishing.boxes import Boxes, field_ncp, gcp
from kanonflow.transforms.publishing.frozen_groups import FrozenGroups
from kanonflow.transforms.release.candidates_left import CohortRows, candidates_left
from kanonflow.transforms.release.due import Due
from kanonflow.transforms.release.metrics import histogram
from kanonflow.transforms.release.stages import Publication
from kanonflow.transforms.roster.known_left import KnownLeft
from kanonflow.transforms.roster.roster import Roster
from kanonflow.transforms.roster.roster_state import RosterState
from kanonflow.transforms.roster.values_out import ValuesOut
from kanonflow.transforms.roster.window_groups import WindowGroups


class GroupedRows(NamedTuple):
    """Rows of a window that are grouped: n canonical rows. person: int64 (n,), whose each is."""

    rows: pa.Table
    person: NDArray[np.int64]
    groups: WindowGroups
    frozen: FrozenGroups


def roster_metrics(due: Due, roster: Roster, state: RosterState) -> dict[str, Any]:
    """The fields of metrics.avsc that every window of cohorts that last has. roster, state: as it leaves them."""
    against, followed = due.policy.against, due.policy.followed_by
    return {
        "epoch": epoch_text(roster.head.epoch),
        "against": None if against is None else against.in_a_line(due.policy.k),
        **{key: each.words for key, each in followed.items()},
        "values": due.policy.values_told,
        "cohorts": roster.head.cohorts,
        "people_known": roster.head.people,
        "pool": int(state.pool.people.size),
        "epoch_diversity": epoch_diversity(due, roster, state.values),
        "epoch_against": epoch_against(due, state.left),
    }


def epoch_against(due: Due, left: KnownLeft | None) -> dict[str, Any] | None:
    """Of all people with rows out those who are left with fewer than k to who is measured; None: nobody is counted."""
    reader = None if due.policy.against is None else due.policy.against.counted
    if left is None or reader is None:
        return None
    below, people, at_least = left.count
    return {"reader": reader.name, "below_k": below, "people": people, "at_least": at_least}


def values_after(due: Due, made: GroupedRows, before: ValuesOut) -> ValuesOut:
    """What is out of sensitive fields with rules once these rows are. O(n log n)."""
    cohort = made.groups.cohorts[made.frozen.cohort_of_row]
    return before.followed_by(cohort, made.rows, due.policy.counted)


def epoch_diversity(due: Due, roster: Roster, values: ValuesOut) -> dict[str, dict[str, int]]:
    """By rule, the cohorts and people whose rows that are out of the epoch do not meet it."""
    by_rule = {}
    for each in due.policy.counted:
        for name, rule in single_rules(each):
            if each.name in values.of:
                cohorts, counted = values.failing(each, rule)
                by_rule[f"{each.name}.{name}"] = {
                    "cohorts": int(cohorts.size),
                    "people": int(roster.members[cohorts].sum()),
                    "people_counted": int(roster.members[counted].sum()),
                }
    return by_rule


def window_metrics(due: Due, entered: Entered, made: GroupedRows, publication: Publication) -> dict[str, Any]:
    """Those of a release that went out."""
    roster, merged, segment = entered.out.roster, made.groups.merged, entered.segment
    sizes = roster.members[made.groups.cohorts]
    presence = presence_of(made)
    return {
        "people_entered": 0 if segment is None else int(segment.people.size),
        "changed_before_entry": 0 if segment is None else int(entered.taken.changed.sum()),
        "groups_merged": merged.groups_merged,
        "loss_without_rules": merged.plain_loss,
        "groups_kept": merged.groups_kept if merged.warm_loss is not None else None,
        "epoch_candidates": {
            "minimum": int(sizes.min()),
            "mean": float(np.average(sizes, weights=presence.active)),
        },
        "candidates_of_people": histogram(sizes, presence.active),
        "activity_candidates": activity_candidates(presence.active, due.policy.k),
        "purchase_candidates": purchase_candidates(made, due),
        "rows_over_share": rows_over_share(presence, due.policy.k),
        "gcp_newcomers": None if segment is None else _newcomers_gcp(due, made, publication, roster),
        "outdated_values": outdated_values(made, publication.published.cohorts),
        # A pass over all rows, for whom asked for it.
        "sil": rows_sil(made, due, entered) if due.policy.solver.loss == "sil" else None,
    }


def rows_sil(made: GroupedRows, due: Due, entered: Entered) -> float:
    """SIL of the rows' own values in the groups that they went out in. O(n d log n)."""
    table = encode(made.rows, due.bound, None, entered.out.domains).table
    return sil(table, Partition(made.groups.of_row.astype(np.int32)))


class Presence(NamedTuple):
    """Who has rows in a release. People and cohorts are those with rows here, in the order of their numbers.

    active: int64 (c,), people of each cohort. rows: int64 (p,), of each person. in_all: int64 (p,), of its group.
    """

    active: NDArray[np.int64]
    rows: NDArray[np.int64]
    in_all: NDArray[np.int64]


def presence_of(made: GroupedRows) -> Presence:
    """Counts by person, cohort and group. O(n + people): a person has one cohort, and a cohort one group."""
    groups = made.groups
    rows = np.bincount(made.person)
    cohort_of = np.zeros(rows.size, dtype=np.int64)
    cohort_of[made.person] = made.frozen.cohort_of_row
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


def purchase_candidates(made: GroupedRows, due: Due) -> dict[str, Any] | None:
    """Whom ``readers.one_purchase`` leaves, of each released row; None: the policy publishes no payload.

    The window that he knows is the release: rows that waited stand in it with the others. O(n log n).
    """
    reader = one_purchase(due.bound)
    if reader is None:
        return None
    person = made.person
    cohort = np.full(int(person.max()) + 1, -1, dtype=np.int64)
    cohort[person] = made.frozen.cohort_of_row
    rows = CohortRows(cohort, person, np.zeros(person.size, dtype=np.int64), made.rows)
    left = candidates_left(reader, rows)
    return (
        None
        if left is None
        else {
            "reader": reader.name,
            "minimum": int(left.left.min()),
            "mean": float(left.left.mean()),
            "below_k": float((left.left < due.policy.k).mean()),
            "alone": left.cases_alone,
        }
    )


def rows_over_share(presence: Presence, k: int) -> int:
    """How many rows belong to people who have more than 1 / k of the rows of their group."""
    return int(presence.rows[presence.rows * k > presence.in_all].sum())


def _newcomers_gcp(due: Due, made: GroupedRows, publication: Publication, roster: Roster) -> float | None:
    """GCP as published of the rows of people who entered with this release."""
    new = roster.generation[made.groups.cohorts] == roster.head.segments - 1
    rows = np.flatnonzero(new[made.frozen.cohort_of_row])
    if rows.size == 0:
        return None
    # All rows of a group carry its box.
    chosen = replace(publication.published.boxes, of_row=made.frozen.of_row[rows])
    return gcp(field_ncp(chosen, extents(made.groups.encoded.domains, due.bound)), due.bound)


def outdated_values(made: GroupedRows, cohorts: Boxes | None) -> dict[str, int]:
    """Of each field, how many released rows have a value outside of their cohort's frozen box. cohorts: these boxes.
    O(n d)."""
    outside = {}
    for field in () if cohorts is None else cohorts.fields:
        values = whole(made.rows.column(field.column.name))
        # A value that is missing or could not be read is not one that has changed.
        within = field.holds(values, made.frozen.cohort_of_row)
        outside[field.column.name] = int((~within & present(values)).sum())
    return outside
