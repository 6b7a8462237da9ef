"""Query errors: 0 where nothing was generalized, repeated by a seed, larger where boxes are wide or rows missing."""

import dataclasses

import numpy as np
import pyarrow as pa

from kanonflow.pipelines.analysis.query_error import query_errors
from kanonflow.pipelines.analysis.released_fields import Kind
from kanonflow.pipelines.analysis.released_table import ReleasedTable
from tests.made_releases import Made, made


def exact(release: Made) -> ReleasedTable:
    """A release whose boxes are the values."""
    table = ReleasedTable.of(release.released, release.bound)
    rows = release.released
    for field in table.fields:
        place = rows.schema.get_field_index(field.name)
        kind = rows.schema.field(place).type
        if field.name not in release.rows.column_names:
            continue
        values = release.rows.column(field.name).combine_chunks().cast(field.value)
        if field.kind is Kind.RANGE:
            values = pa.StructArray.from_arrays([values, values, values.is_null()], fields=list(kind))
        elif field.kind is Kind.SET:
            values = pa.ListArray.from_arrays(pa.array(np.arange(len(values) + 1), pa.int32()), values).cast(
                kind
            )
        rows = rows.set_column(place, field.name, values)
    return ReleasedTable.of(rows, release.bound)


def test_no_boxes_no_errors() -> None:
    """Of every type, with nulls: the same answers from values and from boxes of one value, and exact bounds."""
    release = made(5, 60)
    errors = query_errors(release.rows, exact(release))
    assert errors.count is not None
    assert errors.mean is not None
    assert errors.count == (0.0, 0.0, 0.0, 200)
    assert errors.mean.worst < 1e-9
    assert {field for query in errors.queries for field in query.fields} == {
        "age", "height", "weight", "income", "born", "seen", "gender", "kids", "smoker", "job"
    }  # fmt: skip
    assert all(query.true > 0 for query in errors.queries if query.what == "count")


def test_a_seed_asks_the_same_of_every_release() -> None:
    """So that two releases of one input can be compared; another seed asks others."""
    release = made(5, 60)
    boxes = ReleasedTable.of(release.released, release.bound)
    one, same = query_errors(release.rows, boxes), query_errors(release.rows, boxes)
    assert one == same
    asked = [(query.fields, query.true) for query in one.queries if query.what == "count"]
    of_exact = query_errors(release.rows, exact(release)).queries
    assert asked == [(query.fields, query.true) for query in of_exact if query.what == "count"]
    other = query_errors(release.rows, boxes, seed=2)
    assert asked != [(query.fields, query.true) for query in other.queries if query.what == "count"]


def test_boxes_cost_and_bounds_hold() -> None:
    """Errors, and each truth within its bounds, for every row is released."""
    release = made(5, 60)
    errors = query_errors(release.rows, ReleasedTable.of(release.released, release.bound))
    assert errors.count is not None
    assert 0.01 < errors.count.median <= errors.count.ninth <= errors.count.worst
    counts = [query for query in errors.queries if query.what == "count"]
    assert all(query.within for query in counts)
    means = [query for query in errors.queries if query.what == "mean"]
    # Sums of the truth are rounded too.
    assert all(query.lower - 1e-9 <= query.true <= query.upper + 1e-9 for query in means)


def test_rows_that_are_missing_count() -> None:
    """Half of the rows released, as they are: counts are off by about a half, and none can be answered of none."""
    release = made(5, 60)
    half = exact(release)
    half = ReleasedTable(half.arrow().slice(0, 30), half.form, half.hierarchies)
    errors = query_errors(release.rows, half)
    assert errors.count is not None
    assert 0.3 < errors.count.median < 0.7
    assert not all(query.within for query in errors.queries)
    nothing = query_errors(release.rows, ReleasedTable(half.arrow().slice(0, 0), half.form, half.hierarchies))
    assert (nothing.count, nothing.mean, nothing.queries) == (None, None, ())


def test_columns_of_other_names() -> None:
    """Published names are Avro's; the input may have others."""
    release = made(5, 30)
    boxes = ReleasedTable.of(release.released, release.bound)
    renamed = release.rows.rename_columns([f"{name} of it" for name in release.rows.column_names])
    names = {name: f"{name} of it" for name in release.rows.column_names}
    assert query_errors(renamed, boxes, names=names) == query_errors(release.rows, boxes)
    assert dataclasses.is_dataclass(query_errors(release.rows, boxes, queries=3).queries[0])
