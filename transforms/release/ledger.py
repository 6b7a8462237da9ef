"""Where the rows go that are not released: they wait or are rejected, each for a reason.

Each stage of a release returns the rows that it takes out as an ``Unreleased``. Their sum, in the order of the stages,
closes the ledger of the release:

    new rows + rows that waited before = released + rejected + waiting
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.columns.sort_keys import whole
from kanonflow.transforms.release.due import Due
from kanonflow.transforms.release.rejected import rejected_records
from kanonflow.transforms.rows.split import window_numbers

AWAITS_INTAKE = "awaits_intake"
"""Why a row waits or is rejected whose individual is in no cohort yet (``cohort: lasting``)."""

INTAKE_TOO_LARGE = "intake_too_large"
"""The same where more people wait than can enter together (``founding.MOST``)."""

OVER_LIMIT = "individual_over_limit"
"""Why a row waits or is rejected although other rows of the same individual were released."""

NOT_DIVERSE = "not_diverse"
"""The same where no class was found that meets the policy's rules for sensitive values."""

KNOWN_OTHERWISE = "known_otherwise"
"""Why a row is rejected with which somebody who knows more of a person would be left with too few (``against``)."""

SUPPRESSED = "suppressed"
"""Why a row leaves the feed where fields stand at levels of hierarchies: its class would have been too small."""


@dataclass(frozen=True)
class Unreleased:
    """Rows that are taken out of a release, in the order in which they are.

    waiting: canonical rows that a later release may take.
    reasons: why, one entry for each row of ``waiting``, table after table.
    rejected: rows that leave the feed, as records of rejected.avsc.
    """

    waiting: tuple[pa.Table, ...] = ()
    reasons: tuple[str, ...] = ()
    rejected: tuple[dict[str, Any], ...] = ()

    def __add__(self, later: Unreleased) -> Unreleased:
        """These rows, then those of a later stage."""
        return Unreleased(
            self.waiting + later.waiting, self.reasons + later.reasons, self.rejected + later.rejected
        )

    @property
    def waiting_rows(self) -> pa.Table | None:
        """All rows that wait, as one table; None when none do."""
        return pa.concat_tables(self.waiting).combine_chunks() if self.waiting else None


def picked(rows: pa.Table, mask: NDArray[np.bool_]) -> pa.Table:
    """The rows in the mask, without a copy where these are all or none. mask: bool (n,)."""
    if mask.all():
        return rows
    return rows.filter(pa.array(mask)) if mask.any() else rows.slice(0, 0)


def wait(rows: pa.Table, reasons: tuple[str, ...]) -> Unreleased:
    """These rows wait, for one reason each."""
    return Unreleased((rows,), reasons) if rows.num_rows else Unreleased()


def reject(due: Due, rows: pa.Table, reason: str, field: str | None = None) -> Unreleased:
    """These rows leave the feed. field: the field that is to blame."""
    return Unreleased(rejected=tuple(rejected_records(rows, due.bound, reason, field)))


def hold(due: Due, rows: pa.Table, reason: str) -> Unreleased:
    """These rows wait if a later release may still take them, else they are rejected for the same reason.

    The next part of the window takes whole individuals only.
    """
    if rows.num_rows == 0:
        return Unreleased()
    if due.more and reason != OVER_LIMIT:
        return wait(rows, (reason,) * rows.num_rows)
    end = due.slot.window_end
    over = deadlines(rows, due.bound) <= (np.iinfo(np.int64).max if end is None else end)
    stays = picked(rows, ~over)
    return reject(due, picked(rows, over), reason) + wait(stays, (reason,) * stays.num_rows)


def own_ends(rows: pa.Table, bound: BoundPolicy) -> NDArray[np.int64]:
    """End of each row's own window in ms, int64 (n,); 0 without windows."""
    policy = bound.policy
    if policy.window_ms is None or policy.time is None:
        return np.zeros(rows.num_rows, dtype=np.int64)
    numbers = window_numbers(whole(rows.column(policy.time.name)), policy)
    return (numbers + 1) * policy.window_ms + policy.window_offset_ms


def deadlines(rows: pa.Table, bound: BoundPolicy) -> NDArray[np.int64]:
    """The latest window end whose release may take each row: own window's end, and how long it may wait after it."""
    return own_ends(rows, bound) + bound.policy.waiting_ms
