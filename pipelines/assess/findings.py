"""What was measured: a line an attack, with rate, controls, figure, interval and verdict."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kanonflow.pipelines.assess.rates import LEAST, Excess, Rate
from kanonflow.schemas.policy_choices import AssessLimits, JudgedBy

SINGLING_OUT, LINKABILITY, INFERENCE = "singling out", "linkability", "inference"
ELSE = "beside these"
ATTRIBUTES = "everybody's attributes"
WITHIN, ABOVE, OPEN = "within", "ABOVE", "not judged"


@dataclass(frozen=True)
class Line:
    """An attack. rate: of people, control: of controls; release: of the people in the release itself, where a twin
    stands for it. limit: of the policy; None: there is none. why: there is no figure. advantage: as of ``Excess``.
    counted: it is a count of all there is and no sample: it has no interval."""

    question: str
    reader: str
    attack: str
    rate: Rate | None = None
    control: Rate | None = None
    release: Rate | None = None
    limit: float | None = None
    why: str = ""
    advantage: bool = False
    counted: bool = False

    @property
    def worst(self) -> Excess | None:
        """Of the twin or of the release, whichever has the higher end; None: there are no controls."""
        sides = [each for each in (self.rate, self.release) if each is not None]
        if self.control is None or not sides:
            return None
        excesses = [Excess(each, self.control, self.advantage) for each in sides]
        return max(excesses, key=lambda each: each.interval[1])

    @property
    def outcome(self) -> tuple[float, tuple[float, float]] | None:
        """Figure and interval; None: there is none."""
        if self.rate is None or self.why:
            return None
        if self.counted:
            return self.rate.share, (self.rate.share, self.rate.share)
        if self.worst is None:
            return (self.rate.share, self.rate.interval) if self.rate.trials >= LEAST else None
        return (self.worst.figure, self.worst.interval) if self.worst.enough else None

    @property
    def reason(self) -> str:
        """Why there is no figure, in words; "": there is one, or nothing was asked."""
        if self.why or self.outcome is not None or self.rate is None:
            return self.why
        least = min(each.trials for each in (self.rate, self.control) if each is not None)
        return f"{least:,.0f} cases on a side, fewer than {LEAST}"

    @property
    def odd(self) -> bool:
        """Whether controls are hit more often than people, beyond chance, by an attack that has a limit."""
        return self.limit is not None and self.worst is not None and self.worst.odd

    def verdict(self, by: JudgedBy) -> str:
        """Within the limit, above it, or not judged; "" where there is none."""
        if self.limit is None:
            return ""
        if self.outcome is None:
            return OPEN
        figure, (_, high) = self.outcome
        if self.counted:
            return ABOVE if figure > self.limit else WITHIN
        return ABOVE if (high if by is JudgedBy.UPPER else figure) > self.limit else WITHIN


@dataclass(frozen=True)
class Assessment:
    """lines: of all attacks. notes: what was compared, and what must be known of it. people, controls: of each side.

    twin: whether a release of half of the people, made for this, was attacked beside the release.
    """

    policy: str
    k: int
    limits: AssessLimits
    lines: tuple[Line, ...]
    people: int
    controls: int
    twin: bool
    seed: int
    notes: tuple[str, ...] = field(default=())

    def _with(self, verdict: str) -> tuple[Line, ...]:
        return tuple(line for line in self.lines if line.verdict(self.limits.by) == verdict)

    @property
    def above(self) -> tuple[Line, ...]:
        """Lines above their limit."""
        return self._with(ABOVE)

    @property
    def open(self) -> tuple[Line, ...]:
        """Lines with a limit and without a figure."""
        return self._with(OPEN)

    @property
    def odd(self) -> bool:
        """Whether controls are of another kind than people."""
        return any(line.odd for line in self.lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain values. Restricted: exact counts."""
        return {
            "policy": self.policy,
            "k": self.k,
            "people": self.people,
            "controls": self.controls,
            "twin": self.twin,
            "seed": self.seed,
            "limits_by": str(self.limits.by),
            "notes": list(self.notes),
            "above": [f"{line.question}: {line.attack}" for line in self.above],
            "not_judged": [f"{line.question}: {line.attack}" for line in self.open],
            "lines": [self._line(line) for line in self.lines],
        }

    def _line(self, line: Line) -> dict[str, Any]:
        figure, interval = line.outcome or (None, None)
        rates = {
            name: None if rate is None else {"hits": rate.hits, "trials": rate.trials}
            for name, rate in (("people", line.rate), ("controls", line.control), ("release", line.release))
        }
        return {
            "question": line.question,
            "reader": line.reader,
            "attack": line.attack,
            **rates,
            "figure": figure,
            "interval": interval,
            "limit": line.limit,
            "verdict": line.verdict(self.limits.by),
            "why": line.reason,
        }
