"""What a class must show of its sensitive values: l-diversity and t-closeness, of whole partitions.

With N released rows of a class, c_v of them with value v, p_v = c_v / N and q_v the share of v in the whole release
over its m values:

    distinct:   number of v with c_v > 0  >=  l                         frequency:  max_v c_v  <=  N / l
    entropy:    - sum_v p_v ln p_v  >=  ln l                            equal:      1/2 sum_v |p_v - q_v|  <=  t
    ordered:    1/(m-1) sum_i |sum_{j<=i} (p_j - q_j)|  <=  t           (earth mover's distance, values in order)

Exact on closed classes, whose payloads are permuted uniformly. Sources: Machanavajjhala et al., l-diversity (2007),
section 4; Li et al., t-closeness (2007), section 4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.problem.errors import NotDiverseError
from kanonflow.solvers.problem.sensitive import Sensitive
from kanonflow.solvers.units.trimming import kept_rows

TOLERANCE = 1e-9
"""By how much rounding may exceed a limit on an entropy or a distance; counts are compared exactly."""
# Cells of the tables of values by classes that the ordered distance needs, at a time.
_CELLS = 4_000_000


def check_eligible(fields: Sequence[Sensitive]) -> None:
    """Raise NotDiverseError when not even all rows together meet an l: then no partition of all of them does.

    frequency: n_v <= n / l for each value v; distinct: l values; entropy: that of all rows, which is at least the mean
    of the classes'. Any t is met by one class of everybody. O(n).
    """
    for number, field in enumerate(fields):
        whole = np.zeros(field.codes.size, dtype=np.int64)
        if (
            field.kind is not None
            and field.codes.size
            and _l_failures(_counts(whole, field.codes, 1), field)[0]
        ):
            most = np.bincount(field.codes).max() / field.codes.size
            raise NotDiverseError(
                f"sensitive field {number + 1} has no {field.kind} l-diversity of {field.l:g} over all rows together: "
                f"{np.unique(field.codes).size} values, the most frequent on {most:.0%} of the rows"
            )


def failing_classes(labels: NDArray[np.int32], fields: Sequence[Sensitive]) -> NDArray[np.bool_]:
    """Which classes break a rule, bool (classes,). labels: int32 (n,), -1 for rows that wait, which count nowhere.

    O(n log n), with the ordered distance plus classes times values.
    """
    classes = int(labels.max(initial=-1)) + 1
    kept = labels >= 0
    broken = np.zeros(classes, dtype=np.bool_)
    for field in fields:
        broken |= failing(_counts(labels[kept].astype(np.int64), field.codes[kept], classes), field)
    # A number that no row has is no class.
    return broken & (np.bincount(labels[kept], minlength=classes) > 0)


class Counts(NamedTuple):
    """Rows by class and value, of each pair that occurs.

    owner, value: int64 (p,), class and value of each, by class; of an ordered distance the values in their order.
    rows: int64 (p,). classes: how many there are; each has rows.
    """

    owner: NDArray[np.int64]
    value: NDArray[np.int64]
    rows: NDArray[np.int64]
    classes: int

    @property
    def of_class(self) -> NDArray[np.int64]:
        """Rows of each class, int64 (classes,)."""
        return np.bincount(self.owner, weights=self.rows, minlength=self.classes).astype(np.int64)


def failing(counts: Counts, rule: Sensitive) -> NDArray[np.bool_]:
    """Which classes break a rule, bool (classes,), of which all rows go out. rule: its codes are not read.

    O(pairs), with the ordered distance classes times values.
    """
    broken = np.zeros(counts.classes, dtype=np.bool_)
    if rule.kind is not None:
        broken |= _l_failures(counts, rule)
    if rule.distance is not None:
        broken |= _t_failures(counts, rule)
    return broken


def _counts(labels: NDArray[np.int64], codes: NDArray[np.int64], classes: int) -> Counts:
    values = int(codes.max(initial=0)) + 1
    pairs, rows = np.unique(labels * values + codes, return_counts=True)
    return Counts(pairs // values, pairs % values, rows, classes)


def _l_failures(every: Counts, field: Sensitive) -> NDArray[np.bool_]:
    owner, counts, classes, rows = every.owner, every.rows, every.classes, every.of_class
    if field.kind == "distinct":
        return np.bincount(owner, minlength=classes) < field.l
    if field.kind == "frequency":
        most = np.zeros(classes, dtype=np.int64)
        np.maximum.at(most, owner, counts)
        return most * field.l > rows
    mixed = np.bincount(owner, weights=counts * np.log(counts), minlength=classes)
    entropy = np.log(np.maximum(rows, 1)) - mixed / np.maximum(rows, 1)
    return entropy < math.log(field.l) - TOLERANCE


def _t_failures(every: Counts, field: Sensitive) -> NDArray[np.bool_]:
    owner, value, counts, classes, rows = *every[:4], every.of_class
    share = np.bincount(value, weights=counts) / max(int(counts.sum()), 1)
    if field.distance == "equal":
        over = np.maximum(counts / rows[owner] - share[value], 0.0)
        return np.bincount(owner, weights=over, minlength=classes) > field.t + TOLERANCE
    shown, value = np.unique(value, return_inverse=True)
    distance = np.zeros(classes)
    block = max(1, _CELLS // max(shown.size, 1))
    for first in range(0, classes, block):
        here = (owner >= first) & (owner < first + block)
        table = np.zeros((min(block, classes - first), shown.size))
        table[owner[here] - first, value[here]] = counts[here] / rows[owner[here]]
        ahead = np.abs(np.cumsum(table - share[shown], axis=1)).sum(axis=1)
        distance[first : first + block] = ahead / max(shown.size - 1, 1)
    return distance > field.t + TOLERANCE


def diverse_row_counts(
    row_counts: NDArray[np.int64],
    labels: NDArray[np.int32],
    of_row: NDArray[np.int64],
    rows: NDArray[np.int64],
    priority: NDArray[np.int64],
    fields: Sequence[Sensitive],
) -> NDArray[np.int64]:
    """Row counts under which every class that releases rows meets the rules with exactly those rows.

    A class that fails with its row counts falls back to one for all, that of its member of fewest rows, which is what
    the search judged it by; one that fails with that too waits as a whole. Both change what the whole release
    shows, so it goes on until nothing fails: at most twice the classes' number of rounds, two or three in practice.
    row_counts, rows: int64 (u,). labels: int32 (u,). of_row, priority: int64 (n,). O(rounds n log n).
    """
    row_counts = row_counts.copy()
    classes = int(labels.max(initial=-1)) + 1
    inside = labels >= 0
    fewest = np.full(max(classes, 1), np.iinfo(np.int64).max)
    np.minimum.at(fewest, labels[inside], rows[inside])
    while True:
        kept = kept_rows(of_row, row_counts, priority)
        failing = failing_classes(np.where(kept, labels[of_row], -1).astype(np.int32), fields)
        if not failing.any():
            return row_counts
        fails = inside & np.append(failing, np.zeros(classes + 1 - failing.size, dtype=np.bool_))[labels]
        above = np.zeros(classes + 1, dtype=np.bool_)
        np.logical_or.at(above, labels[fails], row_counts[fails] > fewest[labels[fails]])
        row_counts[fails] = np.where(above[labels[fails]], fewest[labels[fails]], 0)
