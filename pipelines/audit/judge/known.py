"""What is left of the concealment when somebody knows some matches (``verify --known C``).

C records are taken out together with rows that they may be: pairs of the matching that the audit has found, drawn at
random, for which of all perfect matchings is the true one the audit does not know. What remains has a perfect matching
still, and the rest of this is judged again: how few rows a record may be now, and how few individuals are behind a row.
It is a figure, not a failure: no release with k = 5 keeps 5 candidates for everybody once somebody's row is known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kanonflow.pipelines.audit.judge.candidate_graph import CandidateGraph
from kanonflow.pipelines.audit.judge.concealment import GroupMembers, conceal
from kanonflow.pipelines.audit.judge.matching import Placement


@dataclass(frozen=True)
class Left:
    """Fewest rows that a record may still be; fewest individuals (records, if there are none) behind a row; share of
    the rows that have fewer than k of them. Zeros when nothing is left."""

    rows_of_record: int
    behind_row: int
    below_k: float


def left_after(
    graph: CandidateGraph,
    placement: Placement,
    members: GroupMembers,
    window: np.ndarray,
    known: int,
    k: int,
    seed: int = 1,
) -> Left:
    """Concealment after ``known`` matches of the perfect ``placement``, or all of them if there are fewer.

    The cost of ``conceal``, once.
    """
    random = np.random.default_rng(seed)
    total = int(placement.flow.sum())
    drawn = random.choice(total, min(known, total), replace=False)
    pair = np.searchsorted(np.cumsum(placement.flow), drawn, side="right")
    taken = np.bincount(pair, minlength=len(placement.flow)).astype(np.int64)
    stays = placement.flow > taken
    rest = replace(
        placement,
        flow_row=placement.flow_row[stays],
        flow_record=placement.flow_record[stays],
        flow=(placement.flow - taken)[stays],
    )
    smaller = replace(
        graph,
        row_size=graph.row_size - np.bincount(placement.flow_row[pair], minlength=len(graph.row_size)),
        record_size=graph.record_size
        - np.bincount(placement.flow_record[pair], minlength=len(graph.record_size)),
    )
    people = _without(members, placement.flow_record[pair], random) if len(members.individual) else members
    concealment = conceal(smaller, rest, people, window)
    records, rows = smaller.record_size > 0, smaller.row_size > 0
    if not rows.any():
        return Left(0, 0, 0.0)
    behind = concealment.individuals_of_row if len(members.individual) else concealment.records_of_row
    return Left(
        rows_of_record=int(concealment.rows_of_record[records].min()),
        behind_row=int(behind[rows].min()),
        below_k=float(np.average(behind[rows] < k, weights=smaller.row_size[rows])),
    )


def _without(members: GroupMembers, groups: np.ndarray, random: np.random.Generator) -> GroupMembers:
    """Members after one record of each of ``groups`` (with repetitions) is gone, drawn from the group's records."""
    count = members.count.copy()
    for group in groups.tolist():
        entries = slice(members.indptr[group], members.indptr[group + 1])
        weights = count[entries]
        count[entries.start + random.choice(len(weights), p=weights / weights.sum())] -= 1
    stays = count > 0
    owner = np.repeat(np.arange(len(members.indptr) - 1), np.diff(members.indptr))[stays]
    indptr = np.searchsorted(owner, np.arange(len(members.indptr))).astype(np.int64)
    return GroupMembers(indptr, members.individual[stays], count[stays])
