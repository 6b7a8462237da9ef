"""How many individuals the windows of an input have, beside k."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.errors import PolicyError
from kanonflow.transforms.rows.split import split


class WindowSizes(NamedTuple):
    """Of windows with rows, each in its partition. rows: all of them.

    people: individuals over all windows; rows where the policy has no individual. windows: how many.
    small: windows with fewer than k individuals. most, median: individuals of a window.
    individuals: whether they are people and not rows. partitioned: whether a window is that of a partition.
    """

    rows: int
    people: int
    windows: int
    small: int
    most: int
    median: float
    individuals: bool
    partitioned: bool

    def told(self, k: int, *, all_rows: bool) -> Iterator[str]:
        """A line, if some windows have fewer than k. all_rows: whether the rows are all of the input."""
        if not self.small:
            return
        of = "" if all_rows else f" (in the {self.rows:,} rows that were read)"
        whole = " of a partition" if self.partitioned else ""
        yield (
            f"{self.small:,} of {self.windows:,} windows{whole} have fewer than k = {k} {self._who()}{of}; the median"
            f" has {self.median:,.0f}, the largest {self.most:,}. Their rows wait for max_delay, and are rejected if"
            " too few come"
        )

    def refusal(self, k: int, source: str) -> PolicyError | None:
        """Why nothing can be released of an input that has these rows and no others; None: something can."""
        if not self.rows or self.people >= k:
            return None
        return PolicyError(
            [
                f"k: is {k}, and all of the input has {self.people:,} {self._who()}: nothing could be released. Lower"
                " k, or take more of the feed"
            ],
            source,
        )

    def _who(self) -> str:
        return "individuals" if self.individuals else "rows"


def window_sizes(rows: pa.Table, bound: BoundPolicy) -> WindowSizes:
    """Individuals by window of canonical rows. O(n log n)."""
    policy, field = bound.policy, bound.policy.individual
    name = None if field is None else field.name
    counts = np.array([_people(batch, name) for _, _, batch in split(rows, bound)], dtype=np.int64)
    return WindowSizes(
        rows.num_rows,
        _people(rows, name),
        counts.size,
        int((counts < policy.k).sum()),
        int(counts.max(initial=0)),
        float(np.median(counts)) if counts.size else 0.0,
        field is not None,
        bool(policy.partition_by),
    )


def _people(rows: pa.Table | pa.RecordBatch, name: str | None) -> int:
    return rows.num_rows if name is None else len(rows.column(name).unique())
