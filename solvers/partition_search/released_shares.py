"""The shares of sensitive values that the rules of t-closeness measure against: those of the rows that go out."""

from __future__ import annotations

from typing import Any

import numpy as np

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.partition_search.rules import HOME, ValueRules, forget, meets
from kanonflow.solvers.units.individuals import Individuals


@kernel
def released_shares(people: Individuals, groups: Any, rules: ValueRules) -> bool:
    """Set the shares of the rules to those of the rows that the classes keep now; whether that changes a distance.

    The distances of t-closeness are from the values of the release, and rows that wait are not in it. O(n f).
    """
    wanted = False
    for f in range(rules.kind.size):
        wanted = wanted or rules.distance[f] > 0
    total = 0
    share = np.zeros(rules.share.size)
    for number in range(groups.size.size if wanted else 0):
        row_count = groups.fewest[number, 0]
        if groups.total[number, 1] < groups.k[0] or not _released(people, groups, rules, number, row_count):
            continue
        unit = np.int64(groups.head[number])
        while unit >= 0:
            for row in range(rules.begin[unit], rules.begin[unit] + row_count):
                total += 1
                for f in range(rules.kind.size):
                    share[rules.values[row, f]] += 1.0
            unit = np.int64(groups.after[unit])
    if total == 0:
        return False
    changed = False
    for code in range(share.size):
        share[code] /= total
        changed = changed or share[code] != rules.share[code]
        rules.share[code] = share[code]
    return changed


@kernel(inner=True)
def _released(people: Individuals, groups: Any, rules: ValueRules, number: int, row_count: int) -> bool:
    forget(rules)
    return meets(people, rules, groups.after, groups.head[number], HOME, number, row_count, -1, -1)
