"""Classes that stand at one node of a lattice, for the search to begin with: the groups of equal generalized values.

A lattice method finds the node. What it suppresses there is not lost here: it joins the class that grows least.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.problem.errors import BudgetError, InfeasibleError, UnservedError
from kanonflow.solvers.problem.hierarchy_levels import Lattice
from kanonflow.solvers.problem.parameters import NO_PARAMETERS, Parameters
from kanonflow.solvers.rivals.leftovers import join_cheapest
from kanonflow.solvers.rivals.toy_lattices import TOY_LATTICES
from kanonflow.solvers.shapes.lattices import LATTICE_SOLVERS, LatticeTask, solve_lattice
from kanonflow.solvers.units.individuals import Individuals

LEVEL_STARTS = (*LATTICE_SOLVERS, *TOY_LATTICES)
# Share of the rows that a node may leave to the classes of others: without any a few rare rows raise everybody.
LEFT_OVER = 0.05


def level_labels(
    name: str,
    lattice: Lattice | None,
    people: Individuals,
    who: NDArray[np.int64],
    k: int,
    seed: int,
    *,
    order: NDArray[np.int64] | None = None,
    parameters: Parameters = NO_PARAMETERS,
) -> NDArray[np.int32]:
    """Closed classes of at least k, int32 (u,): the groups of the best node that a lattice method finds.

    name: of LEVEL_STARTS. lattice: the n rows behind the u units (``people.of_row``), its own individuals not read.
    who: int64 (u,), the individual of each unit, codes from 0. order: int64 (u,), a tour of the units: groups are
    dealt along it into classes of k that hold nobody twice; None: groups stay whole, and may name one twice.

    Best is least GCP among the lowest nodes at which at most 5% of the rows are in groups too small. A unit whose rows
    fall into several groups, or are suppressed, joins the class whose loss grows least; it waits (-1) where units have
    several rows and it costs more than those. Raises UnservedError without a lattice or for one that the method cannot
    take, InfeasibleError when there are fewer than k individuals, when the last levels have several nodes that are too
    small, or when a row is left over that no class may take. Time: the method's, and O(units left over x classes x d).
    """
    if lattice is None:
        raise UnservedError(
            f"{name} begins at levels of hierarchies and the table has none: give every quasi-identifier a hierarchy "
            "(Table.lattice; in a policy type: hierarchy), or take another start such as auto"
        )
    repeated = int(who.max(initial=-1)) + 1 < who.size
    owners = who[people.of_row]
    if np.unique(owners).size < k:
        raise InfeasibleError(f"fewer than k={k} individuals")
    single = int(owners.max(initial=-1)) + 1 == owners.size
    try:
        task = LatticeTask(
            replace(lattice, individuals=None if single else owners),
            k,
            suppression=LEFT_OVER,
            loss="gcp",
            seed=seed,
            only_best=True,
            even_share=repeated,
            parameters=parameters,
        )
        found = solve_lattice(task, name)
    except BudgetError as refusal:
        raise UnservedError(str(refusal)) from refusal
    labels = _whole_groups(_unit_labels(found.best.labels, people.of_row, who.size), who, k)
    if order is not None:
        labels = _dealt(labels, who, k, order)
    join_cheapest(people, who, labels, np.flatnonzero(labels < 0))
    return labels


def _unit_labels(rows: NDArray[np.int32], of_row: NDArray[np.int64], units: int) -> NDArray[np.int32]:
    """The group that holds all rows of a unit, else -1."""
    least = np.full(units, np.iinfo(np.int32).max, dtype=np.int32)
    most = np.full(units, -1, dtype=np.int32)
    np.minimum.at(least, of_row, rows)
    np.maximum.at(most, of_row, rows)
    return np.where(least == most, most, -1).astype(np.int32)


def _whole_groups(labels: NDArray[np.int32], who: NDArray[np.int64], k: int) -> NDArray[np.int32]:
    """Groups of at least k individuals, numbered from 0; one group of all when there is none."""
    inside = labels >= 0
    pairs = np.unique(np.stack([labels[inside].astype(np.int64), who[inside]], axis=1), axis=0)
    sizes = np.bincount(pairs[:, 0], minlength=int(labels.max(initial=-1)) + 1)
    numbers = np.where(sizes >= k, np.cumsum(sizes >= k) - 1, -1)
    if not (numbers >= 0).any():
        return np.zeros(labels.size, dtype=np.int32)
    return np.where(inside, numbers[labels], -1).astype(np.int32)


def _dealt(
    labels: NDArray[np.int32], who: NDArray[np.int64], k: int, order: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Each group cut along the tour into classes of k; -1 for what is left over. O(u log u)."""
    along = order[labels[order] >= 0]
    along = along[np.argsort(labels[along], kind="stable")]
    starts = np.concatenate([[0], np.cumsum(np.bincount(labels[along]))]).astype(np.int64)
    dealt = np.full(labels.size, -1, dtype=np.int32)
    _deal(along, starts, who, k, dealt)
    return dealt


@kernel
def _deal(along: np.ndarray, starts: np.ndarray, who: np.ndarray, k: int, dealt: np.ndarray) -> None:
    """Classes of k different individuals, group after group; a unit whose individual is in goes to a later class."""
    holder = np.full(who.max() + 1, -1, dtype=np.int64)
    passed = np.empty(along.size, dtype=np.int64)
    members = np.empty(k, dtype=np.int64)
    number = 0
    for group in range(starts.size - 1):
        place, end = starts[group], starts[group + 1]
        waiting = 0
        filled = k
        while filled == k:
            filled = 0
            kept = 0
            for index in range(waiting):
                unit = passed[index]
                if filled < k and holder[who[unit]] != number:
                    holder[who[unit]] = number
                    members[filled] = unit
                    filled += 1
                else:
                    passed[kept] = unit
                    kept += 1
            waiting = kept
            while filled < k and place < end:
                unit = along[place]
                place += 1
                if holder[who[unit]] != number:
                    holder[who[unit]] = number
                    members[filled] = unit
                    filled += 1
                else:
                    passed[waiting] = unit
                    waiting += 1
            if filled == k:
                for position in range(k):
                    dealt[members[position]] = number
            # Also after a class that was not filled: its individuals are free again.
            number += 1
    # Numbers of classes that were not filled are closed up.
    dense = np.full(number + 1, -1, dtype=np.int64)
    count = 0
    for unit in along:
        if dealt[unit] >= 0:
            if dense[dealt[unit]] < 0:
                dense[dealt[unit]] = count
                count += 1
            dealt[unit] = dense[dealt[unit]]
