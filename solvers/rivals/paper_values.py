"""The categorical values that occur in a table, numbered through: the dummy variables of S0, section 5.2."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.problem.errors import UnservedError
from kanonflow.solvers.problem.table import Table

# A counter a slot and value: 30,000 rows with 10,000 different values take 300 MB.
MOST_COUNTERS = 2**31


class Values(NamedTuple):
    """codes: int32 (n, dc), the number of each row's value; an attribute's values follow the order of their codes.

    total: V, how many values there are over all attributes.
    """

    codes: NDArray[np.int32]
    total: int


def occurring_values(table: Table) -> Values:
    """Number the values. Raises UnservedError when n V counters are too many. O(n dc log n)."""
    codes = np.empty(table.categorical.shape, dtype=np.int32)
    count = 0
    for j, column in enumerate(table.categorical.T):
        present, numbers = np.unique(column, return_inverse=True)
        codes[:, j] = numbers + count
        count += present.size
    if table.records * count > MOST_COUNTERS:
        raise UnservedError(
            f"the paper's search keeps a counter a row and categorical value, {table.records:,} x {count:,} here, "
            f"and takes at most {MOST_COUNTERS:,}: use iterated-local-search"
        )
    return Values(np.ascontiguousarray(codes), count)
