"""One group as rows, before and after. Who is in it the release does not tell, so people are invented: drawn into the
box as people might stand behind it (``analysis/hull_draws.py``), also on pages that stay inside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from kanonflow.pipelines.analysis.flat_columns import Flat
from kanonflow.pipelines.analysis.impute import hull_draws
from kanonflow.pipelines.analysis.released_fields import Kind
from kanonflow.pipelines.analysis.released_table import ReleasedTable
from kanonflow.pipelines.estimates.distinct_boxes import distinct_boxes
from kanonflow.pipelines.pages.pages import Block, Paragraph
from kanonflow.pipelines.terminal.table import Table, rows_of

MOST_ROWS, MOST_FIELDS = 5, 9
"""That are shown."""
_BOXES, _PAYLOAD = frozenset({Kind.RANGE, Kind.SET, Kind.LABEL}), frozenset({Kind.EXACT})


def one_group(release: ReleasedTable, seed: int = 1) -> Iterator[Block]:
    """The rows of one box of one release, of usual size; nothing where the release has no quasi-identifier."""
    quasis = [field.name for field in release.fields if field.kind in _BOXES]
    if not quasis:
        return
    labels = release.flat(Flat.LABEL)
    keys = [_codes(labels.column(name)) for name in ("release_id", *quasis)]
    boxes = distinct_boxes(keys, len(release))
    sizes = boxes.sizes
    typical = int(np.argmin(np.abs(sizes - np.median(sizes))))
    begin = int(sizes[:typical].sum())
    rows = pa.array(np.sort(boxes.rows[begin : begin + int(sizes[typical])])[:MOST_ROWS])
    # A person's number stands in releases and nowhere else.
    payload = [field.name for field in release.fields if field.kind in _PAYLOAD and not field.of_members]
    shown = [*quasis[:MOST_FIELDS], *payload[: max(1, MOST_FIELDS - len(quasis))]]
    group = ReleasedTable(release.arrow().take(rows), release.form)
    draws, random = hull_draws(group), np.random.default_rng(seed)
    draw = draws.draw(random)
    person = pa.array(draws.dealt(draw, random))
    invented = {name: values.take(person) for name, values in draw.people.items()}
    before = {name: invented.get(name, labels.column(name).take(rows)) for name in shown}
    after = {name: labels.column(name).take(rows) for name in shown}
    yield Paragraph(
        f"{len(rows)} of the {int(sizes[typical]):,} rows that the sample has of one group. The release does not tell"
        " who is behind them, so the people are invented: they lie in the box as its people might."
    )
    yield _table("group_before", "As rows of such people might have come in (people invented)", before)
    yield _table("group_after", "The same rows as they are in the release", after)


def _codes(column: pa.ChunkedArray) -> Any:
    indices = column.combine_chunks().dictionary_encode("encode").indices
    return np.asarray(indices).astype(np.int64)


def _table(name: str, caption: str, columns: dict[str, Any]) -> Table:
    cells = [[_shown(value) for value in column.to_pylist()] for column in columns.values()]
    return Table(name, caption, tuple(columns), rows_of(zip(*cells, strict=True)), folded=False)


def _shown(value: Any) -> str | None:
    return None if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
