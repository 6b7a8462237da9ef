"""Connected components of a generalization graph."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel


@kernel
def _component_labels(members: NDArray) -> NDArray:
    n, k = members.shape
    parent = np.arange(n)  # a forest over the records; the members of one slot hang together
    for slot in range(n):
        root = members[slot, 0]
        while parent[root] != root:
            parent[root] = parent[parent[root]]
            root = parent[root]
        for t in range(1, k):
            other = members[slot, t]
            while parent[other] != other:
                parent[other] = parent[parent[other]]
                other = parent[other]
            # The smaller record stays the root, so that labels follow the order of the records.
            if other < root:
                parent[root] = other
                root = other
            else:
                parent[other] = root
    label = np.full(n, -1, dtype=np.int32)
    count = 0
    for record in range(n):
        root = record
        while parent[root] != root:
            root = parent[root]
        if label[root] < 0:
            label[root] = count
            count += 1
        label[record] = label[root]
        parent[record] = root
    return label


def component_labels(members: NDArray[np.int32]) -> NDArray[np.int32]:
    """The component of each record, int32 (n,), numbered by their first record: ``0 .. components-1``.

    members: int32 (n, k), the k records of each slot. The component of slot j is that of ``members[j, 0]``.
    O(n k alpha(n)).
    """
    if members.shape[0] == 0:
        return np.empty(0, dtype=np.int32)
    return _component_labels(members)
