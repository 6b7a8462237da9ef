"""What the window before leaves for the solver of this one, by shape: who was together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class WarmGraph(NamedTuple):
    """members: int64 (n', k), who stood in each old slot, -1 for those that are absent now.

    Individuals are positions in the sorted distinct ``Table.individuals`` of the table to solve.
    """

    members: NDArray[np.int64]


class WarmClasses(NamedTuple):
    """labels: int64 (u,), the old class of each individual of the table (sorted distinct), -1 for newcomers."""

    labels: NDArray[np.int64]
