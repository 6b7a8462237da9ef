"""The state of the search on closed classes when SIL is lowered (S0, eq. 5-7): the moves are those of every loss.

A class loses the sum, over the rows that it keeps, of their distance to the average of these rows, over d: over all
rows that is SIL as loss/sil.py defines it. Which rows a class keeps is known (``rules.py``): of each member as many as
its member of fewest has, the first in the order of priority. SIL has no worst value, as NCP has 1. So a row that waits
costs what loss/sil.py takes for a null beside numbers, in every attribute: the whole domain's width, or a mismatch. No
released row costs more.

All distances of a class change with its average, so each candidate costs a look at all rows that are kept. Equal rows
that follow each other in the order of one individual are one *run*; most individuals have one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.loss.sil import group_distances, sil
from kanonflow.solvers.partition_search.group_loss import (
    HAIR,
    NOBODY,
    ClassLoss,
    exchanged_counts,
    fill,
    give_group_loss,
    group_fields,
    room_for,
)
from kanonflow.solvers.partition_search.rules import ValueRules
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.search.sil_slots import deviations
from kanonflow.solvers.structures.partition import Partition
from kanonflow.solvers.units.individuals import Individuals
from kanonflow.solvers.units.trimming import kept_rows


class SilRuns(NamedTuple):
    """The rows of u individuals, those of each in the order in which they are kept, in r runs.

    numeric: float64 (r, dn), values over their attribute's standard deviation in the table, NaN for a null;
    attributes that do not vary are left out. null_gap: float64 (dn,), from a null to numbers, a whole domain.
    codes: int32 (r, dc), those of each attribute after those of the one before. repeats: int64 (r,), rows of a run.
    first, runs: int64 (u,), the first run of each individual, and how many it has. scale: 1 / d.
    """

    numeric: NDArray[np.float64]
    null_gap: NDArray[np.float64]
    codes: NDArray[np.int32]
    repeats: NDArray[np.int64]
    first: NDArray[np.int64]
    runs: NDArray[np.int64]
    scale: float


class SilGroups(NamedTuple):
    """At most g groups of u individuals.

    label ... frees: as group_loss.py asks. rows: of the individuals.
    Scratch: mean: float64 (dn,); known: int64 (dn,), rows that have a number. tally: int64 (V,), rows that have each
    value; top: int64 (dc,), those that have the commonest.
    """

    label: NDArray[np.int32]
    head: NDArray[np.int32]
    after: NDArray[np.int32]
    before: NDArray[np.int32]
    size: NDArray[np.int64]
    room: int
    active: NDArray[np.int64]
    strongest: NDArray[np.int64]
    total: NDArray[np.int64]
    fewest: NDArray[np.int64]
    even: bool
    loss: NDArray[np.float64]
    k: NDArray[np.int64]
    waiting: NDArray[np.float64]
    free: NDArray[np.int32]
    frees: NDArray[np.int64]
    rows: SilRuns
    mean: NDArray[np.float64]
    known: NDArray[np.int64]
    tally: NDArray[np.int64]
    top: NDArray[np.int64]


# Called, not inlined: with a copy at each look the search takes several times as long to compile, and is no faster.
@kernel(inner=True, counting=False)
def _next(groups: SilGroups, number: int, out: int, unit: int, who: int) -> Any:
    """Who comes after somebody (-1: first) of a group without ``out`` and with ``unit`` at its end; -1: nobody."""
    following = NOBODY
    if who != unit or unit < 0:
        following = np.int64(groups.after[who] if who >= 0 else groups.head[number])
        if following >= 0 and following == out:
            following = np.int64(groups.after[following])
        if following < 0:
            following = np.int64(unit)
    return following


@kernel(inner=True, counting=False)
def _distances(groups: SilGroups, number: int, out: int, unit: int, fewest: int) -> float:
    """Sum of the distances of the first ``fewest`` rows of each member to their average, times d."""
    rows = groups.rows
    kept = 0
    for j in range(rows.null_gap.size):
        groups.mean[j] = 0.0
        groups.known[j] = 0
    for j in range(rows.codes.shape[1]):
        groups.top[j] = 0
    who = _next(groups, number, out, unit, NOBODY)
    while who >= 0:
        left, run = fewest, rows.first[who]
        kept += left
        while left > 0:
            taken = min(left, rows.repeats[run])
            for j in range(rows.null_gap.size):
                x = rows.numeric[run, j]
                if x == x:
                    groups.mean[j] += taken * x
                    groups.known[j] += taken
            for j in range(rows.codes.shape[1]):
                code = rows.codes[run, j]
                count = groups.tally[code] + taken
                groups.tally[code] = count
                groups.top[j] = max(groups.top[j], count)
            left -= taken
            run += 1
        who = _next(groups, number, out, unit, who)
    for j in range(rows.null_gap.size):
        groups.mean[j] /= max(groups.known[j], 1)
    distance = 0.0
    who = _next(groups, number, out, unit, NOBODY)
    while who >= 0:
        left, run = fewest, rows.first[who]
        while left > 0:
            taken = min(left, rows.repeats[run])
            square = 0.0
            for j in range(rows.null_gap.size):
                x = rows.numeric[run, j]
                gap = x - groups.mean[j] if x == x else (rows.null_gap[j] if groups.known[j] > 0 else 0.0)
                square += gap * gap
            distance += taken * np.sqrt(square)
            for j in range(rows.codes.shape[1]):
                groups.tally[rows.codes[run, j]] = 0
            left -= taken
            run += 1
        who = _next(groups, number, out, unit, who)
    for j in range(rows.codes.shape[1]):
        distance += kept - groups.top[j]
    return distance


@kernel(forceinline=True, counting=False)
def changed_loss(people: Individuals, groups: SilGroups, number: int, out: int, unit: int) -> float:
    """Loss of a group after the member ``out`` left and ``unit`` came; -1 for nobody. O(runs of the group x d)."""
    size, rows, active, fewest = exchanged_counts(people, groups, number, out, unit)
    distance = 0.0
    if active >= groups.k[0]:
        distance = _distances(groups, number, out, unit, fewest)
        rows -= size * fewest
    return distance * groups.rows.scale + rows * groups.waiting[0]


@kernel(forceinline=True, counting=False)
def fresh_loss(people: Individuals, groups: SilGroups, unit: int, other: int) -> float:
    """Not told: groups of one or two are no use where k is more."""
    return np.inf


@kernel(forceinline=True, counting=False)
def refresh(people: Individuals, groups: SilGroups, number: int) -> None:
    """Nothing is kept for a group but its loss."""


give_group_loss(SilGroups, changed_loss, fresh_loss, refresh)


def sil_runs(table: Table, of_row: NDArray[np.int64], priority: NDArray[np.int64]) -> SilRuns:
    """The runs of a table's individuals. of_row: int64 (n,), the individual of each row, from 0. O(n log n + n d).

    priority: int64 (n,), of an individual's rows those with smaller values (then smaller row number) are kept first.
    """
    order = np.lexsort([priority, of_row])
    who = of_row[order]
    sigma = deviations(table)
    varies = np.flatnonzero(sigma > 0.0)
    sizes = np.maximum(table.cardinality, 1)
    numeric = table.numeric[order][:, varies] / sigma[varies]
    codes = table.categorical[order] + (np.cumsum(sizes) - sizes)
    # As numbers that are equal to themselves, which a null is not.
    values = np.concatenate([np.where(np.isnan(numeric), np.inf, numeric), codes, who[:, None]], axis=1)
    begins = np.flatnonzero(np.concatenate([[True], (values[1:] != values[:-1]).any(axis=1)])[: who.size])
    runs = np.bincount(who[begins])
    return SilRuns(
        numeric=np.ascontiguousarray(numeric[begins]),
        null_gap=1.0 / sigma[varies],
        codes=np.ascontiguousarray(codes[begins], dtype=np.int32),
        repeats=np.diff(np.append(begins, who.size)),
        first=np.cumsum(runs) - runs,
        runs=runs,
        scale=1.0 / table.attributes,
    )


@dataclass(frozen=True)
class SilLoss:
    """SIL with waiting rows at ``waiting`` each, as a ``ClassLoss``.

    table: hierarchies by their leaves. of_row: int64 (n,), the individual of each row; priority: int64 (n,), as in
    ``sil_runs``. rows: of the individuals that are searched.
    """

    table: Table
    of_row: NDArray[np.int64]
    priority: NDArray[np.int64]
    rows: SilRuns

    @property
    def waiting(self) -> float:
        """What a row that waits costs: a null beside numbers in every attribute, and a mismatch in every other."""
        gaps = self.rows.null_gap
        return float(np.sqrt((gaps * gaps).sum()) + self.table.categorical.shape[1]) * self.rows.scale

    def state(
        self, people: Individuals, labels: NDArray[np.int32], k: int, rules: ValueRules | None = None
    ) -> SilGroups:
        """State for labels int32 (u,), POOL outside; space for a class an every k individuals. O(runs d)."""
        room = room_for(labels, k, rules is not None)
        dn, dc = self.rows.null_gap.size, self.rows.codes.shape[1]
        groups = SilGroups(
            rows=self.rows,
            mean=np.zeros(dn),
            known=np.zeros(dn, dtype=np.int64),
            tally=np.zeros(int(np.maximum(self.table.cardinality, 1).sum()), dtype=np.int64),
            top=np.zeros(dc, dtype=np.int64),
            **group_fields(labels, k, waiting=self.waiting + HAIR, groups=labels.size // k, room=room),
        )
        fill(people, groups, labels, rules)
        return groups

    def part(self, chosen: NDArray[np.int64]) -> ClassLoss:
        """The runs of some of the individuals."""
        rows = self.rows._replace(first=self.rows.first[chosen], runs=self.rows.runs[chosen])
        return replace(self, rows=rows)

    def row_counts(
        self, people: Individuals, labels: NDArray[np.int32], row_counts: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The row counts, or one for all of a class whose further rows draw its average away from the others."""
        inside = labels >= 0
        classes = int(labels.max(initial=-1)) + 1
        fewest = np.full(classes + 1, np.iinfo(np.int64).max)
        np.minimum.at(fewest, labels[inside], row_counts[inside])
        single = np.where(inside, fewest[labels], 0)
        dearer = self._class_losses(labels, row_counts, classes) > self._class_losses(labels, single, classes)
        return np.where(inside & np.append(dearer, False)[labels], single, row_counts)

    def _class_losses(
        self, labels: NDArray[np.int32], row_counts: NDArray[np.int64], classes: int
    ) -> NDArray[np.float64]:
        """What each class loses with these row counts, but for what all of its rows would cost waiting."""
        edges = np.flatnonzero(kept_rows(self.of_row, row_counts, self.priority) & (labels[self.of_row] >= 0))
        group = labels[self.of_row[edges]].astype(np.int64)
        distance = group_distances(self.table, edges, group) / self.table.attributes
        saved = np.bincount(group, weights=distance - self.waiting, minlength=classes)
        return np.asarray(saved, dtype=np.float64)

    def total(self, table: Table, partition: Partition) -> float:
        """SIL of the rows that are released, and ``waiting`` for each that waits."""
        waiting = float((partition.labels < 0).mean())
        return waiting * self.waiting + (1.0 - waiting) * sil(table, partition)


def sil_loss(table: Table, people: Individuals, priority: NDArray[np.int64]) -> SilLoss:
    """The loss of a table whose individuals are ``people``. table: hierarchies by their leaves. O(n log n + n d)."""
    return SilLoss(table, people.of_row, priority, sil_runs(table, people.of_row, priority))
