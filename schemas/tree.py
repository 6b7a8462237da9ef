"""A tree of labels: what stands for a value at each level, from the value itself up to one root."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

    from kanonflow.schemas.hierarchy import Hierarchy


class Tree(Protocol):
    """What a quasi-identifier of labels is generalized along: rows that are listed (``Hierarchy``), or a rule that
    makes them (``PrefixTree``)."""

    @property
    def height(self) -> int:
        """Steps from a value to the root, the same for all."""

    @property
    def leaves(self) -> tuple[str, ...] | None:
        """All values; None: nobody can list them."""

    @property
    def lack(self) -> str:
        """What is wrong with values that have no path, and what to do, in words."""

    def path(self, text: str) -> tuple[str, ...] | None:
        """The labels from a value up to the root, ``height + 1``; None: it has no place in the tree."""

    def level(self, label: str) -> int:
        """The lowest level at which a label stands, 0 for a value. Raises KeyError: it is none."""

    def over(self, texts: pa.StringArray) -> Hierarchy:
        """The part of the tree above these values, as its rows; at most above all. O(distinct values)."""


def missing(tree: Tree, texts: pa.StringArray) -> str | None:
    """What the values of a column lack in a tree, in counts only; None: all have a path. O(n)."""
    coded = texts.drop_null().dictionary_encode()
    lost = [code for code, text in enumerate(coded.dictionary.to_pylist()) if tree.path(text) is None]
    if not lost:
        return None
    rows = int(np.isin(np.asarray(coded.indices), lost).sum())
    return (
        f"{len(lost)} different value{'' if len(lost) == 1 else 's'} in {rows} row{'' if rows == 1 else 's'} of the "
        f"data {tree.lack}"
    )
