"""Homogeneous clusterings by name: over individuals for closed classes, over rows for the graph search.

Over rows each row stands for itself; where the table names individuals, ``who`` says whose it is, and no class holds
two rows of one. (Mondrian cannot choose: it leaves nobody more than a k-th of a class, and the circulant keeps those
rows apart.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.problem.errors import UnservedError
from kanonflow.solvers.problem.hierarchy_levels import Lattice
from kanonflow.solvers.problem.parameters import NO_PARAMETERS, Parameters, chosen
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.rivals.black_hole import BlackHoleParameters, StarProblem, black_hole_result
from kanonflow.solvers.rivals.ika import ika_labels
from kanonflow.solvers.rivals.k_member import k_member_labels
from kanonflow.solvers.rivals.kab import kab_result
from kanonflow.solvers.rivals.level_classes import LEVEL_STARTS, level_labels
from kanonflow.solvers.rivals.mondrian import mondrian_labels
from kanonflow.solvers.rivals.ncp_clustering import ncp_clustering_labels
from kanonflow.solvers.rivals.oka import oka_labels
from kanonflow.solvers.starts.circulant import circulant_members
from kanonflow.solvers.units.distinct_rows import Units
from kanonflow.solvers.units.features import WORD_BITS, build_features
from kanonflow.solvers.units.individuals import Individuals, pair_class_loss, touched_words
from kanonflow.solvers.units.kd_tree import KdTree

# Classes above this stay in the order they came in: chaining them is quadratic.
LARGEST_CHAIN = 500
# Those that look at all pairs take minutes here (k-member some three), and four times as long for twice as many.
LARGEST_QUADRATIC = 200_000


class ClusterProblem(NamedTuple):
    """What a clustering groups.

    people: u units. who: int64 (u,), the individual of each unit, codes from 0. codes: int32 (u, dc), the categorical
    codes of each unit (of its first row). code_price: float64 (dc,), price of a value beyond the first.
    lattice, order: what LEVEL_STARTS read, as in ``level_labels``. parameters: of the clustering, those of others among
    them.
    """

    people: Individuals
    who: NDArray[np.int64]
    codes: NDArray[np.int32]
    code_price: NDArray[np.float64]
    k: int
    seed: int
    lattice: Lattice | None = None
    order: NDArray[np.int64] | None = None
    parameters: Parameters = NO_PARAMETERS


def _mondrian(problem: ClusterProblem, *, relaxed: bool) -> NDArray[np.int32]:
    return mondrian_labels(
        problem.people, problem.who, problem.codes, problem.code_price, problem.k, relaxed=relaxed
    )


def star_problem(problem: ClusterProblem) -> StarProblem:
    """The same for population methods."""
    attributes = problem.people.numeric_weight.size + problem.codes.shape[1]
    return StarProblem(problem.people, problem.who, problem.k, attributes)


def stars_of(problem: ClusterProblem) -> BlackHoleParameters:
    """What of the population method was chosen."""
    return chosen(BlackHoleParameters, problem.parameters)


# Closed classes of at least k, int32 (u,), -1: waits (only where individuals have several rows). Each raises
# InfeasibleError for a table that it cannot group.
CLUSTERINGS: dict[str, Callable[[ClusterProblem], NDArray[np.int32]]] = {
    "k-member": lambda problem: k_member_labels(problem.people, problem.who, problem.k, problem.seed),
    "mondrian": lambda problem: _mondrian(problem, relaxed=False),
    "relaxed-mondrian": lambda problem: _mondrian(problem, relaxed=True),
    "oka": lambda problem: oka_labels(problem.people, problem.who, problem.k, problem.seed),
    "ika": lambda problem: ika_labels(problem.people, problem.who, problem.k, problem.seed),
    "ncp-clustering": lambda problem: ncp_clustering_labels(
        problem.people, problem.who, problem.k, problem.seed
    ),
    "black-hole": lambda problem: (
        black_hole_result(star_problem(problem), problem.seed, stars_of(problem)).labels
    ),
    "kab": lambda problem: kab_result(star_problem(problem), problem.seed, stars_of(problem)).labels,
}


STAR_METHODS = ("black-hole", "kab")
SUBQUADRATIC = frozenset({"mondrian", "relaxed-mondrian", "black-hole"})


def cluster(name: str, problem: ClusterProblem) -> NDArray[np.int32]:
    """The clustering of that name, or the classes of one of LEVEL_STARTS.

    Raises UnservedError for more units than it can serve in minutes, or for a table without the hierarchies it needs.
    """
    if name in LEVEL_STARTS:
        return level_labels(
            name,
            problem.lattice,
            problem.people,
            problem.who,
            problem.k,
            problem.seed,
            order=problem.order,
            parameters=problem.parameters,
        )
    check_size(name, problem)
    return CLUSTERINGS[name](problem)


def check_size(name: str, problem: ClusterProblem) -> None:
    """Raise UnservedError, naming the limit and alternatives, for more units than a clustering can serve in minutes."""
    if name not in SUBQUADRATIC and problem.who.size > LARGEST_QUADRATIC:
        raise UnservedError(
            f"{name} compares all pairs, so it takes at most {LARGEST_QUADRATIC:,} rows or individuals in a window, "
            f"not {problem.who.size:,}: take auto or l-greedy, or shorter windows"
        )


def individual_input(table: Table, people: Individuals, k: int, seed: int) -> ClusterProblem:
    """The individuals of a table as what is grouped."""
    _, first = np.unique(people.of_row, return_index=True)
    features = build_features(table, first.astype(np.int64))
    return ClusterProblem(
        people, np.arange(first.size), features.codes, features.code_weight, k, seed, table.lattice
    )


def row_input(units: Units, k: int, seed: int, *, distinct: bool) -> tuple[ClusterProblem, NDArray[np.int32]]:
    """The rows behind units as what is grouped, and the unit of each, int32 (n,). O(n d).

    distinct: whether the units have individuals; without, each row is its own.
    """
    features = units.features
    unit = np.repeat(np.arange(units.weight.size, dtype=np.int32), units.weight)
    codes = features.codes[unit]
    cardinality = codes.max(axis=0, initial=0).astype(np.int64) + 1
    first_bit = np.cumsum(cardinality) - cardinality
    words = np.zeros((unit.size, -(-int(cardinality.sum()) // WORD_BITS)), dtype=np.uint64)
    bit_weight = np.zeros(words.shape[1] * WORD_BITS)
    for j, (begin, size) in enumerate(zip(first_bit, cardinality, strict=True)):
        bits = codes[:, j].astype(np.int64) + begin
        words[np.arange(unit.size), bits // WORD_BITS] |= np.uint64(1) << (bits % WORD_BITS).astype(np.uint64)
        bit_weight[begin : begin + size] = features.code_weight[j]
    people = Individuals(
        low=features.numeric[unit],
        high=features.numeric[unit],
        words=words,
        touched=touched_words(words),
        numeric_weight=features.numeric_weight,
        bit_weight=bit_weight.reshape(words.shape[1], WORD_BITS),
        first_value=np.array([features.code_weight.sum()]),
        rows=np.ones(unit.size, dtype=np.int64),
        of_row=np.arange(unit.size),
        orders=features.orders,
    )
    who = units.individual[unit] if distinct else np.arange(unit.size)
    return ClusterProblem(people, who, codes, features.code_weight, k, seed), unit


@kernel
def _chain(people: Individuals, order: np.ndarray, starts: np.ndarray, k: int) -> None:
    """Reorder each class of more than k, in place: every next one is the nearest to the one before."""
    for number in range(starts.size - 1):
        begin, end = starts[number], starts[number + 1]
        if end - begin == k or end - begin > LARGEST_CHAIN:
            continue
        for position in range(begin + 1, end - 1):
            nearest = position
            best = np.inf
            for index in range(position, end):
                distance = pair_class_loss(people, order[position - 1], order[index])
                if distance < best:
                    best = distance
                    nearest = index
            order[position], order[nearest] = order[nearest], order[position]


def clustered_members(
    units: Units,
    name: str,
    k: int,
    seed: int,
    *,
    distinct: bool,
    lattice: Lattice | None = None,
    tree: KdTree | None = None,
    parameters: Parameters = NO_PARAMETERS,
) -> NDArray[np.int32]:
    """Slots over units, int32 (n, k): the classes of a clustering of the rows, each a circulant.

    A class of more than k is a circulant over a chain of nearest neighbours (S0, 5.5). lattice: of the table's rows,
    for LEVEL_STARTS, with the units' tree, along which their groups are cut. Raises InfeasibleError when the
    clustering cannot serve the rows, UnservedError when it does not take such a table.
    """
    problem, unit = row_input(units, k, seed, distinct=distinct)
    problem = problem._replace(parameters=parameters)
    if lattice is not None and tree is not None:
        place = np.empty(tree.order.size, dtype=np.int64)
        place[tree.order] = np.arange(tree.order.size)
        problem = problem._replace(
            lattice=lattice.taking(units.rows), order=np.argsort(place[unit], kind="stable")
        )
    labels = cluster(name, problem)
    order = np.argsort(labels, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(labels))]).astype(np.int64)
    _chain(problem.people, order, starts, k)
    # Where no class names anybody twice the chain needs no dealing, which would undo it.
    pairs = np.unique(np.stack([labels.astype(np.int64), problem.who], axis=1), axis=0)
    repeated = distinct and pairs.shape[0] < labels.size
    return circulant_members(units, unit[order], starts, k, distinct=repeated)
