"""The gate's own table of kinds: does a published box hold a member's value?

It shares no code with ``transforms/kinds``: a range is compared, an element looked for, and of labels every pair of
label and value is looked up in the rows of the hierarchy, or compared by the standard library's reading of addresses.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from ipaddress import ip_address, ip_network

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundColumn
from kanonflow.schemas.hierarchy import Hierarchy
from kanonflow.schemas.policy_fields import QuasiType
from kanonflow.schemas.text_values import render_text

Members = NDArray[np.int64] | slice
"""Positions in the values, int64 (m,); EVERY: each value once, in its turn."""
EVERY = slice(None)


def inside(
    column: BoundColumn,
    boxes: pa.Array,
    values: pa.Array,
    row: NDArray[np.int64],
    member: Members,
) -> NDArray[np.bool_]:
    """Whether each member's value lies in the box of its row: bool (m,). row: int64 (m,)."""
    assert column.field.quasi is not None
    return _HOLDS[column.field.quasi.type](boxes, values, row, member, column)


def in_node(
    labels: pa.Array,
    values: pa.Array,
    row: NDArray[np.int64],
    member: Members,
    hierarchy: Hierarchy,
) -> NDArray[np.bool_]:
    """Whether each member's value stands below its row's label, bool (m,).

    labels: string, one a box; a null label holds nulls only, the root's label everything, nulls too. row, member:
    int64 (m,), positions in labels and in values. A value without a row in the hierarchy lies nowhere.
    O(m log m); each pair of a label and a value is looked up once.
    """
    above = {row[0]: frozenset(row) for row in hierarchy.rows}
    holds = partial(_holds, above=above, root=hierarchy.root)
    return _each_pair(labels, render_text(values), row, member, holds)


def _each_pair(
    labels: pa.Array,
    texts: pa.Array,
    row: NDArray[np.int64],
    member: Members,
    holds: Callable[[str | None, str | None], bool],
) -> NDArray[np.bool_]:
    """What is said of each pair of a label and a text, which is asked once; bool (m,)."""
    label, label_names = _coded(labels)
    text, names = _coded(texts)
    width = len(names)
    pairs, place = np.unique(label[row] * width + text[member], return_inverse=True)
    inside = [holds(label_names[pair // width], names[pair % width]) for pair in pairs.tolist()]
    return np.array(inside, dtype=bool)[place]


def _coded(texts: pa.Array) -> tuple[NDArray[np.int64], list[str | None]]:
    """Codes int64 (n,) of texts, and the text of each code; null has one too."""
    coded = texts.dictionary_encode(null_encoding="encode")
    return np.asarray(coded.indices).astype(np.int64), coded.dictionary.to_pylist()


def _holds(label: str | None, text: str | None, above: dict[str, frozenset[str]], root: str) -> bool:
    if text is None:
        return label is None or label == root
    return label is not None and label in above.get(text, frozenset())


def _in_range(
    boxes: pa.Array,
    values: pa.Array,
    row: NDArray[np.int64],
    member: Members,
    column: BoundColumn,
) -> NDArray[np.bool_]:
    """Whether each member's value lies in its row's closed range; a null: whether the box holds nulls."""
    place = pa.array(row)
    value = values if isinstance(member, slice) else values.take(pa.array(member))
    least, most, nulls = boxes.flatten()  # of a box that is null all three are
    least, most = least.take(place), most.take(place)
    between = pc.and_(pc.less_equal(least, value), pc.less_equal(value, most))
    held = np.asarray(between.fill_null(False) if between.null_count else between)
    if not value.null_count:
        return held
    return np.where(np.asarray(value.is_null()), np.asarray(nulls.take(place)), held)


def _in_set(
    boxes: pa.Array,
    values: pa.Array,
    row: NDArray[np.int64],
    member: Members,
    column: BoundColumn,
) -> NDArray[np.bool_]:
    """Whether each member's value, null included, is an element of its row's list."""
    coded = values.dictionary_encode(null_encoding="encode")
    known, code = coded.dictionary, np.asarray(coded.indices).astype(np.int64)
    width = len(known) + 1
    listed = pc.index_in(boxes.flatten(), value_set=known)
    listed = np.asarray(listed.fill_null(len(known)) if listed.null_count else listed)
    pairs = np.sort(np.asarray(pc.list_parent_indices(boxes)).astype(np.int64) * width + listed)
    asked = row * width + code[member]
    # np.isin would sort what is asked, too.
    return np.append(pairs, -1)[np.searchsorted(pairs, asked)] == asked


def _in_tree(
    boxes: pa.Array,
    values: pa.Array,
    row: NDArray[np.int64],
    member: Members,
    column: BoundColumn,
) -> NDArray[np.bool_]:
    quasi = column.field.quasi
    assert quasi is not None
    assert quasi.hierarchy is not None
    return in_node(boxes, values, row, member, quasi.hierarchy)


def _in_prefix(
    boxes: pa.Array,
    values: pa.Array,
    row: NDArray[np.int64],
    member: Members,
    column: BoundColumn,
) -> NDArray[np.bool_]:
    """Whether each member's value begins with its row's label."""
    quasi = column.field.quasi
    assert quasi is not None
    begins = _text_begins if quasi.of in (None, "text") else _address_begins
    return _each_pair(boxes, values, row, member, begins)


def _text_begins(label: str | None, text: str | None) -> bool:
    """Stars stand behind what is kept: one of them for any end, several for as many characters."""
    if label is None or text is None:
        return text is None and label in (None, "*")
    kept = label.rstrip("*")
    stars = len(label) - len(kept)
    fits = stars <= 1 or len(text) == len(label)
    return fits and (text.startswith(kept) if stars else text == label) and "*" not in text


def _address_begins(label: str | None, text: str | None) -> bool:
    if label is None or text is None:
        return text is None and label in (None, "*")
    try:
        return label == "*" or ip_address(text) in ip_network(label)
    except ValueError:
        return False


_HOLDS = {
    QuasiType.NUMERIC: _in_range,
    QuasiType.DATE: _in_range,
    QuasiType.CATEGORICAL: _in_set,
    QuasiType.HIERARCHY: _in_tree,
    QuasiType.PREFIX: _in_prefix,
}
