"""Rates of attacks with exact intervals, and what is left of them beyond those of controls."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

CONFIDENCE = 0.95
LEAST = 200
"""Trials of a side; fewer give no interval and no figure."""


@dataclass(frozen=True)
class Rate:
    """hits of trials. Of people with several rows each: as many independent trials as their shares are worth."""

    hits: float
    trials: float

    @property
    def share(self) -> float:
        """Of the trials; 0 without any."""
        return self.hits / self.trials if self.trials else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% interval of Clopper and Pearson."""
        tail, missed = (1 - CONFIDENCE) / 2, self.trials - self.hits
        low = float(betaincinv(self.hits, missed + 1, tail)) if self.hits > 0 else 0.0
        high = float(betaincinv(self.hits + 1, missed, 1 - tail)) if missed > 0 else 1.0
        return low, high


def rate_of(hits: NDArray[np.float64], trials: NDArray[np.float64]) -> Rate:
    """The rate of people with several trials each, float64 (p,): hits over trials.

    Trials of one person are no independent ones. So the rate r is worth r(1 - r) / var of them, var its variance when
    people are drawn, at least one a person and at most all: as if everybody's trials were equal, or had nothing to do
    with each other.
    """
    hits, trials = hits[trials > 0], trials[trials > 0]
    people, total = trials.size, float(trials.sum())
    if not people:
        return Rate(0.0, 0.0)
    rate = float(hits.sum()) / total
    spread = float(((hits - rate * trials) ** 2).sum()) / total**2 * people / max(people - 1, 1)
    worth = min(max(float(people), rate * (1 - rate) / spread if spread else 0.0), total)
    return Rate(rate * worth, worth)


@dataclass(frozen=True)
class Excess:
    """What is left of a rate beyond the controls': (r - c) / (1 - c), in [0, 1], with a 95% interval.

    advantage: it is r - c, which is what a reader gains who says yes or no of everybody.
    The interval has the arms of the two rates' exact intervals, put together as independent errors are: each arm times
    the slope of the formula, squared and added (Zou and Donner 2008 do so for differences).
    """

    rate: Rate
    control: Rate
    advantage: bool = False

    @property
    def enough(self) -> bool:
        """Whether both sides have trials enough."""
        return min(self.rate.trials, self.control.trials) >= LEAST

    @property
    def figure(self) -> float:
        """The excess."""
        return min(max(self._raw, 0.0), 1.0)

    @property
    def interval(self) -> tuple[float, float]:
        """Its 95% interval."""
        rate, control = self.rate.share, self.control.share
        if control >= 1.0 and not self.advantage:
            return 0.0, 1.0
        (low, high), (least, most) = self.rate.interval, self.control.interval
        steep, flat = (1.0, 1.0) if self.advantage else (1 / (1 - control), (1 - rate) / (1 - control) ** 2)
        down = math.hypot(steep * (rate - low), flat * (most - control))
        up = math.hypot(steep * (high - rate), flat * (control - least))
        return min(max(self._raw - down, 0.0), 1.0), min(max(self._raw + up, 0.0), 1.0)

    @property
    def odd(self) -> bool:
        """Whether controls are hit more often than people, by more than chance: they are of another kind then."""
        return self.enough and self.rate.interval[1] < self.control.interval[0]

    @property
    def _raw(self) -> float:
        rate, control = self.rate.share, self.control.share
        if self.advantage:
            return rate - control
        return 0.0 if control >= 1.0 else (rate - control) / (1 - control)
