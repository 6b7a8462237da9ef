"""k-member: each class opens with the unit furthest from the last seed and takes the cheapest (Byun et al. 2007).

A class only gets dearer as it grows, so what a unit would have cost the smaller class bounds what it costs now: most
units are passed over by that bound. The losses are those of a full scan; the first of equals is taken.
"""

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
from kanonflow.solvers.rivals.leftovers import join_cheapest
from kanonflow.solvers.units.individuals import Individuals


@kernel
def _k_member(
    people: Individuals, who: np.ndarray, k: int, seed: int, hull: ClassHulls, labels: np.ndarray
) -> int:
    """Label classes of k from 0; the rest keeps -1. hull: of one class. Returns the number of classes."""
    u = labels.size
    free = np.arange(u)
    least_ncp = np.empty(u)
    from_seed = np.empty(u)
    holder = np.full(u, -1, dtype=np.int64)
    members = np.empty(k, dtype=np.int64)
    left = u
    classes = 0
    pick = seed
    while left >= k:
        clear_hulls(people, hull)
        for size in range(k):
            members[size] = pick
            labels[pick] = classes
            holder[who[pick]] = classes
            add_to_hull(people, hull, 0, pick)
            opening = size == 0
            best = np.inf
            pick = -1
            for index in range(left if size + 1 < k else 0):
                unit = free[index]
                if labels[unit] >= 0:
                    continue
                ncp = joined_ncp(people, hull, 0, unit) if opening else least_ncp[unit]
                share = joined_share(people, hull, 0, unit)
                loss = 1.0 - share * (1.0 - ncp)
                if opening:
                    least_ncp[unit] = ncp
                    from_seed[unit] = loss
                if loss >= best or holder[who[unit]] == classes:
                    continue
                if not opening:
                    least_ncp[unit] = joined_ncp(people, hull, 0, unit)
                    loss = 1.0 - share * (1.0 - least_ncp[unit])
                if loss < best:
                    best = loss
                    pick = unit
            if pick < 0:
                break
        if hull.counts[0, 0] < k:
            # Fewer than k individuals are left: no other seed fills a class either.
            for position in range(hull.counts[0, 0]):
                labels[members[position]] = -1
            break
        classes += 1
        left, pick = keep_free(free, left, labels, from_seed)
    return classes


def k_member_labels(people: Individuals, who: NDArray[np.int64], k: int, seed: int) -> NDArray[np.int32]:
    """Closed classes of at least k, int32 (u,).

    who: int64 (u,), the individual of each unit, codes from 0; no class holds one twice. The first seed is random, each
    next one the free unit furthest (by the loss of a class of two) from the last seed; k - 1 times the unit joins that
    makes the least loss a row. Leftovers join the class that grows least, or wait (-1) where they have several rows and
    cost more than those. Raises InfeasibleError when there are fewer than k individuals or a row is left over that no
    class may take. O(u^2 d / k + u^2). Source: Byun et al. 2007, k-member; S0, section 3.
    """
    u = people.rows.size
    labels = np.full(u, -1, dtype=np.int32)
    first = int(np.random.default_rng(seed).integers(u)) if u else 0
    if not _k_member(people, who, k, first, empty_hulls(people, 1), labels):
        raise InfeasibleError(f"fewer than k={k} individuals")
    join_cheapest(people, who, labels, np.flatnonzero(labels < 0))
    return labels
