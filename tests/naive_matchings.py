"""Slow, obvious twins of matching and factorization (solvers/matching: random_words, components, peeling, kempe)."""

from __future__ import annotations

import numpy as np


def shuffled(values: list[int], words: list[int]) -> list[int]:
    """Fisher and Yates with exact integers."""
    values = list(values)
    for i in range(len(values) - 1, 0, -1):
        j = words[i] * (i + 1) >> 64
        values[i], values[j] = values[j], values[i]
    return values


def component_labels(members: np.ndarray) -> list[int]:
    """Flood fill over slots and records."""
    label = [-1] * len(members)
    count = 0
    for first in range(len(members)):
        if label[first] >= 0:
            continue
        reached = {first}
        while True:
            touching = [set(slot) for slot in members.tolist() if reached & set(slot)]
            more = reached.union(*touching)
            if more == reached:
                break
            reached = more
        for record in reached:
            label[record] = count
        count += 1
    return label


def walk_matching(left: list[list[int]], order: list[int], words: list[int]) -> list[int]:
    """A perfect matching by random walks, the walk kept as a list and its loops cut out explicitly."""
    matched: dict[int, int] = {}
    used = 0
    for start in order:
        walk = [start]
        while True:
            slot = walk[-1]
            open_edges = [record for record in left[slot] if matched.get(slot) != record]
            record = open_edges[words[used] * len(open_edges) >> 64]
            used += 1
            walk.append(record)
            holder = [other for other, held in matched.items() if held == record]
            if not holder:
                break
            walk.append(holder[0])
        slots, records = walk[0::2], walk[1::2]
        position = 0
        while position < len(slots):
            last = len(slots) - 1 - slots[::-1].index(slots[position])
            matched[slots[position]] = records[last]
            position = last + 1
    return [matched[slot] for slot in range(len(left))]


def flip_cycles(first: list[int], second: list[int], coins: list[int]) -> tuple[list[int], list[int]]:
    """Exchange two matchings on their c-th alternating cycle (by smallest slot) where coins[c] is 1."""
    one, two = list(first), list(second)
    seen: set[int] = set()
    cycles = []
    for start in range(len(first)):
        cycle = []
        slot = start
        while slot not in seen:
            seen.add(slot)
            cycle.append(slot)
            slot = second.index(first[slot])
        if cycle:
            cycles.append(cycle)
    for cycle, coin in zip(cycles, coins, strict=False):
        for slot in cycle if coin else ():
            one[slot], two[slot] = second[slot], first[slot]
    return one, two


def perfect_matchings(members: np.ndarray) -> np.ndarray:
    """All perfect matchings of a small graph, (count, n): the record on each slot."""
    found: list[list[int]] = []

    def extend(matched: list[int]) -> None:
        if len(matched) == len(members):
            found.append(matched)
            return
        for record in members[len(matched)].tolist():
            if record not in matched:
                extend([*matched, record])

    extend([])
    return np.array(found)
