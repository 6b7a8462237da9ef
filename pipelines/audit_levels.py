"""Graphs over individuals (``shape: graph``): can the rows of a release be what the promise needs?

The promise: a release has as many slots as individuals; k individuals are members of each slot, each individual of k
slots; members of a slot have equally many rows in the release; all rows of a slot carry one box, which holds all rows
of each of its members; each individual's rows stand under one of its slots. Which slots there are is not published:
rows of equal boxes may be one slot or several.

**Exact where counts are known.** Call a release *settled* if every record that may stand in it may stand in no other
one. Then individual u has r_u rows there, as many as records. u is a *candidate* of box g if all its rows lie in g, and
R_g are the counts that k candidates of g have. An *explanation* says how many slots x[g, r] of r rows have box g:

    sum over r in R_g of r x[g, r] = rows with box g;     sum over g of x[g, r] = individuals with r rows;
    individuals with r rows can be dealt to candidates' slots, one each:  sum over u with r_u = r of f[u, g] = x[g, r].

A release that keeps the promise has one. For integer x the f are a transportation problem, which has an integer
solution if it has any, so only x must be integer: a small mixed-integer program (``audit_slots``) decides whether an
explanation exists. None: refuted. Given one, let H be the graph of its slots and their candidates of that many rows. An
edge lies in some perfect matching of H iff it is in a given one or its ends are in one strongly connected component of
H oriented along it (``audit_concealment``). If every individual has k such slots and every slot k such individuals,
the release is k-concealing over individuals, all rows of a person taken together: more explanations only add to what an
observer must reckon with. If not, the release is refuted where that explanation is the only one (a k-regular graph
splits into k perfect matchings, so the true explanation would pass); else the bounds below decide.

**Bounds elsewhere.** Where rows may have waited, u has between ``least`` (records that may stand nowhere else) and
``most`` (that may stand here) rows. Only boxes that hold all of the former can be u's, and u can have there any number
of rows from ``least`` to what it has inside. With R_g the counts that k individuals can have there, the rows of g must
be a sum of numbers in R_g, and the most slots that an individual which must be in the release can have, floor(rows of
g / its fewest in R_g) summed over its boxes, must be k at least. That refuses only what no choice could satisfy.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from kanonflow.pipelines.audit_concealment import Concealment, GroupMembers
from kanonflow.pipelines.audit_graph import CandidateGraph, RowGroups
from kanonflow.pipelines.audit_releases import ReleaseHead
from kanonflow.pipelines.audit_report import Findings
from kanonflow.pipelines.audit_slots import Fit, Verdict, explained, shared_counts


@dataclass(frozen=True)
class LevelFaults:
    """What cannot be so. ``unfilled``: row groups (boxes), int64, whose rows are no slots with k members of equal row
    count. ``exposed``: releases, int64, in which an individual has fewer than k slots; ``unmatched``: releases
    in which individuals cannot all stand under slots that hold all of their rows, or thereby fewer than k at some.
    ``shown``: releases for which an explanation was found that conceals everybody."""

    unfilled: np.ndarray
    exposed: np.ndarray
    unmatched: np.ndarray
    shown: int


def check_levels(
    graph: CandidateGraph,
    concealment: Concealment,
    members: GroupMembers,
    release: np.ndarray,
    k: int,
    resting: np.ndarray,
) -> LevelFaults:
    """Check every release; ``release`` int32 (b,) of row groups, ascending; ``resting`` bool (g,): record groups of
    which some may be in no release yet.

    O(allowed pairs x individuals in a record group), one release at a time; memory that of one release's pairs.
    """
    row_of_pair = np.repeat(np.arange(len(release)), np.diff(graph.indptr))
    allowed = concealment.row_component[row_of_pair] == concealment.record_component[graph.columns]
    row_of_pair, record_of_pair = row_of_pair[allowed], graph.columns[allowed]
    homes = _releases_of(record_of_pair, release[row_of_pair], len(graph.record_size)) + resting
    unfilled, exposed, unmatched, shown = [], [], [], 0
    releases, first = np.unique(release[row_of_pair], return_index=True)
    for number, start, stop in zip(releases, first, [*first[1:], len(row_of_pair)], strict=True):
        fit = _fit(row_of_pair[start:stop], record_of_pair[start:stop], members, homes)
        sizes = graph.row_size[fit.boxes]
        verdict = explained(fit, sizes, k) if fit.settled else Verdict.OPEN
        if verdict is Verdict.REFUTED:
            unmatched.append(number)
        shown += verdict is Verdict.SHOWN
        if verdict is not Verdict.OPEN:
            continue
        bad, few = _impossible(fit, sizes, k)
        unfilled += fit.boxes[bad].tolist()
        if few:
            exposed.append(number)
    return LevelFaults(
        np.array(unfilled, np.int64), np.array(exposed, np.int64), np.array(unmatched, np.int64), shown
    )


def _releases_of(record: np.ndarray, release: np.ndarray, records: int) -> np.ndarray:
    """In how many releases each record group may stand, int64 (g,)."""
    pairs = np.unique(np.column_stack([record, release]), axis=0)
    return np.bincount(pairs[:, 0], minlength=records)


def _fit(row: np.ndarray, record: np.ndarray, members: GroupMembers, homes: np.ndarray) -> Fit:
    """The fit of one release from its allowed pairs (row group, record group)."""
    boxes, box = np.unique(row, return_inverse=True)
    records, place = np.unique(record, return_inverse=True)
    length = members.indptr[records + 1] - members.indptr[records]
    entry = np.repeat(members.indptr[records] - (np.cumsum(length) - length), length) + np.arange(
        length.sum()
    )
    people, person = np.unique(members.individual[entry], return_inverse=True)
    count = members.count[entry]
    bound_here = np.repeat(homes[records] == 1, length)
    least = np.bincount(person, np.where(bound_here, count, 0), len(people)).astype(np.int64)
    # Box x record group times record group x person: rows of a person inside a box, in all (the upper half of the
    # number) and of those that are bound to this release (the lower half).
    inside = csr_array((np.ones(len(box), np.int64), (box, place)), shape=(len(boxes), len(records)))
    of = np.repeat(np.arange(len(records)), length)
    both = (count.astype(np.int64) << 32) + np.where(bound_here, count, 0)
    every = (inside @ csr_array((both, (of, person)), shape=(len(records), len(people)))).tocoo()
    whole = every.data & 0xFFFFFFFF == least[every.col]
    person_of = every.col[whole].astype(np.int64)
    return Fit(
        boxes=boxes,
        people=len(people),
        box=every.row[whole].astype(np.int64),
        person=person_of,
        low=np.maximum(least[person_of], 1),
        high=every.data[whole] >> 32,
        settled=bool((homes[records] == 1).all()),
        least=least,
    )


def _impossible(fit: Fit, sizes: np.ndarray, k: int) -> tuple[np.ndarray, bool]:
    """Case 2 and bounds: boxes that k members of equal count cannot fill, bool (b,), and whether somebody who must be
    in the release can have fewer than k slots."""
    order = np.argsort(fit.box, kind="stable")
    begins = np.searchsorted(fit.box[order], np.arange(len(fit.boxes) + 1))
    bad = np.zeros(len(fit.boxes), bool)
    slots = np.zeros(fit.people, np.int64)
    for number, size in enumerate(sizes):
        own = order[begins[number] : begins[number + 1]]
        counts = shared_counts(fit.low[own], fit.high[own], int(size), k)
        bad[number] = not is_sum(int(size), counts)
        # The fewest rows that the person can have here give the most slots.
        at = np.searchsorted(counts, fit.low[own])
        possible = at < len(counts)
        fewest = np.append(counts, 0)[at]
        possible &= fewest <= fit.high[own]
        slots[fit.person[own]] += np.where(possible, size // np.maximum(fewest, 1), 0)
    return bad, bool((slots[fit.least > 0] < k).any())


def judge_levels(
    faults: LevelFaults, rows: RowGroups, k: int, heads: Sequence[ReleaseHead], findings: Findings
) -> None:
    """From what cannot be so to failures."""

    def ids(releases: np.ndarray) -> list[str]:
        return [heads[release].release_id for release in np.unique(releases)]

    if len(faults.unfilled):
        findings.add(
            f"{len(faults.unfilled)} boxes whose rows cannot be those of k = {k} individuals with equally many rows",
            *ids(rows.release[faults.unfilled]),
        )
    if len(faults.exposed):
        findings.add(
            f"an individual has fewer than k = {k} boxes that could hold all of its rows",
            *ids(faults.exposed),
        )
    if len(faults.unmatched):
        findings.add(
            f"individuals cannot stand with all of their rows under one box each, of k = {k} that could be theirs",
            *ids(faults.unmatched),
        )


def is_sum(size: int, counts: np.ndarray) -> bool:
    """Whether ``size`` is a sum of some of the counts, each as often as one likes."""
    reached = np.zeros(size + 1, bool)
    reached[0] = True
    for count in counts.tolist():
        for offset in range(count):
            reached[offset::count] = np.logical_or.accumulate(reached[offset::count])
    return bool(reached[size])
