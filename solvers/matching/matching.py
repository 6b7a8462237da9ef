"""Random 1-factorization of a generalization graph, and the one factor that is published.

    random_factorization(members, words) -> factors (k, n)      k disjoint perfect matchings
    random_factor(members, words)        -> factor (n,)         one of them, uniformly

Peeling (``peeling.py``) draws the k matchings, Kempe rounds (``kempe.py``) mix them, complete components get
matchings of their own here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.matching.components import component_labels
from kanonflow.solvers.matching.kempe import kempe_rounds
from kanonflow.solvers.matching.peeling import peel
from kanonflow.solvers.matching.random_words import Words, shuffle_in_place
from kanonflow.solvers.matching.regular import check_regular


def _kempe_count(k: int) -> int:
    return max(10, 2 * k)


@kernel
def _relabel_components(
    factors: NDArray, component: NDArray, names: NDArray, sizes: NDArray, words: NDArray
) -> None:
    """Per component: permute the names of its k factors; redraw them altogether where it is complete."""
    k, n = factors.shape
    # Entry by entry: numba takes seconds to compile an assignment of one array to another.
    starts = np.zeros(sizes.shape[0] + 1, dtype=np.int64)
    filled = np.zeros(sizes.shape[0], dtype=np.int64)
    for c in range(sizes.shape[0]):
        filled[c] = starts[c]
        starts[c + 1] = starts[c] + sizes[c]
    slots = np.empty(n, dtype=np.int32)
    for slot in range(n):
        c = component[factors[0, slot]]
        slots[filled[c]] = slot
        filled[c] += 1
    column = np.empty(k, dtype=factors.dtype)
    for c in range(sizes.shape[0]):
        here = slots[starts[c] : starts[c + 1]]
        if sizes[c] == k:
            # All k^2 edges exist: one uniform permutation of the records, and its k cyclic shifts.
            for f in range(k):
                column[f] = factors[f, here[0]]
            shuffle_in_place(column, words[c, :k])
            for i in range(k):
                for f in range(k):
                    factors[f, here[i]] = column[(i + f) % k]
        for f in range(k):
            names[f] = f
        shuffle_in_place(names, words[c, k:])
        for slot in here:
            for f in range(k):
                column[f] = factors[names[f], slot]
            for f in range(k):
                factors[f, slot] = column[f]


def random_factorization(members: NDArray[np.int32], words: Words) -> NDArray[np.int32]:
    """k disjoint perfect matchings of a k-regular graph, at random: factors int32 (k, n).

    members: int32 (n, k), the k records of each slot. words: the secret randomness; equal words, equal
    result. ``factors[f, slot]`` is the record that factor f puts on a slot.

    Method: k peeled matchings; max(10, 2k) Kempe rounds; in every component with k slots (a complete one) the
    factors are replaced by the k cyclic shifts of a uniformly random permutation; in every component the
    names of its factors are permuted on their own.

    Precondition: k-regular and simple; StructureError otherwise.
    Postcondition: every edge stands in exactly one factor. On a complete component each single factor is a
    uniformly random permutation. Which factor of a component bears which name is uniform and independent of
    the other components.
    Why: a factorization that somebody can guess, or that never changes, gives a whole component away with one
    known match. Separate names per component keep what is known about one component from telling which of the
    peeled matchings (the first is drawn from more edges than the last) was published in another.
    Expected O(k n log n + k^2 n).
    """
    check_regular(members)
    n, k = members.shape
    if n == 0:
        return np.empty((k, 0), dtype=np.int32)
    component = component_labels(members)
    sizes = np.bincount(component)
    factors = peel(members, words)
    if np.any(sizes > k):
        factors = kempe_rounds(factors, _kempe_count(k), words)
    draws = words.words(2 * k * sizes.size).reshape(sizes.size, 2 * k)
    _relabel_components(factors, component, np.empty(k, dtype=np.int64), sizes, draws)
    return factors


def uniform_below(bound: int, words: Words) -> int:
    """A uniformly random integer of ``0 .. bound-1``, without any bias (some words are skipped)."""
    limit = (1 << 64) // bound * bound
    while True:
        word = int(words.words(1)[0])
        if word < limit:
            return word % bound


def random_factor(members: NDArray[np.int32], words: Words) -> NDArray[np.int32]:
    """The matching to publish, int32 (n,): slot j carries the payload of record ``factor[j]``.

    One factor of a random factorization, drawn uniformly and independently of everything before.

    Precondition: k-regular and simple; StructureError otherwise.
    Postcondition: a perfect matching along edges; every edge is published with probability exactly 1/k over
    the words. Why: an edge lies in exactly one of the k factors, so whatever the factorization is, the draw
    of one factor gives each edge the same chance. (A random perfect matching would not.)
    """
    factors = random_factorization(members, words)
    return factors[uniform_below(factors.shape[0], words)]
