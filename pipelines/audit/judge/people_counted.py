"""Do metrics count the people of each release? Held between two bounds, for a row may be one of several people's.

    most     people with a record that may be in the release
    least    people with a record that can be in no other, and does not wait

Where every record has one release the bounds meet. Matching records, and cohorts that were followed, leave no choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from kanonflow.pipelines.audit.judge.candidate_graph import CandidateGraph
from kanonflow.pipelines.audit.judge.concealment import Concealment, GroupMembers
from kanonflow.pipelines.audit.read.equal_rows import runs
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.read_releases import ReleaseHead


def judge_people(
    heads: Sequence[ReleaseHead],
    metrics: Mapping[str, Mapping[str, Any]],
    bounds: np.ndarray,
    findings: Findings,
) -> int:
    """Note releases whose metrics tell another number of people. bounds: int64 (releases, 2). How many were judged by
    bounds that do not meet."""
    loose = 0
    for head, (least, most) in zip(heads, bounds.tolist(), strict=False):
        told = metrics.get(head.release_id, {}).get("individuals")
        if told is None:
            continue
        loose += least < most
        if not least <= told <= most:
            findings.add("its metrics tell another individuals than the input gives", head.release_id)
    return loose


def people_of_pairs(
    release: np.ndarray, person: np.ndarray, certain: np.ndarray, releases: int
) -> np.ndarray:
    """Least and most people of each release, int64 (releases, 2). release, person, certain: (q,), that a record of the
    person may be, and is for sure, in the release."""
    total = int(person.max(initial=0)) + 1
    keys = release.astype(np.int64) * total + person
    return np.column_stack(
        [np.bincount(np.unique(own) // total, minlength=releases) for own in (keys[certain], keys)]
    )


def people_of_graph(
    graph: CandidateGraph,
    concealment: Concealment,
    members: GroupMembers,
    release: np.ndarray,
    resting: np.ndarray,
    releases: int,
) -> np.ndarray:
    """Least and most people of each release, int64 (releases, 2). release: int32 (b,) of row groups, ascending.
    resting: bool (g,), records that may wait. O(allowed pairs + people in record groups), one release at a time."""
    borders = np.searchsorted(release, np.arange(releases + 1))
    records: list[np.ndarray] = []
    for start, stop in pairwise(borders):
        edges = slice(graph.indptr[start], graph.indptr[stop])
        row = np.repeat(np.arange(start, stop), np.diff(graph.indptr[start : stop + 1]))
        allowed = concealment.row_component[row] == concealment.record_component[graph.columns[edges]]
        records.append(np.unique(graph.columns[edges][allowed]))
    where = np.repeat(np.arange(releases), [len(own) for own in records])
    record = np.concatenate([np.zeros(0, np.int64), *records]).astype(np.int64)
    certain = (np.bincount(record, minlength=len(resting)) == 1) & ~resting
    pair, place = runs(members.indptr[record], members.indptr[record + 1])
    return people_of_pairs(where[pair], members.individual[place], certain[record][pair], releases)
