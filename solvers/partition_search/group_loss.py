"""The protocol of losses of partitions: one search serves every loss that is a sum over groups and waiting rows.

A *unit* counts as ``active`` people toward k and as ``people.rows`` rows toward the loss. Individuals are units of one
person, which form closed classes; cohorts are units of several, which form the groups of a window. Units of a group
are a chain. Units outside every group are in the *pool*: all of their rows wait, at ``waiting`` each. A group of fewer
than k people waits as a whole. Nobody may wait where that price is NEVER, as for cohorts.

Of *even* groups (classes of individuals) everybody keeps as many rows as the member of fewest has, and the rest waits;
then every row count that occurs is shared by at least k individuals. (Several row counts, each of k individuals, would
keep more rows of a group of 2k or more. As groups of their own they lose less and keep as many, so the search has no
need of them. ``row_counts.py`` finds them where a group was given.)

The kernels of the search (moves, kicks, rules) know a group only by the fields and functions below. The *type* of the
state, a NamedTuple, says which loss is meant: numba compiles the search once for each type, and calls of
``changed_loss``, ``fresh_loss`` and ``refresh`` in it become the ones that this type has been given. So a second loss
compiles only when it is asked for.

A state of at most g groups of u units has at least these fields (``groups.py`` is the example); ``group_fields`` makes
them:

* ``label`` int32 (u,), POOL outside. ``head`` int32 (g,), a group's first member; ``after``, ``before`` int32 (u,), the
  neighbours of each unit in its chain, -1 at its ends. ``size`` int64 (g,), units. ``room`` int, most of them.
* ``active`` int64 (u,); ``strongest`` int64 (1,), the most of them. ``total`` int64 (g, 2), rows and active people.
  ``fewest`` int64 (g, 2), the smallest and second smallest number of rows of a member. ``even`` bool.
* ``loss`` float64 (g,), of each group, in rows. What is minimized is its sum and what the pool pays.
* ``k`` int64 (1,). ``waiting`` float64 (1,): price of a row that waits.
* ``free`` int32 (g,), a stack of the groups that are empty; ``frees`` int64 (1,), how many.

and whatever its loss needs besides. It gives three functions over (people, state, ...):

* ``changed_loss(people, groups, number, out, unit) -> float``: loss of a group after the member ``out`` left and
  ``unit`` came; -1 for nobody. Changes nothing but scratch. The hottest function of all.
* ``fresh_loss(people, groups, unit, other) -> float``: loss of a group of these two, who are k people; of one, who is
  given twice. Infinite where the loss has no use for such groups.
* ``refresh(people, groups, number) -> None``: recompute its own fields of a group that has members, whose common
  fields but ``loss`` are right.

They are written as njit functions (forceinline) in the module of the state and given with ``give_group_loss``. What
Python must know of a loss of classes is a ``ClassLoss``. A kernel must be compiled after the module of its state was
imported, which importing the state's type sees to. Caches on disk do not see edits of a loss: delete those of the
search kernels after one.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.partition_search.rules import HOME, ValueRules, forget, meets
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.search.slot_loss import chosen_by_state
from kanonflow.solvers.structures.partition import Partition
from kanonflow.solvers.units.individuals import Individuals

POOL = -1
# Waiting rows cost a hair more than the worst released ones: what may be released is.
HAIR = 1e-6
# Groups that may be made before those that they are made of are empty.
SPARE = 24
# As numpy's number: kernels are compiled once more for each argument that is a literal, or of another integer type.
# So units and groups are made int64 where they are read.
Number = int | np.signedinteger[Any]
NOBODY = np.int64(-1)
# The price of a row that waits where nobody may: more than all rows in the widest box. Not infinite, for differences
# of it are taken, and a branch around it in the innermost loop took the search five times as long.
NEVER = 1e12


def changed_loss(people: Individuals, groups: Any, number: Number, out: Number, unit: Number) -> float:
    """Loss of a group after one member left and one unit came; inside kernels only."""
    raise TypeError("called from compiled kernels only")


def fresh_loss(people: Individuals, groups: Any, unit: Number, other: Number) -> float:
    """Loss of a group of two units; inside kernels only."""
    raise TypeError("called from compiled kernels only")


def refresh(people: Individuals, groups: Any, number: int) -> None:
    """Recompute what a loss keeps for a group; inside kernels only."""
    raise TypeError("called from compiled kernels only")


def give_group_loss(state: type, changed: Any, fresh: Any, refreshed: Any) -> None:
    """Let the search lower a loss: its functions (njit) serve states of the NamedTuple class ``state``."""
    for stub, function in ((changed_loss, changed), (fresh_loss, fresh), (refresh, refreshed)):
        chosen_by_state(stub, state, function.py_func)


class ClassLoss(Protocol):
    """A loss of closed classes as the code around the kernels sees it."""

    def state(
        self, people: Individuals, labels: NDArray[np.int32], k: int, rules: ValueRules | None = None
    ) -> Any:
        """The state for labels int32 (u,), POOL outside."""

    def part(self, chosen: NDArray[np.int64]) -> ClassLoss:
        """The same loss of some of the individuals, as ``part_of_people`` chooses them."""

    def row_counts(
        self, people: Individuals, labels: NDArray[np.int32], row_counts: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """How many rows each individual keeps, int64 (u,): the row counts, or fewer where these lose more."""

    def total(self, table: Table, partition: Partition) -> float:
        """Loss of a partition as it is reported: mean over all rows, those that wait among them."""


@kernel(inner=True, forceinline=True, counting=False)
def exchanged_counts(
    people: Individuals, groups: Any, number: int, out: int, unit: int
) -> tuple[int, int, int, int]:
    """Members of a group, their rows, their people and the fewest rows of one, after one left and one came."""
    size = groups.size[number]
    rows, active = groups.total[number, 0], groups.total[number, 1]
    fewest = groups.fewest[number, 0]
    if out >= 0:
        size -= 1
        rows -= people.rows[out]
        active -= groups.active[out]
        if people.rows[out] == fewest:
            fewest = groups.fewest[number, 1]
    if unit >= 0:
        size += 1
        rows += people.rows[unit]
        active += groups.active[unit]
        fewest = min(fewest, people.rows[unit])
    return size, rows, active, fewest


@kernel(inner=True, counting=False)
def ruled_loss(
    people: Individuals, groups: Any, rules: ValueRules, side: int, number: int, out: int, unit: int
) -> float:
    """``changed_loss``, or the price of waiting when the group then breaks a rule. O(that and ``meets``)."""
    _, rows, active, fewest = exchanged_counts(people, groups, number, out, unit)
    loss = rows * groups.waiting[0]
    if active >= groups.k[0] and meets(
        people, rules, groups.after, groups.head[number], side, number, fewest, out, unit
    ):
        loss = changed_loss(people, groups, number, out, unit)
    return loss


@kernel(counting=False)
def refresh_group(people: Individuals, groups: Any, number: int, rules: ValueRules | None = None) -> None:
    """Recompute what is kept for a group. O(size) and what the loss takes, with rules the rows of the group more."""
    least = second = np.iinfo(np.int64).max
    unit = np.int64(groups.head[number])
    while unit >= 0:
        rows = people.rows[unit]
        second = min(second, max(least, rows))
        least = min(least, rows)
        unit = np.int64(groups.after[unit])
    groups.fewest[number, 0], groups.fewest[number, 1] = least, second
    groups.loss[number] = 0.0
    if groups.size[number] > 0:
        refresh(people, groups, number)
        groups.loss[number] = changed_loss(people, groups, number, NOBODY, NOBODY)
        # Compiled away where there are no rules, as are all such branches.
        if rules is not None:
            forget(rules)
            groups.loss[number] = ruled_loss(people, groups, rules, HOME, number, NOBODY, NOBODY)


@kernel
def members(groups: Any, number: int) -> np.ndarray:
    """The units of a group, int64 (size,)."""
    units = np.empty(groups.size[number], dtype=np.int64)
    unit = np.int64(groups.head[number])
    for place in range(units.size):
        units[place] = unit
        unit = np.int64(groups.after[unit])
    return units


@kernel(counting=False)
def move(people: Individuals, groups: Any, unit: int, target: int) -> None:
    """Put a unit into another group, or out of one, or into the pool; both groups are left to refresh. O(1).

    An empty target must be the top of ``free``; a group that is emptied goes there. So moves that are undone in
    reverse order leave the stack as it was.
    """
    source = np.int64(groups.label[unit])
    if source >= 0:
        before, after = groups.before[unit], groups.after[unit]
        if before >= 0:
            groups.after[before] = after
        else:
            groups.head[source] = after
        if after >= 0:
            groups.before[after] = before
        groups.size[source] -= 1
        groups.total[source, 0] -= people.rows[unit]
        groups.total[source, 1] -= groups.active[unit]
    groups.label[unit] = target
    if target >= 0:
        if groups.size[target] == 0:
            groups.frees[0] -= 1
        first = groups.head[target]
        groups.before[unit] = -1
        groups.after[unit] = first
        if first >= 0:
            groups.before[first] = unit
        groups.head[target] = unit
        groups.size[target] += 1
        groups.total[target, 0] += people.rows[unit]
        groups.total[target, 1] += groups.active[unit]
    if source >= 0 and groups.size[source] == 0:
        groups.free[groups.frees[0]] = source
        groups.frees[0] += 1


def room_for(labels: NDArray[np.int32], k: int, ruled: bool) -> int:
    """Most members of a class: 2k can be split in two, so no class needs more, unless the halves break a rule.

    Larger classes that are given stay as they are.
    """
    return max((3 if ruled else 2) * k, int(np.bincount(labels[labels >= 0], minlength=1).max()))


def group_fields(
    labels: NDArray[np.int32],
    k: int,
    *,
    waiting: float,
    groups: int,
    room: int | None = None,
    active: NDArray[np.int64] | None = None,
) -> dict[str, Any]:
    """The fields that every state has, by name, for ``fill``: of labels int32 (u,), POOL outside.

    groups: how many there may be, and ``SPARE`` more. room: None for any. active: None for units of one person, whose
    groups are even.
    """
    u = labels.size
    count = max(int(labels.max(initial=-1)) + 1, groups) + SPARE
    empty = np.flatnonzero(np.bincount(labels[labels >= 0], minlength=count) == 0)[::-1]
    # ``move`` takes one off for each group that gets its first member.
    free = np.zeros(count, dtype=np.int32)
    free[: empty.size] = empty
    return {
        "label": np.full(u, POOL, dtype=np.int32),
        "head": np.full(count, -1, dtype=np.int32),
        "after": np.full(u, -1, dtype=np.int32),
        "before": np.full(u, -1, dtype=np.int32),
        "size": np.zeros(count, dtype=np.int64),
        "room": np.int64(u if room is None else room),
        "active": np.ones(u, dtype=np.int64) if active is None else active,
        "strongest": np.array([1 if active is None else active.max(initial=0)], dtype=np.int64),
        "total": np.zeros((count, 2), dtype=np.int64),
        "fewest": np.full((count, 2), np.iinfo(np.int64).max),
        "even": active is None,
        "loss": np.zeros(count),
        "k": np.array([k], dtype=np.int64),
        "waiting": np.array([waiting]),
        "free": free,
        "frees": np.array([count], dtype=np.int64),
    }


@kernel(counting=False)
def fill(people: Individuals, groups: Any, labels: np.ndarray, rules: ValueRules | None = None) -> None:
    """Work out every field of an empty state for labels int32 (u,)."""
    for unit in range(labels.size):
        if labels[unit] >= 0:
            move(people, groups, unit, np.int64(labels[unit]))
    refresh_all(people, groups, rules)


@kernel(counting=False)
def refresh_all(people: Individuals, groups: Any, rules: ValueRules | None = None) -> None:
    """Recompute what is kept for every group."""
    for number in range(groups.size.size):
        if groups.size[number] > 0:
            refresh_group(people, groups, number, rules)


def total_loss(people: Individuals, groups: Any) -> float:
    """Mean over all rows: (losses of groups + what the rows of the pool pay) / rows."""
    lost = float(np.cumsum(groups.loss)[-1])
    pool = people.rows[groups.label == POOL].sum()
    if pool:
        lost += groups.waiting[0] * pool
    return float(lost / max(people.rows.sum(), 1))
