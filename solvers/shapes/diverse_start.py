"""What the search under rules for sensitive values needs besides the search: starts, neighbours, shares.

l-greedy knows hulls only, so some of its classes break the rules. Such a class is joined to one of its neighbours
along the tour until the union meets them; the search splits what became too large. Where near individuals have the
same value, that does not help; so stretches of the tour are also dealt out by value, and the cheapest start is taken.
For the same reason everybody has some nearest individuals of other values among the neighbours.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.partition_search.group_loss import room_for, total_loss
from kanonflow.solvers.partition_search.groups import build_classes
from kanonflow.solvers.partition_search.rules import HOME, ValueRules, forget, meets
from kanonflow.solvers.shapes.diverse_repair import exchanged_until_diverse
from kanonflow.solvers.starts.class_greedy import class_greedy_labels
from kanonflow.solvers.units.individuals import Individuals, keep_nearest, pair_class_loss

# Individuals of a stretch that is dealt out by value, in multiples of k; the whole tour is tried as well.
_STRETCHES = (16, 64)
# Places along the tour in which a class that breaks a rule first seeks somebody to exchange.
_REACH = 6000


@kernel
def _meets(people: Individuals, rules: ValueRules, units: np.ndarray, after: np.ndarray) -> bool:
    """Whether these individuals, each with as many rows as the one of fewest, meet the rules as a class.

    after: int32 (u,), scratch for their chain.
    """
    for place in range(units.size):
        after[units[place]] = units[place + 1] if place + 1 < units.size else -1
    row_count = people.rows[units].min()
    forget(rules)
    return meets(people, rules, after, units[0], HOME, 0, row_count, -1, -1)


def diverse_greedy_labels(
    people: Individuals, tour: NDArray[np.int64], k: int, rules: ValueRules | None
) -> NDArray[np.int32]:
    """The cold start: l-greedy; with rules that start repaired, or one dealt out by value where it costs less."""
    greedy = class_greedy_labels(people, tour, k)
    if rules is None:
        return greedy
    mended = exchanged_until_diverse(people, greedy, tour, k, rules, _REACH)
    starts = [merged_until_diverse(people, some, tour, k, rules) for some in (mended, greedy)]
    for size in (*(k * stretch for stretch in _STRETCHES), tour.size):
        dealt = dealt_by_value(rules, tour, k, max(1, tour.size // size))
        starts.append(merged_until_diverse(people, dealt, tour, k, rules))
    losses = [total_loss(people, build_classes(people, labels, k, rules)) for labels in starts]
    return starts[int(np.argmin(losses))]


def dealt_by_value(rules: ValueRules, tour: NDArray[np.int64], k: int, stretches: int) -> NDArray[np.int32]:
    """Labels int32 (u,): each stretch of the tour cut into classes of at least k with about the stretch's shares.

    An individual counts with the first field's value in the row that it would keep first. Of n_v individuals with
    value v in a stretch, the i-th along the tour stands at (i + 1/2) / n_v; in that order they are cut. O(u log u).
    """
    value = rules.values[rules.begin, 0]
    labels = np.full(tour.size, -1, dtype=np.int32)
    following = 0
    for part in np.array_split(tour, stretches):
        own = value[part]
        order = np.argsort(own, kind="stable")
        begins = np.searchsorted(own[order], own[order])
        place = np.empty(part.size)
        place[order] = (np.arange(part.size) - begins + 0.5) / np.bincount(own)[own[order]]
        for group in np.array_split(part[np.argsort(place, kind="stable")], max(1, part.size // k)):
            labels[group] = following
            following += 1
    return labels


def diverse_neighbours(
    people: Individuals,
    order: NDArray[np.int64],
    reach: int,
    rules: ValueRules | None,
    nearest: NDArray[np.int32],
) -> NDArray[np.int32]:
    """The nearest, int32 (u, m); with rules also the m // 2 nearest whose first kept row has another first value.

    Those are looked for within ``reach`` of a tour, ``order``: int64 (u,). O(u reach (d + W)) with rules.
    """
    if rules is None:
        return nearest
    others = np.full((order.size, nearest.shape[1] // 2), -1, dtype=np.int32)
    _nearest_others(people, order, reach, rules.values[rules.begin, 0], others)
    # Missing ones stand at the end.
    both = np.concatenate([nearest, others], axis=1)
    return np.take_along_axis(both, np.argsort(both < 0, axis=1, kind="stable"), axis=1)


@kernel
def _nearest_others(
    people: Individuals, order: np.ndarray, reach: int, value: np.ndarray, nearest: np.ndarray
) -> None:
    m = nearest.shape[1]
    distance = np.empty(m)
    for position in range(order.size):
        unit = order[position]
        distance[:] = np.inf
        for index in range(max(0, position - reach), min(order.size, position + reach + 1)):
            other = order[index]
            if value[other] == value[unit]:
                continue
            keep_nearest(nearest, distance, unit, other, pair_class_loss(people, unit, other))


def merged_until_diverse(
    people: Individuals, labels: NDArray[np.int32], tour: NDArray[np.int64], k: int, rules: ValueRules | None
) -> NDArray[np.int32]:
    """Labels int32 (u,) in which classes that broke a rule are joined with the next along the tour, where that helps.

    A class that fails takes the one of its two neighbours with which it meets the rules, the next one first, and goes
    on with the union otherwise, up to the room of a class. Unchanged without rules. O(u log u + failing classes k).
    """
    if rules is None or not (labels >= 0).any():
        return labels
    place = np.empty(tour.size)
    place[tour] = np.arange(tour.size)
    inside = labels >= 0
    middle = np.bincount(labels[inside], weights=place[inside]) / np.bincount(labels[inside])
    order = np.argsort(labels, kind="stable")
    cuts = np.searchsorted(labels[order], np.arange(middle.size + 1))
    groups = [order[cuts[number] : cuts[number + 1]] for number in np.argsort(middle, kind="stable")]
    room = room_for(labels, k, ruled=True)
    after = np.empty(labels.size, dtype=np.int32)

    def joined(one: NDArray[np.int64], other: NDArray[np.int64]) -> bool:
        small = one.size + other.size <= room
        return small and bool(_meets(people, rules, np.concatenate([one, other]), after))

    done: list[NDArray[np.int64]] = []
    position = 0
    while position < len(groups):
        group = groups[position]
        position += 1
        while not _meets(people, rules, group, after):
            ahead = groups[position] if position < len(groups) else None
            behind = done[-1] if done else None
            if ahead is not None and joined(group, ahead):
                group = np.concatenate([group, ahead])
                position += 1
            elif behind is not None and joined(group, behind):
                group = np.concatenate([done.pop(), group])
            elif ahead is not None and group.size + ahead.size <= room:
                group = np.concatenate([group, ahead])
                position += 1
            else:
                break
        done.append(group)
    merged = np.full(labels.size, -1, dtype=np.int32)
    for number, group in enumerate(done):
        merged[group] = number
    return merged
