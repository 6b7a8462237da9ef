"""``kanonflow impute``: m tables of single values that a release may have come from, for models that take no ranges.

Each row of a table has, for every quasi-identifier, one value of its box, of the type that the input had; all else is
the row's own. People are drawn into the boxes as ``hull_draws`` says. **Imputed rows are invented**: nobody has them,
they are no release, and nothing may be joined to them.

With an ``outcome``, a column of payload, rows are dealt to the people of their box by likelihood, in rounds of

    1. a model of the outcome, fitted on the rows as they are dealt, drawn from its posterior (``outcome_model``)
    2. new people for every box, each row dealt with the chance  share of the person x P(outcome | person)

so that what the outcome shows between boxes holds within them, too. Without it a slope is drawn towards 0, for values
within a box know nothing of their row's outcome. What a model is asked must be among what was imputed by: take as
outcome what the model is of. Each table is made by itself, from seeds of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kanonflow.pipelines.analysis.outcome_model import Features, Likelihood, Outcome, outcome_of
from kanonflow.pipelines.analysis.released_fields import WINDOW, Kind, ReleasedField
from kanonflow.pipelines.estimates.coverage import (
    Int64s,
    RangeColumn,
    SetColumn,
    exact_range,
    exact_sets,
    range_column,
    set_column,
)
from kanonflow.pipelines.estimates.distinct_boxes import DistinctBoxes, distinct_boxes
from kanonflow.pipelines.estimates.drawn_rows import ordered_codes
from kanonflow.pipelines.estimates.hull_draws import (
    Draw,
    Hull,
    HullDraws,
    RangeHull,
    chosen,
    label_hull,
    numbered,
    set_hull,
)
from kanonflow.schemas.errors import InputError

if TYPE_CHECKING:
    from kanonflow.pipelines.analysis.released_table import ReleasedTable

HULLS = 4
"""Of people that rows are dealt to by likelihood, in each box: of k people few have what the outcome asks for."""
MOST_TABLES = 1_000
CLASS_ID = "class_id"
"""In releases of cohorts that last, whose people have one box in all windows."""
PAIRS = 4_000_000
"""Pairs of a row and one of the people of its box that are weighed at once."""
Generator = np.random.Generator


def imputed_tables(release: ReleasedTable, m: int, outcome: str | None, seed: int) -> list[pa.Table]:
    """m tables of a release (see above). Raises InputError: m is none, or the outcome no column of payload."""
    if not 1 <= m <= MOST_TABLES:
        raise InputError(f"m: must be a number of tables from 1 to {MOST_TABLES}")
    draws = hull_draws(release)
    weighed = None if outcome is None else outcome_of(outcome, _payload(release, outcome))
    return [_table(release, draws, weighed, np.random.default_rng([seed, number])) for number in range(m)]


def hull_draws(release: ReleasedTable, *, by_window: bool = False) -> HullDraws:
    """The distinct boxes of a release, ready to be drawn from. by_window: of each window by themselves, unless people
    have one box in all of them. Raises InputError: a label that a hierarchy has not."""
    table = release.arrow()
    quasis = [field for field in release.fields if field.kind in _HULLS]
    if not len(release):
        raise InputError("the release has no rows to impute")
    arrays = {field.name: table.column(field.name).combine_chunks() for field in quasis}
    keys = [ordered_codes(_KEYS[field.kind](arrays[field.name], release.form.k)) for field in quasis]
    if by_window and CLASS_ID not in table.column_names and WINDOW[0] in table.column_names:
        start = table.column(WINDOW[0]).combine_chunks()
        keys.append(ordered_codes(exact_range(start, release.form.k)))
    boxes = distinct_boxes(keys, len(release))
    hulls = {field.name: _HULLS[field.kind](release, field, arrays[field.name], boxes) for field in quasis}
    return HullDraws(boxes, hulls, release.form.k, _members(release))


def labels_that_stay(release: ReleasedTable) -> tuple[str, ...]:
    """Fields whose labels stay as they are, for their hierarchy is not there."""
    labels = [field.name for field in release.fields if field.kind in _LABELS]
    return tuple(name for name in labels if name not in release.hierarchies)


def _range(release: ReleasedTable, field: ReleasedField, array: pa.Array, boxes: DistinctBoxes) -> Hull:
    return RangeHull(range_column(array, release.form.k).of(boxes.first), field.value)


def _set(release: ReleasedTable, field: ReleasedField, array: pa.Array, boxes: DistinctBoxes) -> Hull:
    return set_hull(set_column(array, release.form.k), boxes, field.value)


def _label(release: ReleasedTable, field: ReleasedField, array: pa.Array, boxes: DistinctBoxes) -> Hull:
    tree = release.hierarchies.get(field.name)
    if tree is None:
        return set_hull(exact_sets(array), boxes, field.value)
    try:
        return label_hull(array, tree, boxes)
    except KeyError:
        raise InputError(f"{field.name}: the release has labels that the given hierarchy has not") from None


_HULLS = {Kind.RANGE: _range, Kind.SET: _set, Kind.LABEL: _label}
_LABELS, _PAYLOAD = frozenset({Kind.LABEL}), frozenset({Kind.EXACT})
_KEYS: dict[Kind, Callable[[pa.Array, int], RangeColumn | SetColumn]] = {
    Kind.RANGE: range_column,
    Kind.SET: set_column,
    Kind.LABEL: lambda array, k: exact_sets(array),
}


def _members(release: ReleasedTable) -> Int64s | None:
    """Of each row the number of its person, where the release publishes one, or each row is a person to it."""
    if release.form.single_rows:
        return np.arange(len(release))
    for field in release.fields:
        if field.of_members:
            coded = release.arrow().column(field.name).combine_chunks().dictionary_encode()
            return np.asarray(coded.indices).astype(np.int64)
    return None


def _payload(release: ReleasedTable, outcome: str) -> pa.Array:
    field = release.form.field(outcome)
    if field.kind not in _PAYLOAD:
        raise InputError(f"outcome {outcome}: must be a field that is published as it is")
    return release.arrow().column(outcome).combine_chunks()


def _table(release: ReleasedTable, draws: HullDraws, outcome: Outcome | None, random: Generator) -> pa.Table:
    draw = draws.draw(random)
    person = draws.dealt(draw, random)
    if outcome is not None and draws.hulls:
        features = Features.of(draw.people, draw.shares)
        for _ in range(outcome.rounds):
            fresh = draws.draw(random, HULLS)
            model = outcome.fitted(features, draw.people, person, fresh.people, random)
            draw, person = fresh, _weighed(draws, fresh, model, random)
    table = release.arrow()
    for name, values in draw.people.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, values.take(pa.array(person)))
    return table


def _weighed(draws: HullDraws, draw: Draw, likelihood: Likelihood, random: Generator) -> Int64s:
    """Of each row, which of the people has it, int64 (n,): as likely as the person's share times what the outcomes of
    the row, or of all rows of its number, are worth."""
    person = np.empty(draws.boxes.rows.size, np.int64)
    box_of = draws.box_of_rows
    sizes = np.diff(draw.starts)
    pairs = np.concatenate([[0], np.cumsum(draws.boxes.sizes * sizes)])
    pieces = np.unique(np.searchsorted(pairs, np.arange(0, pairs[-1], PAIRS)))
    for first, end in pairwise([*pieces.tolist(), sizes.size]):
        rows = draws.boxes.rows[draws.boxes.starts[first] : draws.boxes.starts[end]]
        box = box_of[rows]
        unit, unit_box = np.arange(rows.size), box
        if draws.units is not None:
            unit_box, unit = numbered(box, draws.units[rows])
        starts = np.concatenate([[0], np.cumsum(sizes[unit_box])])
        at, place = _each(sizes[box])
        logs = likelihood.log(rows[at], draw.starts[box[at]] + place)
        score = np.bincount(starts[unit[at]] + place, logs, minlength=int(starts[-1])).astype(np.float64)
        of, place = _each(sizes[unit_box])
        score += np.log(draw.shares[draw.starts[unit_box[of]] + place])
        score -= np.maximum.reduceat(score, starts[:-1])[of]
        taken = chosen(np.exp(score), starts[:-1], starts[1:], random) - starts[:-1]
        person[rows] = (draw.starts[unit_box] + taken)[unit]
    return person


def _each(sizes: Int64s) -> tuple[Int64s, Int64s]:
    """Of spans of these sizes, one behind the other: which each place is of, and its number there."""
    of = np.repeat(np.arange(sizes.size), sizes)
    return of, np.arange(of.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
