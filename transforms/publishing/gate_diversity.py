"""What the classes of a release show of the sensitive fields, counted afresh from the rows about to go out.

It shares no code with the solver's counters: plain counts of published values, a class at a time.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy_fields import Closeness, ClosenessDistance, Diversity, DiversityKind

ROUNDING = 2e-9
"""An entropy or a distance may miss its limit by this much; the search allows itself less."""


def diversity_faults(
    released: pa.Table, labels: NDArray[np.integer] | None, bound: BoundPolicy
) -> list[tuple[str, str]]:
    """Field and key of every rule that some class breaks. labels: (n,), the class of each released row.

    None, a graph: every rule counts as broken, for the values on a record's slots are not settled by its members.
    """
    faults = []
    measured = {} if labels is None else measured_diversity(released, labels, bound)
    for field in bound.policy.ruled:
        if field.diversity is not None:
            least = field.diversity.l
            # Formed as an entropy, for that is what the rounding is of.
            slack = 1.0 if field.diversity.kind is not DiversityKind.ENTROPY else math.exp(-ROUNDING)
            if labels is None or measured[f"{field.name}.{field.diversity.kind}"] < least * slack:
                faults.append((field.name, "diversity"))
        if field.closeness is not None:
            worst = math.inf if labels is None else measured[f"{field.name}.{field.closeness.distance}"]
            if worst > field.closeness.t + ROUNDING:
                faults.append((field.name, "closeness"))
    return faults


def measured_diversity(
    released: pa.Table, labels: NDArray[np.integer], bound: BoundPolicy
) -> dict[str, float]:
    """The least l and the largest t over the classes, under ``field.kind`` and ``field.distance``; {} without rules.

    frequency: N / max c; entropy: exp of the entropy; distinct: number of values. O(n + classes values).
    """
    measured = {}
    for field in bound.policy.ruled:
        column = released.column(bound.column(field.name).published_name)
        classes, whole = _counted(column, labels)
        if field.diversity is not None:
            shown = min(_diversity(counts, field.diversity) for counts in classes)
            measured[f"{field.name}.{field.diversity.kind}"] = shown
        if field.closeness is not None:
            shown = max(_distance(counts, whole, field.closeness) for counts in classes)
            measured[f"{field.name}.{field.closeness.distance}"] = shown
    return measured


def _counted(
    column: pa.ChunkedArray, labels: NDArray[np.integer]
) -> tuple[list[dict[int, int]], dict[int, int]]:
    """Rows by value, of every class and of all rows; values are numbered in their order, null first."""
    values = column.to_pylist()
    known = sorted(set(values), key=lambda value: (value is not None, 0 if value is None else value))
    place = {value: number for number, value in enumerate(known)}
    classes: dict[int, dict[int, int]] = {}
    whole = dict.fromkeys(range(len(known)), 0)
    for label, value in zip(labels.tolist(), values, strict=True):
        number = place[value]
        counts = classes.setdefault(label, {})
        counts[number] = counts.get(number, 0) + 1
        whole[number] += 1
    return list(classes.values()), whole


def _diversity(counts: dict[int, int], rule: Diversity) -> float:
    rows = sum(counts.values())
    if rule.kind is DiversityKind.DISTINCT:
        return float(len(counts))
    if rule.kind is DiversityKind.FREQUENCY:
        return rows / max(counts.values())
    return math.exp(-math.fsum(count / rows * math.log(count / rows) for count in counts.values()))


def _distance(counts: dict[int, int], whole: dict[int, int], rule: Closeness) -> float:
    rows, every = sum(counts.values()), sum(whole.values())
    gaps = [counts.get(number, 0) / rows - share / every for number, share in whole.items()]
    if rule.distance is ClosenessDistance.EQUAL:
        return math.fsum(abs(gap) for gap in gaps) / 2
    ahead = np.cumsum(np.array(gaps)).tolist()
    return math.fsum(abs(gap) for gap in ahead) / max(len(gaps) - 1, 1)
