"""The parts of a field that a histogram is drawn of, and how many rows of the input lie in each.

    numbers, days, instants    up to ``MOST_PARTS`` between round edges; the first and the last part are open, so that
                               no value of a row stands anywhere
    words, truths              the ``MOST_VALUES`` that most rows have, and all others

Kept with what a run measures of its input (``restricted/measured.json``), so that its report needs no input.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.value_units import to_units

MOST_PARTS, MOST_VALUES = 12, 9
_TAILS = 0.02
"""Of the rows at each end are beyond the edges, about."""
_LARGEST = 1e300
"""Above nothing is drawn, for widths would be infinite."""
_EPOCH = dt.date(1970, 1, 1)
_YEAR = 365.2425
_DAYS = (1, 2, 7, 14, 28)
"""From edge to edge, below a year."""

Parts = Mapping[str, Any]
"""``edges`` (numbers, or dates as text) or ``values``; ``rows``: one more than these, for the rest."""


def input_parts(rows: pa.Table, bound: BoundPolicy) -> dict[str, Parts]:
    """Of each quasi-identifier whose values are numbers, moments or words, by published name.

    rows: canonical. O(rows log rows) a field.
    """
    parts = ((column.published_name, parts_of(rows.column(column.name))) for column in bound.quasis)
    return {name: each for name, each in parts if each is not None}


def parts_of(column: pa.ChunkedArray | pa.Array) -> Parts | None:
    """None: nothing can be drawn of it. Raises SchemaError for a type that the pipeline does not carry."""
    column = column.drop_null()
    if not len(column):
        return None
    form = form_of(column.type)
    numbers = as_numbers(column)
    if numbers is None:
        return _values(column) if form.label else None
    edges = round_edges(numbers, moments=form.per_day is not None)
    if not edges:
        return None
    counts = np.bincount(np.searchsorted(edges, numbers, side="right"), minlength=len(edges) + 1)
    return {
        "edges": edges if form.per_day is None else [_day(edge).isoformat() for edge in edges],
        "rows": counts.tolist(),
    }


def are_parts(value: Any) -> bool:
    """Whether a file has them as ``parts_of`` makes them."""
    if not isinstance(value, Mapping) or not isinstance(value.get("rows"), list):
        return False
    ends = value.get("edges", value.get("values"))
    return (
        isinstance(ends, list)
        and len(value["rows"]) == len(ends) + 1
        and all(isinstance(rows, int) and rows >= 0 for rows in value["rows"])
        and all(isinstance(end, str | int | float) for end in ends)
    )


def as_numbers(column: pa.ChunkedArray | pa.Array) -> NDArray[np.float64] | None:
    """Numbers as they are, moments in days since 1970, of a column without nulls; None: it is neither."""
    form = form_of(column.type)
    one = form.per_day or (None if form.scale is None else 10**form.scale)
    return None if one is None else np.asarray(to_units(column)[0], np.float64) / one


def round_edges(numbers: NDArray[np.float64], *, moments: bool) -> list[float]:
    """Where parts begin, ascending; [] if all would lie in one."""
    numbers = numbers[np.abs(numbers) <= _LARGEST]
    if not numbers.size:
        return []
    low, high = np.quantile(numbers, [_TAILS, 1 - _TAILS]).tolist()
    if moments:
        return _round_moments(low, high)
    if not high > low:
        return []
    rough = (high - low) / (MOST_PARTS - 2)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(times * power for times in (1, 2, 5, 10) if times * power >= rough)
    if np.all(numbers == np.floor(numbers)):
        step = max(step, 1.0)
    first, last = math.ceil(low / step), math.floor(high / step)
    return [float(f"{number * step:.12g}") for number in range(first, last + 1)]


def _round_moments(low: float, high: float) -> list[float]:
    rough = (high - low) / (MOST_PARTS - 2)
    if rough > _DAYS[-1]:
        years = rough / _YEAR
        step = next((each for each in (1, 2, 5, 10, 20, 50, 100) if each >= years), 1000)
        first, last = _day(low).year // step + 1, _day(high).year // step
        return [float((dt.date(number * step, 1, 1) - _EPOCH).days) for number in range(first, last + 1)]
    step = next(each for each in _DAYS if each >= rough)
    return [float(number * step) for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _values(column: pa.ChunkedArray | pa.Array) -> Parts:
    counted = sorted(
        ((each["counts"], each["values"]) for each in pc.value_counts(column).to_pylist()),
        key=lambda pair: (-pair[0], pair[1]),
    )
    most, others = counted[:MOST_VALUES], counted[MOST_VALUES:]
    return {
        "values": [value for _, value in most],
        "rows": [*(count for count, _ in most), sum(count for count, _ in others)],
    }


def _day(days: float) -> dt.date:
    return _EPOCH + dt.timedelta(days=math.floor(days))


def part_names(parts: Parts) -> Sequence[str]:
    """What stands below the bars."""
    if "values" in parts:
        return [
            *(str(each).lower() if isinstance(each, bool) else str(each) for each in parts["values"]),
            "others",
        ]
    edges = [_edge(each) for each in parts["edges"]]
    between = [f"{one}–{other}" for one, other in itertools.pairwise(edges)]
    return [f"< {edges[0]}", *between, f"≥ {edges[-1]}"]


def _edge(edge: Any) -> str:
    if isinstance(edge, str):
        return edge.removesuffix("-01-01")
    return f"{edge / 1000:g}k" if abs(edge) >= 10_000 else f"{edge:g}"
