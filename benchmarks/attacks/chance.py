"""What an attack reached against what guessing reaches: rates, intervals, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

CONFIDENCE = 0.999
LEAST_RELEASES = 20
"""Fewer do not tell how much the hits of a release vary."""


@dataclass
class Tally:
    """Guesses of an attack, release by release. hits, trials: of each release; expected, spread: the mean and the
    variance of its hits if each guess were an independent one with the chance that the structure allows."""

    hits: list[float] = field(default_factory=list)
    trials: list[int] = field(default_factory=list)
    expected: list[float] = field(default_factory=list)
    spread: list[float] = field(default_factory=list)

    def add(self, hits: NDArray[np.bool_], chance: NDArray[np.float64]) -> None:
        """The guesses of one release, and the chance of each."""
        if hits.size:
            self.hits.append(float(hits.sum()))
            self.trials.append(hits.size)
            self.expected.append(float(chance.sum()))
            self.spread.append(float((chance * (1 - chance)).sum()))

    @property
    def guesses(self) -> int:
        """Guesses in all."""
        return sum(self.trials)

    @property
    def rate(self) -> float | None:
        """Share of the guesses that were right; None without any."""
        return sum(self.hits) / self.guesses if self.guesses else None

    @property
    def chance(self) -> float | None:
        """The same if the release told nothing beyond the candidates."""
        return sum(self.expected) / self.guesses if self.guesses else None

    @property
    def dispersion(self) -> float:
        """Variance of a release's hits over that of independent guesses, at least 1.

        Rows of one release are matched together, so their guesses are no independent trials.
        """
        spread = np.array(self.spread)
        if spread.size < LEAST_RELEASES or not np.any(spread):
            return 1.0
        gaps = np.array(self.hits) - np.array(self.expected)
        # About their own mean: an attack that succeeds must not widen the interval by its success.
        gaps -= gaps.sum() * np.array(self.trials) / self.guesses
        return max(1.0, float((gaps[spread > 0] ** 2 / spread[spread > 0]).mean()))

    def interval(self) -> tuple[float, float] | None:
        """Where the rate lies in 99.9% of all runs if guessing is all there is: a binomial interval about ``chance``
        for as many independent guesses as these are worth."""
        if self.chance is None:
            return None
        worth = max(1, round(self.guesses / self.dispersion))
        low, high = binom.interval(CONFIDENCE, worth, self.chance)
        return float(low) / worth, float(high) / worth

    def verdict(self, k: int) -> str:
        """Whether the rate is chance, and chance at most 1/k."""
        interval = self.interval()
        if interval is None or self.rate is None or self.chance is None:
            return "no guesses"
        if self.chance > 1 / k + 1e-9:
            return "NO: fewer than k candidates"
        low, high = interval
        if self.rate > high:
            return "NO: above chance"
        return "yes" if self.rate >= low else "below chance"
