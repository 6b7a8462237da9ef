"""Peeling: perfect matchings drawn from a regular bipartite graph and removed from it, one after another."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.matching.random_words import Words, scaled

_WORDS_PER_SLOT = 4


@kernel
def _walks(
    left: NDArray,
    degree: int,
    order: NDArray,
    done: int,
    place: NDArray,
    slot_of: NDArray,
    exits: NDArray,
    words: NDArray,
) -> int:
    """Match ``order[done:]`` by random walks until the words run out; returns how many slots are matched now.

    ``left[s, :degree]`` are the records still joined to slot s; ``place[s]`` is the matched one's place (-1:
    none), ``slot_of[r]`` the slot of record r (-1: none). A walk that the words do not finish is dropped, not
    applied.
    """
    used = 0
    total = words.shape[0]
    while done < order.shape[0]:
        start = order[done]
        slot = start
        while True:
            if used == total:
                return done
            word = words[used]
            used += 1
            if place[slot] < 0:
                step = scaled(word, degree)
            else:
                # Not back along the matched edge the walk has just come by.
                step = scaled(word, degree - 1)
                if step >= place[slot]:
                    step += 1
            exits[slot] = step
            following = slot_of[left[slot, step]]
            if following < 0:
                break
            slot = following
        # The last exit of each visited slot spells the walk without its loops: an augmenting path.
        slot = start
        while slot >= 0:
            step = exits[slot]
            record = left[slot, step]
            following = slot_of[record]
            place[slot] = step
            slot_of[record] = slot
            slot = following
        done += 1
    return done


@kernel
def _remove(left: NDArray, degree: int, place: NDArray, factor: NDArray) -> None:
    """Write the matching to ``factor`` and take its edges out of ``left``."""
    for slot in range(left.shape[0]):
        step = place[slot]
        factor[slot] = left[slot, step]
        left[slot, step] = left[slot, degree - 1]


def peel(members: NDArray[np.int32], words: Words) -> NDArray[np.int32]:
    """Split a k-regular simple bipartite graph into k perfect matchings at random.

    members: int32 (n, k), the k records of each slot, every record in exactly k slots.
    Returns factors int32 (k, n): ``factors[f, slot]`` is a record; each edge stands in exactly one factor.

    For each of the k matchings the slots are put into a fresh secret order; each in turn takes a random walk
    that leaves a slot by a uniformly random unmatched edge and returns from a matched record by its matched
    edge, until it meets a free record (Goel, Kapralov and Khanna, "Perfect matchings in O(n log n) time in
    regular bipartite graphs"). No step looks at a number of a record or slot: the law of every matching is
    the same under any relabelling of both sides, which is what drawing secret labels before each matching is
    for.

    Precondition: regular and simple (checked by ``GeneralizationGraph.check``).
    Why: without symmetry the numbering (which the quasi-identifiers decide) would make some
    matchings likelier than others, and one known match would tell on the rest.
    Expected O(k n log n) steps.
    """
    n, k = members.shape
    left = members.copy()
    factors = np.empty((k, n), dtype=np.int32)
    exits = np.zeros(n, dtype=np.int32)
    for f in range(k):
        order = words.permutation(n)
        place = np.full(n, -1, dtype=np.int32)
        slot_of = np.full(n, -1, dtype=np.int32)
        done = 0
        while done < n:
            batch = words.words(_WORDS_PER_SLOT * n + 16 * k)
            done = _walks(left, k - f, order, done, place, slot_of, exits, batch)
        _remove(left, k - f, place, factors[f])
    return factors
