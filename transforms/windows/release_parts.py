"""One window of one partition, however large: released in one part, or in several one after the other."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.release.ledger import OVER_LIMIT
from kanonflow.transforms.release.release_window import Clock, Recorded, WindowResult, release_window
from kanonflow.transforms.release.warm_state import Cohorts, WarmState
from kanonflow.transforms.secret.seeds import ReleaseSlot, Secret
from kanonflow.transforms.windows.part_cohorts import after_all_parts, before_next_part
from kanonflow.transforms.windows.window_parts import WindowParts, window_parts

_NEXT_WINDOW = -1


def release_parts(
    rows: pa.Table | None,
    bound: BoundPolicy,
    warm: WarmState,
    secret: Secret,
    slot: ReleaseSlot,
    *,
    threads: int = 1,
    clock: Clock = time.monotonic,
    matching_records: bool = False,
    compressed: bool = True,
    recorded: Recorded | None = None,
) -> Iterator[WindowResult]:
    """Release a window as ``release_window`` does, in parts if it has more than ``max_window_rows`` rows.

    recorded: as of ``release_window``.
    slot: of the first part; the others have the numbers that follow. Waiting rows count, and are cut, like new ones.
    Yields the result of each part as soon as it is there; the state in the last one is what the window leaves.

    What a part leaves behind, the next one tries with its own rows, if it is all that an individual has in the window.
    An individual of whom other rows were released waits for the next window: its rows in two releases of one window
    would say together who has more rows than most.

    Postcondition: that of ``release_window`` for each result, where the rows waiting include those of parts to come;
    the sums over all results are those of the window. Holds the rows, their quasi-identifiers as numbers, and one
    part's rows a second time.
    """
    new = 0 if rows is None else rows.num_rows
    cut = None
    if warm.waiting_rows + new > bound.policy.max_window_rows:
        tables = [table for table in (warm.waiting, rows) if table is not None]
        cut = window_parts(
            pa.concat_tables(tables), bound, bound.policy.max_window_rows, secret, warm.domains
        )
    if cut is None or len(cut.groups) == 1:
        yield release_window(
            rows,
            bound,
            warm,
            secret,
            slot,
            threads=threads,
            clock=clock,
            matching_records=matching_records,
            compressed=compressed,
            recorded=recorded,
        )
    else:
        turns = _turns(cut, warm.waiting_rows)
        yield from _release_each(
            cut,
            turns,
            rows,
            bound,
            warm,
            secret,
            slot,
            threads,
            clock,
            matching_records,
            compressed,
            recorded,
        )


def _release_each(
    cut: WindowParts,
    turns: NDArray[np.int64],
    rows: pa.Table | None,
    bound: BoundPolicy,
    warm: WarmState,
    secret: Secret,
    slot: ReleaseSlot,
    threads: int,
    clock: Clock,
    matching_records: bool,
    compressed: bool,
    recorded: Recorded | None,
) -> Iterator[WindowResult]:
    # One domain for the whole window: those of its parts alone are narrow just where it was cut.
    state = replace(warm, domains=cut.domains)
    released: list[Cohorts] = []
    for number, group in enumerate(cut.groups):
        last = number == len(cut.groups) - 1
        own = group[group >= warm.waiting_rows] - warm.waiting_rows
        resting = turns != number
        result = release_window(
            None if rows is None else rows.take(pa.array(own)),
            bound,
            state,
            secret,
            slot._replace(release_no=slot.release_no + number),
            threads=threads,
            clock=clock,
            resting=resting,
            more=not last,
            matching_records=matching_records,
            compressed=compressed,
            recorded=recorded,
        )
        if result.release is not None:
            released.append(result.warm.cohorts)
        cohorts = (
            after_all_parts(warm.cohorts, released)
            if last
            else before_next_part(warm.cohorts, result.warm.cohorts)
        )
        state = replace(result.warm, cohorts=cohorts)
        yield result._replace(warm=state)
        held = np.array(state.waiting_reason[int(resting.sum()) :], dtype=object)
        turns = np.concatenate([turns[resting], np.where(held == OVER_LIMIT, _NEXT_WINDOW, number + 1)])


def _turns(cut: WindowParts, waiting: int) -> NDArray[np.int64]:
    """The part of each waiting row, int64 (waiting,); those that no part may take wait for the next window."""
    turns = np.full(waiting, _NEXT_WINDOW, dtype=np.int64)
    for number, group in enumerate(cut.groups):
        turns[group[group < waiting]] = number
    return turns
