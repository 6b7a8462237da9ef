"""Classes of a centroid and its k - 1 nearest: the kernel of IKA and NCP clustering, which choose centroids apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.problem.errors import InfeasibleError
from kanonflow.solvers.rivals.class_hulls import (
    ClassHulls,
    add_to_hull,
    clear_hulls,
    empty_hulls,
    joined_ncp,
    joined_share,
)
from kanonflow.solvers.rivals.free_units import keep_free
from kanonflow.solvers.rivals.leftovers import join_nearest
from kanonflow.solvers.units.bits import next_random
from kanonflow.solvers.units.individuals import Individuals


@kernel
def _seeded(
    people: Individuals,
    who: np.ndarray,
    k: int,
    spread: bool,
    random: np.ndarray,
    hull: ClassHulls,
    labels: np.ndarray,
    centroids: np.ndarray,
) -> int:
    """Label classes of k from 0 and write their centroids; returns their number. hull: of one class, scratch.

    spread: the next centroid has the largest distance to its nearest centroid; otherwise it is a random free unit.
    """
    u = labels.size
    free = np.arange(u)
    to_centroids = np.full(u, np.inf)
    chosen = np.empty(k, dtype=np.int64)
    distance = np.empty(k)
    left = u
    classes = 0
    seed = next_random(random, u)
    while left >= k:
        if classes > 0 and not spread:
            seed = free[next_random(random, left)]
        clear_hulls(people, hull)
        add_to_hull(people, hull, 0, seed)
        found = 0
        for index in range(left):
            unit = free[index]
            ncp = joined_ncp(people, hull, 0, unit)
            loss = 1.0 - joined_share(people, hull, 0, unit) * (1.0 - ncp)
            to_centroids[unit] = min(to_centroids[unit], loss)
            if unit == seed or who[unit] == who[seed] or (found == k - 1 and loss >= distance[found - 1]):
                continue
            # Of an individual's units the nearest stands for it.
            slot = found
            for position in range(found):
                if who[chosen[position]] == who[unit]:
                    slot = position
            if slot < found and loss >= distance[slot]:
                continue
            if slot == found:
                if found < k - 1:
                    found += 1
                else:
                    slot -= 1
            while slot > 0 and distance[slot - 1] > loss:
                distance[slot] = distance[slot - 1]
                chosen[slot] = chosen[slot - 1]
                slot -= 1
            distance[slot] = loss
            chosen[slot] = unit
        if found < k - 1:
            # Fewer than k individuals are left: no other centroid fills a class either.
            break
        labels[seed] = classes
        centroids[classes] = seed
        for position in range(found):
            labels[chosen[position]] = classes
        classes += 1
        left, seed = keep_free(free, left, labels, to_centroids)
    return classes


def seeded_labels(
    people: Individuals, who: NDArray[np.int64], k: int, seed: int, *, spread: bool
) -> NDArray[np.int32]:
    """Closed classes of at least k, int32 (u,): centroids with their k - 1 nearest, leftovers to the nearest centroid.

    The distance of two units is the loss a row of the class of both: NCP where each has one row. who: int64 (u,), the
    individual of each unit, codes from 0; no class holds one twice. Ties go to the unit that comes first. Raises
    InfeasibleError when there are fewer than k individuals or a row is left over that no class may take. O(u^2 d / k).
    """
    u = people.rows.size
    labels = np.full(u, -1, dtype=np.int32)
    centroids = np.empty(max(u // k, 1), dtype=np.int64)
    random = np.random.SeedSequence(seed).generate_state(1, np.uint64)
    classes = 0
    if u >= k:
        classes = _seeded(people, who, k, spread, random, empty_hulls(people, 1), labels, centroids)
    if not classes:
        raise InfeasibleError(f"fewer than k={k} individuals")
    join_nearest(people, who, labels, centroids[:classes], np.flatnonzero(labels < 0))
    return labels
