"""Where an answer plausibly is, by a model of who stands behind the boxes. No guarantee: the certain bounds are one.

People are drawn into every box and its rows dealt to them (``drawn_rows``), and the question is asked of what was
drawn, many times, from seeds of their own. Of a group, with v the value and Q the quantiles of its draws,

    plausible_low  = v - c max(v - Q(alpha / 2), 0)        and no further than lower
    plausible_high = v + c max(Q(1 - alpha / 2) - v, 0)    and no further than upper

alpha is 1 - level, c = 1.15 a factor that was fitted. What the model takes for granted, and feeds need not keep: within
a box fields are independent, payload does not go with a person, and people share rows as a Dirichlet does. How often
intervals held on feeds whose truth is known is in ``benchmarks/results/plausible.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kanonflow.pipelines.estimates.coverage import Bools, Float64s, Int64s
from kanonflow.pipelines.estimates.drawn_rows import DrawnRows, Match
from kanonflow.pipelines.estimates.questions import Answers, Asked, DrawnGroups, Measure, Question
from kanonflow.schemas.errors import InputError

GROUPS_AT_ONCE = 100_000
MOST_DRAWS = 10_000
WIDENED = 1.15
"""Fitted as ``drawn_rows.UNSURE`` was."""
Key = tuple[str, bool]


@dataclass(frozen=True)
class Plausible:
    """What is drawn how often. seed: of all draws. draws: how many. level: of the intervals, a share."""

    seed: int = 0
    draws: int = 200
    level: float = 0.95

    def __post_init__(self) -> None:
        wrong = [
            f"{name} is {what}"
            for name, what, holds in (
                ("level", "a share above 0 and below 1", 0 < self.level < 1),
                ("draws", f"a whole number from 0 to {MOST_DRAWS:,}", 0 <= self.draws <= MOST_DRAWS),
                ("seed", "a whole number from 0", self.seed >= 0),
            )
            if not holds
        ]
        if wrong:
            raise InputError(f"estimate: {'; '.join(wrong)}")


@dataclass(frozen=True)
class Drawing:
    """rows: to draw. where: of each region the matches of its fields, None: all rows; part: the same of a ratio.
    by: of each field its match; shape: how many parts each has."""

    rows: DrawnRows
    where: Sequence[Mapping[Key, Match]]
    part: Sequence[Mapping[Key, Match]] | None
    by: Mapping[Key, Match]
    shape: tuple[int, ...]

    def drawn(self, random: np.random.Generator) -> Callable[[Sequence[Measure]], DrawnGroups]:
        """Of one draw, what questions of some measures are asked of."""
        entries, fields = self.rows.drawn(random)
        inside = np.flatnonzero(_in_any(self.where, fields, entries.rows.size))
        parts = {name: match(fields[name, units])[inside] for (name, units), match in self.by.items()}
        in_part = None if self.part is None else _in_any(self.part, fields, entries.rows.size)[inside]
        rows = entries.rows[inside].astype(np.float64)

        def of(measures: Sequence[Measure]) -> DrawnGroups:
            values = []
            for measure in measures:
                own = fields[measure.name, True]
                values.append(np.where(own.none, np.nan, measure.values(own.values))[inside])
            return DrawnGroups(rows, parts, self.shape, tuple(values), in_part)

        return of


def plausible_intervals(
    drawing: Drawing | None,
    questions: Sequence[tuple[Question, Sequence[Measure], Asked, Answers]],
    model: Plausible,
) -> list[tuple[Float64s, Float64s]]:
    """Of each question the low and high ends, float64 (g,) each. O(draws x entries)."""
    ends = [(answers.lower.copy(), answers.upper.copy()) for *_, answers in questions]
    open_ = np.zeros(0, np.int64)
    for *_, answers in questions:
        open_ = np.union1d(open_, np.flatnonzero(answers.upper > answers.lower))
    for begin in range(0, open_.size if drawing is not None and model.draws else 0, GROUPS_AT_ONCE):
        assert drawing is not None
        at = open_[begin : begin + GROUPS_AT_ONCE]
        drawn = np.empty((len(questions), model.draws, at.size))
        for number in range(model.draws):
            of = drawing.drawn(np.random.default_rng([model.seed, number]))
            for place, (question, measures, asked, _) in enumerate(questions):
                drawn[place, number] = question.of_drawn(of(measures), asked)[at]
        for (_, _, _, answers), (low, high), own in zip(questions, ends, drawn, strict=True):
            low[at], high[at] = _ends(answers, at, own, model.level)
    return ends


def _ends(answers: Answers, at: Int64s, drawn: Float64s, level: float) -> tuple[Float64s, Float64s]:
    value, lower, upper = answers.value[at], answers.lower[at], answers.upper[at]
    drawn = np.sort(drawn, axis=0)
    count = drawn.shape[0] - np.isnan(drawn).sum(axis=0)
    low, high = (_at(drawn, count, part) for part in ((1 - level) / 2, (1 + level) / 2))
    with np.errstate(invalid="ignore", over="ignore"):
        low = np.clip(value - WIDENED * np.maximum(value - low, 0.0), lower, upper)
        high = np.clip(value + WIDENED * np.maximum(high - value, 0.0), lower, upper)
    return np.where(np.isnan(low), lower, low), np.where(np.isnan(high), upper, high)


def _at(drawn: Float64s, count: Int64s, part: float) -> Float64s:
    """The quantile of each column, of its first ``count`` that are numbers; NaN of none."""
    place = part * np.maximum(count - 1, 0)
    first = place.astype(np.int64)
    second = np.minimum(first + 1, np.maximum(count - 1, 0))
    columns = np.arange(drawn.shape[1])
    one, other = drawn[first, columns], drawn[second, columns]
    return one + (place - first) * (other - one)


def _in_any(regions: Sequence[Mapping[Key, Match]], fields: Mapping[Any, Any], count: int) -> Bools:
    inside = np.zeros(count, np.bool_)
    for region in regions:
        own = np.ones(count, np.bool_)
        for name, match in region.items():
            own &= match(fields[name]) >= 0
        inside |= own
    return inside
