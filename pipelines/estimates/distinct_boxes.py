"""Rows whose boxes are alike in some fields: a query asks each box once, however many rows have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kanonflow.pipelines.estimates.coverage import Cover, Int64s, PrefixColumn, RangeColumn, SetColumn

_MOST = 2**62


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
        """A cover of boxes as one of rows. O(rows that are possibly in, but for sorting)."""
        sizes = self.sizes[cover.rows]
        at = self.rows[runs(self.starts[cover.rows], sizes)]
        order = np.argsort(at)
        return Cover(at[order], np.repeat(cover.sure, sizes)[order], np.repeat(cover.share, sizes)[order])


def box_codes(column: RangeColumn | SetColumn | PrefixColumn) -> Int64s:
    """A whole number a row, below the number of rows, equal where boxes are. O(rows log rows)."""
    return _codes([np.unique(key, return_inverse=True)[1] for key in column.keys], column.keys[0].size)


def distinct_boxes(codes: Sequence[Int64s], count: int) -> DistinctBoxes:
    """Of ``count`` rows, those that are alike in all columns, of which ``codes`` says what is equal (``box_codes``).
    O(columns x rows + rows log rows)."""
    like = _codes(codes, count)
    order = np.argsort(like, kind="stable")
    begins = np.flatnonzero(np.diff(like[order], prepend=-1))
    return DistinctBoxes(order[begins], order, np.append(begins, count))


def _codes(keys: Sequence[Int64s], count: int) -> Int64s:
    """One code of several, in the order of the first, then of the second, and so on."""
    codes, width = np.zeros(count, np.int64), 1
    for key in keys:
        own = int(key.max(initial=0)) + 1
        if width * own >= _MOST:
            codes = np.unique(codes, return_inverse=True)[1]
            width = int(codes.max(initial=0)) + 1
        codes, width = codes * own + key, width * own
    return np.unique(codes, return_inverse=True)[1].astype(np.int64)


def runs(begins: Int64s, sizes: Int64s) -> Int64s:
    """Whole numbers from each beginning on, as many as each size, one run after the other."""
    ends = np.cumsum(sizes)
    return np.arange(ends[-1] if ends.size else 0) + np.repeat(begins - ends + sizes, sizes)
