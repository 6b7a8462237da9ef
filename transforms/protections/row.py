"""A graph over rows, anew in each window: every row stands for k of them, of k individuals."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.promises.promise import Promise
from kanonflow.solvers.units.trimming import kept_rows, row_limit
from kanonflow.transforms.protections.afresh import Afresh
from kanonflow.transforms.release.candidates import parted
from kanonflow.transforms.release.cohorts import graph_cohorts, warm_graph
from kanonflow.transforms.release.due import Due
from kanonflow.transforms.release.ledger import OVER_LIMIT, Unreleased, hold, own_ends
from kanonflow.transforms.release.stages import Answer
from kanonflow.transforms.release.warm_state import Cohorts


class Row(Afresh):
    """The slots of the window before are a start of the search."""

    shape = "row_graph"
    earlier = staticmethod(warm_graph)
    spread = True

    def answer(self, promise: Promise) -> str:
        """As of ``Protection``."""
        return "graph"

    def within_limits(
        self, due: Due, rows: pa.Table, individuals: NDArray[np.int64] | None, counts: NDArray[np.int64]
    ) -> tuple[pa.Table, Unreleased]:
        """Out go the rows that an individual has beyond what k - 1 others can share (``row_limit``)."""
        if individuals is None:
            return rows, Unreleased()
        limit = row_limit(counts, due.policy.k)
        kept = kept_rows(individuals, np.full(counts.size, limit), own_ends(rows, due.bound))
        rows, over = parted(rows, kept)
        return rows, hold(due, over, OVER_LIMIT)

    def cohorts(self, due: Due, answer: Answer, of_row: NDArray[np.int64], before: Cohorts) -> Cohorts:
        """Of the last window alone."""
        end = due.slot.window_end or 0
        return graph_cohorts(answer.solution.graph, of_row, answer.people.digests, end)
