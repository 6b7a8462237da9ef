"""KGen: a genetic algorithm on the nodes of the lattice (S1, section 3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.lattice.genetic_operators import (
    Levels,
    between,
    crossover,
    horizontal_mutation,
    selection_weights,
    standard_mutation,
)
from kanonflow.solvers.lattice.losses import log_of
from kanonflow.solvers.lattice.node_checks import KnownNodes, NodeChecks
from kanonflow.solvers.problem.errors import BudgetError


@dataclass(frozen=True)
class KGenParameters:
    """The defaults are those of S1, table 6.

    population: solutions a generation. evaluations: nodes asked about in all, those of the crossover and of the
    descent included (S1 does not count the former). crossover, mutation, horizontal_mutation: chances.
    horizontal_share: attributes that a horizontal mutation moves. literal_selection: choose parents by LOG as S1's
    figure 5 prints it. descent: lower the best new k-anonymous solution of each generation to a minimal one; not in S1.

    Raises BudgetError when a value is out of range.
    """

    population: int = 100
    evaluations: int = 5_000
    crossover: float = 0.9
    mutation: float = 0.2
    horizontal_mutation: float = 0.4
    horizontal_share: float = 0.5
    literal_selection: bool = False
    descent: bool = True

    def __post_init__(self) -> None:
        chances = (self.crossover, self.mutation, self.horizontal_mutation, self.horizontal_share)
        if self.population < 2 or self.evaluations < 1:
            raise BudgetError("kgen: population must be 2 or more and evaluations 1 or more")
        if not all(0 <= chance <= 1 for chance in chances):
            raise BudgetError("kgen: chances and shares must lie in [0, 1]")


class _EvaluationsSpentError(Exception):
    """The budget is spent."""


class KGenSearch:
    """One run. The answer is in the checks: ``checks.minimal``."""

    def __init__(self, checks: NodeChecks, parameters: KGenParameters, seed: int) -> None:
        self.checks, self.parameters = checks, parameters
        self.generator = np.random.default_rng(seed)
        self.low = np.array(checks.floor, dtype=np.int32)
        self.high = np.array(checks.lattice.top, dtype=np.int32)
        self.left = parameters.evaluations
        self.descended: set[bytes] = set()

    def ask(self, node: Levels) -> bool:
        """Whether a node is k-anonymous; one evaluation."""
        if self.left <= 0:
            raise _EvaluationsSpentError
        self.left -= 1
        return self.checks.anonymous(tuple(int(level) for level in node))

    def run(self, known: KnownNodes | None) -> None:
        """Generations until the evaluations are spent."""
        try:
            self._run(known)
        except _EvaluationsSpentError:
            return

    def _run(self, known: KnownNodes | None) -> None:
        size = self.parameters.population
        nodes = [] if known is None else list(self.checks.clipped(known.anonymous)[:size])
        nodes += [between(self.low, self.high, self.generator) for _ in range(size - len(nodes))]
        population = np.stack(nodes)
        fit = np.array([self.ask(node) for node in population])
        age = np.zeros(size, dtype=np.int64)
        while True:
            children = self._children(population, fit, age)
            found = np.array([self.ask(child) for child in children])
            if self.parameters.descent:
                lowered = self._descend(children[found])
                if lowered is not None:
                    children = np.concatenate([children, lowered[None, :]])
                    found = np.append(found, True)
            population = np.concatenate([population, children])
            fit = np.concatenate([fit, found])
            age = np.concatenate([age + 1, np.zeros(len(children), dtype=np.int64)])
            kept = self._survivors(population, fit)
            population, fit, age = population[kept], fit[kept], age[kept]

    def _children(
        self, population: NDArray[np.int32], fit: NDArray[np.bool_], age: NDArray[np.int64]
    ) -> NDArray[np.int32]:
        parameters = self.parameters
        log = log_of(population, self.checks.lattice)
        weights = selection_weights(log, age, literal=parameters.literal_selection)
        children: list[Levels] = []
        while len(children) < parameters.population:
            one, other = self.generator.choice(len(population), size=2, p=weights)
            if self.generator.random() < parameters.crossover:
                pair = bool(fit[one]), bool(fit[other])
                born = crossover(population[one], population[other], pair, self.ask, self.generator)
            else:
                born = [population[one].copy(), population[other].copy()]
            children += [self._mutated(child) for child in born]
        return np.stack(children)

    def _mutated(self, node: Levels) -> Levels:
        if self.generator.random() < self.parameters.mutation:
            node = standard_mutation(node, self.low, self.high, self.generator)
        if self.generator.random() < self.parameters.horizontal_mutation:
            share = self.parameters.horizontal_share
            node = horizontal_mutation(node, self.low, self.high, share, self.generator)
        return node

    def _survivors(self, population: NDArray[np.int32], fit: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Distinct solutions: k-anonymous ones by least LOG, but a quarter of the places for the highest others.

        S1 is silent here. Crossover needs both kinds of parents: those between a failing and a k-anonymous one are
        near the border.
        """
        size = self.parameters.population
        _, distinct = np.unique(population, axis=0, return_index=True)
        log = log_of(population[distinct], self.checks.lattice)
        good = distinct[fit[distinct]][np.argsort(log[fit[distinct]], kind="stable")]
        bad = distinct[~fit[distinct]][np.argsort(-log[~fit[distinct]], kind="stable")]
        failing = min(bad.size, max(size // 4, size - good.size))
        return np.concatenate([good[: size - failing], bad[:failing]])

    def _descend(self, anonymous: NDArray[np.int32]) -> Levels | None:
        """Lower the best of the nodes that was not lowered yet, attribute after attribute, to a minimal node."""
        for index in np.argsort(log_of(anonymous, self.checks.lattice), kind="stable"):
            node = anonymous[index]
            if node.tobytes() not in self.descended:
                self.descended.add(node.tobytes())
                return self._lowered(node)
        return None

    def _lowered(self, node: Levels) -> Levels:
        """A minimal k-anonymous node below a k-anonymous one.

        Half of the times one step at a random attribute, else each attribute in turn to the lowest level that it may
        have. An attribute that cannot be lowered cannot be later either, for then others are lower.
        """
        node = node.copy()
        by_steps = bool(self.generator.random() < 0.5)
        open_ones = list(self.generator.permutation(node.size))
        while open_ones:
            place = int(self.generator.integers(len(open_ones))) if by_steps else len(open_ones) - 1
            attribute = open_ones[place]
            below = node.copy()
            below[attribute] -= 1
            if below[attribute] >= self.low[attribute] and self.ask(below):
                node = below
            else:
                open_ones.pop(place)
        return node


def kgen(
    checks: NodeChecks,
    *,
    seed: int,
    parameters: KGenParameters | None = None,
    known: KnownNodes | None = None,
) -> NDArray[np.int32]:
    """The lowest k-anonymous nodes found, int32 (m, d). O(evaluations (n d + border d)).

    known: the k-anonymous nodes of an earlier window join the first population. Always has an answer, the top at worst.
    Source: S1, section 3, with the minimum of the lattice raised as in ``NodeChecks``.
    """
    KGenSearch(checks, parameters or KGenParameters(), seed).run(known)
    return checks.minimal
