"""A dry run by the measures of the literature: GenTotal-IL, C_AVG, DM, LOG, LOS; of a class field CM and accuracy.

The formulas are those of ``solvers/loss/class_measures.py``. Rows that are rejected are suppressed rows there; rows
that wait at the end of what is played are in none of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from typing import NamedTuple

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kanonflow.pipelines.analysis.impute import imputed_tables, labels_that_stay
from kanonflow.pipelines.analysis.outcome_model import Features, People, ValueOutcome
from kanonflow.pipelines.analysis.released_table import ReleasedTable
from kanonflow.pipelines.dry_run.dry_run import DryRun
from kanonflow.pipelines.dry_run.measures import row_weights
from kanonflow.pipelines.estimates.coverage import RangeColumn
from kanonflow.schemas.bound_policy import BoundColumn
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.payload_grids import grid_keys
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_fields import PAYLOAD
from kanonflow.schemas.text_values import render_text
from kanonflow.solvers.loss.class_measures import (
    classification_errors,
    graph_classification_metric,
    total_loss,
)
from kanonflow.transforms.rows.elements import from_ipc

MOST_CLASSES = 12
"""Values of a class field: each has a model of its own."""
_SEED = 1
_DRAWS = 5
"""Models whose accuracies are averaged: a posterior is drawn from, and that alone moves an accuracy by a hundredth."""
Int64s = NDArray[np.int64]


class ByClass(NamedTuple):
    """What a class field says. metric: CM. accuracy: share of the input's rows whose value a model guesses that has
    learnt from the release; exact: one that has learnt from the input; most: who always guesses the most frequent.
    """

    metric: float
    accuracy: float
    exact: float
    most: float


class ClassFigures(NamedTuple):
    """total_loss: GenTotal-IL, of the published boxes. c_avg, dm: None for graphs. log, los: means over released rows,
    None without levels. by_class: None without a class field, and where nothing is released."""

    total_loss: float
    c_avg: float | None
    dm: int | None
    log: float | None
    los: float | None
    by_class: ByClass | None


def misfits_of_class_field(policy: Policy, name: str) -> Iterator[str]:
    """What keeps a field from being one: it is published as it is, with few values."""
    field = {each.name: each for each in policy.fields}.get(name)
    if field is None:
        yield f"--class-field: {name} is not a field of the policy"
    elif field.role not in PAYLOAD:
        yield f"--class-field: {name} has role: {field.role}; name a field that is published as it is"
    elif grid_keys(field):
        yield f"--class-field: {name} is published on a grid; leave out {', '.join(grid_keys(field))} to compare"


def class_figures(run: DryRun, rows: pa.Table, class_field: str | None) -> ClassFigures:
    """Of a dry run, with matching records where there is a class field. rows: its input, canonical. O(n d log n)."""
    windows = [(each.weight, each.metrics) for each in run.releases]
    sizes = [(weight, metrics) for weight, metrics in windows if metrics["classes"] is not None]
    dm = None
    if sizes:
        held = sum(each.weight * each.rejected**2 for each in run.windows if each.release is None)
        dm = round(held + sum(weight * metrics["dm"] for weight, metrics in sizes))
    classes = run.bound.policy.k * sum(weight * metrics["classes"] for weight, metrics in sizes)
    released = ReleasedTable.of(run.released, run.bound)
    weights = row_weights(run)
    return ClassFigures(
        total_loss=total_loss(
            [_share(run, released, column, weights) for column in run.bound.quasis],
            run.rejected if run.releases else 1.0,
        ),
        c_avg=sum(weight * metrics["rows_released"] for weight, metrics in sizes) / classes
        if sizes
        else None,
        dm=dm,
        log=run.mean("log"),
        los=run.mean("los"),
        by_class=None if class_field is None or not windows else _by_class(run, released, rows, class_field),
    )


def _share(run: DryRun, released: ReleasedTable, column: BoundColumn, weights: NDArray[np.float64]) -> float:
    """Of an attribute, the mean that GenTotal-IL takes: a range's share of its domain (by the field's scale, as in the
    loss), of labels the level over the height, of other sets whether there are several values."""
    boxes = released.column(column.published_name)
    if isinstance(boxes, RangeColumn):
        return run.mean_of([each.metrics["ncp"][column.name] for each in run.releases]) or 0.0
    tree = column.tree
    if tree is None:
        shares = (boxes.widths > 1).astype(np.float64)
    else:
        coded = run.released.column(column.published_name).combine_chunks().dictionary_encode("encode")
        lost = [
            0.0 if label is None else tree.level(label) / tree.height
            for label in coded.dictionary.to_pylist()
        ]
        shares = np.array(lost, dtype=np.float64)[np.asarray(coded.indices)]
    return float(np.average(shares, weights=weights)) if shares.size else 0.0


def _by_class(run: DryRun, released: ReleasedTable, rows: pa.Table, name: str) -> ByClass:
    (column,) = (each for each in run.bound.payload if each.name == name)
    truth = _texts(rows.column(name))
    values = pc.value_counts(truth).sort(by="values").field("values").to_pylist()
    if not 2 <= len(values) <= MOST_CLASSES:
        raise InputError(
            f"--class-field {name}: has {len(values)} different values; name a field of 2 to {MOST_CLASSES}"
        )
    places = pa.array(values, pa.string())
    codes = _codes(truth, places)
    stay = labels_that_stay(released)
    quasis = [each for each in run.bound.quasis if each.published_name not in stay]
    imputed = imputed_tables(released, _DRAWS, _outcome(released, column), _SEED)
    people = {
        each.name: _like(rows.column(each.name), imputed[0].column(each.published_name)) for each in quasis
    }
    learnt = [
        (
            {each.name: table.column(each.published_name).combine_chunks() for each in quasis},
            _codes(_texts(table.column(column.published_name)), places),
        )
        for table in imputed
    ]
    return ByClass(
        metric=_metric(run, column.published_name, places),
        accuracy=_mean_accuracy(learnt, people, codes),
        exact=_mean_accuracy([(people, codes)] * _DRAWS, people, codes),
        most=float(np.bincount(codes).max() / codes.size),
    )


def _mean_accuracy(learnt: Sequence[tuple[People, Int64s]], people: People, truth: Int64s) -> float:
    """Over models, each with a draw of its own."""
    draws = enumerate(learnt)
    return float(np.mean([_accuracy(own, codes, people, truth, number) for number, (own, codes) in draws]))


def _texts(array: pa.ChunkedArray | pa.Array) -> pa.StringArray:
    """Values as words; a missing value is one of its own."""
    whole = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    return render_text(whole).fill_null("")


def _codes(texts: pa.StringArray, values: pa.StringArray) -> Int64s:
    """-1: a value that the input has not."""
    return np.asarray(pc.index_in(texts, value_set=values).fill_null(-1)).astype(np.int64)


def _outcome(released: ReleasedTable, column: BoundColumn) -> str | None:
    """By what rows are dealt to the people of their box; None: every row has the same value, as far as it has one."""
    array = released.arrow().column(column.published_name)
    return column.published_name if len(array.drop_null().unique()) > 1 else None


def _like(array: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.Array:
    """Values of the input in the type that imputed ones have: those of a tree are the words of its leaves."""
    whole = array.combine_chunks()
    return whole if whole.type == other.type else render_text(whole)


def _accuracy(learnt: People, codes: Int64s, people: People, truth: Int64s, number: int) -> float:
    """The share of people whose value a logistic regression of each value guesses. codes: of those it learns from."""
    if not learnt:
        return float(np.bincount(truth).max() / truth.size)
    kinds, seen = np.unique(codes, return_inverse=True)
    if kinds.size < 2:
        return float((truth == kinds[0]).mean()) if kinds.size else 0.0
    features = Features.of(learnt, np.ones(codes.size))
    outcome = ValueOutcome(seen.astype(np.int64), kinds.size)
    random = np.random.default_rng([_SEED, number])
    model = outcome.fitted(features, learnt, np.arange(codes.size), people, random)
    everybody = np.arange(truth.size)
    # One row that has each value: of a row and a person the model says how likely the row's value is.
    firsts = np.unique(seen, return_index=True)[1]
    logs = np.stack([model.log(np.full(truth.size, first), everybody) for first in firsts])
    return float((kinds[np.argmax(logs, axis=0)] == truth).mean())


def _metric(run: DryRun, name: str, values: pa.StringArray) -> float:
    """CM: over classes, or over all pairs of a slot of a graph and one of its records."""
    errors = total = 0.0
    for window in run.windows:
        lost = float(window.rejected)
        if window.release is not None:
            released = from_ipc(window.release)
            assert window.matching_record is not None
            lost += _errors(window.matching_record, _codes(_texts(released.column(name)), values))
        errors += window.weight * lost
        total += window.weight * (window.rejected + window.metrics["rows_released"])
    return errors / total if total else 0.0


def _errors(avro: bytes, codes: Int64s) -> float:
    """Rows of a release without the majority's value. codes: of its rows, in their order; -1 is one value more."""
    (record,) = fastavro.reader(BytesIO(avro))
    assert isinstance(record, Mapping)
    place, codes = np.array(record["row"]), codes + 1
    if record["structure"] == "graph":
        members = np.array(record["members"], dtype=np.int32).reshape(place.size, -1)
        of_record = np.empty(place.size, dtype=np.int64)
        of_record[np.array(record["matched"])] = codes[place]
        return graph_classification_metric(members, of_record) * place.size
    labels = np.array(record["groups"], dtype=np.int64)
    return float(classification_errors(labels[labels >= 0], codes[place]))
