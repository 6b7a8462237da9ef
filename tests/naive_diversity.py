"""Slow twins of l-diversity and t-closeness: lists and fractions, one class at a time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from kanonflow.solvers.problem.sensitive import Sensitive

SLACK = 1e-7


def shown(values: Sequence[Any], kind: str) -> float:
    """The l that a class of these values has."""
    counts = Counter(values)
    if kind == "distinct":
        return len(counts)
    if kind == "frequency":
        return float(Fraction(len(values), max(counts.values())))
    return math.exp(-sum(c / len(values) * math.log(c / len(values)) for c in counts.values()))


def distance(values: Sequence[Any], whole: Sequence[Any], kind: str) -> float:
    """The t that a class of these values has in a release of ``whole``; values in their order."""
    known = sorted(set(whole))
    own, all_of = Counter(values), Counter(whole)
    gaps = [Fraction(own[v], len(values)) - Fraction(all_of[v], len(whole)) for v in known]
    if kind == "equal":
        return float(sum(abs(gap) for gap in gaps) / 2)
    ahead = [sum(gaps[: place + 1], Fraction(0)) for place in range(len(gaps))]
    return float(sum(abs(gap) for gap in ahead) / max(len(known) - 1, 1))


def meets(rows: Sequence[int], fields: Sequence[Sensitive], whole: Sequence[int]) -> bool:
    """Whether a class of these rows, in a release of the rows ``whole``, meets every rule."""
    for field in fields:
        values, every = field.codes[list(rows)].tolist(), field.codes[list(whole)].tolist()
        if field.kind is not None and shown(values, field.kind) < field.l - SLACK:
            return False
        if field.distance is not None and distance(values, every, field.distance) > field.t + SLACK:
            return False
    return True


def first_rows(of_row: Sequence[int], unit: int, level: int, priority: Sequence[int]) -> list[int]:
    """The rows that an individual keeps: by priority, then by row."""
    own = [row for row, who in enumerate(of_row) if who == unit]
    return sorted(own, key=lambda row: (priority[row], row))[:level]


def shortfall(rows: Sequence[int], fields: Sequence[Sensitive], whole: Sequence[int]) -> float:
    """By how much a class of these rows misses the rules, as a share of each limit; see the search's counters."""
    missing = 0.0
    for field in fields:
        values, every = field.codes[list(rows)].tolist(), field.codes[list(whole)].tolist()
        if field.kind == "entropy":
            missing += (
                max(0.0, 1 - math.log(shown(values, "entropy")) / math.log(field.l)) if field.l > 1 else 0.0
            )
        elif field.kind == "frequency":
            missing += max(0.0, field.l / shown(values, "frequency") - 1)
        elif field.kind == "distinct":
            missing += max(0.0, 1 - shown(values, "distinct") / field.l)
        if field.distance is not None:
            missing += max(0.0, distance(values, every, field.distance) - field.t)
    return missing
