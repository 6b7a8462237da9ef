"""Closed classes of individuals (``protect: individual``): can every class be what the promise needs?

In a release, rows of equal boxes form a class. The promise is that its individuals belong to no other class
of the release, and that every number of rows that one of them has in it is shared by at least k of them:
then no number of rows that a payload links together singles anybody out.

Which individuals a class has is not published. The audit knows bounds: individual u has in class c at most as
many rows as u has records that may stand there, and at least as many as u has records that may stand nowhere
else. Where boxes leave no choice the bounds meet and the check is exact; elsewhere it refuses only what no
assignment of individuals could satisfy.
"""

from dataclasses import dataclass

import numpy as np

from kanonflow.pipelines.audit.judge.candidate_graph import CandidateGraph
from kanonflow.pipelines.audit.judge.concealment import Concealment, GroupMembers
from kanonflow.pipelines.audit.read.equal_rows import runs


@dataclass(frozen=True)
class ClassFaults:
    """Row groups (classes) at fault, int64 each. ``unshared``: an individual must have a number of rows in
    the class that fewer than k can have. ``unfilled``: the class's number of rows is no sum of numbers that
    k share. ``scattered``: releases in which an individual must have rows in several classes."""

    unshared: np.ndarray
    unfilled: np.ndarray
    scattered: np.ndarray


def check_classes(
    graph: CandidateGraph,
    concealment: Concealment,
    members: GroupMembers,
    release: np.ndarray,
    k: int,
    resting: np.ndarray,
) -> ClassFaults:
    """Check every class of every release; ``release`` int32 (b,) of row groups, ascending; ``resting`` bool (g,):
    record groups of which some may be in no release yet.

    O(allowed pairs x individuals in a record group), one release at a time.
    """
    row_of_pair = np.repeat(np.arange(len(release)), np.diff(graph.indptr))
    allowed = concealment.row_component[row_of_pair] == concealment.record_component[graph.columns]
    row_of_pair, record_of_pair = row_of_pair[allowed], graph.columns[allowed]
    choices = np.bincount(record_of_pair, minlength=len(graph.record_size)) + resting
    unshared, unfilled, scattered = [], [], []
    releases, first = np.unique(release[row_of_pair], return_index=True)
    for number, start, stop in zip(releases, first, [*first[1:], len(row_of_pair)], strict=True):
        records = record_of_pair[start:stop]
        taken, entry = runs(members.indptr[records], members.indptr[records + 1])
        row, individual = row_of_pair[start:stop][taken], members.individual[entry]
        count = members.count[entry]
        pairs, place = np.unique(np.column_stack([row, individual]), axis=0, return_inverse=True)
        most = np.bincount(place, weights=count).astype(np.int64)
        bound_to = np.where(choices[records[taken]] == 1, count, 0)
        least = np.bincount(place, weights=bound_to).astype(np.int64)
        if (np.bincount(pairs[least > 0, 1]) > 1).any():
            scattered.append(number)
        classes, begin = np.unique(pairs[:, 0], return_index=True)
        for group, low, high in zip(classes, begin, [*begin[1:], len(pairs)], strict=True):
            shared, filled = can_be_shared(least[low:high], most[low:high], int(graph.row_size[group]), k)
            if not shared:
                unshared.append(group)
            elif not filled:
                unfilled.append(group)
    return ClassFaults(*(np.array(found, np.int64) for found in (unshared, unfilled, scattered)))


def can_be_shared(least: np.ndarray, most: np.ndarray, rows: int, k: int) -> tuple[bool, bool]:
    """Whether individuals with ``least`` <= rows <= ``most`` can fill a class, each number shared by k.

    A number v of rows is shareable iff least <= v <= most for at least k individuals. Returns whether all who
    must have rows (least > 0) can have a shareable number, and whether shareable numbers (0 for who need not
    have rows) can sum up to ``rows``, as far as smallest and largest sum tell. int64 (u,) each; O(u log u).
    """
    most = np.minimum(most, rows)
    top = int(most.max(initial=0))
    change = np.zeros(top + 2, np.int64)
    able = most >= np.maximum(least, 1)
    np.add.at(change, np.maximum(least[able], 1), 1)
    np.add.at(change, most[able] + 1, -1)
    values = np.flatnonzero(np.cumsum(change) >= k)
    values = values[values > 0]
    below = np.searchsorted(values, most, side="right")
    above = np.searchsorted(values, least, side="left")
    has_one = below > above
    if not has_one[least > 0].all():
        return False, False
    padded = np.append(values, 0)
    largest = np.where(has_one, padded[below - 1], 0)
    smallest = np.where(least > 0, padded[above], 0)
    return True, bool(smallest.sum() <= rows <= largest.sum())
