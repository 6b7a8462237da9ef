"""Cuts of people into shards that are tried before one is kept: a sample of the people is founded in its shards.

    tried_cut(table, policy, shards, ...) -> TriedCut(name, cut, whole, losses, people)

Which cut parts the fewest cohorts depends on the feed: where towns are dear, cells; where all are numbers, tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.schemas.policy import Policy
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.units.tree_cut import TreeCut, even_sample, make_cut
from kanonflow.transforms.roster.founding import SAMPLE, SAMPLE_LESS, SHARES, budget_of, put_together, rows_of

BOTH = "cells, then tests"
WAYS: Mapping[str, Mapping[str, bool]] = {
    BOTH: {},
    "cells alone": {"tests": False},
    "tests alone": {"cells": False},
}
"""How people are cut: by dear categories first, and what of them is too large by tests."""

COSTLY, RUINOUS = 1_000, 250
"""Fewer people a shard lose by it: it is said, and below the second refused unless accepted (measured: 2 to 18%)."""


def group_size(policy: Policy) -> int:
    """How many are put together at least: people of a cohort, or rows."""
    return policy.cohort_size or policy.k


class TriedCut(NamedTuple):
    """What was tried of a partition.

    name: of the cut that loses least, and ``cut`` itself. whole: what the sample loses in one piece. losses: in its
    shards, by name of the cut. sample: how many people that are. people: of each shard, of all people.
    """

    name: str
    cut: TreeCut
    whole: float
    losses: Mapping[str, float]
    sample: int
    people: tuple[int, ...]


def tried_cut(table: Table, policy: Policy, shards: int, *, seed: int, threads: int) -> TriedCut:
    """The cut of people into shards by which a sample of them loses least.

    table: n people, a row each. A function of the people's values and the seed, but for which of equal ones is where.
    O(n log n), and the search of the sample, once for each cut and once in one piece, at equal evaluations.
    """
    size = group_size(policy)
    # Of each shard people for some cohorts, for less than one would count as lost, whatever the cut.
    sample = even_sample(table, max(SAMPLE, shards * SHARES * size))
    here = rows_of(table, sample)
    budget = budget_of(policy.solver.evaluations_per_row, sample.size, size, SAMPLE_LESS)
    cohorts, whole = put_together(here, policy, size, budget, seed, threads)
    cuts = {
        name: make_cut(table, sample, cohorts, shards, **how, part_equal=policy.promise.epochs)
        for name, how in WAYS.items()
    }

    def loss(cut: TreeCut) -> float:
        pieces = cut.piece_of(table)[sample]
        return (
            sum(
                len(own) * _lost(rows_of(here, own), policy, size, budget, seed, threads)
                for own in _each(pieces)
            )
            / sample.size
        )

    losses = {name: loss(cut) for name, cut in cuts.items()}
    best = min(losses, key=lambda name: losses[name])
    people = np.bincount(cuts[best].piece_of(table), minlength=cuts[best].pieces)
    return TriedCut(best, cuts[best], whole, losses, sample.size, tuple(people.tolist()))


def _each(pieces: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    order = np.argsort(pieces, kind="stable")
    yield from np.split(order, np.cumsum(np.bincount(pieces))[:-1])


def _lost(people: Table, policy: Policy, size: int, budget: Budget, seed: int, threads: int) -> float:
    """Of a shard's part of the sample; all of it where that is no cohort."""
    if people.records == 0:
        return 0.0
    if people.records < size:
        return 1.0
    return put_together(people, policy, size, budget, seed, threads)[1]


def refusal(
    people: tuple[int, ...], size: int, *, accept_small: bool = False, rows: bool = False
) -> str | None:
    """Why a plan with so many people in each shard is refused, in words; None: it is not. size: of a cohort.

    rows: they are rows of a mean window, and the size is k.
    """
    least = min(people)
    units, each = ("rows", " a window") if rows else ("people", "")
    if least < size:
        fewer = f"k ({size})" if rows else f"a cohort (cohort_size: {size})"
        return (
            f"a shard would have {least} {units}{each}, fewer than {fewer}: equal {units} stay together where nothing"
            " parts them. Ask for fewer shards"
        )
    if least < RUINOUS and not accept_small:
        return (
            f"a shard would have {least:,} {units}{each}. Below {RUINOUS} {units} a shard 2 to 18% more was lost; ask"
            " for fewer shards, or say --accept-small"
        )
    return None


def cost_words(people: tuple[int, ...], *, rows: bool = False) -> str | None:
    """What so many people a shard cost, in words; None: nothing that was measured. rows: as of ``refusal``."""
    least = min(people)
    if least >= COSTLY:
        return None
    units, choice = ("rows a window", "slots") if rows else ("people", "cohorts")
    return (
        f"the smallest shard has {least:,} {units}: below {COSTLY:,} {choice} have little to choose from (below"
        f" {RUINOUS} 2 to 18% more was lost); fewer shards lose less"
    )
