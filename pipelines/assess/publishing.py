"""What of an assessment is told in public: figures in hundredths, out of which no count below k can be had.

A count is known as one of some neighbouring counts only, at least k and a hundredth of the trials of them; what is told
is worked out from these alone. So figures that differ tell counts that are k apart or more.
"""

from __future__ import annotations

import math

from kanonflow.pipelines.assess.findings import Assessment, Line
from kanonflow.pipelines.assess.rates import Excess, Rate
from kanonflow.pipelines.run_records.public_assessment import PublicAssessment, PublicLine


def public_assessment(assessment: Assessment) -> PublicAssessment:
    """The lines that have a limit and a figure, rounded."""
    lines = [
        _public(line, assessment.k)
        for line in assessment.lines
        if line.limit is not None and line.outcome is not None
    ]
    return PublicAssessment(tuple(lines), min(assessment.people, assessment.controls) // 100 * 100)


def _public(line: Line, k: int) -> PublicLine:
    sides = [Blurred.of(each, k) for each in (line.rate, line.release) if each is not None]
    control = Blurred.of(line.control, k) if line.control is not None else None
    each = [_rounded(side, control) for side in sides]
    figure, low, high = max(each, key=lambda one: one[2])
    return PublicLine(line.question, line.attack, figure, low, high, float(line.limit or 0.0))


class Blurred:
    """A rate of which the hits are known as ``least`` to ``most`` of the trials."""

    def __init__(self, least: float, most: float, trials: float) -> None:
        self.least, self.most = Rate(least, trials), Rate(most, trials)
        self.middle = Rate((least + most) / 2, trials)

    @classmethod
    def of(cls, rate: Rate, k: int) -> Blurred:
        """The counts that are told as one. The last ones are told with those before them if they are too few."""
        size = max(k, math.ceil(rate.trials / 100))
        parts = max(int(rate.trials // size), 1)
        part = min(int(rate.hits // size), parts - 1)
        return cls(part * size, rate.trials if part == parts - 1 else (part + 1) * size, rate.trials)


def _rounded(side: Blurred, control: Blurred | None) -> tuple[float, float, float]:
    """Figure, lower end and upper end in hundredths, the ends rounded outwards."""
    if control is None:
        figure, low, high = side.middle.share, side.least.interval[0], side.most.interval[1]
    else:
        figure = Excess(side.middle, control.middle).figure
        low = Excess(side.least, control.most).interval[0]
        high = Excess(side.most, control.least).interval[1]
    return round(figure, 2), math.floor(low * 100) / 100, min(math.ceil(high * 100) / 100, 1.0)
