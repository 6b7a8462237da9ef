"""The protocol of losses of closed classes: one search serves every loss that is a sum over classes and waiting rows.

It is for classes what ``search/slot_loss.py`` is for the slots of a graph. The kernels of the class search (moves,
kicks, rules) know a class only by the fields and functions below. The *type* of the state, a NamedTuple, says which
loss is meant: numba compiles the search once for each type, and calls of ``changed_loss`` and ``refresh`` in it become
the ones that this type has been given. So a second loss compiles only when it is asked for.

Everybody in a class keeps as many rows as its member of fewest has; then every row count that occurs is shared by at
least k individuals. Loss of a class = what its kept rows lose + rows that wait, at ``waiting`` each. (Several row
counts, each of k individuals, would keep more rows of a class of 2k or more. As classes of their own they lose less
and keep as many, so the search has no need of them. ``row_counts.py`` finds them where a class was given.) Individuals
outside every class are in the *pool*; all of their rows wait.

A state of c classes of up to ``room`` of u individuals has at least these fields (``state.py`` is the example);
``class_fields`` makes them:

* ``members`` int32 (c, room + 1); ``size`` int64 (c,); ``label`` int32 (u,), POOL outside; ``position`` int32 (u,).
* ``loss`` float64 (c,): of each class, in rows. What is minimized is its sum and what the pool pays.
* ``k`` int64 (1,). ``waiting`` float: price of a row that waits.
* ``counts`` int64 (c, 3): rows of all members, and the smallest and second smallest row count of one.

and whatever its loss needs besides. It gives two functions over (people, state, ...):

* ``changed_loss(people, classes, number, out, unit) -> float``: loss of the class after the member at position ``out``
  left and ``unit`` came; -1 for nobody. ``exchanged_counts`` says how many rows it keeps then. Changes nothing but
  scratch. The hottest function of all: one exit, no break, no call that is not inlined, or numba counts array
  references in the innermost loops (NCP: 150 against 15 ns). Only where a look takes longer than that, as for SIL, is
  a call no slower, and quicker to compile.
* ``refresh(people, classes, number) -> None``: recompute its own fields of a class that has members, whose common
  fields but ``loss`` are right.

They are written as njit functions (forceinline) in the module of the state and given with ``give_class_loss``. What
Python must know of a loss is a ``ClassLoss``. A kernel must be compiled after the module of its state was imported,
which importing the state's type sees to. Caches on disk do not see edits of a loss: delete those of the search kernels
after one.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.class_search.rules import HOME, ValueRules, forget, meets
from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.search.slot_loss import chosen_by_state
from kanonflow.solvers.structures.partition import Partition
from kanonflow.solvers.units.individuals import Individuals

POOL = -1
# Waiting rows cost a hair more than the worst released ones: what may be released is.
HAIR = 1e-6
# As numpy's number: kernels are compiled once more for each argument that is a literal, or of another integer type.
# So individuals, classes and positions are made int64 where they are read.
Number = int | np.signedinteger[Any]
NOBODY = np.int64(-1)


def changed_loss(people: Individuals, classes: Any, number: Number, out: Number, unit: Number) -> float:
    """Loss of a class after one member left and one individual came; inside kernels only."""
    raise TypeError("called from compiled kernels only")


def refresh(people: Individuals, classes: Any, number: int) -> None:
    """Recompute what a loss keeps for a class; inside kernels only."""
    raise TypeError("called from compiled kernels only")


def give_class_loss(state: type, changed: Any, refreshed: Any) -> None:
    """Let the class search lower a loss: its two functions (njit) serve states of the NamedTuple class ``state``."""
    for stub, function in ((changed_loss, changed), (refresh, refreshed)):
        chosen_by_state(stub, state, function.py_func)


class ClassLoss(Protocol):
    """A loss as the code around the kernels sees it."""

    def state(
        self, people: Individuals, labels: NDArray[np.int32], k: int, rules: ValueRules | None = None
    ) -> Any:
        """The state for labels int32 (u,), POOL outside; space for a class an every k individuals."""

    def part(self, chosen: NDArray[np.int64]) -> ClassLoss:
        """The same loss of some of the individuals, as ``part_of_people`` chooses them."""

    def row_counts(
        self, people: Individuals, labels: NDArray[np.int32], row_counts: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """How many rows each individual keeps, int64 (u,): the row counts, or fewer where these lose more."""

    def total(self, table: Table, partition: Partition) -> float:
        """Loss of a partition as it is reported: mean over all rows, those that wait among them."""


@kernel(inner=True, forceinline=True)
def exchanged_counts(
    people: Individuals, classes: Any, number: int, out: int, unit: int
) -> tuple[int, int, int]:
    """Members of a class, their rows and the fewest rows of one, after one left and one came; -1 for nobody."""
    size = classes.size[number]
    total = classes.counts[number, 0]
    fewest = classes.counts[number, 1]
    if out >= 0:
        leaver = people.rows[classes.members[number, out]]
        size -= 1
        total -= leaver
        if leaver == fewest:
            fewest = classes.counts[number, 2]
    if unit >= 0:
        size += 1
        total += people.rows[unit]
        fewest = min(fewest, people.rows[unit])
    return size, total, fewest


@kernel(inner=True)
def ruled_loss(
    people: Individuals, classes: Any, rules: ValueRules, side: int, number: int, out: int, unit: int
) -> float:
    """``changed_loss``, or the price of waiting when the class then breaks a rule. O(that and ``meets``)."""
    size, total, fewest = exchanged_counts(people, classes, number, out, unit)
    loss = total * classes.waiting
    if size >= classes.k[0] and meets(
        people, rules, classes.members, classes.size[number], side, number, fewest, out, unit
    ):
        loss = changed_loss(people, classes, number, out, unit)
    return loss


@kernel
def refresh_class(people: Individuals, classes: Any, number: int, rules: ValueRules | None = None) -> None:
    """Recompute what is kept for a class. O(size) and what the loss takes, with rules the rows of the class more."""
    size = classes.size[number]
    classes.counts[number, 0] = 0
    classes.counts[number, 1] = classes.counts[number, 2] = np.iinfo(np.int64).max
    for p in range(size):
        rows = people.rows[classes.members[number, p]]
        classes.counts[number, 0] += rows
        if rows < classes.counts[number, 1]:
            classes.counts[number, 2], classes.counts[number, 1] = classes.counts[number, 1], rows
        elif rows < classes.counts[number, 2]:
            classes.counts[number, 2] = rows
    if size == 0:
        classes.loss[number] = 0.0
        return
    refresh(people, classes, number)
    classes.loss[number] = changed_loss(people, classes, number, NOBODY, NOBODY)
    # Compiled away where there are no rules, as are all such branches.
    if rules is not None:
        forget(rules)
        classes.loss[number] = ruled_loss(people, classes, rules, HOME, number, NOBODY, NOBODY)


@kernel
def move(classes: Any, unit: int, target: int) -> None:
    """Take an individual out of its class (or the pool) into another; both classes are left to refresh."""
    source = classes.label[unit]
    if source >= 0:
        last = classes.size[source] - 1
        hole = classes.position[unit]
        mover = classes.members[source, last]
        classes.members[source, hole] = mover
        classes.position[mover] = hole
        classes.size[source] = last
    classes.label[unit] = target
    if target >= 0:
        classes.members[target, classes.size[target]] = unit
        classes.position[unit] = classes.size[target]
        classes.size[target] += 1


def room_for(labels: NDArray[np.int32], k: int, ruled: bool) -> int:
    """Most members of a class: 2k can be split in two, so no class needs more, unless the halves break a rule.

    Larger classes that are given stay as they are.
    """
    return max((3 if ruled else 2) * k, int(np.bincount(labels[labels >= 0], minlength=1).max()))


def class_fields(labels: NDArray[np.int32], k: int, ruled: bool, waiting: float) -> dict[str, Any]:
    """The fields that every state has, by name, for ``fill``; labels int32 (u,) say how many classes and what room."""
    u = labels.size
    room = room_for(labels, k, ruled)
    count = max(u // k, int(labels.max(initial=-1)) + 1, 1)
    return {
        "members": np.full((count, room + 1), -1, dtype=np.int32),
        "size": np.zeros(count, dtype=np.int64),
        "label": np.full(u, POOL, dtype=np.int32),
        "position": np.zeros(u, dtype=np.int32),
        "loss": np.zeros(count),
        "k": np.array([k], dtype=np.int64),
        "waiting": waiting,
        "counts": np.zeros((count, 3), dtype=np.int64),
    }


@kernel
def fill(people: Individuals, classes: Any, labels: np.ndarray, rules: ValueRules | None = None) -> None:
    """Work out every field of an empty state for labels int32 (u,)."""
    for unit in range(labels.size):
        if labels[unit] >= 0:
            move(classes, unit, np.int64(labels[unit]))
    refresh_all(people, classes, rules)


@kernel
def refresh_all(people: Individuals, classes: Any, rules: ValueRules | None = None) -> None:
    """Recompute what is kept for every class."""
    for number in range(classes.size.size):
        refresh_class(people, classes, number, rules)


def total_loss(people: Individuals, classes: Any) -> float:
    """Mean over all rows: (losses of classes + what the rows of the pool pay) / rows."""
    waiting = people.rows[classes.label == POOL].sum()
    return float((classes.loss.sum() + classes.waiting * waiting) / max(people.rows.sum(), 1))
