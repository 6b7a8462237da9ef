"""Rows whose boxes are alike in some fields: a query asks each box once, however many rows have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kanonflow.pipelines.analysis.coverage import Cover, Int64s, PrefixColumn, RangeColumn, SetColumn


class DistinctBoxes(NamedTuple):
    """first: int64 (d,), a row of each box. rows: int64 (n,), box by box; starts: int64 (d + 1,), where in these the
    rows of each begin."""

    first: Int64s
    rows: Int64s
    starts: Int64s

    @property
    def sizes(self) -> Int64s:
        """Rows of each, int64 (d,)."""
        return np.diff(self.starts)

    def of_rows(self, cover: Cover) -> Cover:
        """A cover of boxes as one of rows; O(rows that are met)."""
        begins, sizes = self.starts[cover.rows], self.sizes[cover.rows]
        ends = np.cumsum(sizes)
        at = np.arange(ends[-1] if ends.size else 0) + np.repeat(begins - ends + sizes, sizes)
        order = np.argsort(self.rows[at], kind="stable")
        return Cover(
            self.rows[at][order], np.repeat(cover.sure, sizes)[order], np.repeat(cover.share, sizes)[order]
        )


def distinct_boxes(columns: Sequence[RangeColumn | SetColumn | PrefixColumn], count: int) -> DistinctBoxes:
    """Of ``count`` rows, those that are alike in all columns. O(columns x rows x log rows)."""
    keys = [key for column in columns for key in column.keys]
    order = np.lexsort(keys) if keys else np.arange(count)
    new = np.zeros(count, dtype=np.bool_)
    new[:1] = True
    for key in keys:
        new[1:] |= np.diff(key[order]) != 0
    begins = np.flatnonzero(new)
    return DistinctBoxes(order[begins], order, np.append(begins, count))
