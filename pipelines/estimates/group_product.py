"""All groups of an estimate at once: a sparse matrix product over distinct boxes.

Of field f let M_f be the boxes x parts matrix of what each box is to each part of it: the share of the box in the part,
whether it lies within, or whether it meets it. A group is a part of each field. What is added up over boxes d with
weights w_d, of a group (a, .., e), is

    total[a, .., e] = sum_d w_d M_1[d, a] .. M_5[d, e]

The fields are put into two halves, whose matrices are multiplied row by row, and the halves by one product. Entries
that are 0 cost nothing: O(boxes x parts met by a box in a half + groups + what of both halves meets).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np

from kanonflow.pipelines.estimates.coverage import (
    Cover,
    Float64s,
    Int64s,
    PrefixColumn,
    RangeColumn,
    SetColumn,
)
from kanonflow.pipelines.estimates.distinct_boxes import runs
from kanonflow.pipelines.estimates.query_parts import Part


@dataclass(frozen=True)
class FieldParts:
    """The parts of a field, and what boxes are to them.

    starts: int64 (d + 1,), where the entries of each box begin
    parts: int64 (e,), of each entry the part that the box meets
    sure: float64 (e,), 1 where the box lies within it
    share: float64 (e,), of the box in it
    asked: the parts
    name: of the field; "" of what all groups share
    """

    starts: Int64s
    parts: Int64s
    sure: Float64s
    share: Float64s
    asked: tuple[Part, ...] = ()
    name: str = ""

    @property
    def width(self) -> int:
        """How many parts."""
        return max(len(self.asked), 1)

    @cached_property
    def meets(self) -> Float64s:
        """1 of each entry."""
        return np.ones(self.parts.size)

    @property
    def boxes(self) -> Int64s:
        """Of each entry, the box."""
        return np.repeat(np.arange(self.starts.size - 1), np.diff(self.starts))


def parts_of_cover(cover: Cover, count: int) -> FieldParts:
    """One part, of ``count`` boxes."""
    sizes = np.zeros(count, np.int64)
    sizes[cover.rows] = 1
    return FieldParts(
        _starts(sizes), np.zeros(cover.rows.size, np.int64), cover.sure.astype(float), cover.share
    )


def parts_of_column(
    name: str, column: RangeColumn | SetColumn | PrefixColumn, codes: Int64s, asked: Sequence[Part]
) -> FieldParts:
    """The parts of a column of d boxes, each asked of its distinct ones only. codes: int64 (d,), equal where these are.
    O(distinct boxes x parts); of values that were released one by one O(d + parts)."""
    _, first, like = np.unique(codes, return_index=True, return_inverse=True)
    own: Any = column.of(first)
    if isinstance(own, SetColumn) and bool(np.all(own.widths == 1)):
        rows, parts = _of_single_values(own, asked)
        sure, share = np.ones(rows.size), np.ones(rows.size)
    else:
        covers = [own.cover(part.query) for part in asked]
        rows = np.concatenate([np.zeros(0, np.int64), *(cover.rows for cover in covers)])
        parts = np.repeat(np.arange(len(covers)), [cover.rows.size for cover in covers])
        sure = np.concatenate([np.zeros(0), *(cover.sure for cover in covers)])
        share = np.concatenate([np.zeros(0), *(cover.share for cover in covers)])
    order = np.lexsort((parts, rows))
    starts = _starts(np.bincount(rows, minlength=first.size))
    sizes = np.diff(starts)[like]
    at = order[runs(starts[like], sizes)]
    return FieldParts(_starts(sizes), parts[at], sure[at], share[at], tuple(asked), name)


def _of_single_values(column: SetColumn, asked: Sequence[Part]) -> tuple[Int64s, Int64s]:
    place = {value: at for at, part in enumerate(asked) for value in part.query}  # type: ignore[union-attr]
    by_code = np.array([place.get(value, -1) for value in column.values] or [-1], np.int64)
    parts = by_code[column.codes[column.starts[:-1][column.of_row]]]
    rows = np.flatnonzero(parts >= 0)
    return rows, parts[rows]


class _Half(NamedTuple):
    """Some fields multiplied box by box. at: of each field, which of its entries each entry is made of."""

    starts: Int64s
    parts: Int64s
    width: int
    at: tuple[Int64s, ...]

    def data(self, values: Sequence[Float64s]) -> Float64s:
        """Of each entry the product."""
        product = np.ones(self.parts.size)
        for own, at in zip(values, self.at, strict=True):
            product *= own[at]
        return product


@dataclass(frozen=True)
class GroupProduct:
    """fields: the first is what all groups share, then those of ``by``. sizes: int64 (d,), rows of each box."""

    fields: tuple[FieldParts, ...]
    sizes: Int64s

    @property
    def shape(self) -> tuple[int, ...]:
        """Parts of each field but the first; groups stand in the order of their parts, the last field's fastest."""
        return tuple(field.width for field in self.fields[1:])

    @property
    def count(self) -> int:
        """Groups."""
        return prod(self.shape)

    @cached_property
    def parts(self) -> tuple[Int64s, ...]:
        """Of each field of ``by``, the part of each group."""
        return tuple(np.unravel_index(np.arange(self.count), self.shape)) if self.shape else ()

    def only(self, names: Sequence[str]) -> GroupProduct:
        """The product of some fields of ``by``."""
        return GroupProduct(
            (self.fields[0], *(field for field in self.fields[1:] if field.name in names)), self.sizes
        )

    def place(self, name: str | None) -> int | None:
        """Where a field is among ``fields``; None: it is not in ``by``."""
        return next((at for at, field in enumerate(self.fields) if at and field.name == name), None)

    def shares(self, weights: Any) -> Float64s:
        """Weights by the shares of boxes, float64 (groups,)."""
        return self.total(weights, [field.share for field in self.fields])

    def surely(self, weights: Any) -> Float64s:
        """Weights of the boxes that lie within."""
        return self.total(weights, [field.sure for field in self.fields])

    def possibly(self, weights: Any) -> Float64s:
        """Weights of the boxes that meet it."""
        return self.total(weights, [field.meets for field in self.fields])

    def total(self, weights: Any, values: Sequence[Float64s]) -> Float64s:
        """Of each group the weights of boxes, float64 (d,), times a value of each field's entry."""
        left, right = self._halves
        count, split = self.sizes.size, len(left.at)
        entries = left.data(values[:split]) * np.repeat(weights, np.diff(left.starts))
        if not right.at:
            return np.bincount(left.parts, entries, minlength=left.width).astype(np.float64)
        from scipy.sparse import csr_array  # takes a tenth of a second, and few ask of several fields

        one = csr_array((entries, left.parts, left.starts), shape=(count, left.width))
        other = csr_array((right.data(values[split:]), right.parts, right.starts), shape=(count, right.width))
        return np.asarray((one.T @ other).todense()).ravel()

    def each(self) -> Iterator[tuple[int, Cover]]:
        """The groups that some box meets, and the boxes that do. O(what of both halves meets)."""
        left, right = self._halves
        split = len(left.at)
        sure, share = (
            [half.data(of) for half, of in ((left, own[:split]), (right, own[split:]))]
            for own in ([field.sure for field in self.fields], [field.share for field in self.fields])
        )
        order = np.argsort(left.parts, kind="stable")
        boxes = np.repeat(np.arange(self.sizes.size), np.diff(left.starts))[order]
        ends = np.searchsorted(left.parts[order], np.arange(left.width + 1))
        for first in range(left.width):
            at, own = order[ends[first] : ends[first + 1]], boxes[ends[first] : ends[first + 1]]
            sizes = np.diff(right.starts)[own]
            entries = runs(right.starts[own], sizes)
            by_part = np.argsort(right.parts[entries], kind="stable")
            entries, one = entries[by_part], np.repeat(np.arange(own.size), sizes)[by_part]
            surely = sure[0][at][one] * sure[1][entries] > 0
            shares = share[0][at][one] * share[1][entries]
            seconds, begins = np.unique(right.parts[entries], return_index=True)
            for second, begin, end in zip(seconds, begins, np.append(begins, entries.size)[1:], strict=True):
                cover = Cover(own[one[begin:end]], surely[begin:end], shares[begin:end])
                yield first * right.width + int(second), cover

    @cached_property
    def _halves(self) -> tuple[_Half, _Half]:
        widths = [field.width for field in self.fields]
        split = next(at for at in range(1, len(widths) + 1) if prod(widths[:at]) ** 2 >= prod(widths))
        return self._half(self.fields[:split]), self._half(self.fields[split:])

    def _half(self, fields: Sequence[FieldParts]) -> _Half:
        count = self.sizes.size
        half = _Half(np.arange(count + 1), np.zeros(count, np.int64), 1, ())
        for field in fields:
            sizes = np.diff(field.starts)
            of_entry = np.repeat(np.arange(count), np.diff(half.starts))
            more = sizes[of_entry]
            old, new = np.repeat(np.arange(of_entry.size), more), runs(field.starts[of_entry], more)
            half = _Half(
                _starts(np.diff(half.starts) * sizes),
                half.parts[old] * field.width + field.parts[new],
                half.width * field.width,
                (*(at[old] for at in half.at), new),
            )
        return half


def _starts(sizes: Int64s) -> Int64s:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
