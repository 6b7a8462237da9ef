"""Kempe rounds: mixing the factors of a 1-factorization by flipping alternating cycles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.matching.random_words import Words, shuffle_in_place


@kernel
def _flip_cycles(first: NDArray, second: NDArray, coins: NDArray, slot_of: NDArray, seen: NDArray) -> None:
    """Exchange two factors on each of their alternating cycles with probability 1/2, in place.

    Bit c of ``coins`` decides cycle c; ``slot_of`` and ``seen`` are scratch of n entries.
    """
    n = first.shape[0]
    for slot in range(n):
        slot_of[second[slot]] = slot
        seen[slot] = 0
    cycle = 0
    for start in range(n):
        if seen[start]:
            continue
        flip = (coins[cycle >> 6] >> np.uint64(cycle & 63)) & np.uint64(1)
        cycle += 1
        slot = start
        while not seen[slot]:
            seen[slot] = 1
            record = first[slot]
            if flip:
                first[slot] = second[slot]
                second[slot] = record
            slot = slot_of[record]


@kernel
def _rounds(factors: NDArray, pairing_words: NDArray, coins: NDArray) -> None:
    """One round for each row of ``pairing_words`` (rounds, k), with ``coins`` (rounds, pairs, words)."""
    k, n = factors.shape
    slot_of = np.empty(n, dtype=np.int32)
    seen = np.empty(n, dtype=np.uint8)
    pairing = np.arange(k)
    for r in range(pairing_words.shape[0]):
        shuffle_in_place(pairing, pairing_words[r])
        for pair in range(k // 2):
            _flip_cycles(
                factors[pairing[2 * pair]], factors[pairing[2 * pair + 1]], coins[r, pair], slot_of, seen
            )


def kempe_rounds(factors: NDArray[np.int32], rounds: int, words: Words) -> NDArray[np.int32]:
    """Mix a 1-factorization; returns a new one of the same graph, int32 (k, n).

    factors: int32 (k, n), ``factors[f, slot]`` a record; pairwise disjoint perfect matchings.
    A round pairs the k factors at random (one stays out when k is odd); the union of a pair falls into
    alternating cycles, and each cycle is flipped with probability 1/2.

    Postcondition: the factors are again disjoint perfect matchings with the same edges in total.
    Why: a flip takes a record's match from one factor to another without touching the rest of the graph, so
    that a known match says little about records outside its cycle. Not sufficient alone: where two factors
    always form one cycle (circulants of prime k) a flip only exchanges their names. O(rounds k n).
    """
    k, n = factors.shape
    mixed = factors.copy()
    if k < 2 or n == 0:
        return mixed
    pairs, coins = k // 2, n // 128 + 1  # a cycle of two disjoint factors has two slots or more
    batch = words.words(rounds * (k + pairs * coins))
    split = rounds * k
    _rounds(mixed, batch[:split].reshape(rounds, k), batch[split:].reshape(rounds, pairs, coins))
    return mixed
