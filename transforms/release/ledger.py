"""Where the rows of a window go: every row that comes in leaves released, waiting or rejected, for a reason."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.columns.sort_keys import whole
from kanonflow.transforms.release.rejected import rejected_records
from kanonflow.transforms.release.warm_state import WarmState
from kanonflow.transforms.rows.split import window_numbers

OVER_LIMIT = "individual_over_limit"
"""Why a row waits or is rejected although other rows of the same individual were released."""

NOT_DIVERSE = "not_diverse"
"""The same where no class was found that meets the policy's rules for sensitive values."""

SUPPRESSED = "suppressed"
"""Why a row leaves the feed where fields stand at levels of hierarchies: its class would have been too small."""


@dataclass
class Ledger:
    """Rows on their way through one call; every row leaves it released, waiting or rejected."""

    bound: BoundPolicy
    waiting: list[pa.Table]
    waiting_reasons: list[str]
    rejected: list[dict[str, Any]]
    last_end: int | None
    more: bool = False

    def rest(self, warm: WarmState, resting: NDArray[np.bool_] | None) -> WarmState:
        """These waiting rows wait on, before all others and in their order; the state with the rest of them."""
        if warm.waiting is None or resting is None or not resting.any():
            return warm
        reasons = np.array(warm.waiting_reason, dtype=object)
        self.waiting.append(warm.waiting.filter(pa.array(resting)))
        self.waiting_reasons += list(reasons[resting])
        waiting = warm.waiting.filter(pa.array(~resting))
        return replace(warm, waiting=waiting, waiting_reason=tuple(reasons[~resting]))

    def reject(self, rows: pa.Table, reason: str, field: str | None = None) -> None:
        """These rows leave the feed."""
        self.rejected += rejected_records(rows, self.bound, reason, field)

    def hold(self, rows: pa.Table, reason: str) -> None:
        """These rows wait if a later release may still take them, else they are rejected for the same reason.

        The next part of the window takes whole individuals only.
        """
        if rows.num_rows == 0:
            return
        if self.more and reason != OVER_LIMIT:
            self.waiting.append(rows)
            self.waiting_reasons += [reason] * rows.num_rows
            return
        late = deadlines(rows, self.bound) <= (
            self.last_end if self.last_end is not None else np.iinfo(np.int64).max
        )
        self.reject(rows.filter(pa.array(late)), reason)
        stays = rows.filter(pa.array(~late))
        if stays.num_rows:
            self.waiting.append(stays)
            self.waiting_reasons += [reason] * stays.num_rows

    def suppress(self, rows: pa.Table, kept: NDArray[np.bool_], suppressed: NDArray[np.bool_]) -> None:
        """Suppressed rows leave the feed; others not kept are above what enough individuals share, and wait."""
        self.reject(rows.filter(pa.array(suppressed)), SUPPRESSED)
        self.hold(rows.filter(pa.array(~kept & ~suppressed)), OVER_LIMIT)

    def hold_back(
        self, rows: pa.Table, kept: NDArray[np.bool_], individuals: NDArray[np.int64] | None
    ) -> None:
        """The rows that a solution leaves out wait, each for its reason. kept: bool (n,), of the rows."""
        who = np.arange(rows.num_rows) if individuals is None else individuals
        over = np.isin(who, who[kept])
        left_out = NOT_DIVERSE if self.bound.policy.gated else "held_back"
        self.hold(rows.filter(pa.array(~kept & over)), OVER_LIMIT)
        self.hold(rows.filter(pa.array(~kept & ~over)), left_out)


def own_ends(rows: pa.Table, bound: BoundPolicy) -> NDArray[np.int64]:
    """End of each row's own window in ms, int64 (n,); 0 without windows."""
    policy = bound.policy
    if policy.window_ms is None or policy.time is None:
        return np.zeros(rows.num_rows, dtype=np.int64)
    numbers = window_numbers(whole(rows.column(policy.time.name)), policy)
    return (numbers + 1) * policy.window_ms + policy.window_offset_ms


def deadlines(rows: pa.Table, bound: BoundPolicy) -> NDArray[np.int64]:
    """The latest window end whose release may take each row: own window's end + max_delay."""
    return own_ends(rows, bound) + bound.policy.max_delay_ms
