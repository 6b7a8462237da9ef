"""Prefixes: the quasi-identifiers whose boxes are the first characters of a code, or the first bits of an address."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.kinds.form import Form
from kanonflow.schemas.kinds.kind import Kind
from kanonflow.schemas.policy_fields import Quasi
from kanonflow.schemas.prefix_tree import PrefixOf, PrefixTree, prefixes_of


class PrefixKind(Kind):
    """``type: prefix``: a tree of prefixes over values that nobody lists."""

    def rules_of_tree(self, where: str, quasi: Quasi) -> Iterator[str]:
        """Its lengths are there and fit its values; nothing is said that would be of another type."""
        if quasi.hierarchy is not None:
            yield f"{where}.hierarchy: a prefix needs no rows; leave it out, or say type: hierarchy"
        if quasi.domain is not None:
            yield f"{where}.domain: a prefix needs no list of values; leave it out"
        if quasi.grid != "auto":
            yield f"{where}.grid: a prefix has no grid; say how much is kept with lengths, as in [1, 3]"
        prefixes = prefixes_of(_of(quasi), quasi.size)
        lengths, size, counted = quasi.lengths or prefixes.usual, prefixes.size, prefixes.unit
        if _of(quasi) is not PrefixOf.TEXT and quasi.size is not None:
            yield f"{where}.size: an address has {size} bits, always; leave it out"
        if not lengths:
            yield (
                f"{where}.lengths: missing; say how many {counted} of a value its labels keep, as in [1, 3], or with"
                " size how many every value has: then each length below it is one"
            )
        elif any(one >= other for one, other in pairwise(lengths)):
            yield f"{where}.lengths: must ascend, each once, as in [1, 3]"
        elif size is not None and lengths[-1] >= size:
            yield f"{where}.lengths: must be below {size}, the {counted} of a whole value, which need no length"

    def rules_of_value(self, where: str, value: Form) -> Iterator[str]:
        """Text."""
        if not value.text:
            yield f"{where}.as: type: prefix needs string"

    def misfit(self, quasi: Quasi, form: Form) -> str | None:
        """What is no text: a number has lost the zeros in front of it."""
        return None if form.text else "type: prefix needs text; add as: string, if no zeros in front are lost"

    def tree(self, quasi: Quasi) -> PrefixTree:
        """The prefixes."""
        return _tree(_of(quasi), quasi.lengths, quasi.size)

    def has_texts(self, quasi: Quasi) -> bool:
        """What has no prefixes."""
        return True

    def unlisted(self, quasi: Quasi, texts: pa.StringArray) -> NDArray[np.bool_]:
        """What has no prefixes."""
        coded = texts.dictionary_encode()
        key = self.tree(quasi).prefixes.key
        wrong = [key(text) is None for text in coded.dictionary.to_pylist()]
        return np.array([*wrong, False])[np.asarray(coded.indices.fill_null(len(wrong)))]

    def expected(self, quasi: Quasi) -> str:
        """One that has prefixes."""
        return self.tree(quasi).prefixes.expected

    def width_unit(self, quasi: Quasi, form: Form) -> str:
        """What is withheld."""
        return self.tree(quasi).prefixes.unit

    def told(self, quasi: Quasi) -> dict[str, Any]:
        """What makes the labels."""
        tree = self.tree(quasi)
        size = {} if tree.size is None else {"size": tree.size}
        return {"of": str(tree.of), "lengths": list(tree.lengths), **size}

    def published(self, name: str, arrow: pa.DataType) -> pa.Field:
        """The label of a prefix; null: all values are null."""
        return pa.field(name, pa.string())


def _of(quasi: Quasi) -> PrefixOf:
    return quasi.of or PrefixOf.TEXT


@cache
def _tree(of: PrefixOf, lengths: tuple[int, ...] | None, size: int | None) -> PrefixTree:
    return PrefixTree(of, lengths or prefixes_of(of, size).usual, size)
