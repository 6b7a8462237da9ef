"""The black hole algorithm on clusterings: stars fall towards the best one (S4, Algorithm 2; Hatamlou 2013).

Each round every star but the best (the black hole) moves towards it; a star that becomes better takes its place; a star
within the horizon ``R = f_BH / sum f`` (S4, eq. 11) of ``|f - f_BH|`` is swallowed, and a new one begins elsewhere.
Fitness (S4, eq. 4-8) is ``(privacy + utility) / 2``, privacy 1 for a star with a class below k, else 0. Utility is the
loss over all rows in [0, 1]; the printed sum over rows and attributes drowns privacy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.problem.errors import BudgetError, InfeasibleError
from kanonflow.solvers.rivals.class_hulls import labels_loss
from kanonflow.solvers.rivals.stars import Mend, mended_at_random, moved, moved_as_printed
from kanonflow.solvers.units.individuals import Individuals


@dataclass(frozen=True)
class BlackHoleParameters:
    """stars, iterations: S4 takes 3 and 10. horizon: factor on R, 0 swallows nobody.

    literal: eq. 10 on ids, rounded and clamped, the printed fitness, and stars mended at the end only.
    Raises BudgetError when there is no star or a number is negative.
    """

    stars: int = 3
    iterations: int = 10
    horizon: float = 1.0
    literal: bool = False

    def __post_init__(self) -> None:
        if self.stars < 1 or self.iterations < 0 or self.horizon < 0:
            raise BudgetError("a population needs at least 1 star, and iterations and horizon of at least 0")


class StarProblem(NamedTuple):
    """people: u units; who: int64 (u,), the individual of each, codes from 0; attributes: d."""

    people: Individuals
    who: NDArray[np.int64]
    k: int
    attributes: int


class StarResult(NamedTuple):
    """labels: int32 (u,), the black hole at the end, closed classes of at least k.

    warm: whether it descends from the star that was given. warm_loss: of that star, cold_loss: of the best of the
    others at the beginning; None without one. made: stars that were made afresh. swallowed: of them, in the
    place of a swallowed one. overtaken: how often a star became better than the black hole by moving.
    """

    labels: NDArray[np.int32]
    warm: bool
    warm_loss: float | None
    cold_loss: float | None
    made: int
    swallowed: int
    overtaken: int


def fitness(problem: StarProblem, labels: NDArray[np.int32], *, literal: bool) -> float:
    """S4, eq. 4: smaller is better. literal: utility as printed, summed over rows and attributes."""
    sizes = np.bincount(labels[labels >= 0])
    private = not np.any((sizes > 0) & (sizes < problem.k))
    utility = labels_loss(problem.people, labels)
    if literal:
        utility *= float(problem.people.rows.sum()) * problem.attributes
    return 0.5 * ((0.0 if private else 1.0) + utility)


def search_stars(
    problem: StarProblem,
    parameters: BlackHoleParameters,
    seed: int,
    fresh: Callable[[int], NDArray[np.int32]],
    mend: Mend,
    old_star: NDArray[np.int32] | None = None,
) -> StarResult:
    """The black hole after all rounds.

    fresh: a new star from a seed. mend: makes a moved star legal; where it raises InfeasibleError the star stays where
    it was. old_star: labels of a star to begin with, in the place of a fresh one; -1 for units that it does not know.
    """
    generator = np.random.default_rng(seed)

    def draw() -> int:
        return int(generator.integers(2**63))

    def value(labels: NDArray[np.int32]) -> float:
        return fitness(problem, labels, literal=parameters.literal)

    stars: list[NDArray[np.int32]] = []
    if old_star is not None:
        try:
            stars.append(mend(old_star, draw()))
        except InfeasibleError:
            old_star = None
    warm = [old_star is not None] + [False] * (parameters.stars - 1)
    stars += [fresh(draw()) for _ in range(max(parameters.stars - len(stars), 0 if stars else 1))]
    values = [value(star) for star in stars]
    losses = [labels_loss(problem.people, star) for star in stars] if old_star is not None else []
    made, swallowed, overtaken = len(stars) - (old_star is not None), 0, 0
    best = int(np.argmin(values))
    for _ in range(parameters.iterations):
        for star in range(len(stars)):
            if star == best:
                continue
            place = _after_step(stars[star], stars[best], parameters, generator, mend, draw())
            stars[star], values[star] = place, value(place)
            warm[star] = warm[star] or warm[best]
            if values[star] < values[best]:
                best = star
                overtaken += 1
        radius = parameters.horizon * values[best] / max(sum(values), np.finfo(float).tiny)
        for star in range(len(stars)):
            if star != best and abs(values[star] - values[best]) < radius:
                stars[star], warm[star] = fresh(draw()), False
                values[star] = value(stars[star])
                made, swallowed = made + 1, swallowed + 1
        best = min(range(len(stars)), key=lambda star: (values[star], star != best))
    return StarResult(
        labels=mend(stars[best], draw()) if parameters.literal else stars[best],
        warm=warm[best],
        warm_loss=losses[0] if losses else None,
        cold_loss=min(losses[1:], default=None) if losses else None,
        made=made,
        swallowed=swallowed,
        overtaken=overtaken,
    )


def _after_step(
    star: NDArray[np.int32],
    target: NDArray[np.int32],
    parameters: BlackHoleParameters,
    generator: np.random.Generator,
    mend: Mend,
    seed: int,
) -> NDArray[np.int32]:
    if parameters.literal:
        return moved_as_printed(star, target, generator)
    try:
        return mend(moved(star, target, generator), seed)
    except InfeasibleError:
        return star


def random_star(who: NDArray[np.int64], k: int, seed: int) -> NDArray[np.int32]:
    """Closed classes of at least k, int32 (u,): a random number of classes, units dealt at random.

    Raises InfeasibleError when an individual has more than a k-th of the units. The units, grouped by individual and
    the individuals shuffled, go round the classes, so that no class holds an individual twice. O(u log u).
    """
    u = who.size
    counts = np.bincount(who, minlength=1)
    if u < k or int(counts.max()) * k > u:
        raise InfeasibleError(f"no classes of k={k} individuals exist")
    generator = np.random.default_rng(seed)
    classes = int(generator.integers(max(int(counts.max()), 1), u // k + 1))
    labels = np.empty(u, dtype=np.int32)
    labels[np.argsort(generator.permutation(counts.size)[who], kind="stable")] = np.arange(u) % classes
    return labels


def black_hole_result(
    problem: StarProblem, seed: int, parameters: BlackHoleParameters | None = None
) -> StarResult:
    """BHA: stars begin as, and swallowed ones are replaced by, random classes; so are moved ones mended (S4, 4.2).

    Raises InfeasibleError when no classes of k individuals exist. O(stars iterations u (log u + d)).
    """
    return search_stars(
        problem,
        parameters or BlackHoleParameters(),
        seed,
        lambda drawn: random_star(problem.who, problem.k, drawn),
        lambda labels, drawn: mended_at_random(problem.who, problem.k, labels, drawn),
    )
