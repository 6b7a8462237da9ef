"""Grouping records by their generalized values at a node: the check that every lattice solver rests on.

The columns of all levels are encoded once. A check packs the codes of as many columns as fit into a 64-bit word,
numbers the distinct words, packs the numbers together with the next columns, and so on: exact, no hash decides
equality. It is the support map of Zhang 2012 (S1, 3.4.1) without sets of rows: O(n d) a node.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.problem.hierarchy_levels import Lattice, LevelVector

WORD = np.int64(2**62)
_HASH = np.uint64(0x9E3779B97F4A7C15)


class LevelColumns(NamedTuple):
    """u units: distinct (values, individual) of a lattice's records.

    encoded: int32 (levels of all attributes, u), the node of each unit, attribute after attribute from level 0.
    first: int64 (d,), where an attribute's levels begin. sizes: int64 (levels of all attributes,), nodes of the level.
    weight: int64 (u,), records of the unit. individual: int64 (u,), codes from 0; empty: each record is its own.
    individuals: how many there are (0: each record is its own). of_row: int32 (n,), the unit of each record.
    """

    encoded: NDArray[np.int32]
    first: NDArray[np.int64]
    sizes: NDArray[np.int64]
    weight: NDArray[np.int64]
    individual: NDArray[np.int64]
    individuals: int
    of_row: NDArray[np.int32]


class Grouping(NamedTuple):
    """Scratch of a check, reused: one thread at a time.

    groups: int64 (u,), the group of each unit after a check. keys: int64 (u,). slots: int64 (power of two >= 2 u,).
    held: int64 (u,), the key that stands for each group.
    """

    groups: NDArray[np.int64]
    keys: NDArray[np.int64]
    slots: NDArray[np.int64]
    held: NDArray[np.int64]


@kernel(inner=True)
def _number_keys(
    keys: np.ndarray, capacity: int, groups: np.ndarray, slots: np.ndarray, held: np.ndarray
) -> int:
    """Number the distinct keys (all below ``capacity``) by first occurrence into ``groups``; returns how many."""
    count = 0
    slots[:] = -1
    if capacity <= slots.size:
        for i in range(keys.size):
            key = keys[i]
            if slots[key] < 0:
                slots[key] = count
                count += 1
            groups[i] = slots[key]
        return count
    mask = np.uint64(slots.size - 1)
    for i in range(keys.size):
        key = keys[i]
        mixed = np.uint64(key) * _HASH
        place = np.int64((mixed ^ (mixed >> np.uint64(32))) & mask)
        while slots[place] >= 0 and held[slots[place]] != key:
            place = np.int64(np.uint64(place + 1) & mask)
        if slots[place] < 0:
            slots[place] = count
            held[count] = key
            count += 1
        groups[i] = slots[place]
    return count


@kernel(inner=True)
def _rows_below(groups: np.ndarray, weight: np.ndarray, count: int, k: int) -> int:
    """Rows in groups of fewer than k rows."""
    rows = np.zeros(count, dtype=np.int64)
    for i in range(groups.size):
        rows[groups[i]] += weight[i]
    small = 0
    for g in range(count):
        if rows[g] < k:
            small += rows[g]
    return small


@kernel
def _refine(columns: LevelColumns, chosen: np.ndarray, k: int, limit: int, work: Grouping) -> tuple[int, int]:
    """Group the units by the given rows of ``encoded``: (groups, rows in groups of fewer than k rows).

    Stops at a prefix of ``chosen`` whose small groups already hold more than ``limit`` rows: further columns only
    split them. The number of groups is then negative.
    """
    work.keys[:] = 0
    capacity = np.int64(1)
    count = 1
    small = 0
    for place in range(chosen.size):
        size = columns.sizes[chosen[place]]
        if capacity > WORD // size:
            count = _number_keys(work.keys, capacity, work.groups, work.slots, work.held)
            small = _rows_below(work.groups, columns.weight, count, k)
            if small > limit:
                return -count, small
            work.keys[:] = work.groups
            capacity = np.int64(count)
        column = columns.encoded[chosen[place]]
        for i in range(column.size):
            work.keys[i] = work.keys[i] * size + column[i]
        capacity *= size
    count = _number_keys(work.keys, capacity, work.groups, work.slots, work.held)
    return count, _rows_below(work.groups, columns.weight, count, k)


@kernel(inner=True)
def _even_rows(held: np.ndarray, group: np.ndarray, count: int, k: int, allowed: np.ndarray) -> None:
    """Lower ``allowed`` to the largest m with sum_u min(held_u, m) >= k m, over the individuals u of each group.

    held: rows of each (group, individual). group: of each of these pairs. O(pairs m).
    """
    first = np.zeros(count + 1, dtype=np.int64)
    for pair in range(group.size):
        first[group[pair] + 1] += 1
    for g in range(count):
        first[g + 1] += first[g]
    place = first[:-1].copy()
    sorted_held = np.empty(held.size, dtype=np.int64)
    for pair in range(group.size):
        sorted_held[place[group[pair]]] = held[pair]
        place[group[pair]] += 1
    for g in range(count):
        if allowed[g] == 0:
            continue
        rows = sorted_held[first[g] : first[g + 1]]
        most = rows.max()
        if rows.sum() >= k * most:
            continue
        m = 0
        total = 0
        while total >= k * m:
            m += 1
            total = 0
            for i in range(rows.size):
                total += min(rows[i], m)
        allowed[g] = m - 1


@kernel(inner=True)
def _judge(
    columns: LevelColumns, count: int, k: int, even_share: bool, work: Grouping
) -> tuple[np.ndarray, np.ndarray, int]:
    """What may be published of the groups in ``work``.

    Returns how many rows each individual may show in each group, int64 (count,), 0 where the group is suppressed; the
    (group, individual) pair of each unit, int64 (u,); and the suppressed rows. With individuals only.
    """
    of_group = work.groups.copy()
    for i in range(of_group.size):
        work.keys[i] = of_group[i] * columns.individuals + columns.individual[i]
    capacity = np.int64(count) * columns.individuals
    pairs = _number_keys(work.keys, capacity, work.groups, work.slots, work.held)
    of_pair = work.groups.copy()
    work.groups[:] = of_group
    held = np.zeros(pairs, dtype=np.int64)
    group = np.empty(pairs, dtype=np.int64)
    for i in range(of_group.size):
        held[of_pair[i]] += columns.weight[i]
        group[of_pair[i]] = of_group[i]
    people = np.zeros(count, dtype=np.int64)
    for pair in range(pairs):
        people[group[pair]] += 1
    allowed = np.zeros(count, dtype=np.int64)
    for g in range(count):
        if people[g] >= k:
            allowed[g] = WORD
    if even_share:
        _even_rows(held, group, count, k, allowed)
    suppressed = 0
    for pair in range(pairs):
        suppressed += max(0, held[pair] - allowed[group[pair]])
    return allowed, of_pair, suppressed


@kernel
def check_columns(
    columns: LevelColumns, chosen: np.ndarray, k: int, limit: int, even_share: bool, work: Grouping
) -> int:
    """Rows that must be suppressed when the given rows of ``encoded`` are published; exact up to ``limit``.

    A group stays when it has at least k individuals. With ``even_share`` each of them shows at most m of its rows
    there, for the largest m with sum_u min(rows_u, m) >= k m, so that nobody has more than 1/k of what is shown.
    Above the limit the result is a lower bound. Both rules are monotone: joined groups suppress no more rows.
    """
    count, small = _refine(columns, chosen, k, limit, work)
    if columns.individuals == 0 or small > limit:
        return small
    return _judge(columns, count, k, even_share, work)[2]


@kernel
def _kept_rows(
    columns: LevelColumns, chosen: np.ndarray, k: int, even_share: bool, work: Grouping
) -> np.ndarray:
    """Class of each record, int64 (n,), dense in the order of records; -1: suppressed."""
    count, _ = _refine(columns, chosen, k, WORD, work)
    units = columns.of_row
    shown = np.full(work.groups.size, WORD, dtype=np.int64)
    if columns.individuals > 0:
        allowed, of_pair, _ = _judge(columns, count, k, even_share, work)
        for i in range(work.groups.size):
            shown[of_pair[i]] = allowed[work.groups[i]]
    else:
        of_pair = np.arange(work.groups.size)
        rows = np.zeros(count, dtype=np.int64)
        for i in range(work.groups.size):
            rows[work.groups[i]] += columns.weight[i]
        for i in range(work.groups.size):
            if rows[work.groups[i]] < k:
                shown[i] = 0
    number = np.full(count, -1, dtype=np.int64)
    labels = np.full(units.size, -1, dtype=np.int64)
    classes = 0
    for row in range(units.size):
        unit = units[row]
        if shown[of_pair[unit]] > 0:
            shown[of_pair[unit]] -= 1
            if number[work.groups[unit]] < 0:
                number[work.groups[unit]] = classes
                classes += 1
            labels[row] = number[work.groups[unit]]
    return labels


def new_grouping(units: int) -> Grouping:
    """Scratch for that many units."""
    size = 1 << max(4, (2 * max(units, 1) - 1).bit_length())
    return Grouping(
        groups=np.zeros(units, dtype=np.int64),
        keys=np.zeros(units, dtype=np.int64),
        slots=np.empty(size, dtype=np.int64),
        held=np.empty(max(units, 1), dtype=np.int64),
    )


def encode_levels(lattice: Lattice) -> LevelColumns:
    """The columns of every level over the distinct (values, individual). O(n d + levels u)."""
    n = lattice.records
    people = np.empty(0, dtype=np.int64)
    individuals = 0
    if lattice.individuals is not None:
        names, people = np.unique(lattice.individuals, return_inverse=True)
        people, individuals = people.astype(np.int64), int(names.size)
    raw = [*lattice.values.T, *([people] if individuals else [])]
    sizes = [*(table.domain for table in lattice.tables), *([individuals] if individuals else [])]
    work = new_grouping(n)
    whole = LevelColumns(
        encoded=np.ascontiguousarray(np.stack(raw).astype(np.int32)),
        first=np.arange(len(raw)),
        sizes=np.array(sizes, dtype=np.int64),
        weight=np.ones(n, dtype=np.int64),
        individual=people[:0],
        individuals=0,
        of_row=np.empty(0, dtype=np.int32),
    )
    _refine(whole, np.arange(len(raw)), 1, n, work)
    of_row = work.groups.astype(np.int32)
    _, rows = np.unique(of_row, return_index=True)
    encoded = [
        codes[lattice.values[rows, j]] for j, table in enumerate(lattice.tables) for codes in table.codes
    ]
    heights = np.array(lattice.top, dtype=np.int64)
    return LevelColumns(
        encoded=np.ascontiguousarray(np.stack(encoded).astype(np.int32)),
        first=np.concatenate([[0], np.cumsum(heights + 1)[:-1]]).astype(np.int64),
        sizes=np.concatenate([table.sizes for table in lattice.tables]).astype(np.int64),
        weight=np.bincount(of_row, minlength=rows.size).astype(np.int64),
        individual=people[rows] if individuals else people,
        individuals=individuals,
        of_row=of_row,
    )


def columns_of(columns: LevelColumns, node: LevelVector, attributes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows of ``encoded`` for the given attributes of a node, those with most nodes first, int64 (attributes,)."""
    chosen = columns.first[attributes] + np.asarray(node, dtype=np.int64)[attributes]
    return chosen[np.argsort(-columns.sizes[chosen], kind="stable")]


def kept_groups(
    columns: LevelColumns, node: LevelVector, k: int, *, even_share: bool, work: Grouping
) -> NDArray[np.int64]:
    """Class of each record at a node, int64 (n,), dense from 0 in the order of records; -1: suppressed. O(n d).

    Of an individual that shows only some of its rows (``even_share``), the first ones stay.
    """
    if columns.of_row.size == 0:
        return np.empty(0, dtype=np.int64)
    chosen = columns_of(columns, node, np.arange(len(node)))
    return np.asarray(_kept_rows(columns, chosen, k, even_share, work))
