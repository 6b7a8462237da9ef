"""Did those who were known from the start enter as such? They stand among the rows as one long before all others.

values     what the file of people has is the frozen value, a null as well, whatever rows say
apart      no cohort has people who were seen and people who were known from the start
first      they entered with the first release of their partition
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kanonflow.pipelines.audit.lasting.entries import EXPECTED_MS, InputRows
from kanonflow.pipelines.audit.lasting.rosters import Rosters
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.read_releases import ReleaseHead, release_ends, release_ids
from kanonflow.schemas.policy import Policy

MOST_PLACES = 2**20
_NEVER = np.iinfo(np.int64).max


def are_expected(rows: InputRows) -> np.ndarray:
    """Which rows stand for somebody who was known from the start, bool (n,)."""
    return (rows.end >= EXPECTED_MS) & (rows.end < EXPECTED_MS + MOST_PLACES)


def entered_as_expected(
    rows: InputRows, person: np.ndarray, rosters: Rosters, heads: Sequence[ReleaseHead]
) -> np.ndarray:
    """Which of these rows are of somebody who entered with the run that expected him, bool (n,)."""
    place = np.array([head.place for head in heads], np.int64)
    entered = are_expected(rows) & (person >= 0)
    entered[entered] &= place[rosters.entered[person[entered]]] == rows.end[entered] - EXPECTED_MS
    return entered


def are_too_few(
    rows: InputRows, person: np.ndarray, rosters: Rosters, heads: Sequence[ReleaseHead], policy: Policy
) -> np.ndarray:
    """Which of these rows count for nothing, bool (n,): fewer than a cohort of a partition were new to their run, and
    are known by their rows as others are."""
    few = are_expected(rows)
    its = np.flatnonzero(few)
    new = (person[its] < 0) | entered_as_expected(rows, person, rosters, heads)[its]
    of_run = np.column_stack([rows.partition[its], rows.end[its]])
    group = np.unique(of_run, axis=0, return_inverse=True)[1].ravel()
    many = np.bincount(group, weights=new) >= (policy.cohort_size or policy.k)
    few[its] = ~many[group]
    return few


def judge_expected_entries(
    rows: InputRows,
    person: np.ndarray,
    rosters: Rosters,
    heads: Sequence[ReleaseHead],
    partition_of: Sequence[int],
    fields: Sequence[str],
    findings: Findings,
) -> None:
    """Of one run. Without those who are ``are_too_few``. fields: names of the quasi-identifiers."""
    named = entered_as_expected(rows, person, rosters, heads)
    who, values = person[named], rows.values[named]
    for place, name in enumerate(fields):
        other = ~rosters.forgotten[who] & (rosters.values[who, place] != values[:, place])
        if other.any():
            findings.add(
                f"field {name}: {int(other.sum())} people have another frozen value than the file of people says",
                *release_ids(heads, np.unique(rosters.entered[who[other]])),
            )
    early = np.zeros(len(rosters.person), bool)
    early[who] = True
    count = np.bincount(rosters.cohort, weights=early, minlength=len(rosters.members))
    mixed = (count > 0) & (count < rosters.members)
    if mixed.any():
        findings.add(
            f"{int(mixed.sum())} cohorts have people who were seen and people who were known from the start",
            *release_ids(heads, np.unique(rosters.cohort_entered[mixed])),
        )
    _judge_first(rows, person, rosters, heads, partition_of, findings)


def _judge_first(
    rows: InputRows,
    person: np.ndarray,
    rosters: Rosters,
    heads: Sequence[ReleaseHead],
    partition_of: Sequence[int],
    findings: Findings,
) -> None:
    ends, own = release_ends(heads), np.array(partition_of, np.int64)
    # Of releases of the run itself; those of earlier ones stand before all others.
    here = (own >= 0) & (ends > EXPECTED_MS + MOST_PLACES)
    first: dict[int, int] = {}
    for number, end in zip(own[here].tolist(), ends[here].tolist(), strict=True):
        first[number] = min(end, first.get(number, end))
    expected = np.flatnonzero(are_expected(rows))
    at = np.full(len(expected), _NEVER)
    entered = person[expected] >= 0
    at[entered] = ends[rosters.entered[person[expected[entered]]]]
    due = np.array([first.get(number, _NEVER) for number in rows.partition[expected].tolist()], np.int64)
    late = int((at > due).sum())
    if late:
        findings.add(f"{late} people who were known from the start did not enter with the first release")
