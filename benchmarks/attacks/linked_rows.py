"""Linked rows and row counts: what do all rows of one individual tell together?

Stated knowledge: the payload links rows of one individual (a loyalty number, a habit). The attacker takes a linked set
and asks whose it can be: (a) any 2 rows; (b) all rows of the individual, nothing known of row counts; (c) all rows,
known to be complete, and the row count of everybody. ``members`` knows the members of each slot, as the promise
grants; ``boxes`` has the file and the quasi-identifiers only. Publishers: single rows with k members each (row mode, as
row-wise k anywhere); closed classes of k or more individuals without regard for row counts (naive); the product's
closed classes.

Two rows of a class belong to v with odds m_v (m_v - 1), the number of ways to be dealt; all other odds are equal for
all who are members of every slot (and have as many rows, in c). The guess is the likeliest, ties at random.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.attacks.attacked_feed import (
    CLASSES,
    DEMO,
    PEOPLE,
    attacked_policy,
    attacked_windows,
    demo,
    numbered_secret,
)
from benchmarks.attacks.attacked_release import AttackedRelease, class_members
from benchmarks.attacks.box_candidates import in_boxes
from benchmarks.attacks.chance import Tally
from benchmarks.attacks.effort import Effort
from benchmarks.attacks.naive_publishers import classes_without_levels
from benchmarks.result_files import Findings
from kanonflow.schemas.bound_policy import BoundPolicy

K = 5
FEEDS = 6
NO_LEVELS = "classes without levels (naive)"
KNOWLEDGE = ("2 rows", "all rows", "all rows, complete")
COLUMNS = (
    "publisher", "attacker has", "linked", "sets", "candidates, mean", "1%", "below k %", "one left %",
    "guess right", "likeliest", "99.9% high of 1/k", "at most chance", "1/k",
)  # fmt: skip


class Linked(NamedTuple):
    """Rows of one individual in one release. odds: float64 (p,), of each individual, sum 1. who: the true one."""

    odds: NDArray[np.float64]
    who: int


def measure(findings: Findings, effort: Effort) -> dict[str, str]:
    """One table: publisher x attacker x knowledge."""
    table = findings.table(
        "Linked rows of one individual, and known row counts",
        COLUMNS,
        "candidates: individuals with odds above 0. likeliest: mean posterior of the best guess. Row mode promises 1/k"
        " for single rows only; closed classes promise it for every set.",
    )
    for mode in (PEOPLE, CLASSES):
        policy = attacked_policy(DEMO, mode, k=K)
        cases: dict[tuple[str, str, str], list[list[Linked]]] = {}
        for number in range(min(FEEDS, effort.feeds)):
            feed = demo(replace(effort.feed, seed=100 + number), policy)
            for window in attacked_windows(feed, DEMO, numbered_secret(number)):
                if window.release is not None:
                    for case, sets in linked_sets(window.release, feed.bound, mode):
                        cases.setdefault(case, []).append(sets)
        for case in sorted(cases):
            table.rows.append(_row(case, cases[case]))
    return {}


def linked_sets(
    release: AttackedRelease, bound: BoundPolicy, mode: str
) -> Iterator[tuple[tuple[str, str, str], list[Linked]]]:
    """((publisher, attacker, linked), sets) of one release."""
    for linked in KNOWLEDGE:
        yield (mode, "members", linked), _sets(release, _by_members(release), linked, closed=mode == CLASSES)
    if release.file is not None and release.quasi is not None:
        lies_in = in_boxes(release.file, release.quasi, bound)
        by_person = _any_of_person(lies_in, release.people)
        for linked in KNOWLEDGE:
            yield (mode, "boxes", linked), _sets(release, by_person, linked, closed=False)
    if mode == CLASSES:
        labels = classes_without_levels(release.people, release.k)
        order = np.arange(release.people.size)
        naive = AttackedRelease(
            release.k, class_members(labels, labels), release.people, release.arrival, release.own_window,
            release.distances, order, order,
        )  # fmt: skip
        for linked in KNOWLEDGE:
            yield (NO_LEVELS, "members", linked), _sets(naive, _by_members(naive), linked, closed=True)


def _by_members(release: AttackedRelease) -> NDArray[np.bool_]:
    """Whether an individual is a member of the slot of each row, bool (m, p)."""
    found = np.zeros((release.truth.size, int(release.people.max()) + 1), dtype=np.bool_)
    rows, places = np.nonzero(release.valid)
    found[rows, release.people[release.candidates[rows, places]]] = True
    return found


def _any_of_person(lies_in: NDArray[np.bool_], people: NDArray[np.int64]) -> NDArray[np.bool_]:
    """From records to individuals, bool (m, p)."""
    found = np.zeros((lies_in.shape[0], int(people.max()) + 1), dtype=np.bool_)
    rows, records = np.nonzero(lies_in)
    found[rows, people[records]] = True
    return found


def _sets(release: AttackedRelease, member: NDArray[np.bool_], linked: str, *, closed: bool) -> list[Linked]:
    """The sets that the payload links, as many as there are individuals, and the odds of everybody.

    Row counts are those of the released rows: who waits is told by the metrics at most, and to nobody outside.
    """
    owner = release.people[release.truth]
    counts = np.bincount(owner, minlength=member.shape[1])
    rng = np.random.default_rng(3)
    people, pairs = np.unique(owner), counts * (counts - 1.0)
    if linked == KNOWLEDGE[0]:
        # Any two linked rows: a person with many rows has more pairs of them.
        people = rng.choice(counts.size, people.size, p=pairs / pairs.sum()) if pairs.any() else people[:0]
    found = []
    for person in people:
        rows = np.flatnonzero(owner == person)
        if linked == KNOWLEDGE[0]:
            rows = rng.choice(rows, 2, replace=False)
        possible = member[rows].all(axis=0)
        if linked == KNOWLEDGE[2]:
            possible &= counts == rows.size
        odds = possible.astype(np.float64)
        if closed and linked == KNOWLEDGE[0]:
            odds *= counts * (counts - 1.0)
        found.append(Linked(odds / odds.sum(), int(person)))
    return found


def _row(case: tuple[str, str, str], releases: list[list[Linked]]) -> tuple:
    tally = Tally()
    rng = np.random.default_rng(4)
    left, likeliest = [], []
    for sets in releases:
        best = [_guess(each.odds, rng) for each in sets]
        hits = np.array([guess == each.who for guess, each in zip(best, sets, strict=True)], dtype=np.bool_)
        tally.add(hits, np.full(hits.size, 1 / K))
        left += [int((each.odds > 0).sum()) for each in sets]
        likeliest += [float(each.odds.max()) for each in sets]
    candidates = np.array(left)
    high = (tally.interval() or (0.0, 0.0))[1]
    rate = tally.rate or 0.0
    return (
        *case, candidates.size, float(candidates.mean()), float(np.percentile(candidates, 1)),
        100 * float((candidates < K).mean()), 100 * float((candidates == 1).mean()), rate,
        float(np.mean(likeliest)), high, "yes" if rate <= high else "NO", 1 / K,
    )  # fmt: skip


def _guess(odds: NDArray[np.float64], rng: np.random.Generator) -> int:
    return int(rng.choice(np.flatnonzero(odds >= odds.max() * (1 - 1e-12))))
