"""Do the rows of a release stand in the order of what they publish?

Rows are to be sorted by their boxes (with cohorts that last, before by their group's window and number), then by their
payload, field by field in the release's order, and by their person's number where it is published. Any other order can
only come from the records: the order they arrived in, or the number of their slots, which leads past every box.

Null is least; then numbers and instants by size (-0.0 before 0.0), text and bytes by their bytes, false before true; a
range by its lower end, its upper end, and whether it holds nulls; a set like a word, value by value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kanonflow.pipelines.audit.files.avro_cells import Cells
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.kinds import kind_of
from kanonflow.schemas.bound_policy import BoundPolicy


def check_order(
    release_id: str, columns: Mapping[str, Cells], bound: BoundPolicy, findings: Findings
) -> None:
    """Note a release whose rows, as they stand in its file, are out of order. O(m d), and sorts distinct cells."""
    misplaced = out_of_order(list(_ranked(columns, bound)))
    if misplaced:
        findings.add(
            f"{misplaced} rows do not stand in the order of what they publish, so the order may tell whose they are",
            release_id,
        )


def out_of_order(columns: Sequence[np.ndarray]) -> int:
    """How many rows are less than the one before them, under integer columns (m,), the most significant first."""
    if not columns:
        return 0
    undecided = np.ones(max(len(columns[0]) - 1, 0), bool)
    less = np.zeros(len(undecided), bool)
    for column in columns:
        step = np.diff(column)
        less |= undecided & (step < 0)
        undecided &= step == 0
    return int(less.sum())


def _ranked(columns: Mapping[str, Cells], bound: BoundPolicy) -> Iterator[np.ndarray]:
    """The ranks of each column that rows are sorted by."""
    if groups := bound.policy.promise.group_columns:
        for name in ("window_start", "window_end", *groups):
            yield _ranks(columns[name].values)[columns[name].place]
    for column in bound.quasis:
        values, place = columns[column.published_name]
        yield from (_ranks(part)[place] for part in kind_of(column).order(values))
    names = [column.published_name for column in bound.payload]
    for name in names if (member := bound.policy.publish_member) is None else (*names, member.name):
        yield _ranks(columns[name].values)[columns[name].place]


def _ranks(cells: list[Any]) -> np.ndarray:
    """The rank of each cell among those of its column, int64 (m,); equal cells share one."""
    distinct = set(cells)
    distinct.discard(None)
    values = sorted(distinct)
    rank = {value: 2 * place + 2 for place, value in enumerate(values)}
    ranks = np.fromiter((0 if cell is None else rank[cell] for cell in cells), np.int64, len(cells))
    if 0 in distinct and isinstance(values[0], float):
        # Equal to Python, but not to the order.
        negative = np.signbit(np.array([1.0 if cell is None else cell for cell in cells]))
        ranks[negative & (ranks == rank[0.0])] -= 1
    return ranks
