"""In which order the values of a quasi-identifier stand, null before all: what the tests of a plan compare by.

Numbers, days and instants as numbers in the units of their column; values of a hierarchy depth first, of prefixes by
their keys; other texts by code points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundColumn
from kanonflow.schemas.prefix_tree import PrefixTree
from kanonflow.schemas.text_values import render_text
from kanonflow.transforms.kinds.range_values import range_values

Stated = int | float | str | None
"""A value as a plan states it."""


@dataclass(frozen=True)
class FieldOrder:
    """The order of one field. column: of the policy, bound to its feed."""

    column: BoundColumn

    @property
    def of_numbers(self) -> bool:
        """Whether a plan states values as numbers."""
        return self.column.in_ranges

    @cached_property
    def leaves(self) -> tuple[str, ...] | None:
        """All values, where a hierarchy lists them."""
        tree = self.column.tree
        if tree is None or tree.leaves is None:
            return None
        rows = tree.over(pa.array([], pa.string()))
        return tuple(rows.leaves[place] for place in np.argsort(rows.places))

    @cached_property
    def key(self) -> Callable[[str], Any]:
        """By what a text is compared; of one that has no place in the order None, as of a null."""
        tree = self.column.tree
        if isinstance(tree, PrefixTree):
            return tree.prefixes.key
        if self.leaves is not None:
            return {leaf: place for place, leaf in enumerate(self.leaves)}.get
        return str

    def compared(self, array: pa.Array, value: Stated) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Whether each value stands before a stated one, and whether it is equal to it: both bool (n,)."""
        if self.of_numbers:
            numbers, valid = range_values(array)
            if value is None:
                return np.zeros(valid.size, dtype=np.bool_), ~valid
            assert not isinstance(value, str)
            return ~valid | (numbers < value), valid & (numbers == value)
        own = None if value is None else self.key(str(value))
        entries, of_row = _entries(array)
        keys = [None if text is None else self.key(text) for text in entries]
        before = [own is not None and (key is None or key < own) for key in keys]
        same = [key == own for key in keys]
        return np.array(before, dtype=np.bool_)[of_row], np.array(same, dtype=np.bool_)[of_row]

    def fits(self, value: Stated) -> bool:
        """Whether a plan may state this value of the field."""
        return value is None or isinstance(value, str) is not self.of_numbers

    def among(self, array: pa.Array, texts: frozenset[str | None]) -> NDArray[np.bool_]:
        """Whether each value's text is one of these, bool (n,)."""
        entries, of_row = _entries(array)
        return np.array([text in texts for text in entries], dtype=np.bool_)[of_row]

    def stated(self, array: pa.Array, row: int) -> Stated:
        """The value of a row, as a plan states it."""
        if self.of_numbers:
            numbers, valid = range_values(array.slice(row, 1))
            number: int | float = numbers[0].item()
            return number if valid[0] else None
        return text_of(array, row)


def text_of(array: pa.Array, row: int) -> str | None:
    """The canonical text of a row's value; None: a null."""
    text: str | None = render_text(array.slice(row, 1))[0].as_py()
    return text


def texts_of(array: pa.Array) -> tuple[list[str | None], NDArray[np.int64]]:
    """Canonical texts in order, a null first, and the number int64 (n,) of each row's."""
    entries, of_row = _entries(array)
    order = sorted(range(len(entries)), key=lambda entry: (entries[entry] is not None, entries[entry] or ""))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return [entries[entry] for entry in order], rank[of_row]


def _entries(array: pa.Array) -> tuple[list[str | None], NDArray[np.int64]]:
    """The different texts, and which of them each row has."""
    encoded = render_text(array).dictionary_encode(null_encoding="encode")
    return encoded.dictionary.to_pylist(), np.asarray(encoded.indices).astype(np.int64)
