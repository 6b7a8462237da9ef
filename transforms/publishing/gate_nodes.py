"""The gate's own reading of hierarchy labels: does a label stand above a member's value?

It shares no code with ``node_boxes``: it looks every pair of label and value up in the rows of the hierarchy.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kanonflow.schemas.hierarchy import Hierarchy
from kanonflow.schemas.text_values import render_text


def in_node(
    labels: pa.Array,
    values: pa.Array,
    row: NDArray[np.int64],
    member: NDArray[np.int64],
    hierarchy: Hierarchy,
) -> NDArray[np.bool_]:
    """Whether each member's value stands below its row's label, bool (m,).

    labels: string, one a box; a null label holds nulls only, the root's label everything, nulls too. row, member:
    int64 (m,), positions in labels and in values. A value without a row in the hierarchy lies nowhere.
    O(m log m); each pair of a label and a value is looked up once.
    """
    above = {row[0]: frozenset(row) for row in hierarchy.rows}
    label, label_names = _coded(labels)
    value, value_names = _coded(render_text(values))
    width = max(len(value_names), 1)
    pairs, place = np.unique(label[row] * width + value[member], return_inverse=True)
    inside = [
        _holds(label_names[pair // width], value_names[pair % width], above, hierarchy.root)
        for pair in pairs.tolist()
    ]
    return np.array(inside, dtype=bool)[place]


def _coded(texts: pa.Array) -> tuple[NDArray[np.int64], list[str | None]]:
    """Codes int64 (n,) of texts, and the text of each code; null has one too."""
    names = pc.unique(texts)
    codes = pc.index_in(texts, value_set=names)
    return np.asarray(codes).astype(np.int64), names.to_pylist()


def _holds(label: str | None, text: str | None, above: dict[str, frozenset[str]], root: str) -> bool:
    if text is None:
        return label is None or label == root
    return label is not None and label in above.get(text, frozenset())
